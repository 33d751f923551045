"""What the documents and samples say is what the code does."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import click
import pytest

from slurm_topo import errors
from slurm_topo.cli.main import COMMANDS, cli
from slurm_topo.config import Settings, load_settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^ *```[a-z]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def test_sample_settings_are_the_defaults_and_name_every_key() -> None:
    file = ROOT / "conf" / "slurm-topo.toml"
    assert load_settings(file, {}) == Settings()
    assert set(tomllib.loads(file.read_text(encoding="utf-8"))) == set(vars(Settings()))


def test_sample_plugstack_line_is_optional_and_its_arguments_are_known_to_the_plugin(tmp_path: Path) -> None:
    lines = (ROOT / "conf/plugstack.conf.d/slurm-topo.conf").read_text(encoding="utf-8").splitlines()
    (line,) = [text for text in lines if text and not text.startswith("#")]
    kind, _, *arguments = line.split()
    assert kind == "optional"
    main = tmp_path / "main.c"
    main.write_text(
        '#include "args.h"\n#include <stdio.h>\n'
        "int main(int argc, char **argv) { struct st_args a; struct st_why w;\n"
        "int rv = st_args_parse(argc - 1, argv + 1, &a, &w); if (rv) puts(w.text); return rv != 0; }\n"
    )
    spank = ROOT / "spank"
    sources = [str(spank / name) for name in ("args.c", "base.c")]
    command = ["cc", "-D_GNU_SOURCE", f"-I{spank}", "-o", str(tmp_path / "main"), str(main), *sources]
    subprocess.run(command, check=True)
    run = subprocess.run([str(tmp_path / "main"), *arguments], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "")
    assert subprocess.run([str(tmp_path / "main"), "spol=/x"], capture_output=True).returncode == 1


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def documented_commands() -> list[tuple[str, list[str]]]:
    """Every line of a code block that starts slurm-topo: (page, words)."""
    found = []
    for page in PAGES:
        for block in BLOCK.findall(page.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                for part in re.split(r"[;|]|&&", re.sub(r"\s#.*$", "", line)):
                    words = shlex.split(part.removeprefix("$ ").strip()) if "slurm-topo " in part else []
                    words = (
                        words[words.index("--") + 1 :] if words[:3] == ["slurm-topo", "lab", "run"] else words
                    )
                    if words and Path(words[0]).name == "slurm-topo":
                        found.append((page.name, words[1:]))
    return found


def unknown_word(words: list[str]) -> str | None:
    """The first command or option that the command line does not know."""
    group: click.Command = cli
    names = list(words)
    while names and isinstance(group, click.Group):
        context = click.Context(group)
        while names and names[0].startswith("-"):
            option = names.pop(0).split("=")[0]
            if option not in {o for p in group.get_params(context) for o in p.opts}:
                return option
            names = names[1:]
        if not names:
            return None
        name = names.pop(0)
        command = group.get_command(context, name)
        if command is None:
            return name
        group = command
    known = {o for p in group.get_params(click.Context(group)) for o in (*p.opts, *p.secondary_opts)}
    for word in names:
        if word == "--":
            break
        if word.startswith("--") and word.split("=")[0] not in known:
            return word
    return None


def test_every_documented_command_line_exists() -> None:
    commands = documented_commands()
    assert len(commands) >= 5
    assert [(page, words) for page, words in commands if unknown_word(words)] == []


def test_a_command_line_that_does_not_exist_is_found() -> None:
    assert unknown_word(["place", "--grahp", "x"]) == "--grahp"
    assert unknown_word(["plcae"]) == "plcae"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.help


def test_readme_tells_every_exit_code() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    told = set(re.findall(r"\b(\d+) \w", readme.partition("exit code:")[2].partition(".")[0]))
    classes = errors.SlurmTopoError.__subclasses__() + errors.InputError.__subclasses__()
    assert {str(c.exit_code) for c in classes} <= told
