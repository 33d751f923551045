"""Communication graphs as files: the project's own archive, SciPy sparse matrices, Matrix Market.

SciPy is not imported to read the common layouts, so that a launch does not pay for it.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import json
import os
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from slurm_topo.errors import GraphError
from slurm_topo.model import CommGraph
from slurm_topo.output import write_output

FORMAT = "slurm-topo-graph"
VERSION = 1
MOST_RANKS = 1 << 24
_ZIP, _MATRIX, _TRACE = b"PK", b"%%matrixmarket", b"STTRACE\n"
_BROKEN = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error, OverflowError)


def read_graph(path: str | os.PathLike[str]) -> CommGraph:
    """The communication graph in a file.

    Parameters
    ----------
    path
        The project's ``.npz``, a SciPy sparse ``.npz``, or Matrix Market. An entry [u, v] of a matrix is the
        bytes (any non-negative weight) sent from u to v; entries on the diagonal are left out, duplicates are
        added up, and a matrix need not be symmetric.

    Raises
    ------
    GraphError
        The file is missing, empty, truncated or of another format, or its entries are no traffic (not square,
        complex, negative, not finite).
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            head = stream.read(64).removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise GraphError(f"{file}: cannot be read ({error.strerror}); give a graph file") from error
    if not head:
        raise GraphError(f"{file}: is empty; trace the program again or give another graph")
    if head.startswith(_ZIP):
        return _read_npz(file)
    if head.lower().startswith(_MATRIX):
        return _read_mtx(file)
    if head.startswith(_TRACE):
        from slurm_topo.trace.merge import read_traces

        return read_traces([file])
    raise GraphError(f"{file}: is neither .npz nor Matrix Market; give a graph of one of these formats")


def is_graph(head: bytes) -> bool:
    """Whether a file that begins so (without byte order mark) is of a kind that :func:`read_graph` reads."""
    return head.startswith((_ZIP, _TRACE)) or head.lower().startswith(_MATRIX)


def parse_graph(data: bytes, source: str) -> CommGraph:
    """The graph in the bytes of the project's own archive; ``source`` names it in messages.

    Raises
    ------
    GraphError
        It is truncated, of another format or version, or its entries are no traffic.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return _own_graph(source, dict(archive))
    except GraphError:
        raise
    except _BROKEN as error:
        raise GraphError(
            f"{source}: is damaged or no graph ({_first_line(error)}); trace it again"
        ) from error


def write_graph(graph: CommGraph, path: str | os.PathLike[str]) -> None:
    """Write the project's own archive (docs/formats.md), whole or not at all."""
    _write(Path(path), lambda stream: _save(graph, stream))


def format_graph(graph: CommGraph) -> bytes:
    """The bytes that :func:`write_graph` writes."""
    stream = io.BytesIO()
    _save(graph, stream)
    return stream.getvalue()


def _save(graph: CommGraph, stream: BinaryIO) -> None:
    np.savez_compressed(
        stream,
        format=np.array(FORMAT),
        version=np.array(VERSION),
        ranks=np.array(graph.ranks),
        source=graph.source.astype(np.int32),
        target=graph.target.astype(np.int32),
        nbytes=graph.nbytes.astype(np.float64),
        messages=graph.messages.astype(np.float64),
        modelled=graph.modelled.astype(np.float64),
        meta=np.array(json.dumps(dict(graph.meta))),
    )


def export_scipy(graph: CommGraph, path: str | os.PathLike[str]) -> None:
    """Write the bytes as a SciPy sparse matrix (CSR, ``scipy.sparse.load_npz`` reads it)."""
    import scipy.sparse

    matrix = scipy.sparse.csr_matrix(
        (graph.nbytes, (graph.source, graph.target)), shape=(graph.ranks, graph.ranks)
    )
    _write(Path(path), lambda stream: scipy.sparse.save_npz(stream, matrix))


def export_mtx(graph: CommGraph, path: str | os.PathLike[str]) -> None:
    """Write the bytes as a Matrix Market file (coordinate, real, general; the shortest exact decimals)."""
    rows = zip(graph.source.tolist(), graph.target.tolist(), graph.nbytes.tolist(), strict=True)
    text = "".join(f"{u + 1} {v + 1} {w!r}\n" for u, v, w in rows)
    head = f"%%MatrixMarket matrix coordinate real general\n{graph.ranks} {graph.ranks} {graph.source.size}\n"
    _write(Path(path), lambda stream: stream.write((head + text).encode("ascii")))


