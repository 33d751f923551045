"""What is found in every recorded machine and GPU text, and what ten thousand nodes cost to load.

``--every-line`` cuts the XML files at every line, too (minutes).
"""

from __future__ import annotations

import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from slurm_topo.errors import MachineError
from slurm_topo.hwloc import reader
from slurm_topo.machine import NodeShape, Switch, build_cluster, read_cluster, write_cluster
from slurm_topo.machine.describe import counts, describe
from slurm_topo.machine.devices import find_devices
from slurm_topo.machine.fabric import Fabric
from slurm_topo.machine.gpulinks import (
    parse_gpu_list,
    parse_nvlink_status,
    parse_peer_matrix,
    parse_rocm_topo,
    parse_topo_matrix,
    paths_of,
)
from slurm_topo.machine.importing import kind_of_text, parse_fabric, read_text
from slurm_topo.machine.workers import spread_workers

DATA = Path(os.environ.get("SLURM_TOPO_SHARED", Path(__file__).resolve().parents[4] / "shared")) / "data"
KEYS = ("packages", "numa_nodes", "l3_caches", "cores", "pus", "gpus", "nics", "nvme")
PARSERS: dict[str, Callable[[str], object]] = {
    "rocm-smi": parse_rocm_topo,
    "nvlink": parse_nvlink_status,
    "gpu-list": parse_gpu_list,
    "p2p": parse_peer_matrix,
    "topo -m": parse_topo_matrix,
}
MUTATED = int(os.environ.get("SLURM_TOPO_FUZZ", "2000"))
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


def damaged() -> None:
    """Each text cut at every line, and texts with a few characters changed: what happens is counted."""
    texts = [read_text(path) for path in sorted((DATA / "gpu-topo").glob("*.txt"))]
    fabrics = [
        read_text(p) for p in (DATA / "slurm" / "topograph").rglob("*") if p.suffix in (".conf", ".out")
    ]
    files = [path.read_bytes() for path in sorted((DATA / "hwloc").glob("*.xml"))]
    rng = random.Random(1)
    print(f"\n{'damaged input':40} {'tried':>7} {'refused':>8} {'read':>6} {'crashed':>8}")
    most, where = (0, "each line") if "--every-line" in sys.argv else (40, "40 lines a file")
    for name, cases in (
        ("GPU texts and fabrics, cut at each line", (t for x in texts + fabrics for t in cuts(x))),
        (
            "GPU texts and fabrics, mutated",
            (mutated(rng.choice(texts + fabrics), rng) for _ in range(MUTATED)),
        ),
        (f"hwloc XML, cut at {where}", (t for x in files for t in cuts(x.decode(), most))),
        ("hwloc XML, mutated", (mutated(rng.choice(files).decode(), rng) for _ in range(MUTATED // 20))),
    ):
        ends = Counter(end_of(case) for case in cases)
        row = [ends.total(), ends["refused"], ends["read"], ends["crashed"]]
        print(f"{name:40} {row[0]:>7} {row[1]:>8} {row[2]:>6} {row[3]:>8}")


def cuts(text: str, most: int = 0) -> Iterator[str]:
    lines = text.splitlines(keepends=True)
    step = max(len(lines) // most, 1) if most else 1
    for n in range(1, len(lines), step):
        yield "".join(lines[:n])


def mutated(text: str, rng: random.Random) -> str:
    characters = list(text)
    for _ in range(rng.choice([1, 2, 5, 20])):
        at = rng.randrange(len(characters))
        way = rng.randrange(3)
        if way == 0:
            characters[at] = rng.choice(characters)
        elif way == 1:
            del characters[at : at + rng.randrange(1, 9)]
        else:
            characters[at:at] = rng.choices(characters, k=rng.randrange(1, 9))
    return "".join(characters)


def end_of(text: str) -> str:
    """What a damaged text comes to; any error but our own is a crash."""
    try:
        kind = kind_of_text(text)
        if kind == "hwloc":
            describe(reader.load_xml_bytes(text.encode(), "damaged.xml"))
        elif kind in ("topology.yaml", "topology.conf", "ibnetdiscover"):
            Fabric(parse_fabric(kind, text).switches)
        elif kind in PARSERS:
            PARSERS[kind](text)
    except MachineError:
        return "refused"
    except Exception:
        return "crashed"
    return "read"


def workers() -> None:
    """Our places of N workers beside what mpibind promises: all memory domains, evenly, and near GPUs."""
    print(
        f"\n{'machine':26} {'workers':>8} {'domains used':>13} {'most and least':>15} {'with near GPUs':>15}"
    )
    for path in sorted((DATA / "hwloc").glob("mpibind__*.xml")):
        topology = reader.load_xml(path)
        near = {d.label: set(d.numa) for d in find_devices(topology) if d.kind == "gpu"}
        domains = topology.of_kind("NUMANode")
        for count in (1, 2, 4, 8, len(topology.of_kind("Core"))):
            places = spread_workers(topology, count)
            held = Counter(n for w in places for n in w.numa)
            # A domain without a GPU of its own has none that is near.
            homes = set().union(*near.values())
            good = sum(all(near[g] & set(w.numa) for g in w.gpus) or not set(w.numa) & homes for w in places)
            spread = f"{max(held.values())} {min(held[d.os_index] for d in domains)}"
            print(
                f"{path.stem.removeprefix('mpibind__'):26} {count:>8} {f'{len(held)} of {len(domains)}':>13} "
                f"{spread:>15} {f'{good} of {count}':>15}"
            )


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
        workers()
        damaged()
