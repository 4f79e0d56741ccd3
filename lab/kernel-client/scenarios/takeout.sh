# A client whose server's address moves to a proxy and back while it writes, while it changes names, and while it lists a large
# directory. The host moves it when it is asked: by files in `signals`, through another server of the same export (SIGNAL_*).
# The host has made `large` with LARGE names.

# moved HOW: the address leads elsewhere when this returns. HOW is `cut` (at once) or `end` (calls under way are answered first).
echo 0 >/moves
moved() {
    number=$(($(cat /moves) + 1))
    echo $number >/moves
    : >"/signals/$1-$number"
    until [ -e "/signals/done-$number" ]; do usleep 20000; done
}

step "mount"
mount_nfs
mkdir /signals
# noac: what the host puts there is seen at once.
mount.nfs "$SIGNAL_SERVER:$NFS_PATH/signals" /signals \
    -o "vers=3,proto=tcp,port=$SIGNAL_PORT,mountport=$SIGNAL_MOUNT_PORT,mountproto=tcp,nolock,retry=0,noac,nosharecache"
d=/mnt/work
mkdir $d
dd if=/dev/urandom of=/random bs=64k count=32 2>/dev/null
sum=$(md5sum </random)

step "write before, during and after"
cp /random $d/before
# half NUMBER: that half of the data, on the server when this returns.
half() { dd if=/random of=$d/halves bs=64k count=16 skip=$(($1 * 16)) seek=$(($1 * 16)) conv=notrunc,fsync 2>/dev/null; }
(dd if=/random of=$d/during bs=16k conv=fsync 2>/dev/null && echo written >/during) &
half 0
moved cut
half 1
moved cut
wait
same "$(cat /during)" written
cp /random $d/after
for name in before halves during after; do same "$(md5sum <$d/$name)" "$sum"; done

step "a file that is open all the time"
exec 4>$d/log
echo one >&4
moved end
echo two >&4
moved end
echo three >&4
exec 4>&-
same "$(cat $d/log)" "$(printf 'one\ntwo\nthree')"

step "change names"
echo 0 >/rounds
rounds() (
    set -e
    i=0
    until [ -e /enough ]; do
        i=$((i + 1))
        mkdir $d/dir-$i
        echo "data $i" >$d/dir-$i/file
        mv $d/dir-$i/file $d/file-$i
        ln $d/file-$i $d/link-$i
        rm $d/file-$i
        rmdir $d/dir-$i
        echo $i >/rounds
    done
)
rounds &
worker=$!
# more COUNT: so many more rounds, if they go on at all.
more() {
    wanted=$(($(cat /rounds) + $1))
    until [ "0$(cat /rounds)" -ge $wanted ]; do
        kill -0 $worker
        usleep 20000
    done
}
more 5
moved end
more 5
moved end
more 5
: >/enough
wait
last=$(cat /rounds)
echo "$last rounds"
same "$(ls $d | grep -c '^link-')" "$last"
same "$(cat $(seq $last | sed "s#^#$d/link-#") | md5sum)" "$(seq $last | sed 's/^/data /' | md5sum)"

step "list a large directory"
find /mnt/large -mindepth 1 | {
    for part in 1 2 3 4; do
        dd bs=4k count=16 2>/dev/null
        moved cut
    done
    cat
} >/names
same "$(wc -l </names)" "$LARGE"
same "$(sed 's/.*-//' /names | sort -n | md5sum)" "$(seq $LARGE | md5sum)"

step "what was written is there, without a new mount"
for name in before halves during after; do same "$(md5sum <$d/$name)" "$sum"; done
same "$(dmesg | grep -ci stale)" 0

step "umount"
rm -r $d
umount /signals
umount /mnt
