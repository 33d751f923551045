"""Fabrics from topology.conf, topology.yaml, scontrol and ibnetdiscover; truncated and damaged texts."""

from __future__ import annotations

import random
import re

import pytest

from slurm_topo.errors import MachineError
from slurm_topo.machine import Fabric, NodeShape, build_cluster
from slurm_topo.machine.fabrics import (
    is_ibnetdiscover,
    is_topology_conf,
    is_topology_yaml,
    parse_ibnetdiscover,
    parse_topology_conf,
    parse_topology_yaml,
)
from slurm_topo.machine.fabrics.yaml import load_yaml


@pytest.fixture(scope="module")
def folder(shared_data):
    return shared_data / "data" / "slurm" / "topograph"


def tiers(found, *nodes):
    """Name of the first tier at which each further node meets the first one (1 is a leaf switch)."""
    rows = Fabric(found.switches).tiers(nodes)
    return [next(t for t, row in enumerate(rows, 1) if row[i] == row[0]) for i in range(1, len(nodes))]


def parsed_or_none(parse, text):
    """What a parser finds; None where it refuses the text, which it must do in one line."""
    try:
        return parse(text)
    except MachineError as error:
        if "\n" in str(error):
            raise
        return None


def test_recorded_tree_has_its_three_tiers(folder):
    text = (folder / "expected.slinky-oci-sim-tree.conf").read_text()
    found = parse_topology_conf(text)
    assert is_topology_conf(text)
    assert (len(found.switches), len(found.nodes), found.notes) == (19, 96, ())
    assert len(found.switches) == len(re.findall(r"^SwitchName", text, re.MULTILINE))
    assert tiers(found, "srv1101", "srv1108", "srv1201", "srv6201") == [1, 2, 3]


def test_recorded_blocks_join_as_their_sizes_allow(folder):
    found = parse_topology_conf((folder / "expected.slinky-dra-block.conf").read_text())
    assert len(found.nodes) == 96
    # Blocks of 8; 16 joins two, 32 joins four of them.
    assert tiers(found, "srv1101", "srv1108", "srv1201", "srv2101", "srv3101") == [1, 2, 3, 4]


def test_comments_continued_lines_and_cases_are_read():
    text = """
    # a comment
    switchname=leaf1 Nodes=n[1-2] LinkSpeed=100 # a note
    SwitchName=leaf2 \\
        nodes=n[3-4]
    SWITCHNAME=top Switches=leaf[1-2]
    """
    found = parse_topology_conf(text)
    assert [s.name for s in found.switches] == ["leaf1", "leaf2", "top"]
    assert found.nodes == ("n1", "n2", "n3", "n4")


SCONTROL = """SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[3-4]
SwitchName=root Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[0-1]
"""
BLOCKS = """BlockName=b1 BlockIndex=0 Nodes=n[1-4] BlockSize=4
BlockName=b2 BlockIndex=1 Nodes=n[5-8] BlockSize=4
BlockName=b3 BlockIndex=2 Nodes=n[9-12] BlockSize=4
BlockName=b4 BlockIndex=3 Nodes=n[13-16] BlockSize=4
AggregatedBlock=b[1-2] BlockIndex=4 Nodes=n[1-8] BlockSize=8
AggregatedBlock=b[3-4] BlockIndex=5 Nodes=n[9-16] BlockSize=8
"""


def test_what_scontrol_prints_of_a_tree_is_read():
    found = parse_topology_conf(SCONTROL)
    assert found.source == "scontrol show topology"
    assert found.notes == ()
    assert tiers(found, "n1", "n2", "n3") == [1, 2]


def test_what_scontrol_prints_of_blocks_is_read():
    found = parse_topology_conf(BLOCKS)
    assert tiers(found, "n1", "n4", "n5", "n9") == [1, 2, 3]


def test_a_node_below_two_leaves_stays_below_the_first_and_is_noted():
    found = parse_topology_conf(
        "SwitchName=a Nodes=n1,n2\nSwitchName=b Nodes=n2,n3\nSwitchName=c Switches=a,b\n"
    )
    assert found.notes == ("node n2 stays below a, not b",)
    assert tiers(found, "n1", "n2", "n3") == [1, 2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no SwitchName"),
        ("hello world", "line 1: 'hello world' is no Key=Value"),
        ("SwitchName=a Colour=red", "unknown key 'colour'"),
        ("SwitchName=a Switches=b", "b below it, which has no line of its own"),
        ("SwitchName=a Nodes=n[1-", "bracket"),
        ("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2", "switches and blocks"),
        ("BlockName=b Nodes=n2\nBlockSizes=4,x", "block size 'x'"),
        ("Include other.conf", "paste the included file"),
        ("\n\nSwitchName=a junk\n", "line 3: 'junk'"),
    ],
)
def test_unusable_topology_conf_is_an_error_that_names_the_line(text, words):
    with pytest.raises(MachineError, match=re.escape(words)):
        parse_topology_conf(text)


