# What the cases share; sourced by each.
out=/media/work/out
jobs=/media/work/jobs

# submit USER SCRIPT [OPTIONS]: a batch job of that user; prints its number.
submit() {
	local user=$1 script=$2
	shift 2
	su $user -c "cd $out && sbatch --parsable -o '$out/%x.%j.log' $* $jobs/$script"
}

# Until none of the jobs is left in the queue.
wait_for() {
	while squeue -h -j "$(IFS=,; echo "$*")" 2>/dev/null | grep -q .; do sleep 0.5; done
}

wait_running() {
	until [ "$(squeue -h -t R -j $1 2>/dev/null | wc -l)" = 1 ]; do sleep 0.3; done
}

# setting KEY VALUE: a line of slurm_topo's settings.
setting() { sed -i "s|^$1 = .*|$1 = $2|" /etc/slurm-topo/slurm-topo.toml; }

# hold NODE CORES [OPTIONS]: a job that takes cores of a node and does nothing; prints its number.
hold() {
	local job node=$1 cores=$2
	shift 2
	job=$(su bob -c "sbatch --parsable -J hold -o /dev/null --topo=off -w $node -n $cores $* --wrap 'sleep 3000'")
	wait_running $job
	echo $job
}

# traced OPTIONS: runs ring.sh until one run has left its trace. The collector has two seconds for a node's counters, and gives
# them up when an emulated machine is too slow for that; the program is then traced at its next run, as on any site.
traced() {
	local job try
	for try in 1 2 3; do
		job=$(submit alice ring.sh "$@")
		wait_for $job
		ls /var/spool/slurm-topo/$(id -u alice)/traces/$job.* && return
		echo "job $job left no trace"
	done
	return 1
}
