//! A history file: blocks of one client's calls each, with checksums, and an end mark that says how many calls there are.
//!
//! Clients fill blocks by themselves and meet only to write one. Readers sort the blocks by their first call and merge them, so
//! that a history of any length is read in the order of time with only the blocks in memory that overlap.

use crate::codec;
use crate::record::Record;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A file that is being written, shared by all clients.
#[derive(Debug)]
pub struct Writer(Mutex<Sink>);

#[derive(Debug)]
struct Sink {
    file: File,
    records: u64,
    failure: Option<io::Error>,
}

impl Writer {
    /// Begins a file anew.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(MAGIC)?;
        Ok(Self(Mutex::new(Sink { file, records: 0, failure: None })))
    }

    /// One client's end of it. Its calls come one after another; what it holds is written when it is dropped, at the latest.
    pub fn scribe(&self) -> Scribe<'_> {
        Scribe { writer: self, bytes: Vec::with_capacity(2 * BLOCK), records: 0, first: 0, clock: 0 }
    }

    /// Writes the end mark: how many calls there are, or what went wrong on the way.
    pub fn close(self) -> io::Result<u64> {
        let mut sink = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let header = Header { length: 0, records: 0, first: sink.records, sum: checksum(&[]) };
        match sink.failure {
            Some(error) => Err(error),
            None => sink.file.write_all(&header.encode()).map(|()| sink.records),
        }
    }

    fn block(&self, header: Header, bytes: &[u8]) {
        let mut sink = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sink.records += u64::from(header.records);
        if sink.failure.is_none() {
            let written = sink.file.write_all(&header.encode()).and_then(|()| sink.file.write_all(bytes));
            sink.failure = written.err();
        }
    }
}

/// Takes one client's calls, in the order of their starts.
#[derive(Debug)]
pub struct Scribe<'a> {
    writer: &'a Writer,
    bytes: Vec<u8>,
    records: u32,
    first: u64,
    clock: u64,
}

impl Scribe<'_> {
    /// Adds a call.
    pub fn add(&mut self, record: &Record) {
        if self.records == 0 {
            (self.first, self.clock) = (record.start, record.start);
        }
        codec::encode(&mut self.bytes, record, &mut self.clock);
        self.records += 1;
        if self.bytes.len() >= BLOCK {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.records > 0 {
            let header = Header {
                length: self.bytes.len() as u32,
                records: self.records,
                first: self.first,
                sum: checksum(&self.bytes),
            };
            self.writer.block(header, &self.bytes);
            self.bytes.clear();
            self.records = 0;
        }
    }
}

impl Drop for Scribe<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

/// The calls of one or several files, by their starts.
#[derive(Debug)]
pub struct Blocks {
    files: Vec<(PathBuf, BufReader<File>)>,
    waiting: VecDeque<Waiting>,
    open: Vec<Open>,
    /// The next start of every open block.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    free: Vec<usize>,
    total: u64,
}

#[derive(Debug)]
struct Waiting {
    header: Header,
    file: usize,
    offset: u64,
}

#[derive(Debug)]
struct Open {
    bytes: Vec<u8>,
    at: usize,
    clock: u64,
    left: u32,
    record: Option<Record>,
    file: usize,
}

impl Blocks {
    /// Reads the heads of all blocks, and so whether the files are whole.
    pub fn open(paths: &[PathBuf]) -> Result<Self, BadHistory> {
        let (mut files, mut waiting, mut total) = (Vec::new(), Vec::new(), 0);
        for (number, path) in paths.iter().enumerate() {
            let bad = |what: String| BadHistory { path: path.clone(), what };
            let file = File::open(path).map_err(|error| bad(error.to_string()))?;
            let mut reader = BufReader::new(file);
            total += heads(&mut reader, number, &mut waiting).map_err(bad)?;
            files.push((path.clone(), reader));
        }
        waiting.sort_by_key(|block| block.header.first);
        let (open, next, free) = (Vec::new(), BinaryHeap::new(), Vec::new());
        Ok(Self { files, waiting: waiting.into(), open, next, free, total })
    }

