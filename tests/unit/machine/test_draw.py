"""Drawings: well-formed, complete, inside their frame, the same every time, and readable in grey."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from itertools import combinations

import pytest
from click.testing import CliRunner

from slurm_topo.cli.machine import machine
from slurm_topo.errors import InputError, MachineError
from slurm_topo.hwloc import reader
from slurm_topo.machine import Fabric, NodeShape, Switch, build_cluster, write_cluster
from slurm_topo.machine.affinity import find_affinity
from slurm_topo.machine.devices import find_devices
from slurm_topo.machine.draw import draw_cluster, draw_node
from slurm_topo.machine.draw.canvas import STYLES, fitted, text_width
from slurm_topo.machine.gpulinks import parse_topo_matrix

SVG = "{http://www.w3.org/2000/svg}"


def parse(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def words(root) -> str:
    return "\n".join(t.text or "" for t in root.iter(f"{SVG}text"))


def boxes(root, kind):
    return [e for e in root.iter() if e.get("class") == kind]


def inside(root) -> None:
    """Everything lies within the view box."""
    _, _, width, height = map(float, root.get("viewBox").split())
    for rect in root.iter(f"{SVG}rect"):
        assert float(rect.get("x", 0)) + float(rect.get("width")) <= width + 0.1
        assert float(rect.get("y", 0)) + float(rect.get("height")) <= height + 0.1
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(text.get("x")) <= width
        assert 0 < float(text.get("y")) <= height


def loadable(shared_data):
    for path in sorted((shared_data / "data" / "hwloc").glob("*.xml")):
        try:
            yield path.stem, reader.load_xml(path)
        except MachineError:
            continue


def test_every_recorded_node_is_drawn_complete(shared_data):
    seen = 0
    for name, topology in loadable(shared_data):
        seen += 1
        root = parse(draw_node(topology))
        inside(root)
        text = words(root)
        cores = [c for c in topology.of_kind("Core") if c.cpuset]
        # One more box of each kind is in the legend.
        kinds = [len(boxes(root, kind)) for kind in ("core", "unusable", "slowcore")]
        assert sum(max(count - 1, 0) for count in kinds) == len(cores), name
        for device in find_devices(topology):
            assert device.label in text, (name, device.label)
        for node in topology.of_kind("NUMANode"):
            assert f"NUMA {node.os_index}" in text
    assert seen >= 20


def test_no_box_of_a_device_overlaps_another(shared_data):
    for name, topology in loadable(shared_data):
        root = parse(draw_node(topology))
        placed = [
            tuple(float(r.get(k)) for k in ("x", "y", "width", "height"))
            for kind in ("gpu", "nic", "nvme", "dram", "hbm", "core")
            for r in boxes(root, kind)
            if r.tag == f"{SVG}rect"
        ]
        for a, b in combinations(placed[:400], 2):
            apart = (
                a[0] + a[2] <= b[0] + 0.01
                or b[0] + b[2] <= a[0] + 0.01
                or a[1] + a[3] <= b[1] + 0.01
                or b[1] + b[3] <= a[1] + 0.01
            )
            assert apart, (name, a, b)


def test_texts_of_devices_fit_into_their_boxes(shared_data):
    for name, topology in loadable(shared_data):
        root = parse(draw_node(topology))
        texts = [
            (float(t.get("x")), float(t.get("y")), float(t.get("font-size")), t.text)
            for t in root.iter(f"{SVG}text")
        ]
        for kind in ("gpu", "nic", "nvme"):
            for rect in (
                r for r in boxes(root, kind) if r.tag == f"{SVG}rect" and float(r.get("width")) > 20
            ):
                x, y, width, height = (float(rect.get(k)) for k in ("x", "y", "width", "height"))
                for tx, ty, size, text in texts:
                    if x <= tx < x + width and y < ty <= y + height:
                        assert tx + text_width(text, size) <= x + width + 1, (name, text)


def test_drawing_is_the_same_every_time(shared_data):
    path = shared_data / "data" / "hwloc" / "mpibind__coral-lassen.xml"
    assert draw_node(reader.load_xml(path)) == draw_node(reader.load_xml(path))


def test_markup_in_names_is_escaped():
    topology = reader.load_synthetic("package:1 core:2 pu:1")
    renamed = type(topology)(**{**topology.__dict__, "origin": '<b>&"x"</b>'})
    assert '<b>&"x"</b>' in words(parse(draw_node(renamed)))


def test_links_between_gpus_are_drawn_by_kind(shared_data):
    topology = reader.load_xml(shared_data / "data" / "hwloc" / "other__flux-core__ipa20.xml")
    root = parse(draw_node(topology))
    assert "NVLink, 150 GB/s, 6 pairs" in words(root)
    lines = [e for e in root.iter(f"{SVG}line") if e.find(f"{SVG}title") is not None]
    assert len(lines) == 6


def test_a_switch_of_all_gpus_sits_in_the_middle(shared_data):
    topology = reader.load_xml(shared_data / "data" / "hwloc" / "mpibind__g4dnmetal.xml")
    labels = [f"GPU{i}" for i in range(8)]
    rows = [f"{a} " + " ".join("X" if a == b else "NV18" for b in labels) for a in labels]
    links = parse_topo_matrix("\n".join([" ".join(labels), *rows]))
    assert {p.kind for row in find_affinity(topology, links).paths for p in row} >= {"nvswitch"}
    root = parse(draw_node(topology, links))
    assert "NVSwitch" in words(root)
    assert len(boxes(root, "switch")) == 1


def grey(colour: str) -> float:
    """Relative luminance of a colour, 0..1."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_kinds_of_devices_differ_in_a_grey_print():
    """By lightness, or else by the dashes of their outline."""
    for a, b in combinations(("gpu", "nic", "nvme", "core", "dram", "hbm"), 2):
        (fill_a, line_a, dash_a), (fill_b, line_b, dash_b) = STYLES[a], STYLES[b]
        differ = abs(grey(fill_a) - grey(fill_b)) + abs(grey(line_a) - grey(line_b)) > 0.05
        assert differ or dash_a != dash_b, (a, b)
    assert STYLES["unusable"][0].startswith("url("), "hatched"


