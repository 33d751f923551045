"""Links between the GPUs and NICs of a node, as a vendor's tool prints them."""

from __future__ import annotations

from dataclasses import dataclass, field

from slurm_topo.errors import MachineError


@dataclass(frozen=True)
class LinkDevice:
    """A row of the matrix.

    Attributes
    ----------
    label : str
        ``GPU0``, ``NIC3``, or the name of the adapter where the driver prints that.
    kind : str
        ``gpu`` or ``nic``.
    name : str
        Name of the adapter from the legend, model of the GPU where another output gave it; else empty.
    cpus : tuple of int or None
        CPUs near to it; None where the tool does not say.
    numa : tuple of int or None
        NUMA nodes near to it; None where the tool does not say.
    gpu_numa : int or None
        NUMA node of the GPU's own memory (Grace Hopper).
    """

    label: str
    kind: str
    name: str = ""
    cpus: tuple[int, ...] | None = None
    numa: tuple[int, ...] | None = None
    gpu_numa: int | None = None


@dataclass(frozen=True)
class LinkMatrix:
    """Codes between all pairs of devices.

    Attributes
    ----------
    tool : str
        ``nvidia-smi topo -m`` or ``rocm-smi --showtopo``.
    devices : tuple of LinkDevice
        Rows and columns.
    codes : tuple of tuples of str
        ``codes[i][j]``: ``NV18``, ``PIX``, ``PXB``, ``PHB``, ``NODE``, ``SYS``, ``C2C``, ``XGMI``, ``PCIE``,
        ``X`` on the diagonal, ``N/A`` where the tool does not know.
    hops, weights : tuples of tuples of int, or empty
        What rocm-smi prints beside the types.
    bandwidth_gbs : tuple of tuples of float, or empty
        Measured or maximal bandwidth, GB/s, where the tool prints it (0 where unknown).
    notes : tuple of str
        What was odd but harmless.
    """

    tool: str
    devices: tuple[LinkDevice, ...]
    codes: tuple[tuple[str, ...], ...]
    hops: tuple[tuple[int, ...], ...] = ()
    weights: tuple[tuple[int, ...], ...] = ()
    bandwidth_gbs: tuple[tuple[float, ...], ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def gpus(self) -> tuple[int, ...]:
        """Indices of the GPUs."""
        return tuple(i for i, d in enumerate(self.devices) if d.kind == "gpu")

    @property
    def nics(self) -> tuple[int, ...]:
        """Indices of the NICs."""
        return tuple(i for i, d in enumerate(self.devices) if d.kind == "nic")


def check_symmetric(tool: str, labels: list[str], codes: list[list[str]]) -> None:
    """Refuse a matrix that contradicts itself: one of the two cells was damaged on the way.

    Raises
    ------
    MachineError
        A cell differs from its mirror image, or the diagonal is not where it should be.
    """
    for i, row in enumerate(codes):
        for j, code in enumerate(row):
            if (code == "X") != (i == j):
                where = f"{labels[i]} to {labels[j]}"
                raise MachineError(
                    f"{tool}: {where} is {code!r}, cells are missing or doubled; paste it again whole"
                )
            if code != codes[j][i]:
                raise MachineError(
                    f"{tool}: {labels[i]} to {labels[j]} is {code} but back it is {codes[j][i]}; "
                    "paste it again whole"
                )
