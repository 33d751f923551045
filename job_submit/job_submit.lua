-- A sample of a site's job_submit.lua. The site's own rules stay as they are; slurm_topo is the one line at the end.

function slurm_job_submit(job_desc, part_list, submit_uid)
  return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return slurm.SUCCESS
end

-- Optional, before the line: slurm_topo_settings = { deny_partitions = { "debug" } }  (docs/job_submit.md)
local ok, why = pcall(dofile, "/usr/share/slurm-topo/job_submit/slurm_topo.lua") if not ok then slurm.log_info("%s", why) end

return slurm.SUCCESS