    /// Calls in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    fn take(&mut self) -> Result<Option<Record>, BadHistory> {
        while self
            .waiting
            .front()
            .is_some_and(|block| self.next.peek().is_none_or(|next| block.header.first <= next.0.0))
        {
            if let Some(block) = self.waiting.pop_front() {
                self.load(&block)?;
            }
        }
        let Some(Reverse((_, index))) = self.next.pop() else { return Ok(None) };
        let record = self.open[index].record.take();
        self.advance(index)?;
        Ok(record)
    }

    fn load(&mut self, block: &Waiting) -> Result<(), BadHistory> {
        let (path, file) = &mut self.files[block.file];
        let bad = |what: &str| BadHistory { path: path.clone(), what: format!("{what} at byte {}", block.offset) };
        let mut bytes = vec![0; block.header.length as usize];
        file.seek(SeekFrom::Start(block.offset))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(|error| bad(&error.to_string()))?;
        if checksum(&bytes) != block.header.sum {
            return Err(bad("corrupt: the checksum of a block is wrong"));
        }
        let left = block.header.records;
        let open = Open { bytes, at: 0, clock: block.header.first, left, record: None, file: block.file };
        let index = self.free.pop().unwrap_or(self.open.len());
        match self.open.get_mut(index) {
            Some(place) => *place = open,
            None => self.open.push(open),
        }
        self.advance(index)
    }

    /// Reads on in a block; one that is at its end makes room.
    fn advance(&mut self, index: usize) -> Result<(), BadHistory> {
        let open = &mut self.open[index];
        let Some(left) = open.left.checked_sub(1) else {
            open.bytes = Vec::new();
            self.free.push(index);
            return Ok(());
        };
        open.left = left;
        let mut rest = &open.bytes[open.at..];
        open.record = codec::decode(&mut rest, &mut open.clock).ok();
        open.at = open.bytes.len() - rest.len();
        match &open.record {
            Some(record) => self.next.push(Reverse((record.start, index))),
            None => {
                let what = "corrupt: a block holds something that is no call".to_owned();
                return Err(BadHistory { path: self.files[open.file].0.clone(), what });
            }
        }
        Ok(())
    }
}

impl Iterator for Blocks {
    type Item = Result<Record, BadHistory>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take().transpose()
    }
}

/// Finds the blocks of one file; how many calls it holds.
fn heads(file: &mut BufReader<File>, number: usize, blocks: &mut Vec<Waiting>) -> Result<u64, String> {
    let said = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => "cut off: it has no end mark (was the run killed?)".to_owned(),
        _ => error.to_string(),
    };
    let mut magic = [0; MAGIC.len()];
    if file.read_exact(&mut magic).is_err() || magic != *MAGIC {
        return Err("not a history of `midas bench coherence`".to_owned());
    }
    let length = file.get_ref().metadata().map_err(said)?.len();
    let (mut offset, mut total) = (MAGIC.len() as u64, 0);
    loop {
        let mut bytes = [0; HEADER];
        file.read_exact(&mut bytes).map_err(said)?;
        let header = Header::decode(bytes);
        offset += HEADER as u64;
        if header.length == 0 {
            let whole = header.sum == checksum(&[]) && header.first == total && offset == length;
            return if whole { Ok(total) } else { Err(format!("corrupt: the end mark at byte {offset} is wrong")) };
        }
        if header.length as usize > BLOCK_MAX {
            return Err(format!("corrupt: no block is as long as the one at byte {offset} claims"));
        }
        total += u64::from(header.records);
        let after = offset + u64::from(header.length);
        blocks.push(Waiting { header, file: number, offset });
        file.seek_relative(header.length.into()).map_err(said)?;
        offset = after;
    }
}

/// A file that cannot be checked.
#[derive(Debug)]
pub struct BadHistory {
    /// Which.
    pub path: PathBuf,
    /// Why, in one line.
    pub what: String,
}

impl fmt::Display for BadHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

impl std::error::Error for BadHistory {}

/// What stands before every block.
#[derive(Clone, Copy, Debug)]
struct Header {
    /// Bytes that follow; 0: the end mark, whose `first` is the number of calls in the file.
    length: u32,
    records: u32,
    first: u64,
    sum: u64,
}

impl Header {
    fn encode(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.records.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.first.to_le_bytes());
        bytes[16..].copy_from_slice(&self.sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: [u8; HEADER]) -> Self {
        let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("eight bytes are left"));
        Self { length: word(0) as u32, records: (word(0) >> 32) as u32, first: word(8), sum: word(16) }
    }
}

/// Not against malice: finds what disks and hands break.
fn checksum(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    let mut words = bytes.chunks_exact(8);
    let mixed =
        words.by_ref().fold(start, |sum, word| step(sum, u64::from_le_bytes(*word.first_chunk().expect("eight"))));
    words.remainder().iter().fold(mixed, |sum, byte| step(sum, (*byte).into())) ^ bytes.len() as u64
}

fn step(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(29)
}

const MAGIC: &[u8; 16] = b"midas-history/1\n";
const HEADER: usize = 24;
/// A block is written when it is at least this long ..
const BLOCK: usize = 64 << 10;
/// .. and is never longer than that: one call more, with the longest listing.
const BLOCK_MAX: usize = 16 << 20;
