"""What a code of a link matrix means for the path: type, hops, bandwidth."""

from __future__ import annotations

from dataclasses import dataclass

from slurm_topo.machine.gpulinks.matrix import LinkMatrix

# GB/s of one NVLink, one direction, by words of the GPU's name; the first match counts.
_NVLINK_GBS = (
    (("P100",), 20.0),
    (("B100", "B200", "B300", "GB200", "GB300"), 50.0),
    (("A6000", "A5000", "A4500", "A40", "RTX 3090", "RTX 8000", "RTX 6000"), 14.0625),
    (("V100", "A100", "A800", "A30", "H100", "H200", "H800", "H20", "GH200"), 25.0),
)
_NVLINK_DEFAULT_GBS = 25.0
# GB/s of all xGMI links between two packages, one direction, where no tool says more.
_XGMI_DEFAULT_GBS = 50.0
_C2C_GBS = 450.0
# Links that one GPU has: more than this over all peers cannot be cables between GPUs.
_MOST_LINKS = 18
# Share of the slower device's PCIe link that is left, by what the path crosses.
_PCIE_SHARE = {"PIX": 1.0, "PXB": 0.95, "PHB": 0.8, "NODE": 0.7, "SYS": 0.5, "PCIE": 0.6}
PCIE_DEFAULT_GBS = 25.0
_PCIE_TYPES = {
    "PIX": ("pcie-switch", 1, "one PCIe switch"),
    "PXB": ("pcie-switch", 2, "several PCIe switches below one root complex"),
    "PHB": ("host-bridge", 2, "the PCIe host bridge of one CPU"),
    "NODE": ("host-bridge", 3, "the interconnect between host bridges of one NUMA node"),
    "SYS": ("socket-link", 4, "the link between sockets"),
    "PCIE": ("host-bridge", 2, "PCIe through the CPU"),
}


@dataclass(frozen=True)
class Path:
    """How two devices reach each other.

    Attributes
    ----------
    kind : str
        ``self``, ``nvlink``, ``nvswitch``, ``xgmi``, ``c2c``, ``pcie-switch``, ``host-bridge``,
        ``socket-link`` or ``unknown``.
    hops : int
        Links that are crossed.
    links : int
        Parallel links (NVLinks of a pair), 1 otherwise.
    bandwidth_gbs : float
        One direction, GB/s; 0 where unknown.
    origin : str
        ``reported`` by a tool, ``derived`` from reported links, or ``assumed``.
    code : str
        The code that the tool printed, empty where another source was used.
    """

    kind: str
    hops: int
    links: int
    bandwidth_gbs: float
    origin: str
    code: str = ""


def nvlink_gbs(model: str) -> float:
    """GB/s of one NVLink of a GPU model, one direction.

    Examples
    --------
    >>> nvlink_gbs("Tesla P100-SXM2-16GB")
    20.0
    """
    for words, speed in _NVLINK_GBS:
        if any(word in model for word in words):
            return speed
    return _NVLINK_DEFAULT_GBS


def meaning(code: str) -> str:
    """What a PCIe code says the path crosses, in words; empty for other codes."""
    return _PCIE_TYPES[code][2] if code in _PCIE_TYPES else ""


def paths_of(
    matrix: LinkMatrix, models: dict[int, str] | None = None, pcie_gbs: dict[int, float] | None = None
) -> tuple[tuple[Path, ...], ...]:
    """The path between all pairs of devices of a matrix.

    Parameters
    ----------
    matrix : LinkMatrix
        What the tool printed.
    models : dict, optional
        Model of a device by index (decides the speed of an NVLink).
    pcie_gbs : dict, optional
        GB/s of a device's PCIe link by index; 25 is assumed for the others.

    Notes
    -----
    A GPU whose pairs sum up to more than 18 NVLinks, or that has 18 to a single peer, is on an NVSwitch:
    every pair is two hops apart and has all links of the GPU, but shares them with its other pairs.
    """
    n = len(matrix.devices)
    switched = {i for i in matrix.gpus if _on_switch(matrix.codes[i])}
    return tuple(
        tuple(_path(matrix, i, j, switched, models or {}, pcie_gbs or {}) for j in range(n)) for i in range(n)
    )


def _on_switch(codes: tuple[str, ...]) -> bool:
    links = [int(code[2:]) for code in codes if code.startswith("NV")]
    return bool(links) and (sum(links) > _MOST_LINKS or max(links) == _MOST_LINKS)


def _path(
    matrix: LinkMatrix, i: int, j: int, switched: set[int], models: dict[int, str], pcie_gbs: dict[int, float]
) -> Path:
    code = matrix.codes[i][j]
    reported = matrix.bandwidth_gbs[i][j] if matrix.bandwidth_gbs else 0.0
    hops = matrix.hops[i][j] if matrix.hops else 0
    if code == "X":
        return Path("self", 0, 0, 0.0, "reported", code)
    if code.startswith("NV"):
        links = int(code[2:])
        model = models.get(i, "") or matrix.devices[i].name
        speed = links * nvlink_gbs(model)
        on_switch = i in switched and j in switched
        kind, length = ("nvswitch", 2) if on_switch else ("nvlink", 1)
        return Path(kind, length, links, speed, "derived" if model else "assumed", code)
    if code == "XGMI":
        return Path(
            "xgmi", hops or 1, 1, reported or _XGMI_DEFAULT_GBS, "reported" if reported else "assumed", code
        )
    if code == "C2C":
        return Path("c2c", 1, 1, _C2C_GBS, "assumed", code)
    if code in _PCIE_TYPES:
        known = [pcie_gbs[k] for k in (i, j) if pcie_gbs.get(k)]
        return _pcie(code, hops, reported, min(known, default=0.0))
    return Path("unknown", hops, 1, reported, "reported" if reported else "assumed", code)


def _pcie(code: str, hops: int, reported: float, link: float) -> Path:
    kind, length, _ = _PCIE_TYPES[code]
    if code == "PCIE" and hops > 2:
        kind = "socket-link"
    if reported:
        return Path(kind, hops or length, 1, reported, "reported", code)
    share = _PCIE_SHARE[code]
    origin = "derived" if link else "assumed"
    return Path(kind, hops or length, 1, round(share * (link or PCIE_DEFAULT_GBS), 3), origin, code)
