"""Link matrices of nvidia-smi and rocm-smi: every recorded text, and what pasting does to it."""

from __future__ import annotations

import random
import re

import pytest

from slurm_topo.errors import MachineError
from slurm_topo.machine.gpulinks import (
    is_gpu_list,
    is_nvlink_status,
    is_peer_matrix,
    is_rocm_topo,
    is_topo_matrix,
    nvlink_gbs,
    parse_gpu_list,
    parse_nvlink_status,
    parse_peer_matrix,
    parse_rocm_topo,
    parse_topo_matrix,
    paths_of,
)
from slurm_topo.machine.gpulinks.paths import meaning

# text: (GPUs, NICs, links by kind over all pairs, CPUs of GPU 0, NUMA nodes of the GPUs)
EXPECTED = {
    "A100PCIex4_NV12pairs_VM_bogus_affinity": (4, 0, {"nvlink": 2, "socket-link": 4}, 1, [(0, 1, 2, 3)] * 4),
    "A100x4_NV12pairs_NUMA_NA": (4, 0, {"nvlink": 2, "socket-link": 4}, 24, [None] * 4),
    "GH200x1_4nic_GPUNUMAID1_spaces": (1, 4, {"host-bridge": 8, "pcie-switch": 2}, 72, [(0,)]),
    "H200x8_NV18_8nic_spaces_legend": (
        8,
        8,
        {"nvswitch": 28, "pcie-switch": 8, "host-bridge": 24 + 12, "socket-link": 32 + 16},
        96,
        [(0,)] * 4 + [(1,)] * 4,
    ),
    "P4x1_NUMA_NA_tabs": (1, 0, {}, 8, [None]),
    "RTX4090x8_allSYS_tabs": (
        8,
        2,
        {"socket-link": 42, "host-bridge": 2, "pcie-switch": 1},
        112,
        [(0,)] * 4 + [(1,)] * 4,
    ),
    "V100x8_alt-cabling_mixed-tabs-spaces_misaligned": (
        8,
        2,
        {"nvlink": 16, "socket-link": 12 + 8 + 1, "host-bridge": 4, "pcie-switch": 4},
        48,
        [(0,)] * 4 + [(1,)] * 4,
    ),
    "prrte_H200x4_NV6_NUMA1-2-6-7": (4, 0, {"nvlink": 6}, 32, [(1,), (2,), (6,), (7,)]),
    "stas00_H100x8_performance": (8, 0, {"nvswitch": 28}, 104, [(0,)] * 4 + [(1,)] * 4),
    "stas00_network_1": (2, 0, {"host-bridge": 1}, 12, [None] * 2),
    "stas00_network_3": (8, 0, {"nvswitch": 28}, 52, [(0,)] * 4 + [(1,)] * 4),
}
OTHERS = {
    "A100_MIG_nvidia-smi-L_legacy-uuid",
    "A6000x3_nvlink-s_one_gpu_inactive",
    "DGXA100_NV12_10nic_NPS4_TRUNCATED6rows",
    "RTX5090x2_topo-p2p-rw_GNS",
    "rocm-smi_MI100_x4_PCIE_72-40_numa_unknown",
}


@pytest.fixture(scope="module")
def texts(shared_data) -> dict[str, str]:
    return {p.stem: p.read_text() for p in (shared_data / "data" / "gpu-topo").glob("*.txt")}


def parsed_or_none(parse, text):
    """What a parser finds; None where it refuses the text, which it must do in one line."""
    try:
        return parse(text)
    except MachineError as error:
        if "\n" in str(error):
            raise
        return None


def kinds_of_pairs(matrix):
    paths = paths_of(matrix)
    found: dict[str, int] = {}
    for i in range(len(matrix.devices)):
        for j in range(i):
            found[paths[i][j].kind] = found.get(paths[i][j].kind, 0) + 1
    return found


