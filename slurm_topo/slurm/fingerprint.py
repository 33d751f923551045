"""Fingerprint keys of a job: the twin of ``job_submit/slurm_topo/fingerprint.lua`` (docs/formats.md)."""

from __future__ import annotations

import re

PRIMES = (17592186044399, 17592186044299)
_CUT, _HALF = 8192, 4096
# Names that many different programs have, and names of jobs that say nothing.
_GENERIC = frozenset(
    b"a.out main main.exe test run app prog program exe job start launch run.sh job.sh start.sh main.py "
    b"run.py app.py test.py train.py".split()
)
_NAMELESS = frozenset(
    b"wrap sbatch interactive bash sh job run run.sh job.sh submit.sh slurm.sh batch.sh".split()
)


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

    Of a script longer than 8,192 bytes the first and the last 4,096; then without carriage returns, blanks at
    line ends, empty lines, comments, and options of sbatch other than ``--export``.
    """
    if len(script) > _CUT:
        script = script[:_HALF] + script[-_HALF:]
    lines = (line.rstrip(b" \t") for line in script.replace(b"\r", b"").split(b"\n"))
    return b"\n".join(line for line in lines if line and _counts(line))


def _counts(line: bytes) -> bool:
    comment = line.lstrip(b" \t").startswith(b"#")
    return not comment or (line.startswith(b"#SBATCH") and b"--export" in line)


def program_of(executable: bytes) -> bytes:
    """The program without the folders that its words are in.

    Examples
    --------
    >>> program_of(b"/usr/bin/python3 /home/ada/halo.py")
    b'python3 halo.py'
    """
    return b" ".join(word.rsplit(b"/", 1)[-1] for word in executable.split())


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

    def key(kind: str, *fields: bytes) -> str:
        return kind + digest(b"\0".join((*fields, shape.encode())))

    program = None if executable is None else program_of(executable)
    telling = program is not None and re.split(rb"[ \t\n\v\f\r]", program)[-1] not in _GENERIC
    keys = []
    if script:
        keys.append(key("s", user.encode(), digest(normalise(script)).encode()))
    if name and telling:
        keys.append(key("n", user.encode(), re.sub(rb"[0-9]+", b"0", name), program or b""))
    elif re.search(rb"[A-Za-z]", name) and name not in _NAMELESS:
        keys.append(key("n", user.encode(), name, program or b""))
    if telling and program is not None and executable is not None:
        keys.append(key("u", user.encode(), program))
        if b"$" not in executable:
            keys.append(key("x", account, executable))
    return keys


def program_key(user: str, program: int, ranks: int) -> str:
    """Key of a program of the history on so many ranks: the twin of ``st_program_key`` in spank/advice.c."""
    return "p" + digest(b"\0".join((user.encode(), str(program).encode(), str(ranks).encode())))


def step_keys(user: str, command: bytes, executable: bytes, ranks: int) -> list[str]:
    """Keys of a step: of all its words, and of its program alone; words joined by blanks."""
    return [
        kind + digest(b"\0".join((user.encode(), words, str(ranks).encode())))
        for kind, words in (("c", command), ("e", executable))
    ]
