# Everything that an unmodified Linux client does to files, names and directories; each step checks what it did.

step "mount"
mount_nfs
d=/mnt/basic
rm -rf $d
mkdir $d

step "create and write 50 files"
for i in $(seq 50); do echo "data $i" >$d/f$i; done

step "list 50 files"
same "$(ls $d | sort)" "$(for i in $(seq 50); do echo f$i; done | sort)"

step "read a file"
same "$(cat $d/f50)" "data 50"

step "a name that does not exist"
refused cat $d/absent

step "exclusive create of a name that exists"
refused sh -C -c ": >$d/f50"
sh -C -c ": >$d/exclusive"

step "rename"
mv $d/f1 $d/g1
same "$(cat $d/g1)" "data 1"
refused stat $d/f1

step "rename into another directory"
mkdir $d/sub
mv $d/f3 $d/sub/g3
same "$(cat $d/sub/g3)" "data 3"
refused stat $d/f3

step "rename over an existing file"
echo old >$d/target
echo new >$d/source
mv $d/source $d/target
same "$(cat $d/target)" "new"
refused stat $d/source

step "rename a directory"
mkdir $d/before
echo inside >$d/before/x
mv $d/before $d/after
same "$(cat $d/after/x)" "inside"
rm -r $d/after

step "hard link"
ln $d/g1 $d/h1
same "$(stat -c %h $d/g1)" 2
same "$(stat -c %i $d/g1)" "$(stat -c %i $d/h1)"
rm $d/h1
same "$(stat -c %h $d/g1)" 1

step "symbolic link"
ln -s g1 $d/s1
same "$(readlink $d/s1)" g1
same "$(cat $d/s1)" "data 1"

step "chmod"
chmod 640 $d/f2
same "$(stat -c %a $d/f2)" 640

step "chown"
chown 1234:2345 $d/f2
same "$(stat -c %u:%g $d/f2)" 1234:2345

step "permissions of another user"
chmod 711 $d
chmod 600 $d/g1
chmod 644 $d/f5
same "$(as_user "cat $d/f5")" "data 5"
refused as_user "cat $d/g1"

step "truncate"
truncate -s 4 $d/f4
same "$(cat $d/f4)" "data"
truncate -s 100000 $d/f4
same "$(stat -c %s $d/f4)" 100000
same "$(tail -c 8 $d/f4 | tr '\0' 0)" 00000000

step "append"
echo one >$d/log
echo two >>$d/log
same "$(cat $d/log)" "$(printf 'one\ntwo')"

step "times"
touch -d "2001-02-03 04:05:06" $d/f5
same "$(stat -c %Y $d/f5)" "$(date -d "2001-02-03 04:05:06" +%s)"

step "mkdir and rmdir"
mkdir $d/empty
refused mkdir $d/empty
rmdir $d/empty
refused stat $d/empty

step "rmdir of a directory that is not empty"
refused rmdir $d/sub
same "$(cat $d/sub/g3)" "data 3"

step "a file that is removed while it is open"
echo "still here" >$d/open
exec 3<$d/open
rm $d/open
refused stat $d/open
same "$(ls -A $d | grep -c '^\.nfs')" 1
same "$(cat <&3)" "still here"
exec 3<&-

step "fifo"
mkfifo $d/fifo
same "$(stat -c %F $d/fifo)" fifo

# Several Ganesha heads cannot share a device: see crates/cli/tests/serve.rs.
if [ "${DEVICES:-yes}" = yes ]; then
    step "device"
    mknod $d/device c 1 3
    same "$(stat -c '%F %t %T' $d/device)" "character special file 1 3"
fi

step "a name of 255 bytes, and of 256"
long=$(printf '%0255d' 0)
echo long >$d/$long
same "$(cat $d/$long)" long
refused touch $d/${long}0

step "names that are not plain"
echo odd >"$d/a b
c*"
same "$(cat "$d/a b
c*")" odd
printf 'bytes' >"$d/$(printf '\303\274\377')"
same "$(cat "$d/$(printf '\303\274\377')")" bytes

step "4 MiB of random data"
dd if=/dev/urandom of=$d/big bs=64k count=64 2>/dev/null
sum=$(md5sum <$d/big)

step "create 500 files in one directory"
mkdir $d/large
for i in $(seq 500); do : >$d/large/name-$i; done
names=$(seq 500 | sed 's/^/name-/' | sort | md5sum)

step "remount"
remount
same "$(md5sum <$d/big)" "$sum"
same "$(stat -c '%a %u:%g' $d/f2)" "640 1234:2345"
same "$(readlink $d/s1)" g1
same "$(cat $d/log)" "$(printf 'one\ntwo')"

step "list 500 files"
same "$(ls $d/large | sort | md5sum)" "$names"
same "$(ls -l $d/large | grep -c name-)" 500

step "list 500 files again after one is gone and one is new"
rm $d/large/name-250
: >$d/large/name-501
same "$(ls $d/large | wc -l)" 500
same "$(ls $d/large | grep -c -e '^name-250$' -e '^name-501$')" 1

step "df"
df -k /mnt | tail -n 1 | awk '{ exit !($(NF - 4) > 0 && $(NF - 2) > 0) }'

step "remove everything"
rm -rf $d
refused stat $d

step "umount"
umount /mnt
