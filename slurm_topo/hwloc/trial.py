"""Load XML in a child first: libhwloc trusts its own files and can crash on damaged ones.

What it does load is then checked, so that a damaged file is an error and never a machine that does not exist.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable

from slurm_topo.errors import MachineError
from slurm_topo.hwloc.topology import Object, Topology

_SECONDS = 60
_BYTES = 2 * 1024**3


def try_first(load: Callable[[], object], origin: str) -> None:
    """Run ``load`` in a child with limited time and memory.

    Raises
    ------
    MachineError
        The child was killed by a signal or took longer than a minute. An error that ``load`` itself raises is
        left to the caller's own attempt.
    """
    child = os.fork()
    if child == 0:
        _in_child(load)
    status = _wait(child)
    if status is None or os.WIFSIGNALED(status):
        raise MachineError(
            f"{origin}: damaged, libhwloc cannot survive it; write it again with `lstopo file.xml`"
        )


def _in_child(load: Callable[[], object]) -> None:
    try:
        silent = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(silent, descriptor)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(ValueError, OSError):
            most = _address_space() + _BYTES
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE):
            signal.signal(number, signal.SIG_DFL)
        load()
    finally:
        # Past every exit handler of the parent; a Python error shows again in the parent's own attempt.
        os._exit(0)


def _address_space() -> int:
    """Bytes that the process has mapped: numerical libraries reserve much on machines with many cores."""
    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[0]) * resource.getpagesize()


def _wait(child: int) -> int | None:
    """Status of the child; None where it had to be killed for its time."""
    deadline = time.monotonic() + _SECONDS
    pause = 0.001
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def check_consistent(topology: Topology, pus: int) -> None:
    """Refuse a topology whose objects contradict each other, or that has not the number of PUs of its file.

    Raises
    ------
    MachineError
        A PU or NUMA node without or with a doubled OS index, a set that leaves its parent's, or siblings that
        overlap.
    """
    loaded = len(topology.of_kind("PU"))
    problem = (
        f"{loaded} of its {pus} PUs make sense" if loaded != pus else next(iter(_problems(topology)), None)
    )
    if problem:
        raise MachineError(f"{topology.origin}: damaged, {problem}; write it again with `lstopo file.xml`")


def _problems(topology: Topology) -> list[str]:
    found = []
    for kind in ("PU", "NUMANode"):
        indices = [o.os_index for o in topology.of_kind(kind)]
        if -1 in indices:
            found.append(f"a {kind} has no OS index")
        if len(set(indices)) < len(indices):
            found.append(f"two {kind}s have one OS index")
    for obj in topology.objects:
        found += _object_problems(topology, obj)
    covered = 0
    for pu in topology.of_kind("PU"):
        covered |= pu.cpuset
    if covered != topology.root.cpuset or not covered:
        found.append("the PUs are not those of the machine")
    return found


def _object_problems(topology: Topology, obj: Object) -> list[str]:
    found = []
    if obj.kind == "PU" and obj.os_index >= 0 and obj.cpuset != 1 << obj.os_index:
        found.append(f"PU {obj.os_index} has another CPU set")
    if obj.kind == "NUMANode" and obj.os_index >= 0 and obj.nodeset != 1 << obj.os_index:
        found.append(f"NUMA node {obj.os_index} has another node set")
    taken = 0
    for child in (topology.objects[i] for i in obj.children):
        if child.cpuset & ~obj.cpuset or child.nodeset & ~topology.root.nodeset:
            found.append(f"{child.kind} {child.logical} leaves the {obj.kind} around it")
        if child.cpuset & taken:
            found.append(f"{child.kind} {child.logical} overlaps its neighbour")
        taken |= child.cpuset
    return found