def test_every_recorded_text_is_in_the_table(texts):
    assert set(texts) == set(EXPECTED) | OTHERS


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_matrix_holds_what_the_text_says(texts, name):
    gpus, nics, links, cpus, numa = EXPECTED[name]
    matrix = parse_topo_matrix(texts[name])
    assert is_topo_matrix(texts[name])
    assert (len(matrix.gpus), len(matrix.nics)) == (gpus, nics)
    assert kinds_of_pairs(matrix) == links
    assert len(matrix.devices[0].cpus) == cpus
    assert [matrix.devices[i].numa for i in matrix.gpus] == numa


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_cells_agree_with_a_plain_count_of_codes(texts, name):
    """An independent reading: each code occurs in the rows as often as in the matrix."""
    matrix = parse_topo_matrix(texts[name])
    rows = texts[name].split("Legend")[0]
    for code in {"SYS", "NODE", "PHB", "PXB", "PIX"}:
        assert sum(row.count(code) for row in matrix.codes) == len(re.findall(rf"\b{code}\b", rows))
    cells = [c for row in matrix.codes for c in row if c.startswith("NV")]
    assert sorted(cells) == sorted(re.findall(r"\bNV\d+\b", rows))


def test_names_of_adapters_come_from_the_legend(texts):
    matrix = parse_topo_matrix(texts["H200x8_NV18_8nic_spaces_legend"])
    assert [matrix.devices[i].name for i in matrix.nics] == [f"mlx5_{i}" for i in range(8)]


def test_memory_of_a_grace_hopper_gpu_has_its_own_numa_node(texts):
    assert parse_topo_matrix(texts["GH200x1_4nic_GPUNUMAID1_spaces"]).devices[0].gpu_numa == 1


def test_truncated_rows_are_named(texts):
    with pytest.raises(
        MachineError, match=r"18 devices but has 6 rows, GPU6 is missing: the text is truncated"
    ):
        parse_topo_matrix(texts["DGXA100_NV12_10nic_NPS4_TRUNCATED6rows"])


def test_affinity_of_a_virtual_machine_is_noted(texts):
    assert parse_topo_matrix(texts["A100PCIex4_NV12pairs_VM_bogus_affinity"]).notes


def glued(text: str) -> str:
    return re.sub(r"[ \t]+", "", text)


def wrapped(text: str, width: int) -> str:
    lines = []
    for line in text.expandtabs().split("\n"):
        words = re.findall(r"\s*\S+", line) or [""]
        current = ""
        for word in words:
            if len(current) + len(word) > width:
                lines.append(current)
                current = ""
            current += word
        lines.append(current)
    return "\n".join(lines)


def cut_hard(text: str, width: int) -> str:
    lines = text.expandtabs().split("\n")
    return "\n".join(line[i : i + width] for line in lines for i in range(0, max(len(line), 1), width))


PASTED = {
    "colours": lambda t: re.sub(r"(GPU\d+)", "\x1b[4m\\1\x1b[0m", t),
    "colours without escape": lambda t: re.sub(r"(NV\d+)", "[32m\\1[0m", t),
    "windows": lambda t: t.replace("\n", "\r\n"),
    "no-break blanks": lambda t: t.replace(" ", "\u00a0"),
    "markdown": lambda t: f"```bash\n$ nvidia-smi topo -m\n{t}\n```\n",
    "quoted": lambda t: "\n".join("> " + line for line in t.split("\n")),
    "table": lambda t: "\n".join(
        re.sub(r"(\S+(?: Affinity| NUMA ID)?)", r"| \1 |", line) for line in t.split("\n")
    ),
    "html": lambda t: "\n".join(
        "<tr>" + re.sub(r"(\S+)", r"<td>\1</td>", line) + "</tr>" for line in t.split("\n")
    ),
    "blanks": lambda t: re.sub(r"[ \t]+", " ", t),
    "tabs": lambda t: re.sub(r"  +", "\t", t),
    "wrapped": lambda t: wrapped(t, 60),
    "label of srun": lambda t: "\n".join(f"0: {line}" for line in t.split("\n")),
    "twice": lambda t: t.split("Legend")[0] + "\n" + t,
    "prompt": lambda t: f"[root@node ~]# nvidia-smi topo -m\n{t}\n[root@node ~]# exit\n",
}


