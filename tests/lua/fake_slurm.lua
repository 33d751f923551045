-- A strict stand-in for what job_submit/lua gives a script: an unknown field or function is an error.
-- Every write is recorded, so that tests can say which fields must not change.

local FIELDS = {}
for name in ([[
  account admin_comment argc argv array_inx bitflags comment cpus_per_task default_account environment exc_nodes features
  group_id het_job_offset min_cpus min_nodes max_nodes name nice ntasks_per_node ntasks_per_socket num_tasks partition qos
  req_nodes req_switch reservation script shared spank_job_env spank_job_env_size threads_per_core time_limit tres_bind
  tres_per_node tres_per_task user_id user_name wait4switch work_dir
]]):gmatch("%S+") do
  FIELDS[name] = true
end
local READ_ONLY = { argc = true, argv = true, environment = true, user_id = true, user_name = true, default_account = true }

local fake = { logged = {}, written = {}, opened = {} }

slurm = setmetatable({
  SUCCESS = 0,
  ERROR = -1,
  NO_VAL = 4294967294,
  NO_VAL16 = 65534,
  log_info = function(format, ...)
    fake.logged[#fake.logged + 1] = string.format(format, ...)
  end,
}, {
  __index = function(_, name) error("slurm." .. tostring(name) .. " does not exist", 2) end,
  __newindex = function(_, name) error("slurm." .. tostring(name) .. " cannot be set", 2) end,
})

-- Values are given as name, value, name, value ...: with nil for what is not set.
function fake.job(values, environment)
  local env_proxy = environment and setmetatable({}, {
    __index = function(_, name)
      assert(type(name) == "string", "names in the environment are strings")
      return environment[name]
    end,
    __newindex = function(_, name, value)
      assert(type(value) == "string", "slurm takes strings only in the environment")
      if fake.fail_on_write == name then
        error("no memory")
      end
      environment[name] = value
      fake.written[#fake.written + 1] = "environment." .. name
    end,
  })
  return setmetatable({}, {
    __index = function(_, name)
      if not FIELDS[name] then
        error("unrecognized attribute: " .. tostring(name), 2)
      end
      if name == "environment" then
        -- As Slurm 22.05: it is there for every job, and an error in the log for one without a script.
        return env_proxy or setmetatable({}, {
          __index = function() error("job_desc->environment only accessible for batch jobs") end,
          __newindex = function() error("job_desc->environment only accessible for batch jobs") end,
        })
      end
      return values[name]
    end,
    __newindex = function(_, name, value)
      if not FIELDS[name] or READ_ONLY[name] then
        error("unrecognized attribute: " .. tostring(name), 2)
      end
      assert(type(value) == "string" or type(value) == "number", "slurm takes strings and numbers")
      values[name] = value
      fake.written[#fake.written + 1] = name
    end,
  })
end

-- What the hook opens, and what it must not call.
local open = io.open
io.open = function(path, mode)
  fake.opened[#fake.opened + 1] = path
  return open(path, mode)
end
local function forbidden(name)
  return function() error(name .. " must not be called in slurmctld") end
end
io.popen, os.execute, os.remove, os.rename, os.exit = forbidden("io.popen"), forbidden("os.execute"),
  forbidden("os.remove"), forbidden("os.rename"), forbidden("os.exit")

return fake
