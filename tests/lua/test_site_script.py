"""The one line in the site's own job_submit.lua changes nothing of what the site does."""

from __future__ import annotations

import pytest

MODIFY = "function slurm_job_modify(a, b, c, d) return slurm.SUCCESS end"


def test_rejection_by_the_site_is_returned_and_the_job_untouched(start):
    controller = start(f"function slurm_job_submit(j, p, u) return 2057 end {MODIFY}")
    job = controller.job({})
    assert controller.submit(job) == 2057
    assert controller.written == []


@pytest.mark.parametrize("result", ["", "nil", "'0'", "slurm.SUCCESS"])
def test_everything_that_slurmctld_takes_for_a_success_is_marked(start, result):
    controller = start(f"function slurm_job_submit(j, p, u) return {result} end {MODIFY}")
    job = controller.job({})
    controller.submit(job)
    assert job.marks["ARM"] == "enforce"


@pytest.mark.parametrize("result", ["slurm.ERROR", "'5'", "1"])
def test_everything_else_is_a_rejection(start, result):
    controller = start(f"function slurm_job_submit(j, p, u) return {result} end {MODIFY}")
    controller.submit(controller.job({}))
    assert controller.written == []


def test_error_of_the_site_is_raised_as_before(start):
    controller = start(f"function slurm_job_submit(j, p, u) error('site broke') end {MODIFY}")
    with pytest.raises(Exception, match="site broke"):
        controller.submit(controller.job({}))


def test_changes_of_the_site_are_seen(start):
    controller = start(
        f"function slurm_job_submit(j, p, u) j.partition = 'debug' return slurm.SUCCESS end {MODIFY}",
        'deny_partitions = { "debug" }',
    )
    job = controller.job({})
    assert controller.submit(job) == 0
    assert job.comment == "slurm-topo:1 arm=off reason=partition"


def test_all_arguments_reach_the_site(start):
    controller = start(f"function slurm_job_submit(j, p, u) seen = u return slurm.SUCCESS end {MODIFY}")
    controller.submit(controller.job({}), uid=77.0)
    assert controller.lua.globals().seen == 77


def test_modification_is_not_touched(start):
    controller = start(
        "function slurm_job_submit() return slurm.SUCCESS end function slurm_job_modify() return 5 end"
    )
    assert controller.lua.globals().slurm_job_modify() == 5


def test_line_before_the_functions_is_reported(start):
    controller = start("")
    assert "put the line of slurm-topo at the end" in controller.logged[0]
    assert controller.lua.globals().slurm_job_submit is None


def test_loaded_twice_marks_once(start, project_root):
    controller = start()
    controller.lua.execute(f'dofile("{project_root}/job_submit/slurm_topo.lua")')
    job = controller.job({})
    controller.submit(job)
    assert job.comment.count("slurm-topo:1") == 1


def test_reloaded_script_in_the_same_state_is_wrapped_again(start, project_root):
    controller = start()
    controller.lua.execute(f"function slurm_job_submit() return slurm.SUCCESS end {MODIFY}")
    controller.lua.execute(f'dofile("{project_root}/job_submit/slurm_topo.lua")')
    job = controller.job({})
    controller.submit(job)
    assert job.comment.count("slurm-topo:1") == 1


def test_site_that_forbids_unknown_globals_works(start):
    strict = "setmetatable(_G, {__index = function(_, n) error('no global ' .. n) end})"
    controller = start(f"function slurm_job_submit() return slurm.SUCCESS end {MODIFY} {strict}")
    job = controller.job({})
    assert controller.submit(job) == 0
    assert job.marks["ARM"] == "enforce"


def test_hook_leaves_no_global_behind(start):
    controller = start()
    names = set(controller.lua.globals().keys())
    fresh = type(controller.lua)(encoding="latin-1")
    allowed = {"slurm", "slurm_topo_settings", "slurm_job_submit", "slurm_job_modify"}
    assert names - set(fresh.globals().keys()) == allowed


def test_sample_script_is_accepted_without_the_module(start, project_root):
    controller = start((project_root / "job_submit" / "job_submit.lua").read_text())
    assert controller.submit(controller.job({})) == 0
    # The sample's own line found nothing at its path on this machine, and said so.
    assert any("slurm_topo.lua" in line for line in controller.logged)


def test_missing_modules_leave_the_site_alone(start, tmp_path, project_root):
    controller = start()
    lonely = tmp_path / "slurm_topo.lua"
    lonely.write_text((project_root / "job_submit" / "slurm_topo.lua").read_text())
    ok, why = controller.lua.eval(f'pcall(dofile, "{lonely}")')
    assert not ok
    assert "fingerprint.lua" in why