@pytest.mark.parametrize("name", sorted(EXPECTED))
@pytest.mark.parametrize("way", sorted(PASTED))
def test_pasting_does_not_change_what_is_found(texts, name, way):
    plain = parse_topo_matrix(texts[name])
    pasted = parse_topo_matrix(PASTED[way](texts[name]))
    assert pasted.codes == plain.codes
    assert [(d.label, d.cpus, d.numa, d.gpu_numa) for d in pasted.devices] == [
        (d.label, d.cpus, d.numa, d.gpu_numa) for d in plain.devices
    ]


@pytest.mark.parametrize("name", ["H200x8_NV18_8nic_spaces_legend", "RTX4090x8_allSYS_tabs"])
def test_glued_columns_are_told_apart(texts, name):
    text = texts[name].split("Legend")[0]
    plain, pasted = parse_topo_matrix(text), parse_topo_matrix(glued(text))
    assert pasted.codes == plain.codes
    assert [d.cpus for d in pasted.devices] == [d.cpus for d in plain.devices]
    assert [d.numa for d in pasted.devices] == [d.numa for d in plain.devices]


def test_lines_that_a_terminal_broke_inside_words_are_joined(texts):
    for name in ("H200x8_NV18_8nic_spaces_legend", "V100x8_alt-cabling_mixed-tabs-spaces_misaligned"):
        text = texts[name].split("Legend")[0]
        plain = parse_topo_matrix(text)
        for width in range(60, 220):
            cut = parse_topo_matrix(cut_hard(text, width))
            assert cut.codes == plain.codes
            assert [(d.cpus, d.numa) for d in cut.devices] == [(d.cpus, d.numa) for d in plain.devices]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_text_cut_at_any_character_is_refused_or_complete(texts, name):
    """Never a smaller machine or another affinity: what is cut off is missed."""
    text = texts[name].split("Legend")[0].rstrip()
    plain = parse_topo_matrix(text)
    refused = 0
    for length in range(len(text)):
        cut = parsed_or_none(parse_topo_matrix, text[:length])
        if cut is None:
            refused += 1
            continue
        assert cut.codes == plain.codes
        assert [d.cpus for d in cut.devices] == [d.cpus for d in plain.devices]
    assert refused > len(text) * 0.9


def test_mutated_texts_never_crash_and_never_give_an_asymmetric_matrix(texts):
    rng = random.Random(7)
    parsers = (parse_topo_matrix, parse_rocm_topo, parse_peer_matrix, parse_nvlink_status, parse_gpu_list)
    alphabet = "GPUNIC0123456789 \t\n-,XSYSNVPHBODE/A=[]:()<>\x1b|\u00a0"
    refused = accepted = 0
    for _ in range(1500):
        characters = list(rng.choice(sorted(texts.values())))
        for _ in range(rng.choice([1, 2, 5, 20])):
            at = rng.randrange(len(characters))
            act = rng.randrange(3)
            if act == 0:
                characters[at] = rng.choice(alphabet)
            elif act == 1:
                del characters[at : at + rng.randrange(1, 9)]
            else:
                characters[at:at] = rng.choice(alphabet)
        text = "".join(characters)
        for parse in parsers:
            found = parsed_or_none(parse, text)
            if found is None:
                refused += 1
                continue
            accepted += 1
            codes = getattr(found, "codes", ())
            assert all(codes[i][j] == codes[j][i] for i in range(len(codes)) for j in range(i))
            if codes:
                paths_of(found)
    assert refused > 3000
    assert accepted > 300


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no line that lists GPU0"),
        ("hello\nworld", "no line that lists GPU0"),
        ("GPU0 GPU1", "truncated"),
        ("GPU0 GPU1\nGPU0 X NV4\nGPU1 NV2 X", "GPU0 to GPU1 is NV4 but back it is NV2"),
        ("GPU0 GPU1\nGPU0 X NV99\nGPU1 NV99 X", "more links than any GPU"),
        ("GPU0 GPU1\nGPU0 X FOO\nGPU1 FOO X", "holds 'FOO'; known are"),
        ("GPU0 GPU1\nGPU0 NV4 X\nGPU1 X NV4", "cells are missing or doubled"),
        ("GPU0 GPU1\nGPU1 NV4 X\nGPU0 X NV4", "row GPU1 where GPU0 should be"),
        ("GPU0 GPU1 CPU Affinity\nGPU0 X SYS 5-3\nGPU1 SYS X 0-3", "'5-3' is no list"),
        ("GPU0 GPU1\nGPU0 X SYS ...\nGPU1 ...", "truncated"),
        ("x" * 5_000_000, "more than any topology"),
    ],
)
def test_unusable_matrix_is_an_error_that_says_why(text, words):
    with pytest.raises(MachineError, match=words):
        parse_topo_matrix(text)


