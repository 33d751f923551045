"""Fingerprint keys of a job: the twin of ``job_submit/slurm_topo/fingerprint.lua`` (docs/formats.md)."""

from __future__ import annotations

import re

PRIMES = (17592186044399, 17592186044299)
_CUT, _HALF = 8192, 4096


def digest(content: bytes) -> str:
    """22 hexadecimal digits of a string of bytes.

    Examples
    --------
    >>> digest(b"halo")
    '00786c989af00786c989af'
    """
    hashes = [7, 7]
    for index, prime in enumerate(PRIMES):
        value = 7
        for byte in content:
            value = (value * 257 + byte + 1) % prime
        hashes[index] = value
    return "".join(f"{value:011x}" for value in hashes)


def normalise(script: bytes) -> bytes:
    """What is hashed of a script.

    Of a script longer than 8,192 bytes the first and the last 4,096; then without carriage returns and
    without blanks at line ends.
    """
    if len(script) > _CUT:
        script = script[:_HALF] + script[-_HALF:]
    return re.sub(rb"[ \t]+(?=\n|\Z)", b"", script.replace(b"\r", b""))


def fingerprint_keys(
    user: str,
    shape: str,
    script: bytes = b"",
    name: bytes = b"",
    account: bytes = b"",
    executable: bytes | None = None,
) -> list[str]:
    """Keys of a job from exact to loose.

    Parameters
    ----------
    user : str
        Numeric user id, decimal.
    shape : str
        ``<ntasks>x<cpus per task>``.
    script, name, account : bytes
        Empty where the job has none.
    executable : bytes, optional
        The program of the script's last launch line; None where none was found.
    """

    def key(kind: str, first: bytes, second: bytes) -> str:
        return kind + digest(b"\0".join((first, second, shape.encode())))

    keys = []
    if script:
        keys.append(key("s", user.encode(), digest(normalise(script)).encode()))
    if name:
        keys.append(key("n", user.encode(), name))
    if executable is not None:
        keys.append(key("x", account, executable))
    return keys
