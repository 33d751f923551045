"""The configuration of the emulated site: Slurm's files, slurm_topo added as README.md says."""

from __future__ import annotations

import re

from tests.acceptance.image import PROJECT
from tests.acceptance.shape import Shape

CGROUP = """CgroupPlugin=autodetect
IgnoreSystemd=yes
ConstrainCores=yes
"""

DATABASE = """DbdHost=head
DbdAddr=192.0.2.1
SlurmUser=slurm
AuthType=auth/munge
StorageType=accounting_storage/mysql
StorageUser=slurm
StorageLoc=slurm_acct_db
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurm/slurmdbd.pid
"""

# Python needs several seconds to start in here, where a real node needs a fifth of one; so does the search.
DEADLINE_MS = 60_000
CLUSTER_FILE = "/etc/slurm-topo/cluster.json"


def site_files(shape: Shape) -> dict[str, str]:
    """Files of the site below /etc, by their path there."""
    plugin = (PROJECT / "conf/plugstack.conf.d/slurm-topo.conf").read_text()
    return {
        "slurm/slurm.conf": slurm_conf(shape),
        "slurm/cgroup.conf": CGROUP + ("ConstrainDevices=yes\n" if shape.gres_lines() else ""),
        **({"slurm/gres.conf": shape.gres_lines()} if shape.gres_lines() else {}),
        "slurm/slurmdbd.conf": DATABASE,
        "slurm/plugstack.conf": "include /etc/slurm/plugstack.conf.d/*.conf\n",
        "slurm/plugstack.conf.d/slurm-topo.conf": re.sub(
            r"deadline_ms=\d+", f"deadline_ms={DEADLINE_MS}", plugin
        ),
        "slurm/job_submit.lua": (PROJECT / "job_submit/job_submit.lua").read_text(),
        "slurm-topo/slurm-topo.toml": settings(),
    }


def settings() -> str:
    """The sample of the settings, every placeable job placed, on nodes that are known by their hwloc XML."""
    text = (PROJECT / "conf/slurm-topo.toml").read_text()
    for key, value in {
        "arm": '"enforce"',
        "holdout": "0.0",
        "budget_s": "20.0",
        "cluster": f'"{CLUSTER_FILE}"',
    }.items():
        text, count = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
        assert count == 1, f"conf/slurm-topo.toml: has {count} lines for {key}"
    return text


def slurm_conf(shape: Shape) -> str:
    """Text of slurm.conf."""
    settings = {
        "ClusterName": "acceptance",
        "SlurmctldHost": "head(192.0.2.1)",
        "SlurmUser": "slurm",
        "AuthType": "auth/munge",
        "StateSaveLocation": "/var/spool/slurmctld",
        "SlurmctldPidFile": "/run/slurm/slurmctld.pid",
        "SlurmctldLogFile": "/var/log/slurm/slurmctld.log",
        "SlurmdSpoolDir": "/var/spool/slurmd.%n",
        "SlurmdPidFile": "/run/slurm/slurmd.%n.pid",
        "SlurmdLogFile": "/var/log/slurm/slurmd.%n.log",
        "SlurmdParameters": "numa_node_as_socket",
        "MpiDefault": "pmix",
        "ProctrackType": "proctrack/cgroup",
        "TaskPlugin": "task/cgroup,task/affinity",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "SchedulerParameters": "batch_sched_delay=0,sched_interval=2,bf_interval=2",
        "ReturnToService": "2",
        "SlurmdTimeout": "300",
        "SlurmctldTimeout": "300",
        "MessageTimeout": "60",
        "KillWait": "5",
        "MinJobAge": "3600",
        "JobAcctGatherType": "jobacct_gather/linux",
        "PlugStackConfig": "/etc/slurm/plugstack.conf",
        "JobSubmitPlugins": "lua",
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "192.0.2.1",
        "AccountingStoreFlags": "job_comment,job_env,job_script",
    }
    if shape.gres_lines():
        settings["GresTypes"] = "gpu"
    lines = [f"{key}={value}" for key, value in settings.items()]
    names = ",".join(node.name for node in shape.nodes)
    lines += [
        shape.node_lines(),
        f"PartitionName=all Nodes={names} Default=YES State=UP OverSubscribe=NO DefaultTime=60",
    ]
    return "\n".join(lines) + "\n"
