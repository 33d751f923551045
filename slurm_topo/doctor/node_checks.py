"""Nodes of slurm.conf and gres.conf against what hwloc sees there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slurm_topo.doctor.conf import NodeLine, SlurmConf
from slurm_topo.doctor.finding import Finding
from slurm_topo.doctor.hardware import Hardware
from slurm_topo.errors import SlurmTopoError
from slurm_topo.slurm.gres import Cores, node_gpus, parse_gres_conf

# What the firmware and the kernel keep for themselves: slurm.conf may say a little more than hwloc sees.
MEMORY_SLACK = 1.02


def check_nodes(conf: SlurmConf, hardware: Mapping[str, Hardware]) -> Iterator[Finding]:
    """Sockets, cores, threads and memory."""
    for node in conf.nodes:
        if node.name in hardware:
            yield from _counts(conf, node, hardware[node.name])
            yield from _memory(conf, node, hardware[node.name])


def _counts(conf: SlurmConf, node: NodeLine, real: Hardware) -> Iterator[Finding]:
    where = f"{conf.path} NodeName={node.name}"
    threads, sockets = (
        node.number("threadspercore") or 1,
        node.number("sockets") or node.number("boards") or None,
    )
    each = node.number("corespersocket")
    cpus = node.number("cpus")
    right = (
        f"Sockets={real.packages} CoresPerSocket={real.cores // real.packages} ThreadsPerCore={real.threads}"
    )
    if threads != real.threads and not (threads == 1 and cpus in (real.cores, real.pus)):
        yield Finding(
            *("threads-per-core", "error", where),
            f"ThreadsPerCore={threads}, {real.source} has {real.threads}",
            "Slurm's CPU numbers then mean other cores than ours",
            f"write: {right}",
        )
    if sockets and sockets != real.packages:
        yield Finding(
            *("sockets", "error", where),
            f"Sockets={sockets}, {real.source} has {real.packages}",
            "ranks are distributed over sockets that do not exist",
            f"write: {right}",
        )
    if each and sockets and each * sockets != real.cores:
        yield Finding(
            *("cores-per-socket", "error", where),
            f"{sockets} x {each} cores, {real.source} has {real.cores}",
            "Slurm drains the node, or leaves cores unused",
            f"write: {right}",
        )
    if cpus and not each and cpus not in (real.pus, real.cores):
        yield Finding(
            *("cpus", "error", where),
            f"CPUs={cpus}, {real.source} has {real.pus}",
            "Slurm drains the node, or leaves cores unused",
            f"write: {right}",
        )


def _memory(conf: SlurmConf, node: NodeLine, real: Hardware) -> Iterator[Finding]:
    said = node.number("realmemory")
    have = real.memory_bytes // 2**20
    if said and have and said > have * MEMORY_SLACK:
        yield Finding(
            *("real-memory", "error", f"{conf.path} NodeName={node.name}"),
            f"RealMemory={said}, {real.source} has {have} MiB",
            "slurmd reports less and Slurm drains the node",
            f"write: RealMemory={have}",
        )


def check_gres(conf: SlurmConf, hardware: Mapping[str, Hardware]) -> Iterator[Finding]:
    """GPUs in slurm.conf, in gres.conf and in the node."""
    path, text = conf.file("gres.conf"), conf.beside["gres.conf"]
    with_gpus = [node for node in conf.nodes if "gpu" in node.fields.get("gres", "")]
    if not with_gpus:
        return
    if text is None:
        yield Finding(
            *("gres-missing", "error", str(path)),
            f"{conf.errors['gres.conf'].lower()}, and {with_gpus[0].name} has {with_gpus[0].fields['gres']}",
            "slurmd finds no GPU and Slurm drains the node",
            "write: AutoDetect=nvml, or a line with File= for each GPU",
        )
        return
    try:
        written = parse_gres_conf(text)
    except SlurmTopoError as error:
        yield Finding(
            *("gres-unreadable", "error", str(path)),
            str(error),
            "Slurm reads something else than was meant",
            "correct that line",
        )
        return
    for node in with_gpus:
        yield from _gpus(conf, node, written, hardware.get(node.name), str(path))


def _gpus(
    conf: SlurmConf, node: NodeLine, written: Mapping[str, Cores], real: Hardware | None, path: str
) -> Iterator[Finding]:
    lines = written.get(node.name, written.get("", ()))
    said = len(node_gpus(node.fields["gres"], 1))
    where = f"{path} NodeName={node.name}"
    if lines and len(lines) != said:
        yield Finding(
            *("gres-count", "error", where),
            f"{len(lines)} GPUs, slurm.conf has {said}",
            "slurmd and slurmctld disagree, and Slurm drains the node",
            f"write: Gres=gpu:{len(lines)} in slurm.conf",
        )
    if real is None:
        return
    if real.gpus and said != len(real.gpus):
        yield Finding(
            *("gpu-count", "error", f"{conf.path} NodeName={node.name}"),
            f"Gres={node.fields['gres']}, {real.source} has {len(real.gpus)}",
            "jobs wait for GPUs that do not exist, or GPUs stay idle",
            f"write: Gres=gpu:{len(real.gpus)}",
        )
    for number, cores in enumerate(lines):
        near = real.gpus[number] if number < len(real.gpus) else ()
        yield from _gpu_cores(where, number, cores, near, real)


def _gpu_cores(
    where: str, number: int, cores: tuple[int, ...], near: tuple[int, ...], real: Hardware
) -> Iterator[Finding]:
    if not cores:
        return
    right = f"write: Cores={_folded(near)}" if near else f"write numbers from 0 to {real.cores - 1}"
    if max(cores) >= real.cores:
        yield Finding(
            *("gres-cores-outside", "error", where),
            f"Cores of GPU {number} go to {max(cores)}, the node has cores 0 to {real.cores - 1}",
            "they are hardware threads: Slurm counts cores, socket by socket",
            right,
        )
        return
    if not near or set(cores) <= set(near):
        return
    pus = {pu for core in near for pu in real.shape.pus[core]}
    if set(cores) <= pus:
        yield Finding(
            *("gres-numbering", "error", where),
            f"Cores of GPU {number} are numbers of the operating system",
            "Slurm counts cores socket by socket, so these are others than meant",
            right,
        )
    elif {real.package_of(core) for core in cores} - {real.package_of(core) for core in near}:
        yield Finding(
            *("gpu-across-socket", "warning", where),
            f"Cores of GPU {number} are on another socket than the GPU",
            "its jobs run on cores from which every transfer crosses the sockets",
            right,
        )


def _folded(cores: tuple[int, ...]) -> str:
    from slurm_topo.units import fold_ints

    return fold_ints(cores)
