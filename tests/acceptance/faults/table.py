"""What is broken, how, and whose it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Fault:
    """One way to break one part.

    Attributes
    ----------
    name, part : str
        What is wrong, and with what.
    scope : str
        ``user``: in one user's spool or search, done by the shell command `command` as that user (`root`: as
        root); ``job``: `command` runs in the job before its launch; ``site``: `command` runs as root, and
        `mend` after it; ``event``: something that the harness does again and again meanwhile.
    spool : str
        ``mount``: needs a user whose spool folder is a small file system; ``plain``: one whose is none.
    """

    name: str
    part: str
    scope: Literal["user", "job", "site", "event"]
    command: str = ""
    mend: str = ""
    root: bool = False
    spool: str = ""
    env: dict[str, str] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(self.name)


def _user(part: str, faults: dict[str, str], **values: object) -> list[Fault]:
    return [Fault(name, part, "user", command, **values) for name, command in faults.items()]  # type: ignore[arg-type]


# U: the user's spool folder, M: the file that tells the search how to break.
_MODES = (
    "hang crash killed fail silent noisy children rubbish empty truncated version elsewhere other crowded "
    "fifo folder link clock"
)
USER: list[Fault] = [
    *_user("search", {f"search: {mode}": f"echo {mode} > $M" for mode in _MODES.split()}),
    *_user(
        "graph",
        {
            "graph missing": "rm -f $U/graphs/*",
            "graph truncated": "for f in $U/graphs/*; do truncate -s 100 $f; done",
            "graph empty": "for f in $U/graphs/*; do : > $f; done",
            "graph of another version": "for f in $U/graphs/*; do printf 'PK\\003\\004 version 9' > $f; done",
            "graph unreadable": "chmod 000 $U/graphs/*",
            "graph a link": "for f in $U/graphs/*; do rm $f; ln -s /etc/passwd $f; done",
            "graph a folder": "for f in $U/graphs/*; do rm $f; mkdir $f; done",
            "graph a FIFO": "for f in $U/graphs/*; do rm $f; mkfifo $f; done",
            "graphs missing": "rm -rf $U/graphs",
            "graphs a link": "rm -rf $U/graphs; ln -s /tmp $U/graphs",
        },
    ),
    *_user("graph", {"graph of somebody else": "chown 1:1 $U/graphs/*"}, root=True),
    *_user(
        "spool",
        {
            "plans a link": "rm -rf $U/plans; ln -s /tmp $U/plans",
            "plans a file": "rm -rf $U/plans; : > $U/plans",
            "plans closed": "mkdir -p $U/plans; chmod 500 $U/plans",
            "records a link": "rm -rf $U/records; ln -s /tmp $U/records",
            "records a FIFO": "rm -rf $U/records; mkfifo $U/records",
            "spool open to others": "chmod 777 $U",
            "spool closed": "chmod 000 $U",
        },
    ),
    *_user("spool", {"plans of somebody else": "mkdir -p $U/plans; chown 1:1 $U/plans"}, root=True),
    *_user(
        "spool",
        {
            "spool gone": "rm -rf $U",
            "spool a link": "rm -rf $U; ln -s /tmp $U",
            "spool a file": "rm -rf $U; : > $U",
        },
        spool="plain",
    ),
    *_user(
        "disk",
        {
            "disk full": "head -c 100m /dev/zero > $U/filler 2>/dev/null; true",
            "inodes full": "mkdir -p $U/fill; i=0; "
            "while : > $U/fill/$i; do i=$((i+1)); done 2>/dev/null; true",
        },
        spool="mount",
    ),
]
JOB: list[Fault] = [
    Fault(name, "job", "job", command)
    for name, command in {
        "PATH rubbish": "export PATH=/nonexistent:/dev/null",
        "environment rubbish": "export SLURM_TOPO_JOB_GRAPH=../../etc/passwd SLURM_TOPO_JOB_PLAN=/etc/shadow "
        "SLURM_TOPO_JOB_COUNTERS=/root SLURM_TOPO_JOB_LAUNCH='spool=/ place=/bin/false' "
        "LC_ALL=xx_YY TZ=:/dev/zero",
        "numbers rubbish": "export SLURM_JOB_CPUS_PER_NODE='9999999999(x99999999)' "
        "SLURM_TASKS_PER_NODE=rubbish",
        "settings rubbish": "export SLURM_TOPO_BUDGET_S=never SLURM_TOPO_NONSENSE=1 "
        "SLURM_TOPO_CONFIG=/dev/zero",
        "Python rubbish": "export PYTHONHOME=/nonexistent PYTHONPATH=/nonexistent PYTHONSTARTUP=/dev/zero",
        "home and temporary folder gone": "export HOME=/nonexistent TMPDIR=/nonexistent",
        "file size 0": "exec 3>&1 4>&2 > >(cat >&3) 2> >(cat >&4); ulimit -f 0",
        "few descriptors": "ulimit -n 24",
        "no core, no lock": "ulimit -c 0 -l 0",
        "small address space": "ulimit -v 400000",
        "few processes": "ulimit -u 4000",
        "counters a link": "rm -rf /dev/shm/slurm-topo-$UID; ln -s /tmp /dev/shm/slurm-topo-$UID",
        "counters a file": "rm -rf /dev/shm/slurm-topo-$UID; : > /dev/shm/slurm-topo-$UID",
        "counters open": "mkdir -p /dev/shm/slurm-topo-$UID; chmod 777 /dev/shm/slurm-topo-$UID",
    }.items()
]
# A: the advice, S: the spool, C: the settings file, L: a copy of the libraries that plugstack.conf names,
# H: a copy of the hook, K: whole copies of all that; P: the search; B: the database.
_ADVICE = 'find $A -type f -name "[snx]*"'
_MEND_ADVICE = "rm -rf $A; cp -a $K/advice $A"
_MEND_CLUSTER = "rm -rf $S/cluster.json; cp -a $K/cluster.json $S/cluster.json"
_MEND_LIBRARIES = "for f in $K/lib/*; do cp -a $f $L/new && mv -f $L/new $L/${f##*/}; done"
_MEND_CONFIG = "rm -rf $C; cp -a $K/slurm-topo.toml $C"
_MEND_HOOK = "rm -rf $H; cp -a $K/hook $H"


def _site(part: str, mend: str, faults: dict[str, str]) -> list[Fault]:
    return [Fault(name, part, "site", command, mend) for name, command in faults.items()]


def _swap(path: str, how: str) -> str:
    """Put something else in the place of a file that others have open or mapped."""
    return f"rm -rf {path}; {how}"


SITE: list[Fault] = [
    *_site(
        "advice",
        _MEND_ADVICE,
        {
            "advice gone": "rm -rf $A",
            "advice a file": "rm -rf $A; : > $A",
            "advice a link": "mv $A $A.moved; ln -s $A.moved $A; sleep 0.1; rm -rf $A.moved",
            "site file missing": "rm -f $A/site",
            "site file truncated": "truncate -s 30 $A/site",
            "site file of another version": "sed -i 1s/1/2/ $A/site",
            "site file a FIFO": "rm -f $A/site; mkfifo $A/site",
            "advice truncated": f"for f in $({_ADVICE}); do truncate -s 40 $f; done",
            "advice of another version": f"for f in $({_ADVICE}); do sed -i 1s/1/2/ $f; done",
            "advice a folder": f"for f in $({_ADVICE}); do rm $f; mkdir $f; done",
            "advice a FIFO": f"for f in $({_ADVICE}); do rm $f; mkfifo $f; done",
            "advice oversized": f"for f in $({_ADVICE}); do head -c 100000 /dev/zero >> $f; done",
            "graph in advice unknown": f"for f in $({_ADVICE}); do "
            "sed -i 's/^graph .*/graph 0123456789abcdef/' $f; done",
        },
    ),
    *_site(
        "cluster description",
        _MEND_CLUSTER,
        {
            "description missing": "rm -f $S/cluster.json",
            "description truncated": "truncate -s 60 $S/cluster.json",
            "description of another version": 'sed -i \'s/"version": 1/"version": 9/\' $S/cluster.json',
            "description unreadable": "chmod 000 $S/cluster.json",
            "description of somebody else": "chown 1:1 $S/cluster.json",
            "description a FIFO": "rm -f $S/cluster.json; mkfifo $S/cluster.json",
            "description a folder": "rm -f $S/cluster.json; mkdir $S/cluster.json",
            "description of other nodes": "sed -i 's/n\\[/m[/' $S/cluster.json",
        },
    ),
    *_site(
        "settings",
        _MEND_CONFIG,
        {
            "settings missing": "rm -f $C",
            "settings rubbish in the file": "head -c 500 /dev/urandom > $C",
            "settings with an unknown key": "echo 'colour = 1' >> $C",
            "settings a FIFO": "rm -f $C; mkfifo $C",
            "settings unreadable": "chmod 000 $C",
        },
    ),
    *_site(
        "libraries",
        _MEND_LIBRARIES,
        {
            "tracer missing": "rm -f $L/libslurm_topo_trace*.so",
            "tracer no library": _swap(
                "$L/libslurm_topo_trace.so", "echo rubbish > $L/libslurm_topo_trace.so"
            ),
            "tracer cut short": _swap(
                "$L/libslurm_topo_trace.so",
                "head -c 70000 $K/lib/libslurm_topo_trace.so > $L/libslurm_topo_trace.so",
            ),
            "library of an MPI cut short": _swap(
                "$L/libslurm_topo_trace_openmpi.so",
                "head -c 9000 $K/lib/libslurm_topo_trace_openmpi.so > $L/libslurm_topo_trace_openmpi.so",
            ),
            "library for mpirun missing": "rm -f $L/libslurm_topo_launch.so",
            "library for mpirun no library": _swap(
                "$L/libslurm_topo_launch.so", "echo rubbish > $L/libslurm_topo_launch.so"
            ),
            "plugin missing": "rm -f $L/slurm_topo.so",
            "plugin no library": _swap("$L/slurm_topo.so", "echo rubbish > $L/slurm_topo.so"),
        },
    ),
    *_site(
        "search",
        "rm -rf $P; cp -a $K/place $P",
        {
            "search missing": "rm -f $P",
            "search not executable": "chmod 644 $P",
            "search without interpreter": "sed -i 1s,/bin/sh,/nonexistent/sh, $P",
        },
    ),
    *_site(
        "hook",
        f"{_MEND_HOOK}; touch $J",
        {
            "hook missing": "rm -rf $H; touch $J",
            "hook without a module": "rm -f $H/slurm_topo/policy.lua; touch $J",
            "hook with an error": "echo 'error(1)' >> $H/slurm_topo/policy.lua; touch $J",
        },
    ),
    *_site("spool", "rm -rf $S; mv $S.away $S", {"spool of all gone": "mv $S $S.away"}),
    *_site("spool", "chmod 1777 $S", {"spool of all closed": "chmod 700 $S"}),
]
EVENT: list[Fault] = [
    Fault("sync runs", "sync", "event"),
    Fault("sync is killed", "sync", "event"),
    Fault("sync with a clock that jumps", "sync", "event"),
    Fault("database locked", "sync", "event"),
    Fault("database corrupt", "sync", "event"),
    Fault("slurmctld restarts", "Slurm", "event"),
    Fault("slurmd restarts", "Slurm", "event"),
    Fault("a node is lost", "Slurm", "event"),
]
