"""The lab under test: users with their own spools, copies of all that is to be broken, ways to break it."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from slurm_topo.lab import daemons
from slurm_topo.lab.cluster import Lab
from slurm_topo.lab.options import LabOptions
from slurm_topo.lab.processes import find_keepers, is_alive, kill, members
from tests.acceptance.faults.table import Fault

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
# Accounts that every Debian has. The first ones have small file systems as spool folders.
USERS = ("games", "news", "man", "backup", "nobody", "www-data", "mail", "lp")
MOUNTED = 3
DEADLINE_MS = 3000
# Many short jobs at once; a job that ended is soon forgotten by slurmctld (and kept in the accounting).
QUICK = {
    "MinJobAge": "300",
    "MaxJobCount": "200000",
    "SlurmdTimeout": "30",
    "SchedulerParameters": "batch_sched_delay=0,sched_interval=1,bf_interval=2,default_queue_depth=1000,"
    "sched_min_interval=100000,bf_max_job_test=1000,max_rpc_cnt=150",
}


@dataclass
class User:
    """One lane of jobs."""

    name: str
    uid: int
    gid: int
    mounted: bool
    spool: Path
    kept: Path
    mode: Path
    folder: Path
    count: int = 0
    graphs: set[str] = field(default_factory=set)


class Site:
    """The lab, and the shell variables by which the table of faults names its parts."""

    def __init__(self, folder: Path) -> None:
        self.lab = Lab(folder)
        self.work = folder.with_name(folder.name + "-work")
        # Not the lab's own: it must be there, with its mounts, before the lab is.
        self.spool = self.work / "spool"
        self.mounts: list[Path] = []
        self.users: list[User] = []
        self.lock = threading.Lock()

    # --- coming and going

    def up(self) -> None:
        self.work.mkdir()
        self.work.chmod(0o755)
        self._make_users()
        self.lab.up(LabOptions(nodes=6, switches=2, link_speed="1gbit", uplink_speed="500mbit"))
        self.env = {**self.lab.env, "PATH": os.environ["PATH"]}
        self._build()
        self._configure()

    def down(self) -> None:
        if self.lab.keeper is not None:
            self.lab.down()
        for mount in self.mounts:
            subprocess.run(["umount", "-l", str(mount)], check=False)
        shutil.rmtree(self.lab.folder, ignore_errors=True)
        shutil.rmtree(self.work, ignore_errors=True)

    def _make_users(self) -> None:
        """Before the lab: its namespaces take over the mounts that there are."""
        self.spool.mkdir()
        self.spool.chmod(0o1777)
        (self.work / "modes").mkdir()
        for number, name in enumerate(USERS):
            account = pwd.getpwnam(name)
            spool, folder = self.spool / str(account.pw_uid), self.work / name
            spool.mkdir(mode=0o700)
            folder.mkdir()
            if number < MOUNTED:
                options = f"size=8m,nr_inodes=3000,mode=700,uid={account.pw_uid},gid={account.pw_gid}"
                subprocess.run(["mount", "-t", "tmpfs", "-o", options, "faults", str(spool)], check=True)
                self.mounts.append(spool)
            mode = self.work / "modes" / str(account.pw_uid)
            mode.touch()
            for path in (spool, folder, mode):
                os.chown(path, account.pw_uid, account.pw_gid)
            kept = self.work / "kept" / name
            kept.mkdir(parents=True)
            self.users.append(
                User(name, account.pw_uid, account.pw_gid, number < MOUNTED, spool, kept, mode, folder)
            )

    def _build(self) -> None:
        source, tools = str(HERE / "programs.c"), self.work
        subprocess.run(["gcc", "-O2", "-D_GNU_SOURCE", "-o", str(tools / "tell"), source], check=True)
        subprocess.run(
            ["mpicc", "-O2", "-D_GNU_SOURCE", "-DPAIRS", "-o", str(tools / "pairs"), source], check=True
        )
        shift = ["gcc", "-O2", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", str(tools / "shift.so")]
        subprocess.run([*shift, str(HERE / "shift.c"), "-ldl"], check=True)
        real = ROOT / ".venv" / "bin" / "slurm-topo"
        text = (HERE / "place.sh").read_text().replace("{folder}", str(tools)).replace("{real}", str(real))
        (tools / "place").write_text(text)
        (tools / "place").chmod(0o755)
        for name in ("job.sh", "batch.sh"):
            shutil.copy(HERE / name, tools / name)
        shutil.copytree(ROOT / "build" / "lib", tools / "lib")
        shutil.copytree(ROOT / "job_submit", tools / "hook")

    def _configure(self) -> None:
        etc = self.lab.layout.etc
        conf = etc("slurm.conf").read_text()
        for key, value in QUICK.items():
            conf = re.sub(rf"^{key}=.*$", f"{key}={value}", conf, flags=re.MULTILINE)
        conf = conf.replace("OverSubscribe=NO", "OverSubscribe=FORCE:6")
        etc("slurm.conf").write_text(conf)
        self.plugstack = (
            f"optional {self.work}/lib/slurm_topo.so spool={self.spool} local_dir=/dev/shm "
            f"tracer={self.work}/lib place={self.work}/place config={etc('slurm-topo.toml')} "
            f"kill_switch={etc('disabled')} deadline_ms={DEADLINE_MS}\n"
        )
        self.hook = etc("job_submit.lua").read_text().replace(f"{ROOT}/job_submit", f"{self.work}/hook")
        settings = etc("slurm-topo.toml").read_text()
        etc("slurm-topo.toml").write_text(settings.replace(f'"{self.lab.layout.spool}"', f'"{self.spool}"'))
        self.integrate(True)
        for node in self.lab.layout.nodes:
            self.restart(f"slurmd@{node.name}")
        self.restart("slurmctld")
        self._wait_for_nodes()

    def integrate(self, wanted: bool) -> None:
        """With our plugin and hook, or the same Slurm without: the control."""
        etc = self.lab.layout.etc
        etc("plugstack.conf").write_text(self.plugstack if wanted else "# nothing\n")
        text = self.hook if wanted else self.hook.replace("local ok, why = pcall", "-- local ok, why = pcall")
        etc("job_submit.lua").write_text(text)
        os.utime(etc("job_submit.lua"), (time.time() + 2, time.time() + 2))

    def keep(self) -> None:
        """Copies of everything as it is while it is whole."""
        kept = self.work / "kept"
        for source, name in (
            (self.lab.layout.advice, "advice"),
            (self.work / "lib", "lib"),
            (self.work / "hook", "hook"),
        ):
            shutil.rmtree(kept / name, ignore_errors=True)
            shutil.copytree(source, kept / name)
        shutil.copy2(self.spool / "cluster.json", kept / "cluster.json")
        shutil.copy2(self.lab.layout.etc("slurm-topo.toml"), kept / "slurm-topo.toml")
        shutil.copy2(self.work / "place", kept / "place")
        for user in self.users:
            shutil.rmtree(user.kept, ignore_errors=True)
            shutil.copytree(user.spool / "graphs", user.kept)

    # --- breaking and mending

    def shell(self, command: str, user: User | None = None, root: bool = True) -> None:
        names = {
            "A": self.lab.layout.advice,
            "S": self.spool,
            "C": self.lab.layout.etc("slurm-topo.toml"),
            "J": self.lab.layout.etc("job_submit.lua"),
            "L": self.work / "lib",
            "H": self.work / "hook",
            "P": self.work / "place",
            "K": self.work / "kept",
        }
        if user:
            names |= {"U": user.spool, "M": user.mode, "G": user.kept}
        environ = {"PATH": os.environ["PATH"], **{name: str(path) for name, path in names.items()}}
        identity = {} if root or not user else {"user": user.uid, "group": user.gid, "extra_groups": []}
        subprocess.run(
            ["bash", "-c", command],
            env=environ,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=120,
            check=False,
            **identity,  # type: ignore[arg-type]
        )

    def break_user(self, user: User, fault: Fault) -> None:
        self.shell(fault.command, user, root=fault.root)

    def mend_user(self, user: User) -> None:
        """Everything in the user's folder but records and traces as it was."""
        self.shell(
            f": > $M; [ -d $U ] && [ ! -L $U ] || {{ rm -rf $U; mkdir $U; }}; "
            f"chown {user.uid}:{user.gid} $U; chmod 700 $U; rm -rf $U/filler $U/fill $U/graphs; "
            "for d in plans records traces; do [ -d $U/$d ] && [ ! -L $U/$d ] || rm -rf $U/$d; done; "
            "rm -rf $U/plans; cp -r $G $U/graphs; chmod -R go= $U; "
            f"chown -R {user.uid}:{user.gid} $U $M; chmod -R u+rwX $U",
            user,
        )

    # --- Slurm's daemons

    def _keeper(self) -> int:
        return next(iter(find_keepers(self.lab.folder)))

    def restart(self, role: str) -> None:
        """Kill a daemon and start it again."""
        keeper = self._keeper()
        daemon = next(d for d in daemons.daemons(self.lab.layout) if d.role == role)
        process = daemons.find(daemon, members(keeper))
        if process:
            os.kill(process.pid, 15)
            for _ in range(200):
                if not is_alive(process.pid):
                    break
                time.sleep(0.05)
            else:
                os.kill(process.pid, 9)
        daemons.start(self.lab.layout, daemon, keeper)
        daemons.wait_ready(daemon, keeper)

    def lose(self, node: str) -> None:
        """Kill everything on a node in one moment, as a power cut does, and switch it on again."""
        keeper = self._keeper()
        for process in daemons.tenants(self.lab.layout, node, members(keeper)):
            kill(process.pid, signal.SIGKILL)
        time.sleep(0.5)
        daemon = next(d for d in daemons.daemons(self.lab.layout) if d.role == f"slurmd@{node}")
        daemons.start(self.lab.layout, daemon, keeper)
        daemons.wait_ready(daemon, keeper)

    def _wait_for_nodes(self) -> None:
        for _ in range(300):
            if all(state in ("idle", "mixed", "allocated") for state in self.node_states().values()):
                return
            time.sleep(0.2)
        raise RuntimeError(f"nodes do not come: {self.node_states()}")

    def node_states(self) -> dict[str, str]:
        """Long state of each node."""
        text = self.slurm("sinfo", "-h", "-N", "-o", "%N %T")
        return dict(line.split() for line in text.splitlines() if line.count(" ") == 1)

    def slurm(self, *command: str) -> str:
        """Output of a Slurm command, from this machine."""
        done = subprocess.run(
            command, env=self.env, capture_output=True, text=True, timeout=120, check=False, cwd="/"
        )
        return done.stdout if done.returncode == 0 else ""

    @contextmanager
    def running(self) -> Iterator[Site]:
        try:
            self.up()
            yield self
        finally:
            self.down()
