"""Distances that are a graph: a matrix of what a byte costs between all cores, or all nodes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from slurm_topo.errors import MachineError
from slurm_topo.model import Distances, Floats, Level, Machine

MOST_ROWS = 8192


def read_distances(path: str | os.PathLike[str]) -> Floats:
    """The symmetric cost matrix in a file; float64 array, shape (m, m).

    Parameters
    ----------
    path
        NumPy ``.npz`` with one square array, SciPy sparse ``.npz``, or Matrix Market (``.mtx``); an entry is
        what a byte costs (seconds, or any unit). Entries that a sparse matrix leaves out cost nothing.

    Raises
    ------
    MachineError
        The file cannot be read, or the matrix is not square, symmetric, finite and free of negative entries.
    """
    file = Path(path)
    try:
        matrix = _read(file)
    except OSError as error:
        raise MachineError(
            f"{file}: cannot be read ({error.strerror or error}); name a matrix file"
        ) from error
    except Exception as error:  # whatever SciPy and NumPy raise on damaged files
        raise MachineError(
            f"{file}: is no matrix ({(str(error).splitlines() or ['unreadable'])[0]}); write .npz or .mtx"
        ) from error
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise MachineError(f"{file}: has shape {matrix.shape}; distances are a square matrix")
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise MachineError(f"{file}: an entry is negative or not finite; distances are numbers from 0")
    strange = np.argwhere(matrix != matrix.T)
    if strange.size:
        i, j = strange[0]
        raise MachineError(
            f"{file}: [{i}, {j}] is {matrix[i, j]:g}, [{j}, {i}] is {matrix[j, i]:g}; distances are symmetric"
        )
    return matrix


def _read(file: Path) -> Floats:
    with file.open("rb") as stream:
        head = stream.read(16)
    if head.lower().startswith(b"%%matrixmarket"):
        from scipy.io import mmread

        found = mmread(file)
        _check_size(file, found.shape)
        return np.array(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float64)
    if not head.startswith(b"PK"):
        raise ValueError("neither .npz nor Matrix Market")
    with np.load(file, allow_pickle=False) as archive:
        names = list(archive.files)
        if "format" not in names:
            if len(names) != 1:
                raise ValueError(f"holds {len(names)} arrays")
            array = archive[names[0]]
            _check_size(file, array.shape)
            return np.array(array, dtype=np.float64)
    import scipy.sparse

    sparse = scipy.sparse.load_npz(file)
    _check_size(file, sparse.shape)
    return np.array(sparse.toarray(), dtype=np.float64)


def _check_size(file: Path, shape: tuple[int, ...]) -> None:
    if max(shape, default=0) > MOST_ROWS:
        raise ValueError(f"{max(shape)} rows, more than {MOST_ROWS}")


def machine_of_distances(matrix: Floats) -> Machine:
    """A machine of which only the distances between its cores are known: one core a row, one level."""
    count = len(matrix)
    off = matrix[~np.eye(count, dtype=bool)]
    return Machine(
        levels=(Level("level1", 0.0, float(off.mean()) if off.size else 0.0),),
        groups=np.zeros((1, count), dtype=np.int32),
        node=np.zeros(count, dtype=np.int32),
        node_names=("",),
        pus=((),) * count,
        numa=np.full(count, -1, dtype=np.int32),
        distances=Distances(matrix, np.arange(count, dtype=np.int32)),
    )


def with_distances(machine: Machine, matrix: Floats) -> Machine:
    """The machine with other costs of a byte: between its cores, or between its nodes.

    Raises
    ------
    MachineError
        The matrix has neither a row a core nor a row a node.
    """
    if len(matrix) == machine.cores:
        row = np.arange(machine.cores, dtype=np.int32)
    elif len(matrix) == len(machine.node_names):
        row = machine.node.astype(np.int32)
    else:
        raise MachineError(
            f"distances of {len(matrix)} rows: the machine has {machine.cores} cores and "
            f"{len(machine.node_names)} nodes; give a row for each of the one or the other"
        )
    return replace(machine, distances=Distances(matrix, row))
