-- Fingerprint keys: docs/formats.md says what they are, slurm_topo/slurm/fingerprint.py is the twin.

local byte, floor, format = string.byte, math.floor, string.format

local M = {}

-- Both below 2^44, so that (p - 1) * 257 + 256 stays below 2^53: Lua 5.1 has doubles only.
local P1, P2 = 17592186044399, 17592186044299
local SPLIT = 16777216
local CUT, HALF = 8192, 4096

-- 11 hexadecimal digits of a number below 2^44. In two parts: a format of Lua 5.1 may be limited to 32 bits.
local function digits(h)
  return format("%05x%06x", floor(h / SPLIT), h % SPLIT)
end

-- 22 hexadecimal digits of a string.
function M.digest(text)
  local p1, p2 = P1, P2
  local h1, h2 = 7, 7
  local n = #text
  local last = n - n % 4
  for i = 1, last, 4 do
    local a, b, c, d = byte(text, i, i + 3)
    h1 = (h1 * 257 + a + 1) % p1
    h2 = (h2 * 257 + a + 1) % p2
    h1 = (h1 * 257 + b + 1) % p1
    h2 = (h2 * 257 + b + 1) % p2
    h1 = (h1 * 257 + c + 1) % p1
    h2 = (h2 * 257 + c + 1) % p2
    h1 = (h1 * 257 + d + 1) % p1
    h2 = (h2 * 257 + d + 1) % p2
  end
  for i = last + 1, n do
    local a = byte(text, i)
    h1 = (h1 * 257 + a + 1) % p1
    h2 = (h2 * 257 + a + 1) % p2
  end
  return digits(h1) .. digits(h2)
end

-- The line without spaces and tabs at its end. Anchored: a run of blanks costs no more than its length.
local function without_end(line)
  return line:match("^(.*[^ \t])") or ""
end

-- What is hashed of a script: the first and the last 4,096 bytes of a long one (a byte takes about 45 ns, and
-- slurmctld waits), without carriage returns and without blanks at line ends.
function M.normalise(script)
  if #script > CUT then
    script = script:sub(1, HALF) .. script:sub(-HALF)
  end
  script = script:gsub("\r", "")
  if script:find("[ \t]\n") or script:find("[ \t]$") then
    script = script:gsub("[^\n]+", without_end)
  end
  return script
end

-- Keys from exact to loose: a list and the same joined by ":".
--   fields.user, .account, .name, .script, .executable, .shape: strings; nil where there is none
function M.keys(fields)
  local keys = {}
  local function add(kind, first, second)
    keys[#keys + 1] = kind .. M.digest(first .. "\0" .. second .. "\0" .. fields.shape)
  end
  if fields.script and fields.script ~= "" then
    add("s", fields.user, M.digest(M.normalise(fields.script)))
  end
  if fields.name and fields.name ~= "" then
    add("n", fields.user, fields.name)
  end
  if fields.executable then
    add("x", fields.account or "", fields.executable)
  end
  return keys, table.concat(keys, ":")
end

return M
