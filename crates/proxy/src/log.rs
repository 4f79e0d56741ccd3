//! What is said on stderr: one line an event, whatever is in it, and the same thing at most once in a while.
//!
//! A module of our own and not `tracing`: events are few, none lies on the path of a call that goes well, and the parts that matter here
//! (repeats counted, one line always) its subscribers leave to be written. Silent until [`set`], so that tests of the library are.
//! Nothing waits for it: a thread of its own writes, and lines that it cannot write fast enough are counted and lost.

use crate::config::{Level, Log, LogFormat};
use crate::pool::lock;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What is known of an event, with names; the first says whom it is about.
pub type Facts<'f> = [(&'static str, &'f dyn Display)];

/// From now on events of this level and above are said, in this form.
pub fn set(log: Log) {
    JSON.store(log.format == LogFormat::Json, Ordering::Relaxed);
    LEVEL.store(log.level as u8 + 1, Ordering::Relaxed);
}

/// Something does not work.
pub fn error(event: &'static str, facts: &Facts<'_>) {
    say(Level::Error, event, facts);
}

/// Something will not work for long, or somebody is refused.
pub fn warn(event: &'static str, facts: &Facts<'_>) {
    say(Level::Warn, event, facts);
}

/// Something changed.
pub fn info(event: &'static str, facts: &Facts<'_>) {
    say(Level::Info, event, facts);
}

/// For those who look for a fault.
pub fn debug(event: &'static str, facts: &Facts<'_>) {
    say(Level::Debug, event, facts);
}

/// Said every time: what an administrator did or asked for.
pub fn answer(level: Level, event: &'static str, facts: &Facts<'_>) {
    if (level as u8) < LEVEL.load(Ordering::Relaxed) {
        write(level, event, facts);
    }
}

fn say(level: Level, event: &'static str, facts: &Facts<'_>) {
    if level as u8 >= LEVEL.load(Ordering::Relaxed) {
        return;
    }
    let about = facts.first().map(|(name, value)| (*name, value.to_string()));
    if lock(&REPEATS).admits(Instant::now(), level, event, about) {
        write(level, event, facts);
    }
}

/// Tells how often what was said came again. For whoever looks at the clock anyway.
pub(crate) fn tick(now: Instant) {
    let over = lock(&REPEATS).take_over(now);
    for ((event, about), repeat) in over.iter().filter(|(_, repeat)| repeat.more > 0) {
        let more: (&str, &dyn Display) = ("more_like_this", &repeat.more);
        match repeat.name {
            Some(name) if !about.is_empty() => write(repeat.level, event, &[(name, about), more]),
            Some(_) | None => write(repeat.level, event, &[more]),
        }
    }
}

fn write(level: Level, event: &str, facts: &Facts<'_>) {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let line = match JSON.load(Ordering::Relaxed) {
        true => json(time, level, event, facts),
        false => text(time, level, event, facts),
    };
    if writer().try_send(Order::Line(line)).is_err() {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

enum Order {
    Line(String),
    /// Say when all before is written.
    Flush(SyncSender<()>),
}

/// Waits until what was said is written, but not for ever: for the end of the process.
pub fn flush() {
    let (done, all) = sync_channel(1);
    if writer().try_send(Order::Flush(done)).is_ok() {
        let _gone = all.recv_timeout(FLUSH);
    }
}

fn writer() -> &'static SyncSender<Order> {
    WRITER.get_or_init(|| {
        let (give, orders) = sync_channel(LINES);
        std::thread::spawn(move || orders.into_iter().for_each(obey));
        give
    })
}

fn obey(order: Order) {
    let lost = LOST.swap(0, Ordering::Relaxed);
    let mut out = std::io::stderr().lock();
    match order {
        // Nobody is there to be told that nobody reads.
        Order::Line(line) => drop(out.write_all(line.as_bytes())),
        Order::Flush(done) => drop(done.send(())),
    }
    if lost > 0 {
        let _gone = writeln!(out, "midas: {lost} lines of the log were lost: they are not read fast enough");
    }
}

fn text(time: Duration, level: Level, event: &str, facts: &Facts<'_>) -> String {
    let mut line = format!("{} {} {event}", stamp(time), name(level));
    for (name, value) in facts {
        let value = value.to_string();
        let plain = !value.is_empty() && value.chars().all(|c| c.is_ascii_graphic() && c != '"' && c != '=');
        // Writing into a string cannot fail.
        let _written = if plain { write!(line, " {name}={value}") } else { write!(line, " {name}={value:?}") };
    }
    line + "\n"
}

fn json(time: Duration, level: Level, event: &str, facts: &Facts<'_>) -> String {
    let head = [("time", stamp(time)), ("level", name(level).to_owned()), ("event", event.to_owned())];
    let facts = facts.iter().map(|(name, value)| (*name, value.to_string()));
    let object: Map<String, Value> =
        head.into_iter().chain(facts).map(|(name, value)| (name.to_owned(), Value::String(value))).collect();
    Value::Object(object).to_string() + "\n"
}

