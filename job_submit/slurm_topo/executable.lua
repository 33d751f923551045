-- The MPI program of a batch script: the command of its last srun, mpirun or mpiexec line.

local M = {}

-- Only the end of a very long script is looked at, and only so many of its lines.
local TAIL, NEAR, LINE_LIMIT, CANDIDATES = 65536, 4096, 4096, 20
-- Variables are looked up in scripts of at most so many bytes, and so many of them.
local SEARCHED, LOOKUPS = 16384, 6

local function set(words)
  local found = {}
  for word in words:gmatch("%S+") do
    found[word] = true
  end
  return found
end

local LAUNCHERS = set("srun mpirun mpiexec mpiexec.hydra mpiexec.mpich mpiexec.openmpi mpirun.openmpi mpirun.mpich orterun prterun prun ibrun")
-- Words that may stand before a command.
local PREFIXES = set("then do else if elif while until ! { time exec nohup command env builtin")
-- Programs that run another one whose name matters more than theirs.
local INTERPRETERS = set("python python2 python3 perl ruby bash sh zsh ksh julia Rscript java node lua matlab octave")
local WRAPPERS = set("hwloc-bind singularity apptainer shifter podman docker valgrind perf nsys ncu gdb strace ddt map likwid-pin likwid-perfctr scalasca scorep")

-- Those that only say where or how, with their options that take the next word, and words before the command.
local STRIPPED = {
  env = set("-u -C -S"),
  time = set("-f -o"),
  nice = set("-n"),
  numactl = set("-i -p -m -N -C --interleave --preferred --membind --cpunodebind --physcpubind"),
  taskset = set(""),
}
STRIPPED.taskset.first = 1

-- Options that take their value from the next word. Slurm's srun, Open MPI, MPICH and Intel MPI.
local SRUN = set([[
-A -B -c -C -d -D -e -F -G -i -J -L -m -M -n -N -o -p -P -q -r -R -S -t -T -w -W -x
--account --acctg-freq --alloc-nodelist --bb --bbf --begin --bcast --bcast-exclude --chdir --cluster-constraint --clusters --comment
--constraint --container --container-id --core-spec --cores-per-socket --cpu-bind --cpu-freq --cpus-per-gpu --cpus-per-task --deadline --delay-boot
--dependency --distribution --epilog --error --exclude --export --extra --extra-node-info --gid --gpu-bind --gpu-freq --gpus
--gpus-per-node --gpus-per-socket --gpus-per-task --gres --gres-flags --hint --input --jobid --job-name --kill-on-bad-exit --licenses
--mail-type --mail-user --mcs-label --mem --mem-bind --mem-per-cpu --mem-per-gpu --mincpus --mpi --msg-timeout --multi-prog --network
--nice --nodefile --nodelist --nodes --ntasks --ntasks-per-core --ntasks-per-gpu --ntasks-per-node --ntasks-per-socket --oom-kill-step
--open-mode --output --partition --power --prefer --priority --profile --prolog --qos --relative --reservation --resv-ports
--slurmd-debug --sockets-per-node --signal --switches --task-epilog --task-prolog --thread-spec --threads --threads-per-core --time --time-min
--tmp --topo --tree-width --tres-bind --tres-per-task --uid --wait --wckey --wait-for-switch]])
-- These of the above take a value only after "=", never from the next word.
for word in pairs(set("--kill-on-bad-exit --multi-prog --nice --resv-ports --mpi-combine --bcast")) do
  SRUN[word] = nil
end
local MPI_ONE = set([[
n np c N npernode npersocket npercore ppn perhost grr H host hosts hostfile machinefile machine f iface map-by rank-by bind-to cpu-set cpu-list
x wdir wd path prefix output-filename timeout am tune app configfile rankfile rf slot-list launcher rmk
bootstrap genvlist envlist default-hostfile personality with-ft stdin xterm report-uri
pmi-port usize bind-map map ckpoint-interval ckpoint-prefix ckpointlib demux membind cpus-per-proc cpus-per-rank max-restarts dvm-uri]])
local MPI_TWO = set("mca gmca pmixmca prtemca omca gpmixmca env genv")

