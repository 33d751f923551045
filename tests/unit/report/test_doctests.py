"""The examples in the docstrings of the reports run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import slurm_topo.report

MODULES = sorted(m.name for m in pkgutil.walk_packages(slurm_topo.report.__path__, "slurm_topo.report."))


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module, extraglobs={"np": importlib.import_module("numpy")}).failed == 0
