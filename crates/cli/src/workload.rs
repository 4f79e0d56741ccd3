//! What was typed as a workload: one that is made of chance, or `trace:FILE`, calls that `midas trace --json` wrote down.
//!
//! A trace says of each call which directory it was on, by digest, and which name; calls on objects are joined to names by what lookups
//! found. So it becomes directories and files by number, which the simulator and the load generator know. A line that is not understood is
//! an error with its number; fields that are not known are passed over.

use midas_core::op::Op;
use midas_core::time::{Span, Time};
use midas_nfs::nfs3::Procedure;
use midas_proxy::api::watch::Traced;
use midas_workload::{Replay, Request, Spec};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

/// Understands what was typed; of a trace, reads its file.
pub(crate) fn parse(typed: &str) -> Result<Spec, String> {
    let Some(file) = typed.strip_prefix("trace:") else {
        return Spec::parse(typed).map_err(|error| error.to_string());
    };
    let opened = File::open(file).map_err(|error| format!("{file}: {error}"))?;
    let calls = read(BufReader::new(opened)).map_err(|error| format!("{file}: {error}"))?;
    let replay = Replay::new(typed, requests(&calls)).map_err(|error| format!("{file}: {error}"))?;
    Ok(Spec::replay(replay))
}

/// What `midas sim list` says of it.
pub(crate) const TRACE: (&str, &str) = ("trace:FILE", "calls that `midas trace --json` wrote down, at their times");

/// A recorded call with everything as a number.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    at: Time,
    op: Op,
    client: u32,
    /// A digest.
    place: u64,
    name: Option<u32>,
    found: Option<u64>,
    to: Option<(u64, u32)>,
    /// It was told that there is no such name.
    absent: bool,
    ok: bool,
}

/// The calls of a trace, by time.
fn read(mut lines: impl BufRead) -> Result<Vec<Recorded>, String> {
    let (mut calls, mut numbers, mut line) = (Vec::new(), Numbers::default(), Vec::new());
    for number in 1.. {
        line.clear();
        let length =
            lines.by_ref().take(LINE_MOST + 1).read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
        match length as u64 {
            0 => break,
            1..=LINE_MOST => {}
            _ => return Err(format!("line {number} is longer than {LINE_MOST} bytes")),
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        if calls.len() == LINES_MOST {
            return Err(format!("more than {LINES_MOST} calls: cut it into parts"));
        }
        let call = recorded(&line, &mut numbers).map_err(|error| format!("line {number}: {error}"))?;
        calls.push(call);
    }
    calls.sort_by_key(|call| call.at);
    Ok(calls)
}

/// Texts by number, so that a call is small.
#[derive(Default)]
struct Numbers {
    clients: HashMap<String, u32>,
    names: HashMap<String, u32>,
}

fn recorded(line: &[u8], numbers: &mut Numbers) -> Result<Recorded, String> {
    let traced: Traced = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let procedure = Procedure::ALL.into_iter().find(|procedure| procedure.name() == traced.procedure);
    let procedure = procedure.ok_or_else(|| format!("unknown procedure '{}'", traced.procedure.escape_debug()))?;
    let op = midas_nfsd::kind(procedure).ok_or_else(|| format!("{procedure} is about nothing"))?;
    let to = traced.to.map(|(place, name)| Ok::<_, String>((digest(&place)?, number(&mut numbers.names, name))));
    Ok(Recorded {
        at: Time::ZERO + Span::from_micros(traced.at_us),
        op,
        client: number(&mut numbers.clients, traced.client),
        place: digest(&traced.place)?,
        name: traced.name.map(|name| number(&mut numbers.names, name)),
        found: traced.found.as_deref().map(digest).transpose()?,
        to: to.transpose()?,
        absent: traced.status == "NOENT",
        ok: traced.status == "OK",
    })
}

fn digest(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{}' is no digest of 16 hexadecimal digits", text.escape_debug());
    match text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        true => u64::from_str_radix(text, 16).map_err(|_| wrong()),
        false => Err(wrong()),
    }
}

/// From 0, in the order in which they are first seen.
fn number<K: std::hash::Hash + Eq>(numbers: &mut HashMap<K, u32>, of: K) -> u32 {
    let next = numbers.len() as u32;
    *numbers.entry(of).or_insert(next)
}

/// The calls as requests, with directories and files by number.
fn requests(calls: &[Recorded]) -> Vec<Request> {
    let mut map = Map::default();
    for call in calls {
        if let (Some(found), Some(name)) = (call.found, call.name) {
            map.found.entry(found).or_insert((call.place, name));
        }
    }
    calls.iter().map(|call| map.request(call)).collect()
}

/// Which number a directory has, and a name in it.
#[derive(Default)]
struct Map {
    /// The name that led to an object first.
    found: HashMap<u64, (u64, u32)>,
    directories: HashMap<u64, u32>,
    /// None: the directory itself, or an object that no name is known of.
    files: HashMap<(u32, Option<u32>), u32>,
    /// How many files each directory has.
    sizes: HashMap<u32, u32>,
}

