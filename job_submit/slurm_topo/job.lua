-- What the submit hook reads of a job, and what it writes to it. Slurm's "not set" values become nil.

local M = {}

-- NO_VAL and INFINITE of 16 bits; those of 32 and 64 bits are above every count.
local UNSET = { [65534] = true, [65535] = true }
local NO_VAL = 4294967294

-- A count, nil where it is not set.
local function count(value)
  value = tonumber(value)
  if not value or value < 1 or UNSET[value] or value >= NO_VAL then
    return nil
  end
  return value
end

local function text(value)
  if type(value) == "string" and value ~= "" then
    return value
  end
  return nil
end

-- Number of tasks, nil where the job does not say it; and the text of it in the shape.
local function tasks_of(job)
  local nodes = count(job.min_nodes)
  local per_node = count(job.ntasks_per_node)
  local tasks = count(job.num_tasks)
  if not tasks and nodes and per_node then
    tasks = nodes * per_node
  end
  if tasks then
    return tasks, string.format("%d", tasks)
  end
  if not nodes and tonumber(job.shared) ~= 0 then
    -- Neither tasks nor nodes nor a whole node: Slurm gives it one task.
    return 1, "1"
  end
  return nil, nodes and string.format("0n%d", nodes) or "0"
end

-- The fields that the policy needs, read once: each access is a call into slurmctld.
function M.read(job, submit_uid)
  local tasks, tasks_text = tasks_of(job)
  local user_id = tonumber(job.user_id) or tonumber(submit_uid) or 0
  return {
    user = string.format("%d", user_id),
    user_name = text(job.user_name),
    account = text(job.account) or text(job.default_account),
    partition = text(job.partition),
    name = text(job.name),
    script = text(job.script),
    tasks = tasks,
    shape = tasks_text .. "x" .. string.format("%d", count(job.cpus_per_task) or 1),
    heterogeneous = M.is_het(job.het_job_offset),
  }
end

-- Components of a heterogeneous job have an offset; for all others it is NO_VAL (or nil).
function M.is_het(offset)
  offset = tonumber(offset)
  return offset ~= nil and offset >= 0 and offset < NO_VAL
end

-- The words that srun starts directly (a job without a script).
function M.words(job)
  local vector = job.argv
  local words = {}
  if type(vector) == "table" or type(vector) == "userdata" then
    for i = 0, 31 do
      local ok, word = pcall(function() return vector[i] end)
      if ok and type(word) == "string" then
        words[#words + 1] = word
      end
    end
  end
  return words
end

-- An allocation without a script and without a command: of salloc.
function M.is_interactive(job)
  return text(job.script) == nil and #M.words(job) == 0
end

-- A variable of the job's environment, nil where it has none (srun, salloc) or is empty.
function M.variable(environment, name)
  if not environment then
    return nil
  end
  return text(environment[name])
end

-- Appends one item to the comment for administrators.
function M.append_comment(job, item)
  local present = text(job.admin_comment)
  job.admin_comment = present and present .. "; " .. item or item
end

return M
