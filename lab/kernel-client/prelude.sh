# What every scenario may use. Runs $SCENARIO under `set -eu`: the first command that fails ends it, and the step is named.

NFS_SERVER=${NFS_SERVER:-127.0.0.1}
step_name="before the first step"
trap 'status=$?; if [ $status -ne 0 ]; then echo "FAIL: $SCENARIO: $step_name"; fi; exit $status' EXIT

# step NAME: what follows belongs to it. Printed first, so that a step that hangs is named too.
step() {
    step_name=$1
    echo "step $(cut -d' ' -f1 /proc/uptime) $1"
}

# same FOUND WANTED: equal texts.
same() {
    if [ "$1" != "$2" ]; then
        echo "found '$1', wanted '$2'"
        return 1
    fi
}

# refused COMMAND...: the command must fail.
refused() {
    if "$@" 2>/dev/null; then
        echo "succeeded, and must not: $*"
        return 1
    fi
}

# as_user COMMAND: a line of shell as uid 1000, whom no file belongs to.
as_user() {
    su user -c "$1"
}

# mount_nfs [DIRECTORY [MORE_OPTIONS]]: the server that the environment names.
mount_nfs() {
    mount.nfs "$NFS_SERVER:$NFS_PATH" "${1:-/mnt}" \
        -o "vers=3,proto=tcp,port=$NFS_PORT,mountport=$MOUNT_PORT,mountproto=tcp,nolock,retry=0${NFS_OPTIONS:+,$NFS_OPTIONS}${2:+,$2}"
}

# load_nfs4: its modules, which the guest does not load by itself.
load_nfs4() {
    while read -r module; do insmod "/lib/modules/$module"; done </etc/modules-nfs4
}

# remount [DIRECTORY]: nothing that was cached survives it.
remount() {
    umount "${1:-/mnt}"
    mount_nfs "${1:-/mnt}"
}

# sent PROCEDURE...: how many calls of these the client has sent over the mounts that it has now.
sent() {
    awk -v wanted=" $* " '$1 ~ /:$/ && index(wanted, " " substr($1, 1, length($1) - 1) " ") { sum += $2 }
        END { print sum + 0 }' /proc/self/mountstats
}

. "/lab/scenarios/$SCENARIO"
