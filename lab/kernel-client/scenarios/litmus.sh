# Close-to-open: what is written and closed on one mount is what an open on another one finds, ROUNDS times, with the client's own
# caching of attributes and without. The two mounts share nothing (nosharecache), and take turns at writing.
#
# A client that caches attributes promises that for what it opens: for the names of a directory it therefore opens the directory
# first. Without that cache (noac) names and attributes are asked for as they are used.

# holds FILE TEXT: the first line, as an open finds it. Nothing is started for it: a process is dear here.
holds() {
    line=""
    read -r line <"$1" || true # its end comes before a line's
    same "$line" "$2"
}

# opened: the directory, where attributes are cached.
opened() {
    if [ "$options" != noac ]; then : <"$there"; fi
}

# gone FILE: no such name.
gone() {
    if [ -e "$1" ]; then
        echo "$1 is still there"
        return 1
    fi
}

round() {
    echo "write $1" >"$here/file"
    holds "$there/file" "write $1"
    same "$(stat -c '%s %Y' "$there/file")" "$(stat -c '%s %Y' "$here/file")"
    same "$(stat -c %s "$there/file")" $((${#1} + 7))

    echo "line $1" >>"$here/log"
    same "$(tail -n 1 "$there/log")" "line $1"

    truncate -s 3 "$here/file"
    holds "$there/file" wri

    opened
    gone "$there/new"
    echo "new $1" >"$here/new"
    opened
    holds "$there/new" "new $1"
    rm "$here/new"
    opened
    gone "$there/new"

    echo "over $1" >"$here/source"
    mv "$here/source" "$here/over"
    opened
    holds "$there/over" "over $1"
    gone "$there/source"

    rm "$here/again"
    echo "again $1" >"$here/again"
    opened
    holds "$there/again" "again $1"
}

# past COMMAND...: at another server, if the environment names one.
past() {
    NFS_SERVER=${PAST_SERVER:-$NFS_SERVER} NFS_PORT=${PAST_PORT:-$NFS_PORT} MOUNT_PORT=${PAST_MOUNT_PORT:-$MOUNT_PORT} \
        NFS_PATH=${PAST_PATH:-$NFS_PATH} "$@"
}

mkdir -p /one /two
for options in ac noac; do
    step "$ROUNDS rounds with $options"
    past mount_nfs /one "nosharecache,$options"
    mount_nfs /two "nosharecache,$options"
    mkdir /one/litmus
    : >/one/litmus/log
    : >/one/litmus/again
    here=/one/litmus there=/two/litmus
    for number in $(seq "$ROUNDS"); do
        step_name="round $number of $options, written at $here"
        round "$number"
        swap=$here here=$there there=$swap
    done
    same "$(wc -l <$there/log)" "$ROUNDS"
    rm -r /one/litmus
    echo "sent $(sent GETATTR LOOKUP ACCESS READDIRPLUS)"
    umount /one
    umount /two
done
