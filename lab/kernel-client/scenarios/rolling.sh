# A client whose proxies are restarted one after another while it works. /mnt is a proxy that goes and comes back; /other, at port FLOATING, is
# an address that moves to the next proxy before its own goes. The host restarts all of them when it is asked, at port MOVER, and says when they are back.

step "mount"
mount_nfs /mnt
mkdir /other
(NFS_PORT=$FLOATING && mount_nfs /other nosharecache)
mkdir /mnt/back /mnt/moved

# rounds DIRECTORY NAME: changes names until there was enough of it.
rounds() (
    set -e
    i=0
    until [ -e /enough ]; do
        i=$((i + 1))
        mkdir "$1/dir-$i"
        echo "data $i" >"$1/dir-$i/file"
        mv "$1/dir-$i/file" "$1/file-$i"
        ln "$1/file-$i" "$1/link-$i"
        rm "$1/file-$i"
        rmdir "$1/dir-$i"
        echo $i >"/rounds-$2.new"
        mv "/rounds-$2.new" "/rounds-$2"
    done
)

# more NAME COUNT: so many more rounds, if they go on at all.
more() {
    wanted=$(($(cat "/rounds-$1") + $2))
    until [ "$(cat "/rounds-$1")" -ge $wanted ]; do
        kill -0 $workers
        usleep 20000
    done
}

step "change names"
echo 0 >/rounds-back
echo 0 >/rounds-moved
rounds /mnt/back back &
workers=$!
rounds /other/moved moved &
workers="$workers $!"
more back 3
more moved 3

step "all proxies are restarted"
same "$(echo roll | nc "$NFS_SERVER" "$MOVER")" rolled
echo "$(cat /rounds-back) and $(cat /rounds-moved) rounds until then"
more back 3
more moved 3
: >/enough
wait
echo "$(cat /rounds-back) and $(cat /rounds-moved) rounds in all"

step "every change was made, once, and is seen through the other proxy"
umount /other
remount /mnt
(NFS_PORT=$FLOATING && mount_nfs /other nosharecache)
for name in back moved; do
    last=$(cat /rounds-$name)
    for d in /mnt/$name /other/$name; do
        same "$(ls $d | wc -l)" "$last"
        same "$(cat $(seq $last | sed "s#^#$d/link-#") | md5sum)" "$(seq $last | sed 's/^/data /' | md5sum)"
    done
done
same "$(dmesg | grep -ci stale)" 0

step "umount"
rm -r /mnt/back /mnt/moved
umount /other /mnt
