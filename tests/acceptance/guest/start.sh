# Brings up munge, the accounting where asked for, slurmctld and one slurmd for every node of /etc/slurm/slurm.conf.
set -e
hostname head
ip link set lo up
install -d -o munge -g munge /run/munge
su munge -s /bin/sh -c /usr/sbin/munged
install -d -o slurm -g slurm /run/slurm /var/log/slurm /var/spool/slurmctld
sysctl -qw net.ipv4.ip_forward=1
insmod /lib/modules/veth.ko
ip addr add 192.0.2.1/32 dev lo

# A node: network, host name and /dev/shm of its own, so that MPI sees two machines and not one.
add_node() {
	ip netns add $1
	ip link add h-$1 type veth peer name eth0 netns $1
	ip link set h-$1 up
	ip route add $2/32 dev h-$1 src 192.0.2.1
	ip -n $1 link set lo up
	ip -n $1 link set eth0 up
	ip -n $1 addr add $2/32 dev eth0
	ip -n $1 route add 192.0.2.1/32 dev eth0
	ip -n $1 route add default via 192.0.2.1 dev eth0 src $2
	mkdir -p /var/spool/slurmd.$1
}
nodes=$(sed -n 's/^NodeName=\([^ ]*\) NodeAddr=\([^ ]*\) .*/\1 \2/p' /etc/slurm/slurm.conf)
while read -r name address; do add_node $name $address; done <<<"$nodes"

if grep -q ^AccountingStorageType=accounting_storage/slurmdbd /etc/slurm/slurm.conf; then
	install -d -o mysql -g mysql /run/mysqld
	chown slurm:slurm /etc/slurm/slurmdbd.conf
	chmod 600 /etc/slurm/slurmdbd.conf
	setsid mariadbd --user=mysql --skip-networking --skip-log-bin --innodb-flush-log-at-trx-commit=0 \
		--innodb-buffer-pool-size=32M --innodb-lock-wait-timeout=900 >/var/log/slurm/mariadb.log 2>&1 </dev/null &
	until mariadb-admin ping >/dev/null 2>&1; do sleep 0.5; done
	echo "mariadb answers after $(cut -d' ' -f1 /proc/uptime) s"
	mariadb -e "CREATE USER slurm IDENTIFIED VIA unix_socket; GRANT ALL ON slurm_acct_db.* TO slurm"
	slurmdbd
	until sacctmgr -n show cluster >/dev/null 2>&1; do sleep 0.5; done
	echo "slurmdbd answers after $(cut -d' ' -f1 /proc/uptime) s"
fi
# GPUs of our own: devices without a driver. Whoever may use one hears that nothing is behind it, all others that they may not.
if [ -e /etc/slurm/gres.conf ]; then
	for number in 0 1 2 3; do mknod -m 666 /dev/stgpu$number c 240 $number; done
fi
slurmctld
while read -r name address; do
	nsenter --net=/run/netns/$name unshare --uts --mount sh -c "
		hostname $name
		mount -t tmpfs -o mode=1777 tmpfs /dev/shm
		mount -t tmpfs -o mode=1777 tmpfs /tmp
		exec slurmd -N $name"
done <<<"$nodes"
count=$(wc -l <<<"$nodes")
until [ "$(sinfo -h -N -t idle -o %N 2>/dev/null | sort -u | wc -l)" = $count ]; do sleep 0.5; done
echo "$count nodes idle after $(cut -d' ' -f1 /proc/uptime) s"
