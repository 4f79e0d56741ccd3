//! Who may do what: several users, mode bits, and the exceptions that NFS makes.

use crate::script::tell;
use crate::world::World;

#[test]
fn the_bits_of_owner_group_and_others_decide() {
    tell(
        World::with_users(),
        "
        set / mode=777
        1000> create /f mode=640
        stat /f = reg 640 1 1000:1000 0
        write /f 0 text
        1000> access /f rmex = rme
        1001:1000> access /f rmex = r
        1001:5,1000> access /f rmex = r
        1001> access /f rmex =
        access /f rmex = rme
        set /f mode=001
        access /f rmex = rmex
        1000> access /f rmex =
        1001> access /f rmex = x
        1000> mkdir /d mode=750
        1000> access /d rlmedx = rlmed
        1001:1000> access /d rlmedx = rl
        1001> access /d rlmedx =
        access /d rlmedx = rlmed
        ",
    );
}

#[test]
fn owners_read_and_write_their_files_and_who_may_execute_may_read() {
    tell(
        World::with_users(),
        "
        set / mode=777
        1000> create /f mode=000
        1000> write /f 0 text
        1000> read /f 0 9 = text$
        1000> set /f size=2
        1001> read /f 0 9 = ACCES
        1001> write /f 0 x = ACCES
        1001> set /f size=0 = ACCES
        1001> commit /f
        1001> unchecked /f size=0 = ACCES
        1001> unchecked /f
        set /f mode=711
        1001> read /f 0 9 = te$
        1001> write /f 0 x = ACCES
        set /f mode=722
        1001> write /f 0 x
        1001> read /f 0 9 = ACCES
        read /f 0 9 = xe$
        ",
    );
}

#[test]
fn directories_need_search_to_look_up_read_to_list_and_write_to_change() {
    tell(
        World::with_users(),
        "
        mkdir /d mode=744
        create /d/f mode=666
        mkdir /d/e mode=777
        1000> ls /d = e f
        1000> lookup /d/f = ACCES
        1000> lookup /d/none = ACCES
        set /d mode=711
        1000> ls /d = ACCES
        1000> lookup /d/f
        1000> lookup /d/none = NOENT
        1000> create /d/f = EXIST
        1000> create /d/g = ACCES
        1000> mkdir /d/g = ACCES
        1000> symlink /d/g x = ACCES
        1000> mknod /d/g fifo = ACCES
        1000> ln /d/f /d/g = ACCES
        1000> rm /d/f = ACCES
        1000> rmdir /d/e = ACCES
        1000> mv /d/f /d/e/f = ACCES
        1000> rm /d/none = NOENT
        set /d mode=733
        1000> mv /d/f /d/e/f
        1000> rm /d/e/f
        1000> create /d/g
        1000> mknod /d/c chr = PERM
        1000> mknod /d/b blk = PERM
        1000> mknod /d/p fifo mode=600
        mkdir /d/own mode=755
        1000> mv /d/own /d/renamed
        1000> mv /d/renamed /d/e/moved = ACCES
        1000> rmdir /d/renamed
        ",
    );
}

#[test]
fn in_a_sticky_directory_only_owners_take_names_away() {
    tell(
        World::with_users(),
        "
        mkdir /t mode=1777
        1000> create /t/f
        1001> create /t/g
        1001> mkdir /t/d mode=777
        1001> rm /t/f = PERM
        1001> mv /t/f /t/x = PERM
        1001> mv /t/g /t/f = PERM
        1000> rmdir /t/d = PERM
        1000> mv /t/f /t/y
        1001> rm /t/g
        rm /t/y
        set /t uid=1000
        1000> rmdir /t/d
        ",
    );
}

#[test]
fn new_objects_belong_to_their_makers_and_in_a_setgid_directory_to_its_group() {
    tell(
        World::with_users(),
        "
        set / mode=777
        1000:100> create /f mode=644 uid=5 = PERM
        1000:100> create /f mode=644 gid=6 = PERM
        lookup /f = NOENT
        1000:100,6> create /f mode=644 uid=1000 gid=6
        stat /f = reg 644 1 1000:6 0
        create /g mode=644 uid=5 gid=6
        stat /g = reg 644 1 5:6 0
        mkdir /s mode=2777 gid=50
        stat /s = dir 2777 2 0:50
        1000:100> create /s/f mode=2755
        stat /s/f = reg 755 1 1000:50 0
        1000:100,50> create /s/h mode=2755
        stat /s/h = reg 2755 1 1000:50 0
        1000:100> mkdir /s/d mode=755
        stat /s/d = dir 2755 2 1000:50
        1000:100> symlink /s/l x
        stat /s/l = lnk 777 1 1000:50 1
        ",
    );
}

#[test]
fn only_owners_change_modes_and_only_root_gives_away() {
    tell(
        World::with_users(),
        "
        set / mode=777
        1000:100,200> create /f mode=644
        1001> set /f mode=666 = PERM
        1000> set /f mode=600
        1000> set /f uid=1001 = PERM
        1000> set /f uid=1000
        1000:100,200> set /f gid=200
        1000:100,200> set /f gid=300 = PERM
        1001:200> set /f gid=200 = PERM
        stat /f = reg 600 1 1000:200 0
        set /f uid=1001 gid=300
        stat /f = reg 600 1 1001:300 0
        1001> set /f mode=2755
        stat /f = reg 755 1 1001:300 0
        1001:300> set /f mode=2755
        stat /f = reg 2755 1 1001:300 0
        symlink /l x
        set /l mode=600
        stat /l = lnk 777 1 0:0 1
        set / size=0 = ISDIR
        set /l size=0 = INVAL
        ",
    );
}

#[test]
fn set_user_id_does_not_survive_a_write_or_a_new_owner() {
    tell(
        World::with_users(),
        "
        set / mode=777
        create /f mode=6777 uid=1000 gid=1000
        write /f 0 x
        stat /f = reg 6777 1 1000:1000 1
        1001> write /f 0 x
        stat /f = reg 777 1 1000:1000 1
        set /f mode=6777
        1001> set /f size=0
        stat /f = reg 777 1 1000:1000 0
        set /f mode=6777
        set /f uid=1001
        stat /f = reg 777 1 1001:1000 0
        set /f mode=2767
        1000> write /f 0 x
        stat /f = reg 2767 1 1001:1000 1
        1002> write /f 0 x
        stat /f = reg 767 1 1001:1000 1
        mkdir /d mode=2755
        set /d uid=1000
        stat /d = dir 2755 2 1000:0
        ",
    );
}

#[test]
fn times_are_the_owners_and_now_is_also_that_of_whoever_may_write() {
    tell(
        World::with_users(),
        "
        set / mode=777
        1000> create /f mode=622
        1000> set /f atime=1 mtime=2
        1001> set /f atime=1 = PERM
        1001> set /f atime=server mtime=5 = PERM
        1001> set /f atime=server mtime=server
        set /f mode=644
        1001> set /f atime=server mtime=server = ACCES
        1000> set /f mtime=server
        ",
    );
}
