"""Users' spool folders: as root through a child that has become the user, else with one's own rights.

Root never opens, creates, renames or deletes a file below a user's folder itself. The child answers on a
pipe; what it says is the user's word: numbers and names are checked, sizes have limits.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

from slurm_topo.history.sync.files import FileInfo, SpoolError, SpoolFiles

MAX_TRACE = 512 << 20
MAX_RECORDS = 16 << 20
MAX_PLAN = 16 << 20
_MOST_ANSWER = MAX_TRACE + (64 << 20)
_HEAD = struct.Struct(">II")


class UserSpool(Protocol):
    """What sync does with a user's folder."""

    def list(self, folder: str) -> list[FileInfo]: ...

    def read(self, folder: str, name: str, limit: int) -> bytes: ...

    def write(self, folder: str, name: str, content: bytes) -> None: ...

    def remove(self, folder: str, name: str) -> None: ...

    def touch(self, folder: str, name: str, when: int) -> None: ...

    def set_aside(self, folder: str, name: str) -> None: ...


def spool_users(spool: str) -> list[int]:
    """Numeric ids of the users that have a folder in the spool, ascending.

    Raises
    ------
    SpoolError
        The spool is missing or unreadable.
    """
    try:
        with os.scandir(spool) as entries:
            return sorted(
                int(e.name)
                for e in entries
                if e.name.isascii() and e.name.isdigit() and e.is_dir(follow_symlinks=False)
            )
    except OSError as error:
        raise SpoolError(str(error.strerror)) from error


@contextmanager
def open_spool(spool: str, uid: int) -> Iterator[UserSpool]:
    """A user's folder: directly for oneself and without root's rights, else through a child.

    Raises
    ------
    SpoolError
        It is missing, unreadable, a link, or not the user's alone.
    """
    if os.geteuid() != 0 or uid == 0:
        files = SpoolFiles(spool, uid)
        try:
            yield files
        finally:
            files.close()
        return
    child = _Child(spool, uid)
    try:
        yield child
    finally:
        child.close()


class _Child:
    """The parent's end: each call is one request and one answer."""

    def __init__(self, spool: str, uid: int) -> None:
        groups = _groups(uid)
        request_read, self._request = os.pipe()
        self._answer, answer_write = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._request)
            os.close(self._answer)
            _serve(spool, uid, groups, request_read, answer_write)
        os.close(request_read)
        os.close(answer_write)
        try:
            self._receive()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the child."""
        for handle in (self._request, self._answer):
            with contextlib.suppress(OSError):
                os.close(handle)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self._pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def list(self, folder: str) -> list[FileInfo]:
        head, _ = self._call("list", folder)
        try:
            return [FileInfo(str(n), int(s), int(m)) for n, s, m in head["files"]]
        except (KeyError, TypeError, ValueError) as error:
            raise SpoolError("its reader gave a wrong answer") from error

    def read(self, folder: str, name: str, limit: int) -> bytes:
        content = self._call("read", folder, name, limit)[1]
        if len(content) > limit:
            raise SpoolError(f"is larger than {limit} bytes")
        return content

    def write(self, folder: str, name: str, content: bytes) -> None:
        self._call("write", folder, name, content=content)

    def remove(self, folder: str, name: str) -> None:
        self._call("remove", folder, name)

    def touch(self, folder: str, name: str, when: int) -> None:
        self._call("touch", folder, name, when)

    def set_aside(self, folder: str, name: str) -> None:
        self._call("set_aside", folder, name)

    def _call(self, *words: Any, content: bytes = b"") -> tuple[dict[str, Any], bytes]:
        try:
            _send(self._request, {"call": words}, content)
        except OSError as error:
            raise SpoolError("its reader has ended") from error
        return self._receive()

    def _receive(self) -> tuple[dict[str, Any], bytes]:
        try:
            head, content = _receive(self._answer)
        except (OSError, EOFError, ValueError) as error:
            raise SpoolError("its reader has ended") from error
        if "error" in head:
            raise SpoolError(str(head["error"])[:200])
        return head, content


def _groups(uid: int) -> tuple[int, list[int]]:
    """Primary and all groups of a user; of one that the system does not know a group of its own number."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return uid, [uid]
    return entry.pw_gid, os.getgrouplist(entry.pw_name, entry.pw_gid)


def _serve(spool: str, uid: int, groups: tuple[int, list[int]], requests: int, answers: int) -> NoReturn:
    """The child: becomes the user for good, then answers until the pipe closes."""
    code = 1
    try:
        os.setgroups(groups[1])
        os.setresgid(groups[0], groups[0], groups[0])
        os.setresuid(uid, uid, uid)
        if 0 in os.getresuid():
            os._exit(code)
        os.umask(0o077)
        _answer_all(SpoolFiles(spool, uid), requests, answers)
        code = 0
    except SpoolError as error:
        with contextlib.suppress(OSError):
            _send(answers, {"error": str(error)}, b"")
    except (OSError, EOFError, ValueError):
        pass
    finally:
        os._exit(code)


def _answer_all(files: SpoolFiles, requests: int, answers: int) -> None:
    _send(answers, {"ready": True}, b"")
    while True:
        head, content = _receive(requests)
        name, *arguments = head["call"]
        try:
            if name == "list":
                found = [(f.name, f.size, f.modified) for f in files.list(*arguments)]
                _send(answers, {"files": found}, b"")
            elif name == "read":
                _send(answers, {}, files.read(*arguments))
            elif name == "write":
                folder, file = arguments
                files.write(folder, file, content)
                _send(answers, {}, b"")
            else:
                calls: dict[str, Callable[..., None]] = {
                    "remove": files.remove,
                    "touch": files.touch,
                    "set_aside": files.set_aside,
                }
                calls[name](*arguments)
                _send(answers, {}, b"")
        except SpoolError as error:
            _send(answers, {"error": str(error)}, b"")


def _send(handle: int, head: dict[str, Any], content: bytes) -> None:
    text = json.dumps(head).encode()
    for part in (_HEAD.pack(len(text), len(content)) + text, content):
        view = memoryview(part)
        while view:
            view = view[os.write(handle, view) :]


def _receive(handle: int) -> tuple[dict[str, Any], bytes]:
    text_size, content_size = _HEAD.unpack(_read(handle, _HEAD.size))
    if text_size > 64 << 20 or content_size > _MOST_ANSWER:
        raise ValueError("an answer is too large")
    head = json.loads(_read(handle, text_size))
    if not isinstance(head, dict):
        raise ValueError("an answer is no object")
    return head, _read(handle, content_size)


def _read(handle: int, size: int) -> bytes:
    parts = []
    while size:
        part = os.read(handle, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
