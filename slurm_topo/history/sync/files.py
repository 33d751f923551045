"""Files of one user's spool folder, touched with the rights of whoever runs this code.

Links are never followed, only regular files of the owner are read, and every size has a limit. Runs in
the process of sync, or in a child that has become the user (:mod:`slurm_topo.history.sync.spool`).
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass

FOLDERS = ("traces", "records", "plans", "graphs", "advice", "rejected")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_FILES = 200_000


class SpoolError(Exception):
    """A folder or a file of a spool cannot be used; the text says why, in a few words."""


class SpoolDeniedError(SpoolError):
    """The folder is another user's, and we are not root."""


@dataclass(frozen=True)
class FileInfo:
    """A regular file of a spool folder; ``modified`` in seconds since the epoch."""

    name: str
    size: int
    modified: int


class SpoolFiles:
    """The folder of one user.

    Parameters
    ----------
    spool : str
        The spool (docs/formats.md).
    uid : int
        Whose folder; it and everything that is used in it must belong to this user.
    """

    def __init__(self, spool: str, uid: int) -> None:
        self._uid = uid
        self._root = self._open_root(spool)

    def close(self) -> None:
        """Close the folder."""
        os.close(self._root)

    def _open_root(self, spool: str) -> int:
        try:
            above = os.open(spool, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                return self._directory(str(self._uid), above)
            finally:
                os.close(above)
        except PermissionError as error:
            raise SpoolDeniedError(str(error.strerror)) from error
        except OSError as error:
            raise SpoolError(str(error.strerror)) from error

    def _directory(self, name: str, above: int) -> int:
        handle = os.open(name, _DIRECTORY, dir_fd=above)
        about = os.fstat(handle)
        if about.st_uid != self._uid or about.st_mode & 0o022:
            os.close(handle)
            raise SpoolError("belongs to somebody else or can be written by others")
        return handle

    def _folder(self, name: str, create: bool = False) -> int:
        if name not in FOLDERS:
            raise SpoolError(f"{name} is no folder of a spool")
        try:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=self._root)
            return self._directory(name, self._root)
        except OSError as error:
            raise SpoolError(str(error.strerror)) from error

    def list(self, folder: str) -> list[FileInfo]:
        """Regular files of a folder, by name; none where there is no such folder."""
        try:
            handle = self._folder(folder)
        except SpoolError:
            if folder in os.listdir(self._root):
                raise
            return []
        try:
            found = []
            with os.scandir(handle) as entries:
                for entry in entries:
                    about = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(about.st_mode) and about.st_uid == self._uid:
                        found.append(FileInfo(entry.name, about.st_size, int(about.st_mtime)))
                    if len(found) >= _MOST_FILES:
                        break
            return sorted(found, key=lambda f: f.name)
        except OSError as error:
            raise SpoolError(str(error.strerror)) from error
        finally:
            os.close(handle)

    def read(self, folder: str, name: str, limit: int) -> bytes:
        """Content of a file."""
        parent = self._folder(folder)
        try:
            handle = os.open(_plain(name), _FILE, dir_fd=parent)
        except OSError as error:
            raise SpoolError(str(error.strerror)) from error
        finally:
            os.close(parent)
        with os.fdopen(handle, "rb") as stream:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode) or about.st_uid != self._uid:
                raise SpoolError("is no regular file of its owner")
            try:
                content = stream.read(limit + 1)
            except OSError as error:
                raise SpoolError(str(error.strerror)) from error
        if len(content) > limit:
            raise SpoolError(f"is larger than {limit} bytes")
        return content

    def write(self, folder: str, name: str, content: bytes) -> None:
        """Write a file under a temporary name and rename it, mode 0600; the folder is made if necessary."""
        parent = self._folder(folder, create=True)
        temporary = f".{_plain(name)}.{os.getpid()}"
        try:
            handle = os.open(
                temporary,
                os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
                dir_fd=parent,
            )
            try:
                with os.fdopen(handle, "wb") as stream:
                    stream.write(content)
                os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=parent)
                raise
        except OSError as error:
            raise SpoolError(str(error.strerror)) from error
        finally:
            os.close(parent)

    def remove(self, folder: str, name: str) -> None:
        """Remove a file; it may be gone already."""
        parent = self._folder(folder)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_plain(name), dir_fd=parent)
        except OSError as error:
            raise SpoolError(str(error.strerror)) from error
        finally:
            os.close(parent)

    def touch(self, folder: str, name: str, when: int) -> None:
        """Give a file a time, seconds since the epoch; it may be gone already."""
        parent = self._folder(folder)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.utime(_plain(name), (when, when), dir_fd=parent, follow_symlinks=False)
        except OSError as error:
            raise SpoolError(str(error.strerror)) from error
        finally:
            os.close(parent)

    def set_aside(self, folder: str, name: str) -> None:
        """Move a file to the folder ``rejected``, where nobody reads it again and nobody deletes it."""
        parent, target = self._folder(folder), self._folder("rejected", create=True)
        try:
            present = set(os.listdir(target))
            names = (name, *(f"{name}.{i}" for i in range(1, _MOST_FILES)))
            free = next(n for n in names if n not in present)
            with contextlib.suppress(FileNotFoundError):
                os.rename(_plain(name), free, src_dir_fd=parent, dst_dir_fd=target)
        except OSError as error:
            raise SpoolError(str(error.strerror)) from error
        finally:
            os.close(parent)
            os.close(target)


def _plain(name: str) -> str:
    if "/" in name or name in ("", ".", "..") or "\0" in name:
        raise SpoolError("is no plain file name")
    return name
