# The same server by NFSv4.1, at the pseudo path of lab/ganesha's export: that it mounts, writes, reads and lists.

step "mount NFSv4.1"
load_nfs4
mount.nfs4 "$NFS_SERVER:/export" /mnt -o "vers=4.1,proto=tcp,port=$NFS_PORT,sec=sys"

step "write, list, read by NFSv4.1"
mkdir /mnt/nfs4
echo four >/mnt/nfs4/file
same "$(ls /mnt/nfs4)" file
same "$(cat /mnt/nfs4/file)" four

step "umount NFSv4.1"
rm -r /mnt/nfs4
umount /mnt