impl Map {
    fn request(&mut self, call: &Recorded) -> Request {
        let ((directory, file), new) = match (call.name, self.found.get(&call.place).copied()) {
            (Some(name), _) => self.file(call.place, Some(name)),
            // What is about a directory as such stays with it.
            (None, _) if matches!(call.op, Op::List | Op::Statfs) => {
                ((number(&mut self.directories, call.place), 0), false)
            }
            (None, Some((place, name))) => self.file(place, Some(name)),
            (None, None) => self.file(call.place, None),
        };
        let missing = match call.op {
            Op::Lookup => call.absent,
            Op::Create => call.ok && new,
            _ => false,
        };
        let target = call.to.map(|(place, name)| self.file(place, Some(name)).0);
        Request { at: call.at, op: call.op, client: call.client, directory, file, missing, target }
    }

    /// A file's directory and number, and whether it was not seen before.
    fn file(&mut self, place: u64, name: Option<u32>) -> ((u32, u32), bool) {
        let directory = number(&mut self.directories, place);
        match self.files.entry((directory, name)) {
            Entry::Occupied(known) => ((directory, *known.get()), false),
            Entry::Vacant(new) => {
                let size = self.sizes.entry(directory).or_default();
                new.insert(*size);
                *size += 1;
                ((directory, *size - 1), true)
            }
        }
    }
}

/// Bytes of a line: the longest names and paths fit.
const LINE_MOST: u64 = 64 << 10;
/// Calls of a trace.
const LINES_MOST: usize = 4_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at_us: u64, procedure: &str, place: u64, rest: &str) -> String {
        format!(
            "{{\"at_us\":{at_us},\"client\":\"10.0.0.1\",\"procedure\":\"{procedure}\",\"place\":\"{place:016x}\",\
             \"status\":\"OK\",\"why\":\"home\",\"news\":[1]{rest}}}\n"
        )
    }

    fn played(text: &str) -> Vec<Request> {
        requests(&read(text.as_bytes()).unwrap())
    }

    /// Each as `op directory/file`.
    fn drawn(text: &str) -> String {
        let one = |it: &Request| {
            let missing = if it.missing { "!" } else { "" };
            let to = it.target.map_or_else(String::new, |(directory, file)| format!(">{directory}/{file}"));
            format!("{}{missing} {}/{}{to}", it.op.name(), it.directory, it.file)
        };
        played(text).iter().map(one).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn calls_on_objects_are_joined_to_their_names() {
        let named = |name: &str, found: u64| format!(",\"name\":\"{name}\",\"found\":\"{found:016x}\"");
        let cases = [
            // A file, before and after its name is known; another in the same directory; one that nobody named.
            (
                [
                    line(1, "GETATTR", 0xf1, ""),
                    line(2, "LOOKUP", 0xd, &named("a", 0xf1)),
                    line(3, "LOOKUP", 0xd, &named("b", 0xf2)),
                    line(4, "READ", 0xf2, ""),
                    line(5, "GETATTR", 0xff, ""),
                ],
                "getattr 0/0, lookup 0/0, lookup 0/1, read 0/1, getattr 1/0",
            ),
            // A directory that is a name in another one is a directory of its own for what is in it.
            (
                [
                    line(1, "LOOKUP", 0xd, &named("sub", 0xe)),
                    line(2, "READDIRPLUS", 0xe, ""),
                    line(3, "GETATTR", 0xe, ""),
                    line(4, "CREATE", 0xe, &named("new", 0x5)),
                    line(5, "CREATE", 0xe, &named("new", 0x6)),
                ],
                "lookup 0/0, list 1/0, getattr 0/0, create! 1/0, create 1/0",
            ),
            (
                [
                    line(1, "LOOKUP", 0xd, ",\"name\":\"no\"").replace("\"OK\"", "\"NOENT\""),
                    line(2, "RENAME", 0xd, ",\"name\":\"a\",\"to\":[\"000000000000000e\",\"b\"]"),
                    line(3, "LINK", 0xd, &named("c", 0x9)),
                    line(4, "WRITE", 0x9, ""),
                    line(5, "FSSTAT", 0xd, ""),
                ],
                "lookup! 0/0, rename 0/1>1/0, link 0/2, write 0/2, statfs 0/0",
            ),
        ];
        for (lines, want) in cases {
            assert_eq!(drawn(&lines.concat()), want);
        }
    }

    #[test]
    fn calls_are_put_in_the_order_of_their_times_and_clients_have_numbers() {
        let other = line(5, "GETATTR", 2, "").replace("10.0.0.1", "10.0.0.2");
        let calls = played(&(line(9, "GETATTR", 1, "") + "\n" + &other));
        assert_eq!(
            calls.iter().map(|call| (call.at.as_nanos(), call.client)).collect::<Vec<_>>(),
            [(5_000, 1), (9_000, 0)]
        );
    }

    #[test]
    fn what_is_not_understood_is_named_with_its_line() {
        let good = line(1, "GETATTR", 1, "");
        let cases = [
            (format!("{good}{{\n"), "line 2: EOF while parsing"),
            (format!("{good}\n{}", line(1, "STAT", 1, "")), "line 3: unknown procedure 'STAT'"),
            (line(1, "NULL", 1, ""), "line 1: NULL is about nothing"),
            (good.replace("0000000000000001", "1"), "line 1: '1' is no digest of 16 hexadecimal digits"),
            (good.replace("0000000000000001", "+000000000000001"), "is no digest"),
            (format!("{good}{}", " ".repeat(70_000)), "line 2 is longer than 65536 bytes"),
        ];
        for (text, why) in cases {
            let said = read(text.as_bytes()).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        assert!(parse("trace:/nowhere/at/all").unwrap_err().contains("/nowhere/at/all: "));
        assert!(parse("zipff").unwrap_err().contains("trace:FILE"));
    }
}
