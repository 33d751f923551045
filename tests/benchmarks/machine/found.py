"""What is found in every recorded machine and GPU text, and what ten thousand nodes cost to load."""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path

from slurm_topo.errors import MachineError
from slurm_topo.hwloc import reader
from slurm_topo.machine import NodeShape, Switch, build_cluster, read_cluster, write_cluster
from slurm_topo.machine.describe import counts
from slurm_topo.machine.devices import find_devices
from slurm_topo.machine.gpulinks import (
    parse_gpu_list,
    parse_nvlink_status,
    parse_peer_matrix,
    parse_rocm_topo,
    parse_topo_matrix,
    paths_of,
)
from slurm_topo.machine.importing import kind_of_text, read_text

DATA = Path(os.environ.get("SLURM_TOPO_SHARED", Path(__file__).resolve().parents[4] / "shared")) / "data"
KEYS = ("packages", "numa_nodes", "l3_caches", "cores", "pus", "gpus", "nics", "nvme")
NODES, SECONDS, MEGABYTES = 10_000, 2.0, 300.0


def machines() -> None:
    print(f"{'machine':50} " + " ".join(f"{k.replace('_', ' ')[:9]:>9}" for k in KEYS))
    for path in sorted((DATA / "hwloc").glob("*.xml")):
        try:
            topology = reader.load_xml(path)
        except MachineError as error:
            print(f"{path.stem[:50]:50} {str(error).partition(': ')[2][:90]}")
            continue
        found = counts(topology, find_devices(topology))
        print(f"{path.stem[:50]:50} " + " ".join(f"{found[k]:>9}" for k in KEYS))


def gpu_texts() -> None:
    print(f"\n{'text':56} found")
    for path in sorted((DATA / "gpu-topo").glob("*.txt")):
        print(f"{path.stem[:56]:56} {one_text(read_text(path))}")


def one_text(text: str) -> str:
    try:
        kind = kind_of_text(text)
        if kind == "gpu-list":
            return ", ".join(f"{g.model} with {len(g.mig)} MIG instances" for g in parse_gpu_list(text))
        if kind == "nvlink":
            return ", ".join(f"{len(g.links)} links" for g in parse_nvlink_status(text))
        if kind == "p2p":
            peers = parse_peer_matrix(text)
            size = range(len(peers.labels))
            usable = sum(peers.usable(i, j) for i in size for j in size if j < i)
            return f"{len(peers.labels)} GPUs, {usable} pairs with peer access"
        matrix = parse_rocm_topo(text) if kind == "rocm-smi" else parse_topo_matrix(text)
    except MachineError as error:
        return str(error)
    paths = paths_of(matrix)
    kinds = Counter(paths[i][j].kind for i in range(len(paths)) for j in range(i))
    pairs = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    return f"{len(matrix.gpus)} GPUs, {len(matrix.nics)} NICs; {pairs or 'no pair'}"


def large_cluster() -> None:
    shapes = [NodeShape(f"n{i:05d}", 2, 64, 2) for i in range(NODES)]
    switches = [Switch(f"leaf{i}", tuple(s.name for s in shapes[i * 40 : i * 40 + 40])) for i in range(250)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.json"
        write_cluster(build_cluster(shapes, switches), path)
        start = time.perf_counter()
        cluster = read_cluster(path)
        read = time.perf_counter() - start
        cluster.machine([f"n{i:05d}" for i in range(0, NODES, 20)])
        part = time.perf_counter() - start
        cluster.machine()
        whole = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"\n{NODES} nodes: {read / SECONDS:.3f} of {SECONDS:.0f} s to read, {part / SECONDS:.3f} "
        "with the model of 500"
    )
    print(f"nodes, {whole / SECONDS:.3f} with that of all; {memory / MEGABYTES:.2f} of {MEGABYTES:.0f} MB")


if __name__ == "__main__":
    large_cluster()
    if DATA.is_dir():
        machines()
        gpu_texts()
