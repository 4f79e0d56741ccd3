# A mount without options: the client tries NFSv4 first, asks the server's portmap for ports, and wants to lock.

step "a client's own rpcbind and statd"
# Only 127.0.0.1 is the guest's own then: the server must have another address.
ip link set lo up
ip addr del 127.0.0.1/8 dev lo
ip addr add 127.0.0.1/32 dev lo
printf 'sunrpc 111/tcp portmapper\nsunrpc 111/udp portmapper\n' >/etc/services
echo '_rpc:x:107:65534::/run/rpcbind:/bin/sh' >>/etc/passwd
mkdir -p /run/rpcbind /var/lib/nfs/sm /var/lib/nfs/sm.bak
rpcbind
rpc.statd --no-notify

step "mount without a version, port or nolock"
load_nfs4
mount.nfs "$NFS_SERVER:$NFS_PATH" /mnt -v -o retry=0
grep ' /mnt ' /proc/mounts
same "$(grep -c ' /mnt .*vers=3,' /proc/mounts)" 1

step "write and read"
echo plain >/mnt/plain
same "$(cat /mnt/plain)" plain

step "a lock fails"
before=$(cut -d. -f1 /proc/uptime)
refused flock -n /mnt/plain true
echo "after $(($(cut -d. -f1 /proc/uptime) - before)) s"
flock /mnt/plain true || echo "status $?"
echo "after $(($(cut -d. -f1 /proc/uptime) - before)) s"

step "the mount goes on, and umount does not hang"
same "$(cat /mnt/plain)" plain
rm /mnt/plain
umount /mnt
