"""The shell scripts that run in the emulated machines, in their order."""

from __future__ import annotations

import json

from tests.acceptance.guest import Case
from tests.acceptance.shape import Shape
from tests.acceptance.site import CLUSTER_FILE

PREAMBLE = "set -e\n. /media/work/library.sh\n"


def case(name: str, script: str, limit_s: int = 120) -> Case:
    """A case with the library of the guest."""
    return Case(name, PREAMBLE + script, limit_s)


def setup(shape: Shape) -> Case:
    """The administrator's part: what the nodes look like, read from one of them."""
    gpus = {"gpus": {"pus": shape.gpu_cpus()}} if shape.gres_lines() else {}
    description = {
        "format": "slurm-topo-cluster",
        "version": 1,
        "name": "acceptance",
        "classes": {"numa": {"hwloc": "node.xml", **gpus}},
        "nodes": [{"names": node.name, "class": "numa"} for node in shape.nodes],
        "switches": [{"name": "leaf", "nodes": ",".join(node.name for node in shape.nodes)}],
    }
    return case(
        "00-setup",
        f"""
slurm-topo machine capture -o /etc/slurm-topo/node.xml
cat >{CLUSTER_FILE} <<'END'
{json.dumps(description, indent=1)}
END
cp -r /etc/slurm-topo $out/
slurm-topo machine show {CLUSTER_FILE}
slurm-topo machine show /etc/slurm-topo/node.xml
numactl -H
""",
    )


# What sync has read it takes away: the records are kept for the tests before.
SYNC = case(
    "02-sync",
    "cp -r /var/spool/slurm-topo $out/spool.traced\nslurm-topo sync\ncp -r /var/lib/slurm-topo $out/state\n",
)

# Each shape of the program runs once as Slurm alone would run it, and is traced.
NUMA_TRACE = case(
    "01-trace",
    "traced -J trace16 -N 1 -n 16\ntraced -J trace8 -N 1 -n 8\ntraced -J trace8c2 -N 1 -n 8 -c 2\n",
    300,
)

NUMA_CASES = (
    # Every core of a node has a rank; several cores a rank. One search at a time: each takes long here.
    case(
        "10-full",
        """
wait_for $(submit alice ring.sh -J full -N 1 -n 16)
wait_for $(submit alice ring.sh -J wide -N 1 -n 8 -c 2)
""",
        180,
    ),
    # Fewer ranks than cores, over two nodes; the user has a number of threads in mind.
    case(
        "11-spread",
        """
export OMP_NUM_THREADS=3
wait_for $(submit alice ring.sh -J spread -N 2 -n 8 --ntasks-per-node=4 --exclusive)
""",
    ),
    # Six cores of one node and ten of the other are taken.
    case(
        "12-unequal",
        """
holds="$(hold n1 6) $(hold n2 10)"
wait_for $(submit alice ring.sh -J unequal -N 2 -n 16)
scancel $holds
wait_for $holds
""",
        180,
    ),
    # Every second of five small jobs has gone: what is left of the node is full of holes.
    case(
        "13-sparse",
        """
whole=$(hold n2 16)
a=$(hold n1 3) b=$(hold n1 1) c=$(hold n1 2) d=$(hold n1 3) e=$(hold n1 2)
scancel $b $d
wait_for $b $d
wait_for $(submit alice ring.sh -J sparse -N 1 -n 8)
scancel $a $c $e
wait_for $a $c $e
echo $whole >/tmp/whole
""",
        240,
    ),
    # Two placed jobs on one node at the same time.
    case(
        "14-shared",
        """
a=$(submit alice ring.sh -J shared1 -N 1 -n 8) b=$(submit alice ring.sh -J shared2 -N 1 -n 8)
wait_running $a
wait_running $b
squeue -h -t R -j $a,$b -o %j
wait_for $a $b
scancel $(cat /tmp/whole)
""",
        180,
    ),
    case("15-crowd", "wait_for $(submit alice crowd.sh -J crowd -N 1 -n 8)\n", 180),
)

