"""A lab as a whole: bring it up, use it, look at it, take it down."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slurm_topo.errors import LabError
from slurm_topo.lab import daemons, files, machine, nodeconf, shell, state
from slurm_topo.lab.host import check_machine, check_root
from slurm_topo.lab.integrate import command as slurm_topo_command
from slurm_topo.lab.layout import Layout, check_folder
from slurm_topo.lab.options import LabOptions
from slurm_topo.lab.processes import find_keepers, is_alive, kill, members

Say = Callable[[str], None]
_READY_STATES = ("idle", "alloc", "mix", "comp")
_STOP_SECONDS = 10


class Lab:
    """A throwaway Slurm cluster on this machine; everything of it lives below one folder.

    Parameters
    ----------
    folder
        The lab's folder; it need not exist before :meth:`up`.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = check_folder(Path(folder))

    @property
    def keeper(self) -> int | None:
        """Process 1 of the lab, as this machine numbers it; None when the lab does not run."""
        return next(iter(find_keepers(self.folder)), None)

    @property
    def layout(self) -> Layout:
        """Paths, names and addresses of the lab that is or was in the folder.

        Raises
        ------
        LabError
            There has been none.
        """
        found = state.read(self.folder)
        if found is None:
            raise LabError(
                f"{self.folder}: no lab there; run `slurm-topo lab up`, or give its folder with --dir"
            )
        return Layout(self.folder, found.number, found.options)

    def running(self) -> int:
        """Process 1 of the lab.

        Raises
        ------
        LabError
            The lab does not run, or has not come up completely.
        """
        keeper, found = self.keeper, state.read(self.folder)
        if keeper is None or found is None or not found.complete:
            raise LabError(
                f"{self.folder}: no lab runs there; run `slurm-topo lab up`, or give its folder with --dir"
            )
        return keeper

    def up(self, options: LabOptions, say: Say = lambda text: None) -> bool:
        """Bring the lab up, or start its dead daemons again; returns False when it ran already.

        Raises
        ------
        LabError
            It runs with other options, packages are missing, or a part does not start (all is taken down).
        """
        check_machine()
        state.claim(self.folder)
        with state.lock(self.folder):
            keeper, found = self.keeper, state.read(self.folder)
            if keeper is not None and found is not None and found.complete and self._has_hosts(keeper):
                if found.options != options:
                    changes = ", ".join(found.options.differences(options))
                    raise LabError(
                        f"{self.folder}: a lab runs with other options: {changes}; run `lab down` first"
                    )
                return self._repair(keeper, say)
            self._destroy(say if keeper else lambda text: None)
            try:
                self._build(options, say)
            except BaseException:
                machine.destroy(self.folder)
                raise
        return True

    def _has_hosts(self, keeper: int) -> bool:
        lab, layout = members(keeper), self.layout
        return all(daemons.holder(layout, node.name, lab) for node in layout.nodes)

    def _repair(self, keeper: int, say: Say) -> bool:
        layout, lab = self.layout, members(keeper)
        files.write_integration(layout)
        dead = [d for d in daemons.daemons(layout) if daemons.find(d, lab) is None]
        for daemon in dead:
            say(f"starting {daemon.role} again")
            daemons.start(layout, daemon, keeper)
            daemons.wait_ready(daemon, keeper)
        if dead:
            self._wait_for_nodes(layout, keeper)
        return bool(dead)

    def _build(self, options: LabOptions, say: Say) -> None:
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        for name in ("run", "log"):
            (self.folder / name).mkdir(exist_ok=True)
        # The folder is a lab's from here on, whatever happens next.
        state.write(self.folder, state.State(options, 0, complete=False))
        say("namespaces and links")
        keeper = machine.start_keeper(self.folder)
        layout = machine.connect(self.folder, options, keeper)
        state.write(self.folder, state.State(options, layout.number, complete=False))
        files.write_files(layout)
        machine.make_login(layout, keeper)
        machine.make_nodes(layout, keeper)
        self._start_daemons(layout, keeper, say)
        say("waiting for the nodes")
        self._wait_for_nodes(layout, keeper)
        state.write(self.folder, state.State(options, layout.number, complete=True))

    def _start_daemons(self, layout: Layout, keeper: int, say: Say) -> None:
        files.make_database(layout, keeper, say)
        everything = daemons.daemons(layout)
        central = [d for d in everything if not d.role.startswith("slurmd@")]
        for daemon in central:
            say(f"starting {daemon.role}")
            daemons.start(layout, daemon, keeper)
            daemons.wait_ready(daemon, keeper)
        for daemon in everything[len(central) :]:
            say(f"starting {daemon.role}")
            daemons.start(layout, daemon, keeper)

    def _wait_for_nodes(self, layout: Layout, keeper: int) -> None:
        def all_ready() -> bool:
            states = self.node_states(keeper)
            return all(states.get(node.name, "") in _READY_STATES for node in layout.nodes)

        shell.wait_until(all_ready, 60, "nodes", lambda: None if is_alive(keeper) else "the lab has ended")

    def node_states(self, keeper: int) -> dict[str, str]:
        """State of each node in Slurm's words; empty while the controller does not answer."""
        command = self._enter(keeper, ["sinfo", "--noheader", "--Node", "--format", "%N %t"])
        result = shell.run(command, environ=self.env, check=False)
        return dict(line.split(None, 1) for line in result.stdout.splitlines() if " " in line)

    def exports(self) -> dict[str, str]:
        """The variables with which Slurm's commands, slurm-topo and MPI programs find the lab."""
        layout = self.layout
        found = {"SLURM_CONF": str(layout.etc("slurm.conf")), "SLURM_TOPO_LAB_DIR": str(self.folder)}
        if layout.options.integrate:
            found["SLURM_TOPO_CONFIG"] = str(layout.etc("slurm-topo.toml"))
        return {**found, **nodeconf.mpi_environment()}

    @property
    def env(self) -> dict[str, str]:
        """This process's environment with :meth:`exports`; ``slurm-topo`` is in PATH."""
        path = os.environ.get("PATH", os.defpath).split(":")
        ours = os.path.dirname(slurm_topo_command())
        return {**os.environ, "PATH": ":".join(path if ours in path else [*path, ours]), **self.exports()}

    def _enter(self, keeper: int, command: Sequence[str]) -> list[str]:
        return shell.enter(keeper, command)

    def argv(self, command: Sequence[str], user: str | None = None, cwd: str | None = None) -> list[str]:
        """Arguments that run a command on the login host of the running lab, with :attr:`env`.

        Parameters
        ----------
        command
            The command and its arguments.
        user
            Run as this user of the machine; None: as the caller.
        cwd
            Directory to run in; None: the current one.
        """
        keeper = self.running()
        # The command ends with the nsenter around it: a time-out kills only that.
        inner = ["setpriv", "--pdeathsig=TERM"]
        if user:
            account = account_of(user)
            inner += [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups"]
            inner += ["--", "env", f"HOME={account.pw_dir}", f"USER={user}", f"LOGNAME={user}"]
        else:
            inner.append("--")
        # Entering a mount namespace leads to its root directory.
        change = 'cd "$1" 2>/dev/null || cd /; shift; exec "$@"'
        return self._enter(keeper, ["sh", "-c", change, "sh", cwd or os.getcwd(), *inner, *command])

    def run(
        self,
        command: Sequence[str],
        *,
        user: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        input: str | None = None,  # noqa: A002 - as in subprocess.run
        timeout: float | None = 300,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the login host and capture its output, as ``subprocess.run``; `env` is added."""
        return subprocess.run(
            self.argv(command, user, None if cwd is None else os.fspath(cwd)),
            env={**self.env, **(env or {})},
            input=input,
            text=True,
            errors="replace",
            capture_output=True,
            timeout=timeout,
            check=check,
        )

    def down(self, say: Say = lambda text: None, purge: bool = False) -> bool:
        """Take the lab down; returns False when it did not run.

        Parameters
        ----------
        say
            Told what is being done.
        purge
            Delete the folder, too; jobs and daemons are then just killed.

        Raises
        ------
        LabError
            The folder is no lab's, or a process cannot be ended.
        """
        check_root()
        if not state.is_lab(self.folder) and self.keeper is None:
            raise LabError(f"{self.folder}: no lab there; give its folder with --dir")
        existed = self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        with state.lock(self.folder):
            ran = self.keeper is not None
            self._destroy(say, in_order=not purge)
            if purge or not existed:
                shutil.rmtree(self.folder)
        return ran

    def _destroy(self, say: Say, in_order: bool = True) -> None:
        keeper, found = self.keeper, state.read(self.folder)
        if in_order and keeper is not None and found is not None and found.complete:
            try:
                self._stop_daemons(Layout(self.folder, found.number, found.options), keeper, say)
            except LabError:
                # What does not stop in order is killed below.
                say("a daemon does not stop; killing it")
        if keeper is not None:
            say("ending all processes")
        machine.destroy(self.folder)
        shutil.rmtree(self.folder / "run", ignore_errors=True)

    def _stop_daemons(self, layout: Layout, keeper: int, say: Say) -> None:
        """End jobs and daemons in order, so that the accounting is complete and nothing needs recovery."""
        central = [d for d in daemons.daemons(layout) if not d.role.startswith("slurmd@")]
        alive = {d.role: process for d in central if (process := daemons.find(d, members(keeper)))}
        if {"munged", "slurmctld"} <= alive.keys():
            say("cancelling jobs")
            self._cancel_jobs(keeper)
        for role in ("slurmctld", "slurmdbd", "mariadbd"):
            if role in alive:
                say(f"stopping {role}")
                pid = alive[role].pid
                kill(pid, signal.SIGTERM)
                shell.wait_until(lambda pid=pid: not is_alive(pid), _STOP_SECONDS, role)  # type: ignore[misc]

    def _cancel_jobs(self, keeper: int) -> None:
        def slurm(*command: str) -> str:
            entered = self._enter(keeper, command)
            return shell.run(entered, environ=self.env, check=False, timeout=_STOP_SECONDS).stdout

        if slurm("squeue", "--noheader", "--format", "%i").strip():
            slurm("scancel", "--state=RUNNING")
            slurm("scancel", "--state=SUSPENDED")
            shell.wait_until(
                lambda: not slurm("squeue", "--noheader", "--states=R,CG,S", "--format", "%i").strip(),
                _STOP_SECONDS,
                "jobs",
            )


def account_of(user: str) -> pwd.struct_passwd:
    """The account of a user of this machine.

    Raises
    ------
    LabError
        There is none.
    """
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise LabError(
            f"--user {user}: this machine has no such user; give an existing one, for example nobody"
        ) from None
