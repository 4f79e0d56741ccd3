# A client whose server's address moves to a proxy and back while it writes, while it changes names, and while it lists a large
# directory. The host has made `large` with LARGE names, and moves the address when it is asked, at port MOVER of the same address.

# moved HOW: the address leads elsewhere when this returns. HOW is `cut` (at once) or `end` (calls under way are answered first).
moved() {
    same "$(echo "$1" | nc "$NFS_SERVER" "$MOVER")" moved
}

step "mount"
mount_nfs
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
umount /mnt