SMT_TRACE = case(
    "01-trace",
    "traced -J trace8c2 -N 1 -n 8 -c 2\ntraced -J trace16 -N 1 -n 16\n"
    "traced -J trace8 -N 1 -n 8 --threads-per-core=1\nexport OFFSET=0\ntraced -J trace4c4 -N 1 -n 4 -c 4\n",
    400,
)

SMT_CASES = (
    case("20-cores", "wait_for $(submit alice ring.sh -J cores -N 1 -n 8 -c 2)\n"),
    case("21-threads", "wait_for $(submit alice ring.sh -J threads -N 1 -n 16)\n", 90),
    case("22-single", "wait_for $(submit alice ring.sh -J single -N 1 -n 8 --threads-per-core=1)\n"),
    # Nobody asks for threads: a core a rank.
    case("23-exclusive", "wait_for $(submit alice ring.sh -J exclusive -N 1 -n 8 --exclusive)\n"),
    # Two cores a rank; one of the users has places in mind, one a list of CPUs.
    case(
        "24-several",
        """
export OFFSET=0
wait_for $(submit alice ring.sh -J several -N 1 -n 4 -c 4)
wait_for $(OMP_PLACES=threads submit alice ring.sh -J places -N 1 -n 4 -c 4)
wait_for $(GOMP_CPU_AFFINITY=0 OMP_NUM_THREADS=1 submit alice ring.sh -J list -N 1 -n 4 -c 4)
""",
        300,
    ),
)

MEMORY_TRACE = case(
    "01-trace",
    "traced -J trace8 -N 1 -n 8 -w n1\ntraced -J trace6 -N 1 -n 6 -w n1\ntraced -J trace4 -N 1 -n 4 -w n1\n",
    400,
)

# A description of the same nodes as Slurm counts them: nobody has captured one.
COUNTED = {
    "format": "slurm-topo-cluster",
    "version": 1,
    "classes": {"counted": {"sockets": 4, "cores_per_socket": 2}},
    "nodes": [{"names": "n[1-3]", "class": "counted"}],
}

POLICIES = ("strict", "interleave", "hbm", "none")
MEMORY_CASES = (
    *(
        case(
            f"30-{name}",
            f"setting memory '\"{memory}\"'\nwait_for $(submit alice ring.sh -J {name} -N 1 -n 8 -w n1)\n",
        )
        for name, memory in (("plain", "preferred"), *((word, word) for word in POLICIES))
    ),
    # More than the high-bandwidth memory holds.
    case(
        "31-full",
        """
setting memory '"hbm"'
export MEGABYTES=48
wait_for $(submit alice ring.sh -J full -N 1 -n 8 -w n1)
""",
    ),
    # Four ranks on eight cores.
    case(
        "32-packed",
        """
setting memory '"preferred"'
setting packing '"packed"'
wait_for $(submit alice ring.sh -J packed -N 1 -n 4 -w n1 --exclusive)
setting packing '"learn"'
""",
    ),
    # Three nodes with GPUs of three makers; on each the first GPU and a NUMA node are taken.
    case(
        "40-gpus",
        """
holds=
for node in n1 n2 n3; do holds="$holds $(hold $node 2 --gres=gpu:1 --ntasks-per-socket=2)"; done
gpus() { submit alice ring.sh -J $1 -N 1 -n 6 -w $2 --gres=gpu:2; }
wait_for $(gpus nvidia n1) $(gpus amd n2) $(gpus intel n3)
sed -i 's/$/ gpus=isolate/' /etc/slurm/plugstack.conf.d/slurm-topo.conf
wait_for $(gpus isolated n1)
sed -i 's/ gpus=isolate$//' /etc/slurm/plugstack.conf.d/slurm-topo.conf
scancel $holds
wait_for $holds
""",
        400,
    ),
    case(
        "50-counted",
        f"""
cat >/etc/slurm-topo/counted.json <<'END'
{json.dumps(COUNTED)}
END
setting cluster '"/etc/slurm-topo/counted.json"'
wait_for $(submit alice ring.sh -J counted -N 1 -n 8 -w n1)
""",
    ),
)
