"""The smaller outputs of nvidia-smi: ``topo -p2p``, ``nvlink -s``, ``-L``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slurm_topo.errors import MachineError
from slurm_topo.machine.gpulinks.clean import clean

_STATUS = ("X", "OK", "CNS", "GNS", "TNS", "NS", "DR", "U")
_GPU_LINE = re.compile(r"^\s*GPU\s+(\d+):\s*(.*?)\s*(?:\(UUID:\s*([^)]*)\))?\s*$")
_LINK_LINE = re.compile(r"^\s*Link\s+(\d+):\s*(?:([\d.]+)\s*GB/s|(<?inactive>?|N/A))", re.IGNORECASE)
_MIG_LINE = re.compile(r"^\s*MIG\s+(\S+)\s+Device\s+(\d+):\s*\(UUID:\s*([^)]*)\)")


@dataclass(frozen=True)
class PeerMatrix:
    """Peer-to-peer status between GPUs: ``OK``, ``CNS``, ``GNS``, ``TNS``, ``NS``, ``DR``, ``U``, ``X``."""

    labels: tuple[str, ...]
    status: tuple[tuple[str, ...], ...]

    def usable(self, i: int, j: int) -> bool:
        """True where the two GPUs reach each other's memory."""
        return self.status[i][j] in ("OK", "X")


@dataclass(frozen=True)
class NvLinks:
    """Links of one GPU: its model and the GB/s of each active link, by number."""

    index: int
    model: str
    links: tuple[tuple[int, float], ...]

    @property
    def total_gbs(self) -> float:
        """GB/s of all active links, one direction."""
        return sum(speed for _, speed in self.links)


@dataclass(frozen=True)
class ListedGpu:
    """A GPU of ``nvidia-smi -L`` with its MIG instances (profile and UUID)."""

    index: int
    model: str
    uuid: str
    mig: tuple[tuple[str, str], ...] = ()


def is_peer_matrix(text: str) -> bool:
    """True for text that looks like ``nvidia-smi topo -p2p``."""
    return bool(re.search(r"GPU\d+\s[^\n]*\b(?:OK|CNS|GNS|TNS|NS|DR)\b", clean(text)))


def parse_peer_matrix(text: str) -> PeerMatrix:
    """The matrix of ``nvidia-smi topo -p2p r`` (or w, n, a, p).

    Raises
    ------
    MachineError
        There is no such matrix, or rows, cells or codes are missing or unknown.
    """
    labels: list[str] = []
    rows: dict[str, list[str]] = {}
    for line in clean(text).split("\n"):
        words = line.split()
        if not words or not re.fullmatch(r"GPU\d+", words[0]):
            if labels and words and words[0].lower().startswith("legend"):
                break
            continue
        if not labels:
            labels = [w for w in words if re.fullmatch(r"GPU\d+", w)]
        elif words[0] in labels and words[0] not in rows:
            rows[words[0]] = words[1:]
    if not labels or not rows:
        raise MachineError("nvidia-smi topo -p2p: no matrix of GPUs; paste the whole output")
    for label in labels:
        cells = rows.get(label, [])
        if len(cells) != len(labels):
            raise MachineError(
                f"nvidia-smi topo -p2p: row {label} has {len(cells)} of {len(labels)} cells: "
                "truncated; paste it whole"
            )
        unknown = [c for c in cells if c not in _STATUS]
        if unknown:
            raise MachineError(
                f"nvidia-smi topo -p2p: {unknown[0]!r} is no status; known are {', '.join(_STATUS)}"
            )
    return PeerMatrix(tuple(labels), tuple(tuple(rows[label]) for label in labels))


def is_nvlink_status(text: str) -> bool:
    """True for text that looks like ``nvidia-smi nvlink -s``."""
    return any(_LINK_LINE.match(line) for line in clean(text).split("\n")) or "NVLink information" in text


def parse_nvlink_status(text: str) -> tuple[NvLinks, ...]:
    """Links of every GPU from ``nvidia-smi nvlink -s``.

    Raises
    ------
    MachineError
        There is no GPU, or a link comes before the first one, or a number is missing between two links.
    """
    found: list[NvLinks] = []
    numbers: list[int] = []
    for line in clean(text).split("\n"):
        gpu, link = _GPU_LINE.match(line), _LINK_LINE.match(line)
        if gpu:
            found.append(NvLinks(int(gpu[1]), gpu[2], ()))
            numbers = []
        elif link and not found:
            raise MachineError(
                "nvidia-smi nvlink -s: a link before the first GPU: the top is missing; paste it whole"
            )
        elif link:
            numbers.append(int(link[1]))
            if numbers != list(range(len(numbers))):
                raise MachineError(
                    f"nvidia-smi nvlink -s: GPU {found[-1].index} jumps to link {link[1]}: lines "
                    "are missing; "
                    "paste it whole"
                )
            if link[2]:
                last = found.pop()
                found.append(NvLinks(last.index, last.model, (*last.links, (int(link[1]), float(link[2])))))
    if not found:
        raise MachineError("nvidia-smi nvlink -s: names no GPU; paste the whole output")
    return tuple(found)


def is_gpu_list(text: str) -> bool:
    """True for text that looks like ``nvidia-smi -L``."""
    lines = [line for line in clean(text).split("\n") if line.strip()]
    return any(_GPU_LINE.match(line) and "UUID" in line for line in lines) and not is_nvlink_status(text)


def parse_gpu_list(text: str) -> tuple[ListedGpu, ...]:
    """GPUs and MIG instances from ``nvidia-smi -L``.

    Raises
    ------
    MachineError
        There is no GPU, or a MIG instance comes before the first one.
    """
    found: list[ListedGpu] = []
    for line in clean(text).split("\n"):
        gpu, mig = _GPU_LINE.match(line), _MIG_LINE.match(line)
        if mig and not found:
            raise MachineError("nvidia-smi -L: a MIG instance before the first GPU; paste the whole output")
        if mig:
            last = found.pop()
            found.append(ListedGpu(last.index, last.model, last.uuid, (*last.mig, (mig[1], mig[3].strip()))))
        elif gpu:
            found.append(ListedGpu(int(gpu[1]), gpu[2], (gpu[3] or "").strip()))
    if not found:
        raise MachineError("nvidia-smi -L: names no GPU; paste the whole output")
    return tuple(found)
