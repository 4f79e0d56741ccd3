//! The history: one JSON line for every call, for a checker to read later.
//!
//! Lines are made in the event loop and written by a thread of its own. When that thread falls behind, the loop waits: a
//! history with holes proves nothing. The waiting is counted, because it disturbs what is measured.

use crate::clock::Nanos;
use crate::job::Job;
use crate::slots::Slot;
use crate::tree::{Handle, Name, Tree};
use midas_nfs::nfs3::{Fattr3, Nfstime3, Reply};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

/// The file and the thread that writes it.
#[derive(Debug)]
pub(crate) struct History {
    sender: SyncSender<Vec<u8>>,
    writer: JoinHandle<io::Result<()>>,
}

impl History {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = File::create(path)?;
        let (sender, receiver) = sync_channel(CHUNKS);
        let writer = std::thread::Builder::new().name("history".into()).spawn(move || write_all(file, &receiver))?;
        Ok(Self { sender, writer })
    }

    /// One event loop's end.
    pub(crate) fn scribe(&self, target: &str) -> Scribe {
        let mut quoted = Vec::new();
        string(&mut quoted, target.as_bytes());
        Scribe { sender: self.sender.clone(), lines: Vec::new(), target: quoted, waits: 0, waited: 0, count: 0 }
    }

    /// Waits until everything is written.
    pub(crate) fn close(self) -> io::Result<()> {
        drop(self.sender);
        self.writer.join().unwrap_or_else(|_| Err(io::Error::other("the writer panicked")))
    }
}

fn write_all(mut file: File, chunks: &Receiver<Vec<u8>>) -> io::Result<()> {
    while let Ok(chunk) = chunks.recv() {
        // On an error the channel closes with this thread, and every loop's next chunk is left: `close` says so.
        file.write_all(&chunk)?;
    }
    file.flush()
}

/// Makes lines.
#[derive(Debug)]
pub(crate) struct Scribe {
    sender: SyncSender<Vec<u8>>,
    lines: Vec<u8>,
    target: Vec<u8>,
    pub(crate) waits: u64,
    pub(crate) waited: Nanos,
    pub(crate) count: u64,
}

/// How a call ended, for the history.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End<'a> {
    Reply(&'a Reply<'a>),
    /// A class of error and its name.
    Error(&'a str, &'a str),
}

/// What is written of a call apart from its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) slot: &'a Slot,
    pub(crate) connection: u32,
    pub(crate) uid: u32,
    pub(crate) finished: Nanos,
}

impl Scribe {
    pub(crate) fn write(&mut self, line: Line<'_>, tree: &Tree, end: End<'_>) {
        self.count += 1;
        self.head(line);
        let out = &mut self.lines;
        arguments(out, &line.slot.job, tree);
        match end {
            End::Reply(reply) => {
                field(out, "outcome", |out| string(out, b"reply"));
                results(out, reply);
            }
            End::Error(class, name) => {
                field(out, "outcome", |out| string(out, class.as_bytes()));
                field(out, "error", |out| string(out, name.as_bytes()));
            }
        }
        out.extend_from_slice(b"}\n");
        if out.len() >= CHUNK {
            self.send();
        }
    }

    fn head(&mut self, Line { slot, connection, uid, finished }: Line<'_>) {
        let out = &mut self.lines;
        out.extend_from_slice(b"{\"seq\":");
        number(out, slot.stamp.into());
        field(out, "target", |out| out.extend_from_slice(&self.target));
        let numbers = [
            ("client", slot.job.client.into()),
            ("connection", connection.into()),
            ("uid", uid.into()),
            ("xid", slot.xid.into()),
            ("intended", slot.intended),
            ("sent", slot.sent),
            ("finished", finished),
            ("resent", slot.resent.into()),
        ];
        for (name, value) in numbers {
            field(out, name, |out| number(out, value));
        }
        field(out, "procedure", |out| string(out, slot.job.action.procedure().name().as_bytes()));
    }

