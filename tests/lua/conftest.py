"""slurmctld's Lua, as the submit hook sees it: each test runs in every Lua that slurmctld may link."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
HOOK = HERE.parent.parent / "job_submit" / "slurm_topo.lua"
NO_VAL, NO_VAL16 = 4294967294.0, 65534.0
SITE_SCRIPT = """
function slurm_job_submit(job_desc, part_list, submit_uid) return slurm.SUCCESS end
function slurm_job_modify(job_desc, job_rec, part_list, modify_uid) return slurm.SUCCESS end
"""
HALO = "#!/bin/sh\n#SBATCH -n 8\nsrun ./halo 40\n"


class Controller:
    """One Lua state with the fake slurm, a site script and the hook."""

    def __init__(self, version: str, advice: Path, site_script: str, settings: str = "") -> None:
        self.lua = importlib.import_module(f"lupa.{version}").LuaRuntime(encoding="latin-1")
        self.fake = self.lua.execute((HERE / "fake_slurm.lua").read_text())
        self.advice = advice
        self.kill_switch = advice.parent / "disabled"
        paths = f'advice_dir = "{advice}", kill_switch = "{self.kill_switch}"'
        self.lua.execute(site_script)
        self.lua.execute(f"slurm_topo_settings = {{ {paths}, {settings} }}")
        self.lua.execute(f'dofile("{HOOK}")')

    def job(self, environment: dict[str, str] | None = None, **fields: Any) -> Job:
        """An sbatch job of 8 tasks; environment None: a job of srun or salloc."""
        values: dict[str, Any] = {
            "user_id": 1000.0,
            "user_name": "ada",
            "account": "physics",
            "partition": "batch",
            "name": "halo",
            "script": HALO,
            "num_tasks": 8.0,
            "cpus_per_task": 1.0,
            "min_nodes": NO_VAL,
            "ntasks_per_node": NO_VAL16,
            "het_job_offset": NO_VAL,
            "shared": NO_VAL16,
            **fields,
        }
        table = self.lua.table_from({k: v for k, v in values.items() if v is not None})
        env = None if environment is None else self.lua.table_from(environment)
        return Job(self, self.fake.job(table, env), table, env)

    def submit(self, job: Job, uid: float = 1000.0) -> Any:
        """What slurmctld gets from ``slurm_job_submit``."""
        self.fake.written = self.lua.table()
        self.fake.opened = self.lua.table()
        return self.lua.globals().slurm_job_submit(job.proxy, self.lua.table(), uid)

    def write(self, name: str, text: str | bytes) -> Path:
        """An advice file; ``name`` is a key or ``site``."""
        path = self.advice / name if name == "site" else self.advice / name[1:3] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def write_site(self, arm: str = "enforce", holdout: str = "0", trace: str = "1") -> Path:
        return self.write("site", f"slurm-topo-advice 1\narm {arm}\nholdout {holdout}\ntrace {trace}\nend\n")

    def write_advice(self, key: str, **values: str | None) -> Path:
        """Advice for a key: place with graph ab12, nothing held out; values replace lines, None drops one."""
        lines = {"key": key, "program": "12", "graph": "ab12", "ranks": "8", "arm": "enforce"}
        lines = {**lines, "holdout": "0", "trace": "0", **values}
        body = "".join(f"{name} {value}\n" for name, value in lines.items() if value is not None)
        return self.write(key, f"slurm-topo-advice 1\n{body}end\n")

    def keys(self, **fields: Any) -> list[str]:
        """The keys that such a job gets."""
        job = self.job({}, **fields)
        self.submit(job)
        return job.marks["KEYS"].split(":")

    @property
    def logged(self) -> list[str]:
        return list(self.fake.logged.values())

    @property
    def written(self) -> list[str]:
        return list(self.fake.written.values())

    @property
    def opened(self) -> list[str]:
        return list(self.fake.opened.values())


class Job:
    """One job as the hook sees it, and what it left behind."""

    def __init__(self, controller: Controller, proxy: Any, table: Any, environment: Any) -> None:
        self.controller, self.proxy, self.table, self._environment = controller, proxy, table, environment

    @property
    def environment(self) -> dict[str, str]:
        return dict(self._environment.items())

    @property
    def marks(self) -> dict[str, str]:
        return {k[15:]: v for k, v in self.environment.items() if k.startswith("SLURM_TOPO_JOB_")}

    @property
    def comment(self) -> str | None:
        comment: str | None = self.table.admin_comment
        return comment


@pytest.fixture(params=["lua51", "lua53", "lua54"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Controller]:
    """Starts a controller: ``start(site_script, settings)``."""

    def begin(site_script: str = SITE_SCRIPT, settings: str = "") -> Controller:
        folder = tmp_path / "advice"
        folder.mkdir(exist_ok=True)
        controller = Controller(request.param, folder, site_script, settings)
        controller.write_site()
        return controller

    return begin
