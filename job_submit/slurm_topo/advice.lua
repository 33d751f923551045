-- Reads the advice files of docs/formats.md: at most 4096 bytes each, nothing else is opened.

local M = {}

local LIMIT = 4096
local HEADER = "slurm-topo-advice 1"
local ENOENT = 2
M.ARMS = { off = 0, observe = 1, advise = 2, enforce = 3 }

local function is_number_to_one(text)
  local number = text:match("^%d*%.?%d+$") and tonumber(text)
  return number and number <= 1
end

-- What each line may hold.
local CHECKS = {
  key = function(v) return v:match("^[snux]%x+$") and #v == 23 end,
  program = function(v) return v:match("^%d+$") and #v <= 15 end,
  graph = function(v) return v:match("^%x+$") and #v <= 64 end,
  ranks = function(v) return v:match("^%d+$") and #v <= 9 end,
  arm = function(v) return M.ARMS[v] end,
  holdout = is_number_to_one,
  variant = function(v) return v == "spread" or v == "packed" end,
  trial = is_number_to_one,
  trace = function(v) return v == "0" or v == "1" end,
}

-- Values of the text of an advice file by name; nil and one word where it is not what it should be.
function M.parse(text)
  if #text > LIMIT then
    return nil, "oversized"
  end
  local values, number, ended = {}, 0, false
  for line in text:gmatch("([^\n]*)\n") do
    number = number + 1
    if number == 1 then
      if line ~= HEADER then
        return nil, line:match("^slurm%-topo%-advice ") and "version" or "malformed"
      end
    elseif ended then
      return nil, "malformed"
    elseif line == "end" then
      ended = true
    else
      local name, value = line:match("^(%l+) (%S+)$")
      if not name or not CHECKS[name] or not CHECKS[name](value) or values[name] then
        return nil, "malformed"
      end
      values[name] = value
    end
  end
  if not ended then
    return nil, number == 0 and #text > 0 and "malformed" or "truncated"
  end
  if not (values.arm and values.holdout and values.trace) then
    return nil, "malformed"
  end
  return values
end

-- A file opened for reading; nil and "missing", "unreadable" or "special" (no plain file). To open a FIFO for reading
-- would hold slurmctld until somebody writes: for reading and writing it opens at once, and cannot be positioned.
-- (What this user may not write is opened as it is.)
function M.open(path)
  local file, _, code = io.open(path, "r+b")
  if file and not file:seek("set", 0) then
    file:close()
    return nil, "special"
  end
  if not file and code ~= ENOENT then
    file, _, code = io.open(path, "rb")
  end
  if not file then
    return nil, code == ENOENT and "missing" or "unreadable"
  end
  return file
end

-- The same of a file; nil and "missing" where there is none.
function M.read(path)
  local file, reason = M.open(path)
  if not file then
    return nil, reason == "missing" and reason or "unreadable"
  end
  local text, why = file:read(LIMIT + 1)
  file:close()
  if not text and why then
    return nil, "unreadable"
  end
  return M.parse(text or "")
end

-- The first advice that exists for the keys (exact to loose): values, nil; or nil, reason.
function M.find(directory, keys)
  for i = 1, #keys do
    local key = keys[i]
    local values, reason = M.read(directory .. "/" .. key:sub(2, 3) .. "/" .. key)
    if values and values.key ~= key then
      return nil, "malformed"
    end
    if values or reason ~= "missing" then
      return values, reason
    end
  end
  return nil, "missing"
end

return M
