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

-- Names that many different programs have, and names of jobs that say nothing.
local GENERIC, NAMELESS = {}, {}
for word in ("a.out main main.exe test run app prog program exe job start launch run.sh job.sh start.sh main.py run.py app.py test.py train.py"):gmatch("%S+") do
  GENERIC[word] = true
end
for word in ("wrap sbatch interactive bash sh job run run.sh job.sh submit.sh slurm.sh batch.sh"):gmatch("%S+") do
  NAMELESS[word] = true
end

-- Whether a line of a script (without blanks at its end) says what is run. Options of sbatch do not, but those that
-- give the script its environment.
local function counts(line)
  if not line:find("^[ \t]*#") then
    return true
  end
  return line:find("^#SBATCH") and line:find("--export", 1, true)
end

-- What is hashed of a script: the first and the last 4,096 bytes of a long one (a byte takes about 45 ns, and
-- slurmctld waits), without carriage returns, blanks at line ends, empty lines, comments and options of sbatch.
function M.normalise(script)
  if #script > CUT then
    script = script:sub(1, HALF) .. script:sub(-HALF)
  end
  local lines = {}
  for line in script:gsub("\r", ""):gmatch("[^\n]+") do
    -- Anchored: a run of blanks costs no more than its length.
    line = line:match("^(.*[^ \t])")
    if line and counts(line) then
      lines[#lines + 1] = line
    end
  end
  return table.concat(lines, "\n")
end

-- The program without the folders that its words are in; nil where it is not known.
function M.program(executable)
  if not executable then
    return nil
  end
  local words = {}
  for word in executable:gmatch("%S+") do
    words[#words + 1] = word:match("^.*/(.*)$") or word
  end
  return table.concat(words, " ")
end

-- Keys from exact to loose: a list and the same joined by ":".
--   fields.user, .account, .name, .script, .executable, .shape: strings; nil where there is none
function M.keys(fields)
  local keys = {}
  local function add(kind, ...)
    keys[#keys + 1] = kind .. M.digest(table.concat({ ... }, "\0") .. "\0" .. fields.shape)
  end
  local executable, name = fields.executable, fields.name or ""
  local program = M.program(executable)
  local telling = program and not GENERIC[program:match("%S*$")]
  if fields.script and fields.script ~= "" then
    add("s", fields.user, M.digest(M.normalise(fields.script)))
  end
  if name ~= "" and telling then
    -- Dates, cases and sizes in the name of a job do not make it another program.
    add("n", fields.user, (name:gsub("%d+", "0")), program)
  elseif name:find("%a") and not NAMELESS[name] then
    add("n", fields.user, name, program or "")
  end
  if telling then
    add("u", fields.user, program)
    if not executable:find("$", 1, true) then
      add("x", fields.account or "", executable)
    end
  end
  return keys, table.concat(keys, ":")
end

return M
