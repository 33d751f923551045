#!/bin/sh
# Stands before the real `slurm-topo place`: the file of the user's id says how it is broken; empty: not at all.
mode=$(cat {folder}/modes/$(id -u) 2>/dev/null)
real={real}
for word; do [ "$before" = --plan ] && plan=$word; before=$word; done
after() { "$real" "$@" && [ -f "$plan" ] && cp "$plan" "$plan.copy" && rm -f "$plan"; }
case "$mode" in
  "") exec "$real" "$@";;
  hang) exec sleep 1000;;
  crash) kill -SEGV $$;;
  killed) "$real" "$@" & sleep 0.1; kill -KILL $!; exit 137;;
  fail) echo "no such machine" >&2; exit 6;;
  silent) exit 0;;
  noisy) head -c 300000 /dev/urandom; head -c 3000000 /dev/urandom >&2; exit 3;;
  children) sleep 1000 & exit 5;;
  rubbish) head -c 3000 /dev/urandom > "$plan"; exit 0;;
  empty) : > "$plan"; exit 0;;
  truncated) after "$@"; head -c 150 "$plan.copy" > "$plan"; rm -f "$plan.copy"; exit 0;;
  version) after "$@"; sed '1s/1$/2/' "$plan.copy" > "$plan"; rm -f "$plan.copy"; exit 0;;
  elsewhere) after "$@"; sed 's/^\(node [0-9]*\) .*/\1 elsewhere/' "$plan.copy" > "$plan"; rm -f "$plan.copy"; exit 0;;
  other) after "$@"; sed 's/^job .*/job 1/' "$plan.copy" > "$plan"; rm -f "$plan.copy"; exit 0;;
  crowded) after "$@"; sed 's/ cpus=[0-9]*/ cpus=0/' "$plan.copy" > "$plan"; rm -f "$plan.copy"; exit 0;;
  fifo) mkfifo "$plan"; exit 0;;
  folder) mkdir "$plan"; exit 0;;
  link) ln -s /etc/passwd "$plan"; exit 0;;
  clock) LD_PRELOAD={folder}/shift.so exec "$real" "$@";;
esac
exit 1
