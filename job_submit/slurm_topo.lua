-- slurm_topo for job_submit/lua. The site's own job_submit.lua calls it with one line at its end:
--
--   local ok, why = pcall(dofile, ".../slurm_topo.lua") if not ok then slurm.log_info("%s", why) end
--
-- It wraps the site's slurm_job_submit: the site's function runs first and unchanged, its result is returned as
-- it is, and a job that it accepted is marked afterwards. Whatever goes wrong here, the job stays accepted.

local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."

local function load_module(name)
  return dofile(here .. "/slurm_topo/" .. name .. ".lua")
end

local fingerprint = load_module("fingerprint")
local executable = load_module("executable")
local advice = load_module("advice")
local job_fields = load_module("job")
local policy = load_module("policy")

-- The site may set this table before the line above; a change is seen when slurmctld reloads job_submit.lua.
-- (rawget: a site may have forbidden to read globals that do not exist.)
local settings = rawget(_G, "slurm_topo_settings")
settings = type(settings) == "table" and settings or {}
local advice_dir = settings.advice_dir or "/var/lib/slurm-topo/advice"
local kill_switch = settings.kill_switch or "/etc/slurm-topo/disabled"

local PREFIX = "SLURM_TOPO_JOB_"
-- In the order in which they are written: a job without ARM is none of ours.
local MARKS = { "KEYS", "PROGRAM", "GRAPH", "RANKS", "TRACE", "PLAN", "VARIANT", "ARM" }

-- What holds before the first sync: programs are traced, nothing is placed.
local NEVER_SYNCED = { arm = "observe", holdout = "0", trace = "1" }

local counter = 0

local function read_salt()
  local file = io.open("/dev/urandom", "rb")
  local noise = file and file:read(16) or ""
  if file then
    file:close()
  end
  return noise .. tostring({}) .. tostring(os.clock())
end

local salt = read_salt()

local function log(format, ...)
  slurm.log_info("%s", "slurm-topo: " .. string.format(format, ...))
end

local function exists(path)
  local file, reason = advice.open(path)
  if file then
    file:close()
  end
  return file ~= nil or reason == "special"
end

-- A job submitted from within a marked one carries the marks of that one: they must not count.
local function clear_inherited(environment)
  if not environment then
    return
  end
  for i = 1, #MARKS do
    if job_fields.variable(environment, PREFIX .. MARKS[i]) then
      environment[PREFIX .. MARKS[i]] = ""
    end
  end
end

local function leave_alone(job_desc, environment, reason)
  if environment then
    environment[PREFIX .. "ARM"] = "off"
  end
  job_fields.append_comment(job_desc, "slurm-topo:1 arm=off reason=" .. reason)
end

-- Everything that is written to a job that takes part.
local function mark(job_desc, environment, marks, reason)
  if environment then
    for i = 1, #MARKS do
      if marks[MARKS[i]] then
        environment[PREFIX .. MARKS[i]] = marks[MARKS[i]]
      end
    end
  end
  local item = "slurm-topo:1 arm=" .. marks.ARM
  if reason then
    item = item .. " reason=" .. reason
  end
  if marks.KEYS then
    item = item .. " keys=" .. marks.KEYS
  end
  if marks.PROGRAM then
    item = item .. " program=" .. marks.PROGRAM
  end
  if marks.GRAPH then
    item = item .. " graph=" .. marks.GRAPH
  end
  if marks.VARIANT then
    item = item .. " variant=" .. marks.VARIANT
  end
  job_fields.append_comment(job_desc, item)
end

local function keys_of(job, job_desc)
  if job.script then
    job.executable = executable.of_script(job.script)
  else
    job.executable = executable.of_words(job_fields.words(job_desc))
  end
  return fingerprint.keys(job)
end

-- True for so large a share of the jobs, each draw independent of all others.
local function drawn(joined, share)
  counter = counter + 1
  return policy.drawn(fingerprint.digest, salt, joined, os.time(), counter, share)
end

-- The arm of a job and why it is lower than what was possible.
local function draw(found, site, user_arm, joined)
  local arm = policy.lowest(user_arm, site.arm, found and found.arm)
  if arm == "advise" or arm == "enforce" then
    local share = found and found.holdout or site.holdout
    if found and found.graph and drawn(joined, share) then
      return "observe", "holdout"
    end
  end
  return arm, nil
end

local function process(job_desc, submit_uid)
  -- srun and salloc have no environment at submission; slurmctld logs an error for each look at it.
  local environment = job_desc.script and job_desc.environment
  clear_inherited(environment)
  if exists(kill_switch) then
    return
  end
  local site, site_reason = advice.read(advice_dir .. "/site")
  if site_reason == "missing" then
    site = NEVER_SYNCED
  elseif not site then
    log("%s/site is %s: jobs are left alone; run slurm-topo sync", advice_dir, site_reason)
    return
  end
  if site.arm == "off" then
    return
  end
  local job = job_fields.read(job_desc, submit_uid)
  local function lookup(name)
    return job_fields.variable(environment, name)
  end
  local reason = policy.stand_down(job, lookup, settings)
  if reason then
    return leave_alone(job_desc, environment, reason)
  end
  local keys, joined = keys_of(job, job_desc)
  if not job.script and (#keys == 0 or job_fields.is_interactive(job_desc)) then
    -- salloc, whose name says nothing about what will run in it, or srun of an interpreter: srun finds out by the whole
    -- command, and asks for this item.
    return mark(job_desc, nil, { ARM = policy.lowest(site.arm) }, "interactive")
  elseif #keys == 0 then
    return leave_alone(job_desc, environment, "no-key")
  end
  local found, why = advice.find(advice_dir, keys)
  if not found and why ~= "missing" then
    log("advice of job %s of user %s is %s: left alone", job.name or "?", job.user, why)
    return leave_alone(job_desc, environment, "advice-" .. why)
  end
  local arm, arm_reason = draw(found, site, lookup("SLURM_TOPO"), joined)
  if arm == "off" then
    return leave_alone(job_desc, environment, found and found.arm == "off" and "program" or "arm")
  end
  local variant
  if arm == "enforce" or arm == "advise" then
    variant = policy.variant(found, function(share) return drawn(joined, share) end)
  end
  mark(job_desc, environment, {
    ARM = arm,
    VARIANT = variant,
    KEYS = joined,
    PROGRAM = found and found.program,
    GRAPH = found and found.graph,
    RANKS = found and found.graph and found.ranks,
    TRACE = (found or site).trace,
  }, arm_reason)
end

local function marked(job_desc, submit_uid, ...)
  -- As slurmctld reads it: what is no number is a success.
  local code = tonumber((...))
  if code == nil or code == slurm.SUCCESS then
    local ok, why = pcall(process, job_desc, submit_uid)
    if not ok then
      pcall(log, "job left alone: %s", tostring(why))
    end
  end
  return ...
end

local function wrap()
  local site_function = rawget(_G, "slurm_job_submit")
  local known = package.loaded.slurm_topo
  if type(known) == "table" and known.wrapper == site_function and site_function then
    return
  end
  if type(site_function) ~= "function" then
    log("slurm_job_submit is not defined yet: put the line of slurm-topo at the end of job_submit.lua")
    return
  end
  local function wrapper(job_desc, part_list, submit_uid, ...)
    return marked(job_desc, submit_uid, site_function(job_desc, part_list, submit_uid, ...))
  end
  package.loaded.slurm_topo = { wrapper = wrapper }
  rawset(_G, "slurm_job_submit", wrapper)
end

wrap()
