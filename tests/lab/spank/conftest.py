"""The SPANK plugin in the lab, with a stand-in for ``slurm-topo place`` whose plans are known beforehand."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slurm_topo.lab.cluster import Lab

GRAPH = "9f86d081884c7d65"
USER = "nobody"
UID = 65534
NO_HOOK = """
function slurm_job_submit(job, parts, uid) return slurm.SUCCESS end
function slurm_job_modify(job, record, parts, uid) return slurm.SUCCESS end
return slurm.SUCCESS
"""

# Rank r runs on node r mod N, on its CPU 1 - r div N: neither Slurm's nodes nor its CPUs; where the nodes are
# kept, on the other CPU of Slurm's node. `pairs`: on both CPUs of node N - 1 - r; `blocks`: ranks of a node
# follow each other; `uneven`: one on each node, the rest on the last. The other words of `mode` break it.
PLACE = r"""#!/bin/sh
mode=$(cat {folder}/mode)
echo "$mode" >> {folder}/calls
while [ $# -gt 0 ]; do
  case "$1" in
    --plan) plan=$2;; --ntasks) n=$2;; --cpus-per-task) c=$2;; --nodes) nodes=$2;; --graph) graph=${{2##*/}};;
    --keep-nodes) keep=1;;
  esac
  shift
done
case "$mode" in
  hang) exec sleep 1000;;
  crash) kill -SEGV $$;;
  fail) echo "no such machine" >&2; exit 6;;
  silent) exit 0;;
  rubbish) head -c 3000 /dev/urandom > "$plan"; exit 0;;
  empty) : > "$plan"; exit 0;;