    /// Hands the lines to the writer; waits for it if it is behind.
    pub(crate) fn send(&mut self) {
        let chunk = std::mem::replace(&mut self.lines, Vec::with_capacity(2 * CHUNK));
        match self.sender.try_send(chunk) {
            // A writer that is gone left its error for `close`.
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(chunk)) => {
                let since = Instant::now();
                let _ = self.sender.send(chunk);
                self.waits += 1;
                self.waited += crate::clock::span(since.elapsed());
            }
        }
    }
}

fn arguments(out: &mut Vec<u8>, job: &Job, tree: &Tree) {
    let directory = |out: &mut Vec<u8>, name, number| {
        field(out, name, |out| hex(out, tree.directory(number).bytes()));
    };
    if job.name != Name::None || job.object == Handle::NONE {
        directory(out, "dir", job.directory);
    }
    if job.name != Name::None {
        field(out, "name", |out| string(out, job.name.text().bytes()));
    }
    if job.object != Handle::NONE {
        field(out, "object", |out| hex(out, job.object.bytes()));
    }
    if job.to.1 != Name::None {
        directory(out, "to_dir", job.to.0);
        field(out, "to_name", |out| string(out, job.to.1.text().bytes()));
    }
}

fn results(out: &mut Vec<u8>, reply: &Reply<'_>) {
    field(out, "status", |out| string(out, reply.status().to_string().as_bytes()));
    let (handle, object, directory) = told(reply);
    if let Some(handle) = handle {
        field(out, "handle", |out| hex(out, handle));
    }
    if let Some(object) = object {
        field(out, "attributes", |out| attributes(out, &object));
    }
    if let Some(directory) = directory {
        field(out, "dir_attributes", |out| attributes(out, &directory));
    }
    match reply {
        Reply::Readdir(Ok(page)) => names(out, page.entries().map_while(Result::ok).map(|entry| entry.name)),
        Reply::Readdirplus(Ok(page)) => names(out, page.entries().map_while(Result::ok).map(|plus| plus.entry.name)),
        Reply::Access(Ok(granted)) => field(out, "access", |out| number(out, granted.access.into())),
        Reply::Read(Ok(read)) => field(out, "count", |out| number(out, read.count.into())),
        Reply::Write(Ok(written)) => field(out, "count", |out| number(out, written.count.into())),
        // Nothing but what is told of every reply.
        Reply::Null
        | Reply::Getattr(_)
        | Reply::Setattr(_)
        | Reply::Lookup(_)
        | Reply::Readlink(_)
        | Reply::Create(_)
        | Reply::Mkdir(_)
        | Reply::Symlink(_)
        | Reply::Mknod(_)
        | Reply::Remove(_)
        | Reply::Rmdir(_)
        | Reply::Rename(_)
        | Reply::Link(_)
        | Reply::Fsstat(_)
        | Reply::Fsinfo(_)
        | Reply::Pathconf(_)
        | Reply::Commit(_)
        | Reply::Readdir(Err(_))
        | Reply::Readdirplus(Err(_))
        | Reply::Access(Err(_))
        | Reply::Read(Err(_))
        | Reply::Write(Err(_)) => {}
    }
}

