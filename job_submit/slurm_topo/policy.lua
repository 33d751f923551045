-- Which jobs are left alone, and which arm the others are in. No I/O: everything is given.

local M = {}

local ARMS = { off = 0, observe = 1, advise = 2, enforce = 3 }
local NAMES = { [0] = "off", "observe", "advise", "enforce" }

-- Variables with which users fix the places of ranks themselves: srun reads them.
local FIXED = { "SLURM_HOSTFILE", "SLURM_CPU_BIND", "SLURM_DISTRIBUTION", "SLURM_MEM_BIND", "SLURM_GPU_BIND", "SLURM_HINT" }
-- Options of sbatch that do the same.
local FIXED_OPTIONS = { "%-%-distribution", "%-m[ \t=%a]", "%-%-mem%-bind", "%-%-gpu%-bind", "%-%-cpu%-bind" }
-- A node that is lost stays in the variables of the job that goes on without it.
local NO_KILL = { "%-%-no%-kill", "%-k[ \t=]", "%-k$" }
-- The only hint that says nothing of places.
local HARMLESS_HINT = "nomultithread"

local function has(list, value)
  if type(list) ~= "table" or not value then
    return false
  end
  for i = 1, #list do
    if list[i] == value then
      return true
    end
  end
  return false
end

-- A job may name several partitions; one that is listed suffices.
local function partition_denied(list, partitions)
  if type(list) ~= "table" or not partitions then
    return false
  end
  for partition in partitions:gmatch("[^,]+") do
    if has(list, partition) then
      return true
    end
  end
  return false
end

local function has_option(options, patterns)
  for i = 1, #patterns do
    if (" " .. options):find("[ \t]" .. patterns[i]) then
      return true
    end
  end
  return false
end

-- Why an #SBATCH line before the first command leaves the job alone; nil where none does.
local function word_in_script(script)
  if not script or not script:find("#SBATCH", 1, true) then
    return nil
  end
  for line in script:gmatch("[^\n]+") do
    local options = line:match("^#SBATCH[ \t]+(.-)[ \t\r]*$")
    if options then
      local hint = options:match("%-%-hint[ \t=]+(%S+)")
      if has_option(options, FIXED_OPTIONS) or (hint and hint ~= HARMLESS_HINT) then
        return "fixed"
      elseif has_option(options, NO_KILL) then
        return "no-kill"
      end
    elseif not line:find("^[ \t\r]*#") and not line:find("^[ \t\r]*$") then
      return nil
    end
  end
  return nil
end

-- One word where the job is left alone, nil otherwise.
--   job: of job.lua; lookup(name): a variable of its environment; settings: the site's table
function M.stand_down(job, lookup, settings)
  if lookup("SLURM_TOPO") == "off" then
    return "user"
  end
  if job.heterogeneous then
    return "het-job"
  end
  if job.tasks and job.tasks < 2 then
    return "tasks"
  end
  if partition_denied(settings.deny_partitions, job.partition) then
    return "partition"
  end
  if has(settings.deny_accounts, job.account) then
    return "account"
  end
  if has(settings.deny_users, job.user_name) or has(settings.deny_users, job.user) then
    return "user-list"
  end
  for i = 1, #FIXED do
    local value = lookup(FIXED[i])
    if value and not (FIXED[i] == "SLURM_HINT" and value == HARMLESS_HINT) then
      return "fixed"
    end
  end
  return word_in_script(job.script)
end

-- The lowest of the arms; unknown words count as off, nil does not count.
function M.lowest(...)
  local level = 3
  for i = 1, select("#", ...) do
    local arm = select(i, ...)
    if arm ~= nil then
      level = math.min(level, ARMS[arm] or 0)
    end
  end
  return NAMES[level]
end

-- True for a share of the jobs: those that stay in observe, those that try the other way to lie on a node.
--   digest: of fingerprint.lua; salt: secret of this process, so that nobody can steer the draw
function M.drawn(digest, salt, key, time, counter, share)
  share = tonumber(share) or 0
  if share <= 0 then
    return false
  end
  local once = digest(key .. " " .. string.format("%d", time) .. " " .. string.format("%d", counter) .. salt)
  -- Twice: after one pass the draws of neighbouring counters would be neighbours, too.
  local twice = digest(once .. salt)
  return tonumber(twice:sub(1, 8), 16) / 4294967296 < share
end

-- The variant that the advice names, or for the share `trial` the other one; nil where there is no choice.
function M.variant(found, is_drawn)
  if not found or not found.variant then
    return nil
  end
  if not is_drawn(found.trial) then
    return found.variant
  end
  return found.variant == "spread" and "packed" or "spread"
end

return M