def test_old_codes_of_drivers_are_understood():
    matrix = parse_topo_matrix(
        "GPU0 GPU1 mlx5_0 CPU Affinity\nGPU0 X PSB SOC 0-7\nGPU1 PSB X SOC 0-7\nmlx5_0 SOC SOC X"
    )
    assert matrix.codes == (("X", "PIX", "SYS"), ("PIX", "X", "SYS"), ("SYS", "SYS", "X"))


def test_peer_matrix_says_who_reaches_whom(texts):
    matrix = parse_peer_matrix(texts["RTX5090x2_topo-p2p-rw_GNS"])
    assert is_peer_matrix(texts["RTX5090x2_topo-p2p-rw_GNS"])
    assert matrix.labels == ("GPU0", "GPU1")
    assert not matrix.usable(0, 1)
    assert matrix.usable(1, 1)
    with pytest.raises(MachineError, match="truncated"):
        parse_peer_matrix("GPU0 GPU1\nGPU0 X OK\n")


def test_nvlink_status_counts_active_links(texts):
    text = texts["A6000x3_nvlink-s_one_gpu_inactive"]
    assert is_nvlink_status(text)
    gpus = parse_nvlink_status(text)
    assert [len(g.links) for g in gpus] == [4, 4, 0]
    assert gpus[0].total_gbs == pytest.approx(56.248)
    assert gpus[0].model == "NVIDIA RTX A6000"
    some = parse_nvlink_status(
        "GPU 0: A (UUID: x)\n Link 0: 25 GB/s\n Link 1: <inactive>\n Link 2: 25 GB/s\n"
    )
    assert some[0].links == ((0, 25.0), (2, 25.0))
    with pytest.raises(MachineError, match="jumps to link 2"):
        parse_nvlink_status("GPU 0: A\n Link 0: 25 GB/s\n Link 2: 25 GB/s\n")
    with pytest.raises(MachineError, match="before the first GPU"):
        parse_nvlink_status("Link 0: 25 GB/s\nGPU 0: A\n")


def test_mig_instances_are_listed_under_their_gpu(texts):
    text = texts["A100_MIG_nvidia-smi-L_legacy-uuid"]
    assert is_gpu_list(text)
    (gpu,) = parse_gpu_list(text)
    assert gpu.model == "A100-SXM4-40GB"
    assert [profile for profile, _ in gpu.mig] == ["1g.5gb", "1g.5gb"]


def test_rocm_matrix_holds_types_hops_and_weights(texts):
    text = texts["rocm-smi_MI100_x4_PCIE_72-40_numa_unknown"]
    assert is_rocm_topo(text)
    assert not is_topo_matrix(text)
    matrix = parse_rocm_topo(text)
    assert len(matrix.gpus) == 4
    assert matrix.weights[0] == (0, 72, 40, 72)
    assert matrix.hops[0] == (0, 3, 2, 3)
    assert [d.numa for d in matrix.devices] == [None] * 4
    assert matrix.notes
    kinds = {paths_of(matrix)[0][j].kind for j in (1, 2, 3)}
    assert kinds == {"socket-link", "host-bridge"}


ROCM = """
======================= ROCm System Management Interface =======================
=========================== Weight between two GPUs ============================
       GPU0         GPU1
GPU0   0            15
GPU1   15           0
============================= Hops between two GPUs =============================
       GPU0         GPU1
GPU0   0            1
GPU1   1            0
========================== Link Type between two GPUs ==========================
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0
================================== Numa Nodes ==================================
GPU[0]\t\t: (Topology) Numa Node: 3
GPU[0]\t\t: (Topology) Numa Affinity: 3
GPU 1          : (Topology) Numa Node: 2
GPU 1          : (Topology) Numa Affinity: -1
============================== Bandwidth between two GPUs ======================
       GPU0         GPU1
GPU0   N/A          50000-100000
GPU1   50000-100000 N/A
============================= End of ROCm SMI Log ==============================
"""