YAML = """---
# two topologies
- topology: tree1
  cluster_default: true
  tree:
    switches:
    - switch: sw_root
      children: "s[1-3]"
    - switch: s1
      nodes: node[01-02]
    - {}
"""
TREE = """- topology: flat
  cluster_default: false
  flat: true
- topology: topo1
  cluster_default: true
  tree:
    switches:
      - switch: sw_root
        children: s[1-2]
      - switch: s1
        nodes: node[01-02]   # left
      - switch: s2
        nodes: ["node03", 'node04']
- topology: topo2
  block:
    block_sizes:
      - 2
      - 4
    blocks:
    - block: b1
      nodes: node[01-02]
    - block: b2
      nodes: node[03-04]
"""


def test_default_topology_of_a_yaml_file_is_taken():
    found = parse_topology_yaml(TREE)
    assert is_topology_yaml(TREE)
    assert [s.name for s in found.switches] == ["sw_root", "s1", "s2"]
    assert found.notes == ("topology topo1 of 3, not flat, topo2",)
    assert tiers(found, "node01", "node02", "node04") == [1, 2]


def test_a_topology_can_be_named():
    found = parse_topology_yaml(TREE, "topo2")
    assert tiers(found, "node01", "node02", "node03") == [1, 2]
    with pytest.raises(MachineError, match="it is flat"):
        parse_topology_yaml(TREE, "flat")
    with pytest.raises(MachineError, match="it has flat, topo1, topo2"):
        parse_topology_yaml(TREE, "none")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing",
        "a: b",
        "- a",
        "- topology: x\n  tree:\n    switches: 5",
        "- topology: x\n  tree:\n    switches:\n      - name: s1",
        "- topology: x\n\ttree: y",
        "- topology: x\n  topology: y",
        "- topology: x\n   tree: y",
        "- topology: &a x",
        "- topology: x\n  block:\n    block_sizes: [a]\n    blocks:\n    - block: b",
        "- topology: x\n  tree:\n    switches: [a",
        "- " * 20_000,
        YAML,
    ],
)
def test_unusable_yaml_is_an_error_of_one_line(text):
    with pytest.raises(MachineError) as error:
        parse_topology_yaml(text)
    assert "\n" not in str(error.value)


def test_yaml_scalars_lists_and_nesting_are_read():
    text = (
        "a: 1\nb:\n  - x\n  - - 2\n    - 'y: z'\n  - c: true\n    d: ~\ne: [1, \"f, g\", n[1-2]]\nh:\n- i\n"
    )
    assert load_yaml(text, "t") == {
        "a": 1,
        "b": ["x", [2, "y: z"], {"c": True, "d": None}],
        "e": [1, "f, g", "n[1-2]"],
        "h": ["i"],
    }


def test_models_of_another_tool_are_yaml_that_is_read(folder):
    for path in sorted((folder / "models").glob("*.yaml")):
        document = load_yaml(path.read_text(), path.name)
        assert isinstance(document, dict)
        assert document["switches"]


def test_recorded_fabric_gives_rails_below_one_tier_of_spines(folder):
    text = (folder / "ibnetdiscover" / "example.out").read_text()
    found = parse_ibnetdiscover(text)
    fabric = Fabric(found.switches)
    assert is_ibnetdiscover(text)
    named = set(re.findall(r'^Ca\s+\d+ "[^"]+"\s*# "([a-z]\d\d-p1-dgx-\S+) ', text, re.MULTILINE))
    assert named <= set(found.nodes)
    assert max(fabric.height.values()) == 2
    assert sum(1 for s in found.switches if s.nodes) == 8
    # Each scalable unit has its own set of leaves: a05 ... a08, b05 ... b08.
    for switch in found.switches:
        assert len({n[:3] for n in switch.nodes if "dgx" in n}) == bool(switch.nodes)
    assert tiers(found, "a05-p1-dgx-01-c01", "a05-p1-dgx-01-c03", "b08-p1-dgx-08-c01") == [1, 2]


def test_fabric_without_switches_is_an_error(folder):
    with pytest.raises(MachineError, match="has no Switch"):
        parse_ibnetdiscover((folder / "ibnetdiscover" / "example-bad.out").read_text())


