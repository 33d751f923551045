"""The parts of slurm_topo on this host: the plugin and its line, settings, spool, advice."""

from __future__ import annotations

import ctypes
import os
import pwd
import re
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from slurm_topo.config import Settings
from slurm_topo.doctor.conf import PluginLine, SlurmConf, read_plugstack
from slurm_topo.doctor.finding import Finding
from slurm_topo.errors import SlurmTopoError
from slurm_topo.slurm.command import Runner

# Arguments of the plugin that name a file or folder, and what must be true of it (all: docs/spank.md).
PATHS = {"spool": os.W_OK, "local_dir": os.W_OK, "tracer": os.R_OK, "place": os.X_OK, "config": os.R_OK}
OTHERS = ("kill_switch", "deadline_ms", "collect_ms", "memory", "gpus", "openmp", "mpirun")
# File systems that one host has for itself, unless somebody exports them.
LOCAL_FILESYSTEMS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "zfs", "overlay", "f2fs", "ramfs")
STALE_S = 86_400.0
INCLUDE = "include /etc/slurm/plugstack.conf.d/*.conf"


def check_plugin(conf: SlurmConf, settings: Settings, run: Runner | None) -> Iterator[Finding]:
    """plugstack.conf, the line of the plugin, and what it names."""
    path, lines, error = read_plugstack(conf)
    if not lines:
        yield Finding(
            *("plugin-not-loaded", "error", str(path)),
            error.lower() or "no line of it loads slurm_topo.so",
            "no job is traced, placed or bound",
            f"write: {INCLUDE}, and copy conf/plugstack.conf.d/slurm-topo.conf there",
        )
        return
    if len(lines) > 1:
        yield Finding(
            *("plugin-twice", "error", str(lines[1].file)),
            f"slurm_topo.so is loaded {len(lines)} times",
            "Slurm refuses an option that is registered twice",
            "remove all but one of the lines",
        )
    for line in lines:
        yield from _line(line, settings, run)


def _line(line: PluginLine, settings: Settings, run: Runner | None) -> Iterator[Finding]:
    where = str(line.file)
    if line.kind == "required":
        yield Finding(
            *("plugin-required", "error", where),
            "the plugin is `required`",
            "if its file were ever missing, every srun and sbatch would fail",
            f"write: optional {line.plugin} ...",
        )
    if not line.plugin.exists():
        yield Finding(
            *("plugin-missing", "error", where),
            f"{line.plugin} is not there",
            "no job is traced, placed or bound",
            "run: make install on this host",
        )
    elif run is not None:
        yield from _version(line.plugin, run)
    for name, value in line.arguments.items():
        if name not in PATHS and name not in OTHERS:
            yield Finding(
                *("plugin-argument", "error", where),
                f"the argument {name}={value} is unknown",
                "the plugin does nothing and each command prints an error",
                f"known are {', '.join((*PATHS, *OTHERS))}",
            )
        elif name in PATHS and not os.access(value, PATHS[name]):
            there = "cannot be used" if os.path.exists(value) else "is not there"
            yield Finding(
                *(f"plugin-{name.replace('_', '-')}", "error", where),
                f"{name}={value}: {there}",
                "jobs run as Slurm alone would run them, with a record of why",
                "correct the path, or run: make install",
            )
    for name in ("tracer", "place"):
        if name not in line.arguments:
            yield Finding(
                *(f"plugin-{name}", "warning", where),
                f"there is no {name}=",
                f"nothing is {'traced' if name == 'tracer' else 'placed'}",
                "take the line of conf/plugstack.conf.d/slurm-topo.conf",
            )
    for name, key in (("spool", settings.spool), ("kill_switch", settings.kill_switch)):
        said = line.arguments.get(name)
        if said and os.path.realpath(said) != os.path.realpath(key):
            yield Finding(
                *(f"{name.replace('_', '-')}-differs", "error", where),
                f"{name}={said}, the settings have {key}",
                "one part writes where the other does not look",
                f"write {name}={key}, or change the setting",
            )


