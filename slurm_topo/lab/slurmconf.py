"""The configuration files of a lab's Slurm and its accounting: options in, text out."""

from __future__ import annotations

from slurm_topo.lab.host import HostFacts
from slurm_topo.lab.layout import LOGIN, TOP_SWITCH, Layout
from slurm_topo.units import fold_hostlist

CLUSTER = "lab"
PARTITION = "lab"


def slurm_conf(layout: Layout, host: HostFacts) -> str:
    """Text of slurm.conf."""
    options, folder = layout.options, layout.folder
    nodes = fold_hostlist(node.name for node in layout.nodes)
    settings = {
        "ClusterName": CLUSTER,
        "SlurmctldHost": f"{LOGIN}({layout.login_address})",
        # The folder may be anywhere (a home of mode 0700) and no account of a package is needed.
        "SlurmUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={layout.munge_socket}",
        "CredType": "cred/munge",
        "StateSaveLocation": folder / "ctld",
        "SlurmctldPidFile": layout.run("slurmctld.pid"),
        "SlurmctldLogFile": layout.log("slurmctld"),
        "SlurmdSpoolDir": folder / "nodes" / "%n",
        "SlurmdPidFile": layout.run("%n.slurmd.pid"),
        "SlurmdLogFile": layout.log("%n"),
        # Node-local to Slurm; the PMIx directories of two nodes would collide in a common one.
        "TmpFS": folder / "nodes" / "%n" / "tmp",
        "SwitchType": "switch/none",
        "MpiDefault": "pmix",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": task_plugin(layout, host),
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "TopologyPlugin": "topology/tree",
        # Nodes have the CPUs that the options say, whatever this machine has.
        "SlurmdParameters": "config_overrides",
        "ReturnToService": 2,
        # A job that died with the cluster is not run again when it comes back.
        "JobRequeue": 0,
        "KillWait": 2,
        "MinJobAge": 3600,
        "MaxJobCount": 10000,
        "SlurmctldTimeout": 30,
        "SlurmdTimeout": 60,
        "MessageTimeout": 30,
        "SchedulerType": "sched/backfill",
        # Start and end jobs at once: a lab's queue is short.
        "SchedulerParameters": "batch_sched_delay=0,sched_interval=5,bf_interval=5",
        "JobAcctGatherType": "jobacct_gather/linux",
        "JobAcctGatherFrequency": "task=1",
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": layout.login_address,
        # For munge this is a socket: connections to slurmdbd do not look at AuthInfo.
        "AccountingStoragePass": layout.munge_socket,
        "MailProg": "/bin/true",
        "AccountingStoreFlags": "job_comment,job_env,job_script",
        "PlugStackConfig": layout.etc("plugstack.conf"),
        "SlurmctldDebug": "info",
        "SlurmdDebug": "info",
    }
    if options.integrate:
        settings["JobSubmitPlugins"] = "lua"
    if options.gpus:
        settings |= {"GresTypes": "gpu", "AccountingStorageTRES": "gres/gpu"}
    gres = f" Gres=gpu:{options.gpus}" if options.gpus else ""
    lines = [f"{key}={value}" for key, value in settings.items()]
    lines += [
        f"NodeName={node.name} NodeAddr={node.address} CPUs={options.cpus} Boards=1 SocketsPerBoard=1 "
        f"CoresPerSocket={options.cpus} ThreadsPerCore=1 RealMemory={options.memory}{gres} State=UNKNOWN"
        for node in layout.nodes
    ]
    lines += [
        f"PartitionName={PARTITION} Nodes={nodes} Default=YES State=UP OverSubscribe=NO "
        "DefaultTime=10 MaxTime=INFINITE"
    ]
    return "\n".join(lines) + "\n"


def task_plugin(layout: Layout, host: HostFacts) -> str:
    """The plugin that binds tasks; none where nodes have more CPUs than this machine.

    task/affinity refuses every step that needs a CPU beyond the hardware's ("only 2 bits in avail_map").
    """
    return "task/affinity" if layout.options.cpus <= host.cpus else "task/none"


def gres_conf(layout: Layout) -> str:
    """Text of gres.conf: each GPU next to its share of the cores, the last ones first.

    So it is on many servers, and so a wrong guess that GPUs are numbered as the cores are shows.
    """
    cpus, gpus = layout.options.cpus, layout.options.gpus
    if not gpus:
        return "# No GPUs.\n"
    lines = []
    for number, device in enumerate(layout.gpus):
        part = gpus - 1 - number
        first = part * cpus // gpus
        last = max((part + 1) * cpus // gpus, first + 1) - 1
        lines.append(f"Name=gpu File={device} Cores={first}-{last}")
    return "\n".join(lines) + "\n"


def topology_conf(layout: Layout) -> str:
    """Text of topology.conf: leaf switches and, above more than one of them, the top switch."""
    lines = [
        f"SwitchName={switch} Nodes={fold_hostlist(n.name for n in layout.nodes if n.switch == switch)}"
        for switch in layout.switches
    ]
    if len(layout.switches) > 1:
        lines.append(f"SwitchName={TOP_SWITCH} Switches={fold_hostlist(layout.switches)}")
    return "\n".join(lines) + "\n"


def slurmdbd_conf(layout: Layout) -> str:
    """Text of slurmdbd.conf; root enters MariaDB through its socket, so no password is in it."""
    settings = {
        "DbdHost": LOGIN,
        "DbdAddr": layout.login_address,
        "SlurmUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={layout.munge_socket}",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost",
        "StorageUser": "root",
        "StorageLoc": "slurm_acct_db",
        "PidFile": layout.run("slurmdbd.pid"),
        "LogFile": layout.log("slurmdbd"),
        "DebugLevel": "info",
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def cgroup_conf(host: HostFacts) -> str:
    """Text of cgroup.conf: cgroups are not used, so any layout of the machine will do.

    Left alone, slurmd looks for one and dies where it finds both versions. Before 23.11 there is no
    ``disabled``; the plugin of version 1 does nothing until it is asked to, also where version 2 is mounted.
    """
    return f"CgroupPlugin={'disabled' if host.slurm >= (23, 11) else 'cgroup/v1'}\n"


def mpi_conf() -> str:
    """Text of mpi.conf.

    With the default, a tree, a barrier without data (the one in MPI_Finalize) waits for the ranks of its own
    node only in 22.05. A rank that ends early takes unsent messages with it, and its partner waits for ever.
    """
    return "PMIxCollFence=ring\n"


def mariadb_conf(layout: Layout) -> str:
    """Text of mariadb.cnf: a small server that listens on nothing but its socket."""
    settings = {
        "user": "root",
        "datadir": layout.folder / "db",
        "socket": layout.database_socket,
        "pid-file": layout.run("mariadbd.pid"),
        "log-error": layout.log("mariadbd"),
        "tmpdir": layout.folder / "db",
        "innodb_buffer_pool_size": "64M",
        "innodb_log_file_size": "16M",
        "innodb_lock_wait_timeout": 900,
        # A lab may lose its last second when the machine stops; no commit waits for the disk.
        "innodb_flush_log_at_trx_commit": 2,
    }
    lines = [f"{key}={value}" for key, value in settings.items()]
    return "\n".join(["[mariadbd]", "skip-networking", "skip-log-bin", *lines]) + "\n"