esac
hosts=$(scontrol show hostnames "${{SLURM_JOB_NODELIST:-$SLURM_NODELIST}}" | head -n "${{nodes:-1000}}")
count=$(echo "$hosts" | wc -l)
{{
  printf '%s\n' "slurm-topo-plan 1" "job $SLURM_JOB_ID" "ranks $n" "cpus_per_task $c" "decision place"
  printf '%s\n' "reason cost" "graph ${{graph%.npz}}" "cost 0.5" "baseline block:block 0.75" "nodes $count"
  i=0; for h in $hosts; do echo "node $i $h"; i=$((i+1)); done
  r=0
  while [ $r -lt $n ]; do
    where="$((r % count)) cpus=$((1 - r / count))"
    [ "$mode" = pairs ] && where="$((count - 1 - r)) cpus=0-1"
    [ -n "$keep" ] && where="$((r * count / n)) cpus=$((1 - r % 2))"
    [ "$mode" = blocks ] && where="$((r * count / n)) cpus=$((1 - r % (n / count)))"
    if [ "$mode" = uneven ]; then
      last=$((r >= count ? r - count + 1 : 0))
      where="$((r - last)) cpus=$((1 - last))"
    fi
    echo "rank $r $where mem=0 gpus=-"; r=$((r+1))
  done
  echo "end $n"
}} > "$plan.new"
[ "$mode" = foreign ] && sed -i 's/ n[0-9]*$/ elsewhere/' "$plan.new"
[ "$mode" = version ] && sed -i '1s/1/2/' "$plan.new"
[ "$mode" = truncated ] && head -c 150 "$plan.new" > "$plan.cut" && mv "$plan.cut" "$plan.new"
mv "$plan.new" "$plan"
"""


@dataclass(frozen=True)
class Outcome:
    """What a command in a job did."""

    code: int
    out: str
    err: str

    @property
    def ranks(self) -> dict[int, tuple[str, str]]:
        """Rank -> (node, CPU list), of ranks that printed them first in a line."""
        rows = [line.split() for line in self.out.splitlines()]
        return {int(row[0]): (row[1], row[2]) for row in rows}

    @property
    def policies(self) -> set[str]:
        return {line.split()[3] for line in self.out.splitlines()}

    @property
    def lines(self) -> list[str]:
        """What srun said about us."""
        return [line for line in self.err.splitlines() if "slurm-topo" in line]


class Site:
    """A lab whose plugin uses the stand-in; ``in_job`` runs several commands in one allocation."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.spool = folder / "spool"
        self.user = self.spool / str(UID)
        self.mode("ok")

    def mode(self, word: str) -> None:
        path = self.folder / "mode"
        path.write_text(word)
        path.chmod(0o666)

    def reset(self) -> None:
        """An empty spool with the graph in it."""
        shutil.rmtree(self.spool, ignore_errors=True)
        self.spool.mkdir()
        self.spool.chmod(0o1777)
        graphs = self.user / "graphs"
        graphs.mkdir(parents=True, mode=0o700)
        (graphs / f"{GRAPH}.npz").touch()
        for path in (self.user, graphs, graphs / f"{GRAPH}.npz"):
            os.chown(path, UID, UID)
        self.user.chmod(0o700)
        (self.folder / "calls").unlink(missing_ok=True)
        self.mode("ok")

    def know(self, *lines: str) -> None:
        """The user's advice for steps: lines of a key and what follows it."""
        folder = self.user / "advice"
        folder.mkdir(mode=0o700, exist_ok=True)
        text = "".join(f"step {line} graph={GRAPH} arm=enforce trace=0\n" for line in lines)
        path = folder / "steps"
        path.write_text(f"slurm-topo-steps 1\nholdout 0\n{text}end {len(lines)}\n")
        for made in (folder, path):
            os.chown(made, UID, UID)

    def in_job(
        self,
        commands: Mapping[str, str],
        *options: str,
        env: Mapping[str, str] | None = None,
        launcher: str = "salloc",
        marked: bool = False,
    ) -> dict[str, Outcome]:
        """Run each shell command in one allocation of `options`, as the user; results by name.

        `marked`: the job has our variables from its submission on, not only inside its script.
        """
        work = Path(self.folder, f"job{len(list(self.folder.glob('job*')))}")
        work.mkdir()
        os.chown(work, UID, UID)
        exports = {"SLURM_TOPO_JOB_ARM": "enforce", "SLURM_TOPO_JOB_GRAPH": GRAPH, **(env or {})}
        lines = ["#!/bin/bash"]
        if not marked:
            lines.append("unset ${!SLURM_TOPO_JOB_*}")
            lines += [f"export {name}={shlex.quote(value)}" for name, value in exports.items()]
        for i, command in enumerate(commands.values()):
            (work / f"{i}.sh").write_text(command + "\n")
            lines.append(f"( . {work}/{i}.sh ) > {work}/{i}.out 2> {work}/{i}.err; echo $? > {work}/{i}.code")
        script = work / "script"
        script.write_text("\n".join(lines) + "\n")
        script.chmod(0o755)
        if launcher == "salloc":
            argv = ["salloc", "--quiet", *options, str(script)]
        else:
            # Its own --wait looks every 32 seconds in the end.
            argv = ["sbatch", "--output", str(work / "log"), *options, str(script)]
        result = self.lab.run(argv, user=USER, cwd=str(work), env=exports if marked else {}, timeout=240)
        assert result.returncode == 0, result.stderr
        if launcher != "salloc":
            self.settle(120)
        self.output = (work / "log").read_text() if launcher != "salloc" else result.stdout
        return {
            name: Outcome(
                int((work / f"{i}.code").read_text()),
                (work / f"{i}.out").read_text(),
                (work / f"{i}.err").read_text(),
            )
            for i, name in enumerate(commands)
        }

    @contextmanager
    def without_hook(self) -> Iterator[None]:
        """The hook takes marks away that it has not set itself: a script of the site without it.

        slurmctld reads its script again where that is newer by a second.
        """
        hook = self.lab.layout.etc("job_submit.lua")
        before = hook.read_text()
        time.sleep(1.1)
        hook.write_text(NO_HOOK)
        try:
            yield
        finally:
            time.sleep(1.1)
            hook.write_text(before)
            time.sleep(1.1)

    def settle(self, seconds: int = 30) -> None:
        """Wait until no job is left, completing ones included: then every node has ended its steps."""
        for _ in range(10 * seconds):
            if not self.lab.run(["squeue", "-h"]).stdout.strip():
                return
            time.sleep(0.1)
        pytest.fail("a job does not end")

    def records(self, where: str) -> list[dict[str, Any]]:
        lines = [line for path in self.user.glob("records/*.rec") for line in path.read_text().splitlines()]
        found = [json.loads(line) for line in lines]
        return sorted((r for r in found if r["where"] == where), key=lambda r: r["time"])

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().split() if path.exists() else []


@pytest.fixture(scope="module")
def spank_site(lab: Lab, lab_folder: Path) -> Iterator[Site]:
    """The lab with the plugin of its plugstack.conf, the arguments replaced by those of a :class:`Site`."""
    path = lab.layout.etc("plugstack.conf")
    before = path.read_text()
    match = re.match(r"optional (\S+slurm_topo\.so) ", before)
    if not match:
        pytest.fail(f"{path}: the plugin is not built; run `make native`")
    folder = lab_folder.with_name(lab_folder.name + "-spank")
    folder.mkdir()
    folder.chmod(0o777)
    tracer = re.search(r" tracer=(\S+)", before)
    assert tracer
    place = folder / "place"
    place.write_text(PLACE.format(folder=folder, graph=GRAPH))
    place.chmod(0o755)
    arguments = (
        f"spool={folder}/spool local_dir=/dev/shm tracer={tracer[1]} place={place} "
        f"kill_switch={folder}/disabled deadline_ms=3000"
    )
    path.write_text(f"optional {match[1]} {arguments}\noptional /nowhere/missing.so\n")
    try:
        yield Site(lab, folder)
    finally:
        path.write_text(before)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def site(spank_site: Site) -> Site:
    """The site with an empty spool."""
    spank_site.reset()
    return spank_site
