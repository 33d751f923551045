"""Measure what the levels of a machine really cost: choose pairs of cores, read the times, fit."""

from slurm_topo.machine.calibrate.fit import LevelFit, fit_levels, parse_results
from slurm_topo.machine.calibrate.pairs import CalibrationPlan, choose_pairs, plan_text

__all__ = ["CalibrationPlan", "LevelFit", "choose_pairs", "fit_levels", "parse_results", "plan_text"]