-- Words of the simple commands of a line: a list of lists. Quotes are taken off; a comment and what follows a
-- redirection are left out.
local function commands(line)
  local all, words, word = {}, {}, nil
  local position, length, skip = 1, #line, false
  local function finish_word()
    if word and not skip then
      words[#words + 1] = word
    end
    word = nil
  end
  local function finish_command()
    finish_word()
    if #words > 0 then
      all[#all + 1] = words
    end
    words, skip = {}, false
  end
  while position <= length do
    local char = line:sub(position, position)
    if char == " " or char == "\t" then
      finish_word()
      position = position + 1
    elseif char == "'" or char == '"' then
      local close = line:find(char, position + 1, true)
      if not close then
        return all
      end
      word = (word or "") .. line:sub(position + 1, close - 1)
      position = close + 1
    elseif char == "\\" then
      word = (word or "") .. line:sub(position + 1, position + 1)
      position = position + 2
    elseif char == "#" and not word then
      break
    elseif char == ";" or char == "&" or char == "|" or char == "(" or char == ")" then
      finish_command()
      position = position + 1
    elseif char == "<" or char == ">" then
      finish_word()
      skip = true
      position = position + 1
    else
      local chunk = line:match("^[^ \t'\"\\;&|()<>]+", position)
      word = (word or "") .. chunk
      position = position + #chunk
    end
  end
  finish_command()
  return all
end

local function basename(path)
  return path:match("([^/]*)$")
end

-- How many words an option and its values take.
local function srun_option(word)
  return SRUN[word] and 2 or 1
end

local function mpi_option(word)
  local name = word:match("^%-%-?([^=]+)$")
  if not name then
    return 1
  end
  return MPI_TWO[name] and 3 or MPI_ONE[name] and 2 or 1
end

-- Values of variables that a script sets once, to a text of its own, before anything is run.
local function settled(script, name)
  local value
  local pattern = "%f[%w_]" .. name .. "="
  local seen = 0
  for _ in script:gmatch(pattern) do
    seen = seen + 1
  end
  for line in script:gmatch("[^\n]+") do
    local rest = #line <= LINE_LIMIT and line:match("^[ \t]*" .. name .. "=(.*)$")
      or line:match("^[ \t]*export[ \t]+" .. name .. "=(.*)$")
    if rest then
      local text = rest:match('^"([^"]*)"[ \t\r]*$') or rest:match("^'([^']*)'[ \t\r]*$") or rest:match("^([^ \t\r\"';&|()#]+)[ \t\r]*$")
      if not text or (value and value ~= text) then
        return nil
      end
      value, seen = text, seen - 1
    end
  end
  -- A loop, a question or another command may give it another value.
  local words = "%f[%w_]" .. name .. "%f[^%w_]"
  if seen > 0 or script:find("for[ \t]+" .. words) or script:find("read[ \t]+" .. words) then
    return nil
  end
  return value
end

-- The words from an index on, with the script's own variables filled in, program first.
local function expanded(words, index, script)
  local left = #script <= SEARCHED and LOOKUPS or 0
  local function value(whole, name)
    left = left - 1
    return left >= 0 and settled(script, name) or whole
  end
  local list = {}
  for i = index, #words do
    local word = words[i]
    for _ = 1, 3 do
      if left <= 0 or not word:find("$", 1, true) then
        break
      end
      word = word:gsub("(%${([%a_][%w_]*)})", value):gsub("(%$([%a_][%w_]*))", value)
    end
    if word == words[i] then
      list[#list + 1] = word
    else
      for part in word:gmatch("%S+") do
        list[#list + 1] = part
      end
    end
  end
  return list
end

-- Where the command begins that a program of STRIPPED starts.
local function behind(words, index)
  local options = STRIPPED[basename(words[index])]
  index = index + 1
  while words[index] do
    local word = words[index]
    if word:sub(1, 1) == "-" then
      index = index + (options[word] and 2 or 1)
    elseif word:match("^[%a_][%w_]*=") then
      index = index + 1
    else
      break
    end
  end
  return index + (options.first or 0)
end

-- Name of the program that the words start; nil where it is only known when the script runs.
local function program(words)
  local index = 1
  while words[index] and STRIPPED[basename(words[index])] do
    index = behind(words, index)
  end
  local found = words[index]
  if not found then
    return nil
  end
  local base = basename(found)
  if WRAPPERS[base] then
    found = table.concat(words, " ", index)
  elseif INTERPRETERS[base] or base:match("^python[%d.]+$") then
    local argument = index + 1
    while words[argument] and words[argument]:sub(1, 1) == "-" and words[argument] ~= "-m" and words[argument] ~= "-c" do
      argument = argument + 1
    end
    if words[argument] == "-m" then
      found = table.concat(words, " ", index, math.min(argument + 1, #words))
    elseif words[argument] == "-c" then
      found = table.concat(words, " ", index)
    elseif words[argument] then
      found = base .. " " .. words[argument]
    end
  end
  local open = found:gsub("%${[%a_][%w_]*}", ""):gsub("%$[%a_][%w_]*", "")
  if #found > 1024 or open:find("[$`]") then
    return nil
  end
  -- Folders may stay open: what the program is called is enough to know it again.
  for word in found:gmatch("%S+") do
    if (word:match("^.*/(.*)$") or word):find("$", 1, true) then
      return nil
    end
  end
  return found
end

-- The program that a simple command launches; nil where it is no launcher.
local function launched(words, script)
  local index = 1
  while words[index] and (PREFIXES[words[index]] or words[index]:match("^[%a_][%w_]*=")) do
    index = index + 1
  end
  local launcher = words[index] and basename(words[index])
  if not launcher or not LAUNCHERS[launcher] then
    return nil
  end
  local width = launcher == "srun" and srun_option or mpi_option
  index = index + 1
  while words[index] and words[index]:sub(1, 1) == "-" do
    if words[index] == "--" then
      index = index + 1
      break
    end
    index = index + width(words[index])
  end
  return program(expanded(words, index, script))
end

-- Name of the program that the last launch line of `part` starts; `script` is where variables are looked up.
local function last_launch(part, script)
  if not (part:find("run", 1, true) or part:find("mpiexec", 1, true)) then
    return nil
  end
  local lines = {}
  for line in part:gmatch("[^\n]+") do
    if #line <= LINE_LIMIT and (line:find("run", 1, true) or line:find("mpiexec", 1, true)) then
      lines[#lines + 1] = line
    end
  end
  for i = #lines, math.max(1, #lines - CANDIDATES + 1), -1 do
    local all = commands(lines[i])
    for j = #all, 1, -1 do
      local found = launched(all[j], script)
      if found then
        return found
      end
    end
  end
  return nil
end

-- Name of the program of a script, nil where none is found.
function M.of_script(script)
  script = #script > TAIL and script:sub(-TAIL) or script
  if script:find("\\\n", 1, true) then
    script = script:gsub("\\\n", " ")
  end
  -- Most scripts launch near their end: to look there first takes a tenth of the time with a long one.
  local border = #script > NEAR and script:find("\n", #script - NEAR, true)
  local found = border and last_launch(script:sub(border + 1), script)
  return found or last_launch(script, script)
end

-- The same of an argument vector (srun starts it directly). Slurm 22.05 hands on the first word only: an interpreter
-- or a wrapper alone is no program, or all programs of an account would be one.
function M.of_words(words)
  local first = words[1] and basename(words[1])
  if #words == 1 and (INTERPRETERS[first] or WRAPPERS[first] or STRIPPED[first] or first:match("^python[%d.]+$")) then
    return nil
  end
  return program(words)
end

return M