def plugin_release(plugin: Path) -> tuple[int, int, int] | None:
    """Slurm release that the plugin was built for, None where it does not say."""
    try:
        number = ctypes.c_uint32.in_dll(ctypes.CDLL(str(plugin), mode=os.RTLD_LAZY), "plugin_version").value
    except (OSError, ValueError):
        return None
    return number >> 16 & 0xFF, number >> 8 & 0xFF, number & 0xFF


def _version(plugin: Path, run: Runner) -> Iterator[Finding]:
    built = plugin_release(plugin)
    if built is None:
        yield Finding(
            *("plugin-damaged", "error", str(plugin)),
            "cannot be loaded, or is no SPANK plugin",
            "no job is traced, placed or bound",
            "run: make install on this host",
        )
        return
    try:
        found = re.search(r"(\d+)\.(\d+)", run(["scontrol", "--version"]))
    except SlurmTopoError:
        return
    if found and built[:2] != (int(found[1]), int(found[2])):
        yield Finding(
            *("plugin-other-slurm", "error", str(plugin)),
            f"built for Slurm {built[0]}.{built[1]:02}, this is {found[1]}.{found[2]}",
            "Slurm does not load plugins of another release",
            "build it again with this release's headers: make install",
        )


def check_site(conf: SlurmConf, settings: Settings, config_file: str | None) -> Iterator[Finding]:
    """Settings, spool, advice directory, kill switch."""
    if config_file and _others_may_write(Path(config_file)):
        yield Finding(
            *("settings-mode", "error", config_file),
            "anybody may write it",
            "any user could change where files are read from",
            f"run: chmod 644 {config_file}",
        )
    if os.path.exists(settings.kill_switch):
        yield Finding(
            *("kill-switch-on", "warning", settings.kill_switch),
            "it exists",
            "every part stands down",
            f"run: rm {settings.kill_switch}",
        )
    yield from _spool(Path(settings.spool), len(conf.nodes))
    yield from _advice(Path(settings.advice_dir), conf.get("SlurmUser", "root"))


def _others_may_write(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & stat.S_IWOTH)
    except OSError:
        return False


def _spool(spool: Path, nodes: int) -> Iterator[Finding]:
    try:
        mode = spool.stat().st_mode
    except OSError as error:
        yield Finding(
            *("spool-missing", "error", str(spool)),
            (error.strerror or "cannot be read").lower(),
            "nothing can be recorded, traced or placed",
            f"run: mkdir -p -m 1777 {spool}",
        )
        return
    if not stat.S_ISDIR(mode) or stat.S_IMODE(mode) != 0o1777:
        yield Finding(
            *("spool-mode", "error", str(spool)),
            f"its mode is {stat.S_IMODE(mode):o}",
            "users cannot make their folders in it, or could remove one another's",
            f"run: chmod 1777 {spool}",
        )
    kind = filesystem(spool)
    if nodes > 1 and kind in LOCAL_FILESYSTEMS:
        yield Finding(
            *("spool-local", "note", str(spool)),
            f"it lies on {kind} here",
            "all nodes have to see the same folder",
            "run: slurm-topo doctor --probe, which asks the nodes",
        )


def filesystem(path: Path) -> str:
    """Type of the file system that a path lies on; empty where that is not known."""
    best, kind = "", ""
    try:
        mounts = Path("/proc/self/mounts").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    real = os.path.realpath(path) + "/"
    for line in mounts:
        fields = line.split()
        if len(fields) > 2 and real.startswith(fields[1].rstrip("/") + "/") and len(fields[1]) >= len(best):
            best, kind = fields[1], fields[2]
    return kind