def fat_tree(hosts: int = 8, leaves: int = 4, spines: int = 2) -> str:
    """A small two-tier fabric as ibnetdiscover prints it."""
    lines = []
    for leaf in range(leaves):
        lines.append(f'Switch\t36 "S-1{leaf:03}"\t\t# "leaf{leaf}" enhanced port 0 lid {leaf} lmc 0')
        for host in range(leaf * hosts // leaves, (leaf + 1) * hosts // leaves):
            lines.append(f'[{host + 1}]\t"H-{host:04}"[1](abc) \t\t# "n{host} mlx5_0" lid 5 4xEDR')
        lines += [f'[{30 + s}]\t"S-2{s:03}"[{leaf + 1}]\t\t# "spine{s}" lid 9 4xEDR' for s in range(spines)]
        lines.append("")
    for s in range(spines):
        lines.append(f'Switch\t36 "S-2{s:03}"\t\t# "spine{s}" enhanced port 0 lid 9 lmc 0')
        lines += [
            f'[{leaf + 1}]\t"S-1{leaf:03}"[{30 + s}]\t\t# "leaf{leaf}" lid 9 4xEDR' for leaf in range(leaves)
        ]
        lines.append("")
    for host in range(hosts):
        lines.append(f'Ca\t1 "H-{host:04}"\t\t# "n{host} mlx5_0"')
        lines += [
            f'[1](abc) \t"S-1{host * leaves // hosts:03}"[{host + 1}]\t\t# lid 5 "leaf" lid 9 4xEDR',
            "",
        ]
    return "\n".join(lines) + "\n"


def test_fat_tree_becomes_leaves_below_one_switch():
    found = parse_ibnetdiscover(fat_tree())
    assert found.notes == ()
    assert [s.name for s in found.switches] == ["leaf0", "leaf1", "leaf2", "leaf3", "spine0+1"]
    assert tiers(found, "n0", "n1", "n2", "n7") == [1, 2, 2]


def test_fabric_cut_at_any_line_is_refused_or_lacks_only_what_is_cut():
    text = fat_tree()
    lines = text.split("\n")
    whole = parse_ibnetdiscover(text)
    refused = 0
    for length in range(len(lines)):
        cut = parsed_or_none(parse_ibnetdiscover, "\n".join(lines[:length]))
        refused += cut is None
        assert cut is None or cut.switches == whole.switches
    assert refused > len(lines) * 0.8


def test_tree_cut_at_any_line_never_moves_a_node(folder):
    text = (folder / "expected.slinky-oci-sim-tree.conf").read_text()
    whole = {n: s.name for s in parse_topology_conf(text).switches for n in s.nodes}
    lines = text.split("\n")
    for length in range(len(lines)):
        cut = parsed_or_none(parse_topology_conf, "\n".join(lines[:length]))
        for switch in cut.switches if cut else ():
            assert all(whole[node] == switch.name for node in switch.nodes)


def test_mutated_fabrics_are_refused_or_form_a_tree(folder):
    rng = random.Random(11)
    sources = [
        (parse_topology_conf, (folder / "expected.slinky-oci-sim-tree.conf").read_text()),
        (parse_topology_conf, (folder / "expected.slinky-dra-block.conf").read_text()),
        (parse_topology_conf, SCONTROL),
        (parse_topology_yaml, TREE),
        (parse_ibnetdiscover, fat_tree()),
    ]
    alphabet = "SNswitch=[]-,0123456789 \n\\#\"'():{}\t&"
    accepted = 0
    for _ in range(3000):
        parse, text = rng.choice(sources)
        characters = list(text)
        for _ in range(rng.choice([1, 1, 3, 10])):
            at = rng.randrange(len(characters))
            if rng.random() < 0.5:
                characters[at] = rng.choice(alphabet)
            else:
                del characters[at : at + rng.randrange(1, 12)]
        found = parsed_or_none(parse, "".join(characters))
        if found is None:
            continue
        accepted += 1
        parsed_or_none(Fabric, found.switches)
    assert accepted > 300


def test_dragonfly_is_a_tree_of_groups():
    text = "".join(f"SwitchName=r{i} Nodes=n[{i * 2}-{i * 2 + 1}]\n" for i in range(6))
    text += "SwitchName=g0 Switches=r[0-2]\nSwitchName=g1 Switches=r[3-5]\nSwitchName=all Switches=g[0-1]\n"
    switches = parse_topology_conf(text).switches
    machine = build_cluster([NodeShape(f"n{i}") for i in range(12)], switches).machine()
    assert [level.name for level in machine.levels] == ["node", "switch", "switch2", "switch3"]