fn name(level: Level) -> &'static str {
    Level::NAMES.iter().find(|(_, named)| *named == level).map_or("", |(name, _)| name)
}

/// A time since 1970 as RFC 3339 has it, in UTC.
fn stamp(time: Duration) -> String {
    let (days, second) = (time.as_secs() / DAY, time.as_secs() % DAY);
    // Years begin in March here, so that the day that comes and goes is the last one: 400 of them have 146,097 days.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, milli) = (second / 3600, second / 60 % 60, time.subsec_millis());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{milli:03}Z", second % 60)
}

/// What was said lately: an event and whom it was about.
struct Repeats(BTreeMap<(&'static str, String), Repeat>);

struct Repeat {
    said: Instant,
    more: u64,
    level: Level,
    name: Option<&'static str>,
}

impl Repeats {
    /// Whether this is to be said; otherwise it is counted.
    fn admits(
        &mut self,
        now: Instant,
        level: Level,
        event: &'static str,
        about: Option<(&'static str, String)>,
    ) -> bool {
        let (name, about) = about.map_or((None, String::new()), |(name, about)| (Some(name), about));
        // Too many to tell apart: the others count as one.
        let full = self.0.len() >= REPEATS_MAX && !self.0.contains_key(&(event, about.clone()));
        let key = (event, if full { String::new() } else { about });
        match self.0.get_mut(&key) {
            Some(repeat) => {
                repeat.more += 1;
                false
            }
            None => {
                self.0.insert(key, Repeat { said: now, more: 0, level, name });
                true
            }
        }
    }

    fn take_over(&mut self, now: Instant) -> BTreeMap<(&'static str, String), Repeat> {
        let over = |repeat: &Repeat| now.saturating_duration_since(repeat.said) >= QUIET;
        let (over, lately) = std::mem::take(&mut self.0).into_iter().partition(|(_, repeat)| over(repeat));
        self.0 = lately;
        over
    }
}

/// 0: nothing.
static LEVEL: AtomicU8 = AtomicU8::new(0);
static WRITER: OnceLock<SyncSender<Order>> = OnceLock::new();
static LOST: AtomicU64 = AtomicU64::new(0);
/// Lines that wait to be written.
const LINES: usize = 1024;
/// How long the end of the process waits for them.
const FLUSH: Duration = Duration::from_secs(1);
static JSON: AtomicBool = AtomicBool::new(false);
static REPEATS: Mutex<Repeats> = Mutex::new(Repeats(BTreeMap::new()));
/// What was said is not said again for so long.
const QUIET: Duration = Duration::from_secs(5);
/// Things that are told apart.
const REPEATS_MAX: usize = 1024;
const DAY: u64 = 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_767_225_599, "2025-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ];
        for (seconds, want) in cases {
            assert_eq!(stamp(Duration::from_secs(seconds)), want);
        }
    }

    #[test]
    fn an_event_is_one_line_whatever_is_in_it() {
        let facts: &Facts<'_> = &[("client", &"10.0.0.1"), ("why", &"two\nlines \"quoted\""), ("calls", &3)];
        let head = "1970-01-01T00:00:01.500Z";
        let time = Duration::from_millis(1500);
        let said = text(time, Level::Warn, "client refused", facts);
        assert_eq!(
            said,
            format!("{head} warn client refused client=10.0.0.1 why=\"two\\nlines \\\"quoted\\\"\" calls=3\n")
        );
        let said = json(time, Level::Warn, "client refused", facts);
        assert_eq!(said.lines().count(), 1);
        let read: Value = serde_json::from_str(&said).unwrap();
        assert_eq!((&read["time"], &read["level"]), (&head.into(), &"warn".into()));
        assert_eq!(read["why"], "two\nlines \"quoted\"");
    }

    #[test]
    fn what_comes_again_is_counted_and_then_told() {
        let (mut repeats, start) = (Repeats(BTreeMap::new()), Instant::now());
        let mut admits =
            |now, about: &str| repeats.admits(now, Level::Warn, "client refused", Some(("client", about.to_owned())));
        assert!(admits(start, "a"));
        assert!(!admits(start, "a") && !admits(start + QUIET / 2, "a"));
        assert!(admits(start + QUIET / 2, "b"));
        let over = repeats.take_over(start + QUIET);
        let told: Vec<_> = over.iter().map(|((_, about), repeat)| (about.as_str(), repeat.more)).collect();
        assert_eq!(told, [("a", 2)]);
        assert!(repeats.admits(start + QUIET, Level::Warn, "client refused", Some(("client", "a".to_owned()))));
    }

    #[test]
    fn a_thousand_clients_at_once_are_told_as_one() {
        let (mut repeats, start) = (Repeats(BTreeMap::new()), Instant::now());
        for client in 0..2 * REPEATS_MAX {
            repeats.admits(start, Level::Warn, "client refused", Some(("client", client.to_string())));
        }
        assert_eq!(repeats.0.len(), REPEATS_MAX + 1);
        assert_eq!(repeats.0[&("client refused", String::new())].more as usize, REPEATS_MAX - 1);
    }
}
