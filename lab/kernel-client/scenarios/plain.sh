# A mount with nothing but a name: the client tries NFSv4 first, asks the server's portmap for ports, and locks over the network.
# PLAIN_OPTIONS are more options: vers=3 where somebody else holds port 2049 of the host.
# Needs rpcbind, rpc.statd and flock of the host (--with).

step "the client's own rpcbind and statd"
# Of the addresses 127.x.y.z only 127.0.0.1 is the guest's own from here on: the server must have another.
ip link set lo up
ip addr del 127.0.0.1/8 dev lo
ip addr add 127.0.0.1/32 dev lo
printf 'sunrpc 111/tcp portmapper\nsunrpc 111/udp portmapper\n' >/etc/services
echo '_rpc:x:107:65534::/run/rpcbind:/bin/sh' >>/etc/passwd
mkdir -p /run/rpcbind /var/lib/nfs/sm /var/lib/nfs/sm.bak
rpcbind
rpc.statd --no-notify

step "mount without a version, a port or nolock"
load_nfs4
mount.nfs "$NFS_SERVER:$NFS_PATH" /mnt -o "retry=0${PLAIN_OPTIONS:+,$PLAIN_OPTIONS}"
same "$(grep -c ' /mnt nfs .*vers=3,.*local_lock=none' /proc/mounts)" 1

step "write and read"
echo plain >/mnt/plain
same "$(cat /mnt/plain)" plain

step "a lock fails and nothing hangs"
for how in -n -s -x; do
    same "$(timeout 30 flock $how /mnt/plain true 2>&1)" "flock: /mnt/plain: No locks available"
done

step "the mount goes on, and umount does not hang"
same "$(cat /mnt/plain)" plain
rm /mnt/plain
timeout 30 umount /mnt