def test_rocm_numa_nodes_and_bandwidths_are_read():
    matrix = parse_rocm_topo(ROCM)
    assert [d.numa for d in matrix.devices] == [(3,), (2,)]
    path = paths_of(matrix)[0][1]
    assert (path.kind, path.hops, path.bandwidth_gbs, path.origin) == ("xgmi", 1, 100.0, "reported")


def test_rocm_text_cut_at_any_line_is_refused_or_right():
    plain = parse_rocm_topo(ROCM)
    lines = ROCM.split("\n")
    for length in range(len(lines)):
        cut = parsed_or_none(parse_rocm_topo, "\n".join(lines[:length]))
        assert cut is None or cut.codes == plain.codes


def test_nvswitch_is_two_hops_and_a_bridge_is_one(texts):
    switched = paths_of(
        parse_topo_matrix(texts["stas00_H100x8_performance"]), dict.fromkeys(range(8), "H100")
    )
    assert (switched[0][7].kind, switched[0][7].hops, switched[0][7].bandwidth_gbs) == ("nvswitch", 2, 450.0)
    direct = paths_of(
        parse_topo_matrix(texts["prrte_H200x4_NV6_NUMA1-2-6-7"]), dict.fromkeys(range(4), "H200")
    )
    assert (direct[0][3].kind, direct[0][3].hops, direct[0][3].bandwidth_gbs) == ("nvlink", 1, 150.0)
    v100 = paths_of(parse_topo_matrix(texts["V100x8_alt-cabling_mixed-tabs-spaces_misaligned"]))
    assert {(p.links, p.bandwidth_gbs) for row in v100 for p in row if p.kind == "nvlink"} == {
        (1, 25.0),
        (2, 50.0),
    }


def test_sixteen_gpus_of_six_links_are_on_switches():
    labels = [f"GPU{i}" for i in range(16)]
    rows = [f"{a} " + " ".join("X" if a == b else "NV6" for b in labels) for a in labels]
    matrix = parse_topo_matrix("\n".join([" ".join(labels), *rows]))
    assert {p.kind for row in paths_of(matrix) for p in row} == {"self", "nvswitch"}


def test_path_over_pcie_is_bounded_by_the_slower_link(texts):
    matrix = parse_topo_matrix(texts["GH200x1_4nic_GPUNUMAID1_spaces"])
    path = paths_of(matrix, pcie_gbs={1: 63.0, 2: 31.5})[1][2]
    assert (path.kind, path.bandwidth_gbs, path.origin) == ("pcie-switch", 31.5, "derived")
    assert "PCIe switch" in meaning("PIX")
    order = [paths_of(matrix)[0][1].bandwidth_gbs, paths_of(matrix)[1][2].bandwidth_gbs]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("model", "speed"),
    [("Tesla V100-SXM2-16GB", 25.0), ("NVIDIA B200", 50.0), ("NVIDIA RTX A6000", 14.0625), ("new one", 25.0)],
)
def test_speed_of_a_link_follows_the_generation(model, speed):
    assert nvlink_gbs(model) == speed


def test_wide_rocm_tables_are_read_at_any_width():
    labels = [f"GPU{i}" for i in range(24)]
    lines = [
        "============ Link Type between two GPUs ============",
        "       " + "".join(f"{x:13}" for x in labels),
    ]
    for a in labels:
        lines.append(f"{a:7}" + "".join(f"{'0' if a == b else 'XGMI':13}" for b in labels))
    lines += [
        "============ Hops between two GPUs ============",
        "       " + "".join(f"{x:13}" for x in labels),
    ]
    lines += [f"{a:7}" + "".join(f"{'0' if a == b else '1':13}" for b in labels) for a in labels]
    text = "\n".join([*lines, "============ End of ROCm SMI Log ============", ""])
    plain = parse_rocm_topo(text)
    assert len(plain.gpus) == 24
    for width in range(60, 360, 7):
        assert parse_rocm_topo(cut_hard(text, width)) == plain
