#!/bin/bash
# Process 1 of the emulated machine: mounts, Slurm, the cases of the work disk one after another, power off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
for folder in /run /tmp /dev/shm; do mount -t tmpfs -o mode=1777 tmpfs $folder; done
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /sys/fs/cgroup/system.slice
for folder in /sys/fs/cgroup /sys/fs/cgroup/system.slice; do
	echo '+cpuset +cpu +memory' >$folder/cgroup.subtree_control
done
# Pages must lie where a policy put them, not where the kernel moved them afterwards.
echo 0 >/proc/sys/kernel/numa_balancing
mkdir -p /media/work
mount /dev/nvme1n1 /media/work
out=/media/work/out
mkdir -p $out/ranks
chmod 1777 $out $out/ranks
say() { read -r up _ </proc/uptime; echo "[$up] $*" >>$out/progress; echo "[$up] $*" >/dev/console; }

finish() {
	say "power off"
	cp /var/log/slurm/*.log $out/ 2>/dev/null
	cp -r /var/spool/slurm-topo $out/spool 2>/dev/null
	sync
	umount /media/work || mount -o remount,ro /media/work
	echo 1 >/proc/sys/kernel/sysrq
	echo o >/proc/sysrq-trigger
	sleep 60
}
trap finish EXIT

say "user space"
cp -r /media/work/etc/. /etc/
bash /media/work/start.sh >$out/start.log 2>&1
echo $? >$out/start.rc
say "Slurm started with $(cat $out/start.rc)"
for script in /media/work/cases/*.sh; do
	name=$(basename $script .sh)
	timeout -k 5 "$(cat ${script%.sh}.limit)" bash $script >$out/$name.stdout 2>$out/$name.stderr
	echo $? >$out/$name.rc
	say "$name ended with $(cat $out/$name.rc)"
done
