"""The site's job_submit.lua of a lab: a script of its own that calls slurm_topo's module."""

from __future__ import annotations

from slurm_topo.lab.integrate import kill_switch, lua_dir
from slurm_topo.lab.layout import Layout


def job_submit_lua(layout: Layout) -> str:
    """Text of job_submit.lua."""
    return f"""-- The lab's own job_submit script. slurm_topo is the one line at the end.
function slurm_job_submit(job_desc, part_list, submit_uid)
  return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return slurm.SUCCESS
end

slurm_topo_settings = {{ advice_dir = "{layout.advice}", kill_switch = "{kill_switch(layout)}" }}
local ok, why = pcall(dofile, "{lua_dir()}/slurm_topo.lua") if not ok then slurm.log_info("%s", why) end

return slurm.SUCCESS
"""
