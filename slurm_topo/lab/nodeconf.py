"""What makes a host of the lab: its namespaces' script, its links, its hosts file, its MPI settings."""

from __future__ import annotations

from slurm_topo.lab.host import OPENMPI_PARAMS
from slurm_topo.lab.layout import LOGIN, TOP_SWITCH, Layout, Node

# The end in the lab of the link to this machine.
HOST_PORT = "top-host"

# Other nodes are reached over eth0 only; no rank reads another's memory (vader's single copy finds ranks of
# other "nodes" in the same process table); all nodes share the cores, so a rank that waits yields.
MPI_PARAMETERS = {
    "btl": "tcp,vader,self",
    "btl_tcp_if_include": "eth0",
    "btl_vader_single_copy_mechanism": "none",
    "mpi_yield_when_idle": "1",
}


def mpi_environment() -> dict[str, str]:
    """The settings of Open MPI as variables."""
    return {f"OMPI_MCA_{name}": value for name, value in MPI_PARAMETERS.items()}


def openmpi_params() -> str:
    """The settings of Open MPI as its own parameter file, for jobs that come without the variables."""
    return "".join(f"{name} = {value}\n" for name, value in MPI_PARAMETERS.items())


def hosts_file(layout: Layout, machine_hosts: str) -> str:
    """Text of /etc/hosts in the lab: this machine's, and the names of the lab."""
    ours = [(layout.login_address, LOGIN), *((n.address, n.name) for n in layout.nodes)]
    names = {name for _, name in ours}
    kept = [line for line in machine_hosts.splitlines() if not names & set(line.split()[1:])]
    return "\n".join([*kept, *(f"{address} {name}" for address, name in ours)]) + "\n"


def _shape(interface: str, speed: str) -> str:
    # 200 ms of queue, so that TCP is slowed down by the rate and not by drops.
    return f"tc qdisc replace dev {interface} root tbf rate {speed} burst 64kb latency 200ms"


def _prepare(layout: Layout) -> list[str]:
    lines = [
        # Link-local addresses only delay and confuse programs that try them first.
        "for i in all default; do echo 1 >/proc/sys/net/ipv6/conf/$i/disable_ipv6; done 2>/dev/null || :",
        "mount -t tmpfs -o mode=1777 stlab-shm /dev/shm",
        f"mount --bind {layout.etc('hosts')} /etc/hosts",
    ]
    if layout.etc("openmpi-mca-params.conf").exists():
        lines.append(f"mount --bind {layout.etc('openmpi-mca-params.conf')} {OPENMPI_PARAMS}")
    return lines


def login_script(layout: Layout) -> str:
    """Shell script that makes the login host and the switches, in the namespaces of process 1."""
    lines = [f"hostname {LOGIN}", *_prepare(layout), "ip link set lo up"]
    for switch in [*layout.switches, TOP_SWITCH]:
        lines += [f"ip link add {switch} type bridge stp_state 0 forward_delay 0", f"ip link set {switch} up"]
    for switch in layout.switches:
        ends = (f"{switch}-up", f"{TOP_SWITCH}-{switch}")
        lines += [
            f"ip link add {ends[0]} type veth peer name {ends[1]}",
            f"ip link set {ends[0]} master {switch} up",
            f"ip link set {ends[1]} master {TOP_SWITCH} up",
        ]
        if len(layout.switches) > 1:
            lines += [_shape(end, layout.options.uplink_speed) for end in ends]
    lines += [
        f"ip link set {HOST_PORT} master {TOP_SWITCH} up",
        f"ip link add eth0 type veth peer name {TOP_SWITCH}-login",
        f"ip link set {TOP_SWITCH}-login master {TOP_SWITCH} up",
        f"ip addr add {layout.login_address}/24 dev eth0",
        "ip link set eth0 up",
    ]
    return "\n".join(["set -e", *lines]) + "\n"


def node_script(layout: Layout, node: Node) -> str:
    """Shell script of the process that holds a node's namespaces; it is started in new ones."""
    speed = layout.options.link_speed
    lines = [
        f"trap ': >{layout.run(node.name + '.failed')}' EXIT",
        f"echo $$ >{layout.run(node.name + '.pid')}",
        f"hostname {node.name}",
        *_prepare(layout),
        "ip link set lo up",
        # The other end goes to the network namespace of process 1, where the switches are.
        f"ip link add eth0 type veth peer name {node.name} netns 1",
        f"ip addr add {node.address}/24 dev eth0",
        _shape("eth0", speed),
        "ip link set eth0 up",
        f"nsenter --target 1 --net ip link set {node.name} master {node.switch} up",
        f"nsenter --target 1 --net {_shape(node.name, speed)}",
    ]
    lines += [f": >{layout.run(node.name + '.ready')}", "exec sleep infinity"]
    return "\n".join(["set -e", *lines]) + "\n"