/// Handle and attributes of the object, and attributes of its directory, as far as a reply tells them.
pub(crate) fn told<'a>(reply: &Reply<'a>) -> (Option<&'a [u8]>, Option<Fattr3>, Option<Fattr3>) {
    match reply {
        Reply::Null => (None, None, None),
        Reply::Getattr(result) => (None, result.ok(), None),
        Reply::Setattr(Ok(wcc)) => (None, wcc.after, None),
        Reply::Setattr(Err(failed)) => (None, failed.attributes.after, None),
        Reply::Lookup(Ok(ok)) => (Some(ok.object.bytes()), ok.attributes, ok.dir_attributes),
        Reply::Lookup(Err(failed)) => (None, None, failed.attributes),
        Reply::Access(result) => (None, result.map_or_else(|failed| failed.attributes, |ok| ok.attributes), None),
        Reply::Readlink(result) => (None, result.map_or_else(|failed| failed.attributes, |ok| ok.attributes), None),
        Reply::Read(result) => (None, result.map_or_else(|failed| failed.attributes, |ok| ok.attributes), None),
        Reply::Write(result) => (None, result.map_or_else(|failed| failed.attributes, |ok| ok.file).after, None),
        Reply::Commit(result) => (None, result.map_or_else(|failed| failed.attributes, |ok| ok.file).after, None),
        Reply::Create(Ok(ok)) | Reply::Mkdir(Ok(ok)) | Reply::Symlink(Ok(ok)) | Reply::Mknod(Ok(ok)) => {
            (ok.object.map(midas_nfs::nfs3::FileHandle::bytes), ok.attributes, ok.dir.after)
        }
        Reply::Create(Err(failed))
        | Reply::Mkdir(Err(failed))
        | Reply::Symlink(Err(failed))
        | Reply::Mknod(Err(failed)) => (None, None, failed.attributes.after),
        Reply::Remove(result) | Reply::Rmdir(result) => {
            (None, None, result.unwrap_or_else(|failed| failed.attributes).after)
        }
        Reply::Rename(result) => (None, None, result.unwrap_or_else(|failed| failed.attributes).from.after),
        Reply::Link(result) => {
            let done = result.unwrap_or_else(|failed| failed.attributes);
            (None, done.attributes, done.dir.after)
        }
        Reply::Readdir(result) => (None, None, result.map_or_else(|failed| failed.attributes, |ok| ok.dir_attributes)),
        Reply::Readdirplus(result) => {
            (None, None, result.map_or_else(|failed| failed.attributes, |ok| ok.dir_attributes))
        }
        Reply::Fsstat(result) => (None, None, result.map_or_else(|failed| failed.attributes, |ok| ok.attributes)),
        Reply::Fsinfo(result) => (None, None, result.map_or_else(|failed| failed.attributes, |ok| ok.attributes)),
        Reply::Pathconf(result) => (None, result.map_or_else(|failed| failed.attributes, |ok| ok.attributes), None),
    }
}

fn attributes(out: &mut Vec<u8>, attributes: &Fattr3) {
    out.extend_from_slice(b"{\"type\":");
    number(out, attributes.ftype as u64);
    let numbers = [
        ("mode", attributes.mode.into()),
        ("nlink", attributes.nlink.into()),
        ("uid", attributes.uid.into()),
        ("size", attributes.size),
        ("fileid", attributes.fileid),
        ("mtime", nanos(attributes.mtime)),
        ("ctime", nanos(attributes.ctime)),
    ];
    for (name, value) in numbers {
        field(out, name, |out| number(out, value));
    }
    out.push(b'}');
}

fn nanos(time: Nfstime3) -> u64 {
    u64::from(time.seconds) * 1_000_000_000 + u64::from(time.nseconds)
}

fn names<'a>(out: &mut Vec<u8>, names: impl Iterator<Item = &'a [u8]>) {
    field(out, "names", |out| {
        out.push(b'[');
        for (position, name) in names.enumerate() {
            if position > 0 {
                out.push(b',');
            }
            string(out, name);
        }
        out.push(b']');
    });
}

fn field(out: &mut Vec<u8>, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    value(out);
}

fn number(out: &mut Vec<u8>, value: u64) {
    let _ = write!(out, "{value}");
}

fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for byte in bytes {
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    out.push(b'"');
}

/// Names are bytes: what is not plain ASCII becomes the code point of the same number.
fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            0x20..=0x7e => out.push(*byte),
            _ => {
                let _ = write!(out, "\\u{byte:04x}");
            }
        }
    }
    out.push(b'"');
}

/// Bytes that are handed over at once, and how many such pieces may wait to be written.
const CHUNK: usize = 64 << 10;
const CHUNKS: usize = 64;
