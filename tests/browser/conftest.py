"""A real browser, headless; the tests skip where none is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip
# Reports to the page around it how wide it is, and every text of a picture that leaves its picture.
MEASURE = """<script>addEventListener('load', () => {
  const out = [];
  for (const svg of document.querySelectorAll('svg')) {
    const box = svg.getBoundingClientRect();
    for (const text of svg.querySelectorAll('text')) {
      const own = text.getBoundingClientRect();
      if (own.left < box.left - 2 || own.right > box.right + 2) out.push(text.textContent);
    }
  }
  parent.postMessage([innerWidth, document.documentElement.scrollWidth, out.join('|')].join(';'), '*');
})</script>"""
AROUND = """<!DOCTYPE html><body style="margin:0"><p id="found">none</p>
<script>
addEventListener('message', e => {{ document.getElementById('found').textContent = e.data; }});
</script>
<iframe src="{page}" style="border:0;width:{width}px;height:{height}px"></iframe></body>"""


@pytest.fixture(scope="session")
def browser() -> str:
    """Path of the browser."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not found:
        pytest.skip("no chromium here (apt-get install chromium)")
    return found


def run(browser: str, profile: Path, *argv: str) -> str:
    done = subprocess.run(
        [browser, *FLAGS, f"--user-data-dir={profile}", *argv],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.fixture
def measure(browser: str, tmp_path: Path) -> Callable[[Path, int], tuple[int, int, str]]:
    """Width of the view, width that the page takes, and texts that leave their pictures."""

    def of(page: Path, width: int) -> tuple[int, int, str]:
        copy = tmp_path / f"measured{width}.html"
        copy.write_text(
            page.read_text(encoding="utf-8").replace("</body>", MEASURE + "</body>"), encoding="utf-8"
        )
        around = tmp_path / f"around{width}.html"
        around.write_text(AROUND.format(page=copy.as_uri(), width=width, height=900), encoding="utf-8")
        dom = run(browser, tmp_path / "profile", "--virtual-time-budget=8000", "--dump-dom", around.as_uri())
        match = re.search(r'<p id="found">(\d+);(\d+);(.*?)</p>', dom, re.DOTALL)
        assert match, dom[:400]
        return int(match[1]), int(match[2]), match[3]

    return of


@pytest.fixture
def shoot(browser: str, tmp_path: Path) -> Callable[[Path, int], Path]:
    """A picture of a page at a width, kept in build/screenshots for people to look at."""

    def of(page: Path, width: int) -> Path:
        folder = Path(__file__).resolve().parents[2] / "build" / "screenshots"
        folder.mkdir(parents=True, exist_ok=True)
        around = tmp_path / f"shot{width}.html"
        around.write_text(AROUND.format(page=page.as_uri(), width=width, height=5000), encoding="utf-8")
        target = folder / f"{page.stem}-{width}.png"
        size = f"--window-size={max(width, 500)},5000"
        run(browser, tmp_path / "profile", size, f"--screenshot={target}", around.as_uri())
        return target

    return of
