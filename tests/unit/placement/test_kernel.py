"""The C kernel under sanitizers, driven by random problems in C."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SANITIZED = [
    "-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-DST_PLAIN",
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
]  # fmt: skip


def test_kernel_is_clean_under_sanitizers(project_root: Path, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    kernel = project_root / "slurm_topo" / "placement" / "kernel"
    driver = Path(__file__).with_name("kernel_driver.c")
    program = tmp_path / "driver"
    sources = [str(driver), *sorted(map(str, kernel.glob("*.c")))]
    subprocess.run([compiler, *SANITIZED, f"-I{kernel}", *sources, "-lm", "-o", str(program)], check=True)
    done = subprocess.run([str(program), "60"], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