def test_efficiency_cores_look_different(shared_data):
    folder = shared_data / "data" / "hwloc"
    hybrid = parse(draw_node(reader.load_xml(folder / "from-fsroot__20em64t-hybrid-1p6c2t+2ca4co1t.xml")))
    # Eight of them and six others, and the legend.
    assert (len(boxes(hybrid, "slowcore")), len(boxes(hybrid, "core"))) == (8 + 1, 6 + 1)
    assert not boxes(parse(draw_node(reader.load_synthetic("core:4 pu:2"))), "slowcore")


def test_text_is_cut_to_its_box():
    assert fitted("abc", 10, 1000) == "abc"
    assert fitted("a long name of a switch", 10, 60).endswith("…")
    assert text_width(fitted("a long name of a switch", 10, 60), 10) <= 60
    assert fitted("abc", 10, 1) == ""


def cluster():
    shapes = [NodeShape(f"n{i}", 2, 4, 1) for i in range(4)] + [NodeShape("fat<1>", 1, 64, 2)]
    switches = [
        Switch("leaf1", ("n0", "n1")),
        Switch("leaf2", ("n2", "n3")),
        Switch("top", (), ("leaf1", "leaf2")),
    ]
    return build_cluster(shapes, switches, name="site & co")


def test_cluster_shows_switches_classes_and_costs():
    root = parse(draw_cluster(cluster()))
    inside(root)
    text = words(root)
    for word in (
        "site & co",
        "leaf1",
        "leaf2",
        "top",
        "without a switch",
        "2 x class1",
        "1 x class2",
        "assumed",
        "switch3",
    ):
        assert word in text
    assert "n[2-3]" in text


def test_deep_and_wide_clusters_are_drawn():
    chain = [Switch(f"s{i}", (f"n{i}",), (f"s{i + 1}",) if i < 59 else ()) for i in range(60)]
    deep = build_cluster([NodeShape(f"n{i}") for i in range(60)], chain)
    assert max(Fabric(chain).height.values()) == 60
    inside(parse(draw_cluster(deep)))


def test_command_writes_a_file_or_prints(tmp_path):
    out, description = tmp_path / "x.svg", tmp_path / "c.json"
    write_cluster(cluster(), description)
    assert CliRunner().invoke(machine, ["draw", str(description), "-o", str(out)]).exit_code == 0
    assert parse(out.read_text()).tag == f"{SVG}svg"
    printed = CliRunner().invoke(machine, ["draw", "--synthetic", "package:2 core:2 pu:2"]).output
    assert re.match(r"<svg .*</svg>\n$", printed, re.DOTALL)
    failed = CliRunner().invoke(machine, ["draw", str(description), "-o", str(tmp_path / "no" / "x.svg")])
    assert isinstance(failed.exception, InputError)
    both = CliRunner().invoke(machine, ["draw", "x.xml", "--synthetic", "core:2"])
    assert "two machines" in str(both.exception)


@pytest.mark.parametrize(
    "text", ["core:1 pu:1", "package:17 numa:1 core:2 pu:1", "numa:4 core:300 pu:1", "pu:3"]
)
def test_odd_nodes_are_drawn(text):
    inside(parse(draw_node(reader.load_synthetic(text))))