def graph_digest(graph: CommGraph) -> str:
    """First 16 hexadecimal digits of the SHA-256 over ranks, source, target, nbytes and messages."""
    digest = hashlib.sha256(np.array(graph.ranks, dtype="<i4").tobytes())
    for array, kind in (
        (graph.source, "<i4"),
        (graph.target, "<i4"),
        (graph.nbytes, "<f8"),
        (graph.messages, "<f8"),
    ):
        digest.update(np.ascontiguousarray(array, dtype=kind).tobytes())
    return digest.hexdigest()[:16]


def build_graph(
    ranks: int,
    source: NDArray[np.integer],
    target: NDArray[np.integer],
    nbytes: NDArray[np.float64],
    messages: NDArray[np.float64] | None = None,
    modelled: NDArray[np.float64] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> CommGraph:
    """A graph in the order and form that :class:`slurm_topo.model.CommGraph` promises.

    Pairs are sorted, duplicates added up, pairs of a rank with itself and pairs without traffic left out.
    """
    columns = [np.zeros(source.size) if c is None else c for c in (nbytes, messages, modelled)]
    kept = (source != target) & ((columns[0] > 0) | (columns[1] > 0))
    key = source[kept].astype(np.int64) * ranks + target[kept]
    columns = [column[kept] for column in columns]
    if key.size and not (key[1:] > key[:-1]).all():
        order = np.argsort(key, kind="stable")
        key = key[order]
        starts = np.flatnonzero(np.r_[True, key[1:] != key[:-1]])
        key = key[starts]
        columns = [np.add.reduceat(column[order], starts) for column in columns]
    return CommGraph(
        ranks=ranks,
        source=(key // ranks).astype(np.int32),
        target=(key % ranks).astype(np.int32),
        nbytes=columns[0],
        messages=columns[1],
        modelled=columns[2],
        meta=dict(meta or {}),
    )


def _read_npz(file: Path) -> CommGraph:
    try:
        with np.load(file, allow_pickle=False) as archive:
            names = set(archive.files)
            if {"ranks", "source", "target", "nbytes"} <= names:
                return _own_graph(file, dict(archive))
            if {"format", "shape", "data"} <= names:
                return _scipy_graph(file, dict(archive))
    except GraphError:
        raise
    except _BROKEN as error:
        raise GraphError(
            f"{file}: is damaged or no graph ({_first_line(error)}); write or trace it again"
        ) from error
    raise GraphError(f"{file}: holds neither a graph nor a SciPy sparse matrix; give one of these")


def _own_graph(file: Path | str, arrays: Mapping[str, NDArray[Any]]) -> CommGraph:
    if str(arrays["format"]) != FORMAT:
        raise GraphError(f"{file}: format {arrays['format']!s} is not {FORMAT}; give a traced graph")
    if int(arrays["version"]) != VERSION:
        raise GraphError(
            f"{file}: version {int(arrays['version'])} of the format; this release reads version {VERSION}"
        )
    ranks = int(arrays["ranks"])
    source, target = arrays["source"], arrays["target"]
    columns = [arrays[name] for name in ("nbytes", "messages", "modelled")]
    if any(array.shape != source.shape or array.ndim != 1 for array in (source, target, *columns)):
        raise GraphError(f"{file}: its arrays differ in length; trace the program again")
    meta = json.loads(str(arrays["meta"])) if "meta" in arrays else {}
    return _checked(file, ranks, ranks, source, target, columns, meta)


def _scipy_graph(file: Path, arrays: Mapping[str, NDArray[Any]]) -> CommGraph:
    layout = arrays["format"].item()
    layout = layout.decode("ascii", "replace") if isinstance(layout, bytes) else str(layout)
    shape = [int(size) for size in arrays["shape"]]
    if len(shape) != 2:
        raise GraphError(f"{file}: has {len(shape)} dimensions; a graph is a square matrix")
    if layout == "coo":
        row, column = (arrays["row"], arrays["col"]) if "row" in arrays else arrays["coords"]
        data = arrays["data"]
    elif layout in ("csr", "csc"):
        indptr = arrays["indptr"].astype(np.int64)
        if indptr.size != shape[layout == "csc"] + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
            raise GraphError(f"{file}: its row pointers are damaged; write the matrix again")
        outer = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
        row, column = (outer, arrays["indices"]) if layout == "csr" else (arrays["indices"], outer)
        data = arrays["data"]
    else:
        import scipy.sparse

        matrix = scipy.sparse.load_npz(file).tocoo()
        row, column, data = matrix.row, matrix.col, matrix.data
    if not (row.size == column.size == data.size):
        raise GraphError(f"{file}: its arrays differ in length; write the matrix again")
    return _checked(file, shape[0], shape[1], row, column, [data], {"file": file.name})


def _read_mtx(file: Path) -> CommGraph:
    try:
        text = file.read_bytes().removeprefix(codecs.BOM_UTF8).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise GraphError(f"{file}: is no Matrix Market text ({error}); write the matrix again") from error
    head, _, rest = text.partition("\n")
    words = head.lower().split()
    if len(words) != 5 or words[1:3] != ["matrix", "coordinate"]:
        raise GraphError(
            f"{file}: its first line is {head[:80]!r}; write 'matrix coordinate real general' or 'symmetric'"
        )
    field, symmetry = words[3:]
    if field not in ("real", "integer", "pattern", "double", "unsigned-integer"):
        raise GraphError(f"{file}: entries are {field}; a graph has real entries")
    if symmetry not in ("general", "symmetric"):
        raise GraphError(f"{file}: the matrix is {symmetry}; write it as general or symmetric")
    while rest.lstrip().startswith("%"):
        rest = rest.lstrip().partition("\n")[2]
    rows, columns, entries = _mtx_entries(file, rest, 2 if field == "pattern" else 3)
    source, target = entries[0].astype(np.int64) - 1, entries[1].astype(np.int64) - 1
    weight = entries[2] if len(entries) > 2 else np.ones(source.size)
    if symmetry == "symmetric":
        below = source != target
        source, target = np.r_[source, target[below]], np.r_[target, source[below]]
        weight = np.r_[weight, weight[below]]
    return _checked(file, rows, columns, source, target, [weight], {"file": file.name})


def _mtx_entries(file: Path, text: str, width: int) -> tuple[int, int, NDArray[np.float64]]:
    """Rows, columns, and the entries as a float64 array of shape (width, entries)."""
    try:
        with warnings.catch_warnings():
            # NumPy only warns about text that is no number.
            warnings.simplefilter("error")
            numbers = np.fromstring(text, dtype=np.float64, sep=" ")
    except (ValueError, DeprecationWarning) as error:
        raise GraphError(
            f"{file}: an entry is no number ({_first_line(error)}); write the matrix again"
        ) from error
    if numbers.size < 3 or not np.isfinite(numbers[:3]).all():
        raise GraphError(f"{file}: has no size line; write rows, columns and entries below the comments")
    rows, columns, count = (int(number) for number in numbers[:3])
    if numbers.size - 3 != count * width:
        raise GraphError(
            f"{file}: {numbers.size - 3} numbers where {count} entries of {width} are promised; "
            "the file is truncated or damaged: write it again"
        )
    entries = numbers[3:].reshape(-1, width).T
    if not np.isfinite(entries[:2]).all():
        raise GraphError(f"{file}: an index is not finite; write the matrix again")
    return rows, columns, entries


def _checked(
    file: Path | str,
    rows: int,
    columns: int,
    source: NDArray[Any],
    target: NDArray[Any],
    weights: list[NDArray[Any]],
    meta: Mapping[str, Any],
) -> CommGraph:
    if rows != columns:
        raise GraphError(f"{file}: is {rows} x {columns}; a graph is a square matrix, one row a rank")
    if not 1 <= rows <= MOST_RANKS:
        raise GraphError(f"{file}: has {rows} ranks; between 1 and {MOST_RANKS} are possible")
    if any(np.iscomplexobj(weight) for weight in weights):
        raise GraphError(f"{file}: entries are complex; a graph has real entries")
    if any(array.dtype.kind not in "iuf" for array in (source, target)) or any(
        weight.dtype.kind not in "biuf" for weight in weights
    ):
        raise GraphError(f"{file}: entries are no numbers; write the graph again")
    for array in (source, target):
        if array.size and not (array.min() >= 0 and array.max() < rows):
            raise GraphError(f"{file}: an entry names a rank outside 0..{rows - 1}; write the graph again")
    values = [weight.astype(np.float64) for weight in weights]
    for value in values:
        if not np.isfinite(value).all():
            raise GraphError(f"{file}: an entry is not finite; traffic is a number from 0")
        if value.size and value.min() < 0:
            raise GraphError(f"{file}: an entry is negative ({value.min():g}); traffic is a number from 0")
    nbytes, messages, modelled = [*values, None, None][:3]
    assert nbytes is not None
    return build_graph(rows, source, target, nbytes, messages, modelled, meta)


def _write(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    stream = io.BytesIO()
    write(stream)
    write_output(path, stream.getvalue())


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0][:120] if lines else type(error).__name__
