"""libhwloc itself: one topology handle, and one place where return codes are looked at."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from slurm_topo.errors import LaunchError, MachineError

try:
    from slurm_topo.hwloc._hwloc import ffi, lib
except ImportError as error:  # pragma: no cover - depends on the installation
    raise LaunchError(
        f"slurm_topo.hwloc._hwloc: cannot be loaded ({error}); install libhwloc and build with `make native`"
    ) from error

__all__ = ["MAJOR", "ROLES", "Handle", "check", "ffi", "lib", "mask", "quiet", "text"]

MAJOR = lib.hwloc_get_api_version() >> 16
ROLES = {
    "block": lib.ST_OSDEV_BLOCK,
    "gpu": lib.ST_OSDEV_GPU,
    "network": lib.ST_OSDEV_NETWORK,
    "openfabrics": lib.ST_OSDEV_OPENFABRICS,
    "dma": lib.ST_OSDEV_DMA,
    "coproc": lib.ST_OSDEV_COPROC,
    "memory": lib.ST_OSDEV_MEMORY,
}


def check(code: int, what: str) -> int:
    """The return code of a libhwloc call, if it is one of success.

    Raises
    ------
    MachineError
        It is negative; the message names what was attempted and errno.
    """
    if code < 0:
        number = ffi.errno
        reason = os.strerror(number) if number and number != errno.ENOENT else "refused by libhwloc"
        raise MachineError(f"{what}: {reason}; check the description with lstopo")
    return code


def text(pointer: Any) -> str:
    """A C string, or the empty string for NULL."""
    return ffi.string(pointer).decode("utf-8", "replace") if pointer else ""


def mask(bitmap: Any) -> int:
    """A bitmap as an integer; of an infinite one the part before its tail of ones."""
    if not bitmap:
        return 0
    longs = lib.hwloc_bitmap_nr_ulongs(bitmap)
    if longs < 0:
        return 0
    buffer = ffi.new("unsigned long[]", max(longs, 1))
    check(lib.hwloc_bitmap_to_ulongs(bitmap, longs, buffer), "hwloc bitmap")
    return int.from_bytes(bytes(ffi.buffer(buffer)), "little")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """libhwloc keeps its warnings off stderr; what went wrong comes back as an error of ours."""
    names = ("HWLOC_HIDE_ERRORS", "HWLOC_XML_VERBOSE", "HWLOC_SYNTHETIC_VERBOSE")
    before = {name: os.environ.get(name) for name in names}
    os.environ["HWLOC_HIDE_ERRORS"] = "2"
    for name in names[1:]:
        os.environ.pop(name, None)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class Handle:
    """A loaded hwloc topology; a context manager that frees it.

    Parameters
    ----------
    xml, synthetic
        The source; neither: this machine.
    origin
        Name of the source for messages.
    """

    def __init__(self, origin: str, xml: bytes | None = None, synthetic: str | None = None) -> None:
        self.origin = origin
        self._xml = xml
        self._synthetic = synthetic
        self.pointer: Any = ffi.NULL

    def __enter__(self) -> Handle:
        holder = ffi.new("hwloc_topology_t *")
        with quiet():
            check(lib.hwloc_topology_init(holder), self.origin)
            self.pointer = holder[0]
            try:
                self._load()
            except BaseException:
                self._free()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._free()

    def _free(self) -> None:
        if self.pointer:
            lib.hwloc_topology_destroy(self.pointer)
        self.pointer = ffi.NULL

    def _load(self) -> None:
        check(lib.st_hwloc_configure(self.pointer), self.origin)
        if self._xml is not None:
            # The terminating zero belongs to the buffer.
            buffer = ffi.from_buffer(self._xml + b"\0")
            code = lib.hwloc_topology_set_xmlbuffer(self.pointer, buffer, len(self._xml) + 1)
            if code < 0:
                raise MachineError(
                    f"{self.origin}: libhwloc {MAJOR}.x finds no topology in it; "
                    "write it again with `lstopo file.xml`"
                )
        if self._synthetic is not None:
            code = lib.hwloc_topology_set_synthetic(self.pointer, self._synthetic.encode())
            if code < 0:
                raise MachineError(
                    f"synthetic string {self._synthetic!r}: not understood by hwloc; "
                    "write for example 'package:2 l3:1 core:8 pu:2'"
                )
        if lib.hwloc_topology_load(self.pointer) < 0:
            raise MachineError(
                f"{self.origin}: libhwloc {MAJOR}.x cannot load it; write it again with `lstopo file.xml`"
            )
