# A job's start: python3, its libraries and its modules all come from the export, where the host has put them under `python`, with
# empty directories before them on the search path. Twice, and between them the client forgets everything. The host notes at port
# COUNTER of the server's address what has reached the servers.

p=/mnt/python
program='
import argparse, asyncio, collections, csv, dataclasses, decimal, difflib, email.message, fractions, html.parser, inspect, json
import logging.config, pathlib, pickle, random, statistics, string, subprocess, tempfile, textwrap, unittest.mock, uuid, xml.dom
import job, sys
for name in ["numpy", "scipy", "torch", "yaml"]:
    try:
        __import__(name)
        raise SystemExit(name + " was found")
    except ModuleNotFoundError:
        pass
files = [m.__file__ for m in sys.modules.values() if getattr(m, "__file__", None)]
strange = [file for file in files if not file.startswith("/mnt/python/")]
print(json.dumps({"job": job.answer, "strange": strange, "enough": len(files) > 150}))
'

# start: one process, from the first name to the last.
start() {
    paths=$p/path/$(seq -s ":$p/path/" 12)
    PYTHONHOME=$p PYTHONPATH=$paths PYTHONDONTWRITEBYTECODE=1 \
        $p/lib/ld-linux-x86-64.so.2 --library-path $p/lib $p/bin/python3 -c "$program"
}

for number in first second; do
    step "the $number start"
    mount_nfs
    same "$(start)" '{"job": 42, "strange": [], "enough": true}'
    echo "sent $(sent LOOKUP ACCESS READLINK READDIRPLUS)"
    umount /mnt
    same "$(echo | nc "$NFS_SERVER" "$COUNTER")" noted
done
