# The same with a proxy that caches, for a client that caches nothing: what was changed while the proxy was out is seen when it is
# in again, though it had answered from its cache before. The host is the one of `takeout`; the address leads to the server.

moved() {
    same "$(echo "$1" | nc "$NFS_SERVER" "$MOVER")" moved
}

# told WANTED_SIZE WANTED_MODE WANTED_NAMES: what the client is told of the things that change.
told() {
    for mount in /mnt /two; do
        same "$(stat -c '%s %a' $mount/changing/file)" "$1 $2"
        same "$(ls $mount/changing | sort | xargs)" "$3"
        same "$(cat $mount/changing/file | wc -c)" "$1"
    done
}

step "two mounts"
mkdir -p /two
mount_nfs /mnt nosharecache,noac
mount_nfs /two nosharecache,noac
mkdir /mnt/changing
printf 12345 >/mnt/changing/file
chmod 600 /mnt/changing/file

step "change it while the proxy is out"
moved end
for again in 1 2; do
    told 5 600 file
    refused stat /mnt/changing/new
done
moved end
printf 1234567 >/mnt/changing/file
chmod 640 /mnt/changing/file
mv /mnt/changing/file /mnt/changing/new
ln /mnt/changing/new /mnt/changing/file
moved end
told 7 640 "file new"
rm /mnt/changing/new
told 7 640 file

step "list a large directory out of the cache, and on without it"
# With noac every name would be asked for on its own.
for mount in /mnt /two; do
    umount $mount
    mount_nfs $mount nosharecache
done
same "$(find /mnt/large -mindepth 1 | wc -l)" "$LARGE"
find /two/large -mindepth 1 | {
    for part in 1 2 3; do
        dd bs=4k count=16 2>/dev/null
        moved cut
    done
    cat
} >/names
same "$(wc -l </names)" "$LARGE"
same "$(sed 's/.*-//' /names | sort -n | md5sum)" "$(seq $LARGE | md5sum)"

step "umount"
rm -r /mnt/changing
umount /mnt
umount /two
