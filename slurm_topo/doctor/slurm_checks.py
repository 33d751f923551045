"""slurm.conf and the files beside it: what Slurm is told, against what slurm_topo needs of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from slurm_topo.doctor.conf import SlurmConf, pairs_of
from slurm_topo.doctor.finding import Finding
from slurm_topo.errors import SlurmTopoError
from slurm_topo.machine.cluster import Cluster
from slurm_topo.machine.fabrics.slurmconf import parse_topology_conf

HOOK = "/usr/share/slurm-topo/job_submit/slurm_topo.lua"
PLUGIN_DIRS = (
    "/usr/lib/x86_64-linux-gnu/slurm-wlm",
    "/usr/lib/aarch64-linux-gnu/slurm-wlm",
    "/usr/lib64/slurm",
)


def check_slurm(conf: SlurmConf) -> Iterator[Finding]:
    """Settings of slurm.conf."""
    where = str(conf.path)
    if "lua" not in conf.words("JobSubmitPlugins"):
        named = ",".join([*conf.words("JobSubmitPlugins"), "lua"])
        yield Finding(
            *("job-submit-lua-off", "error", where),
            "JobSubmitPlugins does not name lua",
            "no job is recognised, so nothing is ever traced or placed",
            f"write: JobSubmitPlugins={named}",
        )
    folders = conf.get("PluginDir").split(":") if conf.get("PluginDir") else list(PLUGIN_DIRS)
    if any(os.path.isdir(folder) for folder in folders) and not any(
        os.path.exists(f"{folder}/job_submit_lua.so") for folder in folders
    ):
        yield Finding(
            *("lua-plugin-missing", "error", ":".join(f for f in folders if os.path.isdir(f))),
            "there is no job_submit_lua.so",
            "slurmctld does not start with JobSubmitPlugins=lua",
            "install Slurm's lua plugin (Debian: apt install slurm-wlm-basic-plugins)",
        )
    tasks = conf.words("TaskPlugin")
    if not any(name in ("task/affinity", "affinity") for name in tasks):
        yield Finding(
            *("task-plugin", "warning", where),
            f"TaskPlugin={','.join(tasks) or 'none'} without task/affinity",
            "Slurm binds no task itself, so a job that is left alone wanders over the node",
            f"write: TaskPlugin={','.join(['task/affinity', *(t for t in tasks if t != 'task/none')])}",
        )
    yield from _selection(conf, where)
    yield from _accounting(conf, where)
    tmp = conf.get("TmpFS")
    folder = re.sub(r"/?%.*", "", tmp)
    if tmp and folder and not os.path.isdir(folder):
        yield Finding(
            *("tmp-fs-missing", "error", where),
            f"TmpFS={tmp}: {folder} is not there",
            "slurmstepd keeps its sockets there; MPI programs do not start",
            f"run: mkdir -m 1777 {folder}",
        )


def _selection(conf: SlurmConf, where: str) -> Iterator[Finding]:
    select = conf.get("SelectType", "select/cons_tres").lower()
    parameters = conf.get("SelectTypeParameters").upper()
    if not select.startswith("select/cons"):
        yield Finding(
            *("select-type", "warning", where),
            f"SelectType={select} gives whole nodes",
            "placement works, but a job can never share a node",
            "write: SelectType=select/cons_tres and SelectTypeParameters=CR_Core_Memory",
        )
    elif re.search(r"CR_CPU", parameters) and any((n.number("threadspercore") or 1) > 1 for n in conf.nodes):
        yield Finding(
            *("select-threads", "warning", where),
            f"SelectTypeParameters={parameters} hands out single hardware threads",
            "two jobs can then share a core, and a rank's core is not its own",
            "write: SelectTypeParameters=CR_Core_Memory",
        )


def _accounting(conf: SlurmConf, where: str) -> Iterator[Finding]:
    if "slurmdbd" not in conf.get("AccountingStorageType"):
        yield Finding(
            *("accounting-off", "warning", where),
            f"AccountingStorageType={conf.get('AccountingStorageType') or 'none'}",
            "sync finds no run times, so nothing can be learnt or reported",
            "write: AccountingStorageType=accounting_storage/slurmdbd",
        )


def check_hook(conf: SlurmConf) -> Iterator[Finding]:
    """job_submit.lua calls the hook, and the hook is there."""
    if "lua" not in conf.words("JobSubmitPlugins"):
        return
    path, text = conf.file("job_submit.lua"), conf.beside["job_submit.lua"]
    if text is None:
        yield Finding(
            *("job-submit-missing", "error", str(path)),
            conf.errors["job_submit.lua"].lower(),
            "slurmctld rejects every job while its script is missing",
            f"run: cp /usr/share/slurm-topo/job_submit/job_submit.lua {path}",
        )
        return
    code = re.sub(r"--.*", "", text)
    called = re.findall(r"[\"']([^\"']*slurm_topo\.lua)[\"']", code)
    if not called:
        yield Finding(
            *("hook-not-called", "error", str(path)),
            "nothing in it calls slurm_topo.lua",
            "no job is recognised, so nothing is ever traced or placed",
            f'write at its end: local ok, why = pcall(dofile, "{HOOK}")',
        )
    for file in called:
        if not os.path.exists(file):
            yield Finding(
                *("hook-missing", "error", str(path)),
                f"it calls {file}, which is not there",
                "no job is recognised (the site's own rules still work where the call is a pcall)",
                "run: make install, or correct the path",
            )
    if called and not re.search(r"pcall\s*\(\s*dofile", code):
        yield Finding(
            *("hook-unprotected", "error", str(path)),
            "slurm_topo.lua is called without pcall",
            "a fault in it would reject every job",
            f'write: local ok, why = pcall(dofile, "{called[0]}")',
        )


def check_topology(conf: SlurmConf, cluster: Cluster | None) -> Iterator[Finding]:
    """topology.conf against the nodes, and against what was captured."""
    if "tree" not in conf.get("TopologyPlugin") and "block" not in conf.get("TopologyPlugin"):
        return
    path, text = conf.file("topology.conf"), conf.beside["topology.conf"]
    if text is None:
        yield Finding(
            *("topology-missing", "error", str(path)),
            conf.errors["topology.conf"].lower(),
            f"TopologyPlugin={conf.get('TopologyPlugin')} knows no switch; placement sees one flat network",
            "write a SwitchName line for each switch",
        )
        return
    try:
        leaves = {frozenset(switch.nodes) for switch in parse_topology_conf(text).switches if switch.nodes}
    except SlurmTopoError as error:
        yield Finding(
            *("topology-unreadable", "error", str(path)),
            str(error),
            "Slurm reads something else than was meant, or does not start",
            "correct that line",
        )
        return
    named = frozenset().union(*leaves)
    known = {node.name for node in conf.nodes}
    for missing in sorted(named - known)[:3]:
        yield Finding(
            *("topology-unknown-node", "error", str(path)),
            f"{missing} is in no NodeName line",
            "slurmctld takes the switch as it is written, and distances are wrong",
            f"remove {missing} or add it to slurm.conf",
        )
    if named and known - named:
        left = sorted(known - named)
        yield Finding(
            *("topology-node-left-out", "error", str(path)),
            f"{left[0]}{f' and {len(left) - 1} more' if len(left) > 1 else ''} hang on no switch",
            "Slurm does not schedule such nodes together with others, and their distance is unknown",
            f"write: SwitchName=... Nodes={left[0]}",
        )
    if cluster is not None and cluster.fabric.switches:
        yield from _changed_topology(leaves, cluster, path)


def _changed_topology(written: set[frozenset[str]], cluster: Cluster, path: Path) -> Iterator[Finding]:
    captured = {frozenset(switch.nodes) for switch in cluster.fabric.switches if switch.nodes}
    if captured != written:
        changed = sorted(min(group) for group in captured ^ written if group)
        yield Finding(
            *("topology-changed", "warning", cluster.source or "cluster description"),
            f"its leaf switches are not those of {path} any more ({changed[0] if changed else 'a switch'})",
            "ranks are placed by a network that has changed",
            "run: slurm-topo sync (or `slurm-topo machine import` for a file of the setting `cluster`)",
        )


def check_cgroup(conf: SlurmConf) -> Iterator[Finding]:
    """cgroup.conf where cgroups confine tasks."""
    if not any("cgroup" in name for name in conf.words("TaskPlugin")):
        return
    path, text = conf.file("cgroup.conf"), conf.beside["cgroup.conf"]
    values = pairs_of(text or "")
    if values.get("constraincores", "no").lower() != "yes":
        yield Finding(
            *("cgroup-cores", "warning", str(path)),
            "ConstrainCores is not yes",
            "a job may use cores that it does not own, also those of placed ranks",
            "write: ConstrainCores=yes",
        )
    has_gpus = any("gpu" in node.fields.get("gres", "") for node in conf.nodes)
    if has_gpus and values.get("constraindevices", "no").lower() != "yes":
        yield Finding(
            *("cgroup-devices", "warning", str(path)),
            "ConstrainDevices is not yes on nodes with GPUs",
            "a job may use GPUs that it does not own",
            "write: ConstrainDevices=yes",
        )
