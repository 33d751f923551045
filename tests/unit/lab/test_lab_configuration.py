"""What a lab's Slurm, hosts and links are told: options in, text out."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_topo.config import load_settings
from slurm_topo.errors import LabError
from slurm_topo.lab import files, integrate, jobsubmit, nodeconf, slurmconf, state
from slurm_topo.lab.host import HostFacts
from slurm_topo.lab.layout import Layout, check_folder
from slurm_topo.lab.options import LabOptions
from slurm_topo.slurm.gres import parse_gres_conf
from slurm_topo.units import expand_hostlist

HOST = HostFacts(
    cpus=2, slurm=(22, 5), hosts="127.0.0.1 localhost\n192.0.2.9 n1 other\n", openmpi_params=True
)


def layout_of(**options: object) -> Layout:
    return Layout(Path("/srv/lab"), 3, LabOptions(**options))  # type: ignore[arg-type]


def settings_of(text: str) -> dict[str, str]:
    lines = [
        line
        for line in text.splitlines()
        if "=" in line and not re.match("(Node|Partition|Switch)Name", line)
    ]
    return dict(line.split("=", 1) for line in lines)


def records_of(text: str, kind: str) -> list[dict[str, str]]:
    lines = [line for line in text.splitlines() if line.startswith(f"{kind}=")]
    return [dict(word.split("=", 1) for word in line.split()) for line in lines]


@pytest.mark.parametrize(("gpus", "cpus"), [(1, 1), (2, 2), (4, 2), (2, 7)])
def test_each_gpu_is_next_to_its_share_of_the_cores(gpus: int, cpus: int) -> None:
    layout = layout_of(gpus=gpus, cpus=cpus)
    text = slurmconf.slurm_conf(layout, HOST)
    assert settings_of(text)["GresTypes"] == "gpu"
    assert {r["Gres"] for r in records_of(text, "NodeName")} == {f"gpu:{gpus}"}
    near = parse_gres_conf(slurmconf.gres_conf(layout))[""]
    assert len(near) == gpus
    assert set(range(cpus)) == {core for cores in near for core in cores}
    assert max(near[-1]) <= min(near[0]), "numbered against the cores"


def test_lab_without_gpus_says_nothing_of_them() -> None:
    assert "gres" not in slurmconf.slurm_conf(layout_of(), HOST).lower()
    assert parse_gres_conf(slurmconf.gres_conf(layout_of())) == {}


@pytest.mark.parametrize(("nodes", "switches"), [(4, 2), (1, 1), (7, 3), (5, 5), (200, 7)])
def test_each_node_hangs_on_one_switch_and_all_hang_together(nodes: int, switches: int) -> None:
    layout = layout_of(nodes=nodes, switches=switches)
    topology = records_of(slurmconf.topology_conf(layout), "SwitchName")
    leaves = {r["SwitchName"]: expand_hostlist(r["Nodes"]) for r in topology if "Nodes" in r}
    everybody = [node for members in leaves.values() for node in members]
    assert everybody == [node.name for node in layout.nodes]
    assert len(leaves) == switches
    sizes = [len(members) for members in leaves.values()]
    assert max(sizes) - min(sizes) <= 1
    tops = [expand_hostlist(r["Switches"]) for r in topology if "Switches" in r]
    assert tops == ([list(leaves)] if switches > 1 else [])


def test_slurm_conf_names_every_node_with_its_address() -> None:
    layout = layout_of(nodes=5, cpus=2, memory=512)
    records = records_of(slurmconf.slurm_conf(layout, HOST), "NodeName")
    assert [(r["NodeName"], r["NodeAddr"]) for r in records] == [(n.name, n.address) for n in layout.nodes]
    assert {(r["CPUs"], r["CoresPerSocket"], r["RealMemory"]) for r in records} == {("2", "2", "512")}
    assert len({r["NodeAddr"] for r in records} | {layout.login_address, layout.host_address}) == 7


def test_labs_have_networks_of_their_own() -> None:
    networks = {replace(layout_of(), number=number).network for number in range(512)}
    assert len(networks) == 512
    assert {network.split(".")[1] for network in networks} == {"18", "19"}
    assert max(len(replace(layout_of(), number=n).host_interface) for n in range(512)) <= 15


def test_everything_that_slurm_writes_is_in_the_folder() -> None:
    layout = layout_of()
    text = "".join(files.configuration(layout, HOST).values())
    paths = set(re.findall(r"(?<![\w/.])(/[\w./%-]+)", text))
    outside = {path for path in paths if not path.startswith("/srv/lab/")}
    known = {"/bin/true", "/dev/shm", str(integrate.lua_dir() / "slurm_topo.lua"), integrate.command()}
    assert outside <= known | {
        str(integrate.library_dir("")),
        str(integrate.library_dir("") / integrate.PLUGIN),
    }


def test_no_two_nodes_share_a_directory_of_slurm() -> None:
    settings = settings_of(slurmconf.slurm_conf(layout_of(), HOST))
    per_node = ("SlurmdSpoolDir", "SlurmdPidFile", "SlurmdLogFile", "TmpFS")
    assert all("%n" in settings[name] for name in per_node)


def test_directories_that_the_configuration_names_are_made() -> None:
    layout = layout_of()
    settings = settings_of(slurmconf.slurm_conf(layout, HOST))
    made = layout.directories()
    for node in layout.nodes:
        for name in ("SlurmdSpoolDir", "TmpFS"):
            assert Path(settings[name].replace("%n", node.name)) in made
    assert Path(settings["StateSaveLocation"]) in made
    assert made[layout.spool] == 0o1777


def test_a_bare_slurm_knows_nothing_of_slurm_topo(tmp_path: Path) -> None:
    layout = layout_of(integrate=False, library_dir=str(tmp_path))
    (tmp_path / integrate.PLUGIN).touch()
    texts = files.configuration(layout, HOST)
    assert "JobSubmitPlugins" not in texts["slurm.conf"]
    assert {"job_submit.lua", "slurm-topo.toml"}.isdisjoint(texts)
    assert all(line.startswith("#") for line in texts["plugstack.conf"].splitlines())


def test_the_plugin_is_optional_and_gets_absolute_paths(tmp_path: Path) -> None:
    layout = layout_of(library_dir=str(tmp_path))
    (tmp_path / integrate.PLUGIN).touch()
    need, plugin, *arguments = integrate.plugstack_conf(layout).split()
    assert (need, plugin) == ("optional", str(tmp_path / integrate.PLUGIN))
    values = dict(argument.split("=", 1) for argument in arguments)
    assert values.pop("deadline_ms").isdigit()
    assert set(values) == {"spool", "local_dir", "tracer", "place", "config", "kill_switch"}
    assert all(value.startswith("/") for value in values.values())


def test_a_plugin_that_is_not_built_is_left_out_and_named(tmp_path: Path) -> None:
    layout = layout_of(library_dir=str(tmp_path))
    assert integrate.plugstack_conf(layout).startswith("#")
    assert "make native" in integrate.missing_parts(layout)[0]
    (tmp_path / integrate.PLUGIN).touch()
    assert integrate.missing_parts(layout) == []


def test_the_settings_file_is_one_that_slurm_topo_reads(tmp_path: Path) -> None:
    layout = layout_of()
    path = tmp_path / "slurm-topo.toml"
    path.write_text(integrate.settings_toml(layout))
    settings = load_settings(path, {})
    assert (settings.arm, settings.holdout) == ("enforce", 0.0)
    assert (settings.spool, settings.advice_dir) == (str(layout.spool), str(layout.advice))
    script = jobsubmit.job_submit_lua(layout)
    assert f'"{settings.kill_switch}"' in script
    assert f'"{settings.advice_dir}"' in script


@pytest.mark.parametrize(("cpus", "plugin"), [(1, "task/affinity"), (2, "task/affinity"), (4, "task/none")])
def test_tasks_are_bound_where_the_machine_has_the_cpus(cpus: int, plugin: str) -> None:
    assert settings_of(slurmconf.slurm_conf(layout_of(cpus=cpus), HOST))["TaskPlugin"] == plugin


@pytest.mark.parametrize(("slurm", "plugin"), [((22, 5), "cgroup/v1"), ((24, 11), "disabled")])
def test_slurmd_looks_for_no_cgroups(slurm: tuple[int, int], plugin: str) -> None:
    assert settings_of(slurmconf.cgroup_conf(replace(HOST, slurm=slurm))) == {"CgroupPlugin": plugin}


def test_hosts_file_keeps_the_machines_names_except_those_of_the_lab() -> None:
    lines = nodeconf.hosts_file(layout_of(), HOST.hosts).splitlines()
    assert lines[0] == "127.0.0.1 localhost"
    assert [line for line in lines if "n1" in line.split()] == ["198.18.3.1 n1"]


def test_links_are_shaped_at_both_ends_and_uplinks_slower() -> None:
    layout = layout_of(link_speed="80mbit", uplink_speed="20mbit")
    rates = re.findall(r"dev (\S+) root tbf rate (\S+)", nodeconf.login_script(layout))
    assert rates == [(end, "20mbit") for end in ("s1-up", "top-s1", "s2-up", "top-s2")]
    node = layout.nodes[3]
    shaped = re.findall(r"dev (\S+) root tbf rate (\S+)", nodeconf.node_script(layout, node))
    assert shaped == [("eth0", "80mbit"), ("n4", "80mbit")]


def test_one_switch_has_no_shaped_uplink() -> None:
    assert "tbf" not in nodeconf.login_script(layout_of(switches=1))


def test_interface_names_fit_the_kernel() -> None:
    script = nodeconf.login_script(layout_of(nodes=200, switches=200))
    assert max(map(len, re.findall(r"(?:dev|add|name|set) (\S+)", script))) <= 15


def test_a_folder_too_deep_for_sockets_is_refused() -> None:
    assert check_folder(Path("/var/tmp/lab")) == Path("/var/tmp/lab")
    with pytest.raises(LabError, match="shorter --dir"):
        check_folder(Path("/") / ("x" * 80))


@pytest.mark.parametrize("name", ["a b", "a:b", "a'b", "a\nb", "ü"])
def test_a_folder_that_slurms_files_cannot_name_is_refused(name: str) -> None:
    with pytest.raises(LabError, match="another --dir"):
        check_folder(Path("/srv") / name)


def test_state_is_written_whole_and_rubbish_is_no_state(tmp_path: Path) -> None:
    written = state.State(LabOptions(nodes=3), 7, complete=True)
    state.write(tmp_path, written)
    assert state.read(tmp_path) == written
    text = (tmp_path / "lab.json").read_text()
    for rubbish in ("", text[: len(text) // 2], "[]", '{"number": "x"}'):
        (tmp_path / "lab.json").write_text(rubbish)
        assert state.read(tmp_path) is None
    assert state.is_lab(tmp_path)


def test_a_folder_with_other_files_is_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(LabError, match="not a lab's"):
        state.claim(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_secret_file_is_never_readable_by_others(tmp_path: Path) -> None:
    path = tmp_path / "munge.key"
    state.write_file(path, b"secret", 0o400)
    state.write_file(path, b"other", 0o400)
    assert path.read_bytes() == b"other"
    assert path.stat().st_mode & 0o777 == 0o400
    assert [p.name for p in tmp_path.iterdir()] == ["munge.key"]