def _advice(folder: Path, user: str) -> Iterator[Finding]:
    try:
        about = folder.stat()
    except OSError as error:
        yield Finding(
            *("advice-missing", "error", str(folder)),
            (error.strerror or "cannot be read").lower(),
            "no job is recognised",
            f"run: mkdir -p -m 755 {folder}; slurm-topo sync",
        )
        return
    if not _may_read(about, user):
        yield Finding(
            *("advice-mode", "error", str(folder)),
            f"SlurmUser {user} may not read it (mode {stat.S_IMODE(about.st_mode):o})",
            "no job is recognised",
            f"run: chmod 755 {folder}",
        )
    if about.st_mode & stat.S_IWOTH:
        yield Finding(
            *("advice-writable", "error", str(folder)),
            "anybody may write in it",
            "any user could tell the hook what to do with others' jobs",
            f"run: chmod 755 {folder}",
        )
    newest = max((entry.stat().st_mtime for entry in os.scandir(folder)), default=about.st_mtime)
    if time.time() - max(newest, about.st_mtime) > STALE_S:
        yield Finding(
            *("sync-stale", "warning", str(folder)),
            f"nothing was published for {(time.time() - newest) / STALE_S:.0f} days",
            "what was traced since then is not used",
            "run: systemctl enable --now slurm-topo-sync.timer (or look why sync fails)",
        )


def _may_read(about: os.stat_result, user: str) -> bool:
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        return True
    if entry.pw_uid == 0:
        return True
    if entry.pw_uid == about.st_uid:
        return about.st_mode & 0o500 == 0o500
    if about.st_gid in os.getgrouplist(user, entry.pw_gid):
        return about.st_mode & 0o050 == 0o050
    return about.st_mode & 0o005 == 0o005


PROBE = (
    'h=$(hostname -s); for f in "$@"; do kind=${f%%:*}; path=${f#*:}; '
    'case $kind in w) test -w "$path";; r) test -r "$path";; x) test -x "$path";; esac '
    '|| echo "$h $kind:$path"; done; echo "$h seen"'
)


def probe(
    nodes: Sequence[str], settings: Settings, lines: Sequence[PluginLine], run: Runner
) -> Iterator[Finding]:
    """Ask all nodes, in a job of one task each, whether they see what this host sees.

    Raises
    ------
    SlurmError
        The job cannot run.
    """
    marker = Path(settings.spool) / f".doctor-{os.getpid()}"
    wanted = [f"r:{marker}", f"w:{settings.spool}", f"w:{settings.local_dir}"]
    for line in lines:
        wanted.append(f"r:{line.plugin}")
        wanted += [f"r:{line.arguments[name]}" for name in ("tracer",) if name in line.arguments]
        wanted += [f"x:{line.arguments[name]}" for name in ("place",) if name in line.arguments]
    marker.touch()
    try:
        text = run(
            [
                *("srun", "--quiet", "--topo=off", f"--nodes={len(nodes)}", "--ntasks-per-node=1"),
                *("--cpus-per-task=1", "--immediate=30", "--time=1", "--mpi=none"),
                *("sh", "-c", PROBE, "probe", *wanted),
            ]
        )
    finally:
        marker.unlink(missing_ok=True)
    yield from _answers(text, marker, len(nodes))


def _answers(text: str, marker: Path, nodes: int) -> Iterator[Finding]:
    missing: dict[str, list[str]] = {}
    seen = 0
    for line in text.splitlines():
        host, _, what = line.partition(" ")
        seen += what == "seen"
        if what != "seen" and ":" in what:
            missing.setdefault(what, []).append(host)
    for what, hosts in missing.items():
        kind, _, path = what.partition(":")
        name = "spool-not-shared" if path == str(marker) else "node-file-missing"
        said = {"r": "is not to be read", "w": "cannot be written", "x": "cannot be run"}[kind]
        shared = name == "spool-not-shared"
        yield Finding(
            *(name, "error", ",".join(sorted(hosts))),
            f"{marker.parent} is another folder there than here" if shared else f"{path} {said}",
            "jobs on these nodes are neither traced nor placed",
            "export the spool to all nodes" if shared else "install slurm_topo there, too",
        )
    if seen < nodes:
        yield Finding(
            *("probe-incomplete", "warning", "srun"),
            f"{seen} of {nodes} nodes answered",
            "the others were not checked",
            "look at `sinfo -R`",
        )
