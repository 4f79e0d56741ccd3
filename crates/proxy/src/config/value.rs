//! Readers of single values: from what was typed to what it means, or one line that says what is possible.

use super::address;
use super::nearest::{nearest, suggestion};
use super::network::Network;
use super::reading::{Reading, Value};
use midas_core::route::policy::Policy;
use midas_core::time::Span;
use midas_workload::units::{parse_span, show_span};
use std::net::SocketAddr;
use std::path::PathBuf;
use toml::de::DeValue;

/// Something with the offset where it stood.
#[derive(Clone, Debug)]
pub(super) struct Typed<T> {
    pub(super) value: T,
    pub(super) at: usize,
}

/// A reader that keeps where the value stood.
pub(super) fn placed<T>(
    reader: impl Fn(&Value<'_>, &mut Reading<'_>) -> Option<T>,
) -> impl Fn(&Value<'_>, &mut Reading<'_>) -> Option<Typed<T>> {
    move |value, reading| Some(Typed { value: reader(value, reading)?, at: value.at })
}

/// One value, or a list of `1..=most`.
pub(super) fn one_or_many<T>(
    most: usize,
    item: impl Fn(&Value<'_>, &mut Reading<'_>) -> Option<T>,
) -> impl Fn(&Value<'_>, &mut Reading<'_>) -> Option<Vec<Typed<T>>> {
    let item = placed(item);
    move |value, reading| {
        let DeValue::Array(list) = value.typed else { return item(value, reading).map(|one| vec![one]) };
        if !(1..=most).contains(&list.len()) {
            value.wrong(reading, &format!("the list must have 1..{most} members, got {}", list.len()));
            return None;
        }
        let members = list.iter().map(|member| Value { typed: member.get_ref(), at: member.span().start, ..*value });
        // Collected before it is judged: every wrong member is told.
        let read: Vec<Option<Typed<T>>> = members.map(|member| item(&member, reading)).collect();
        read.into_iter().collect()
    }
}

pub(super) fn flag(value: &Value<'_>, reading: &mut Reading<'_>) -> Option<bool> {
    let flag = value.typed.as_bool();
    if flag.is_none() {
        value.takes(reading, "true or false, without quotes");
    }
    flag
}

/// A whole number.
pub(super) fn count(least: u64, most: u64) -> impl Fn(&Value<'_>, &mut Reading<'_>) -> Option<u64> {
    move |value, reading| {
        let number = whole(value).filter(|number| (least..=most).contains(number));
        if number.is_none() {
            value.takes(reading, &format!("a whole number in {least}..{most}"));
        }
        number
    }
}

/// A number strictly between 0 and 1.
pub(super) fn share(value: &Value<'_>, reading: &mut Reading<'_>) -> Option<f64> {
    let number = value.typed.as_float().and_then(|float| float.as_str().parse::<f64>().ok());
    let share = number.filter(|number| *number > 0.0 && *number < 1.0);
    if share.is_none() {
        value.takes(reading, "a number between 0 and 1, both excluded, such as 0.001");
    }
    share
}

/// A time such as `"60s"`.
pub(super) fn time(least: Span, most: Span) -> impl Fn(&Value<'_>, &mut Reading<'_>) -> Option<Span> {
    move |value, reading| {
        let Some(text) = value.typed.as_str() else {
            value.takes(reading, "a time in quotes, such as \"60s\"");
            return None;
        };
        match parse_span(text) {
            Ok(span) if (least..=most).contains(&span) => Some(span),
            Ok(_) => {
                value.takes(reading, &format!("a time in {}..{}", show_span(least), show_span(most)));
                None
            }
            Err(said) => {
                value.wrong(reading, &said);
                None
            }
        }
    }
}

/// A size such as `"2MiB"`, or a number of bytes.
pub(super) fn size(least: u64, most: u64) -> impl Fn(&Value<'_>, &mut Reading<'_>) -> Option<usize> {
    move |value, reading| {
        let bytes = whole(value).or_else(|| value.typed.as_str().and_then(parse_size));
        let size = bytes.filter(|bytes| (least..=most).contains(bytes)).and_then(|bytes| usize::try_from(bytes).ok());
        if size.is_none() {
            value.takes(reading, &format!("a size in {}..{}", show_size(least), show_size(most)));
        }
        size
    }
}

/// One of these names.
pub(super) fn choice<T: Copy>(names: &[(&str, T)]) -> impl Fn(&Value<'_>, &mut Reading<'_>) -> Option<T> {
    move |value, reading| {
        let typed = value.typed.as_str();
        let found = names.iter().find(|(name, _)| typed == Some(name)).map(|(_, meant)| *meant);
        if found.is_none() {
            let possible: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            match typed {
                Some(text) => value.wrong(reading, &format!("unknown value '{text}'{}", suggestion(text, &possible))),
                None => value.takes(reading, &format!("one of {} in quotes", possible.join(", "))),
            }
        }
        found
    }
}

/// The name of a pool.
pub(super) fn name(value: &Value<'_>, reading: &mut Reading<'_>) -> Option<String> {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = |text: &&str| (1..=NAME_MAX).contains(&text.len()) && text.chars().all(letter);
    let name = value.typed.as_str().filter(fits).map(str::to_owned);
    if name.is_none() {
        value.takes(reading, &format!("1..{NAME_MAX} letters, digits, '-', '_' or '.' in quotes"));
    }
    name
}

/// Any text, to be compared with names.
pub(super) fn reference(value: &Value<'_>, reading: &mut Reading<'_>) -> Option<String> {
    let text = value.typed.as_str().map(str::to_owned);
    if text.is_none() {
        value.takes(reading, "a name in quotes");
    }
    text
}

/// A path that clients and servers know; written in one way alone, because paths are compared.
pub(super) fn export_path(value: &Value<'_>, reading: &mut Reading<'_>) -> Option<String> {
    let path = absolute(value, reading)?;
    if path.len() > EXPORT_PATH_MAX {
        value.wrong(reading, &format!("a path has at most {EXPORT_PATH_MAX} bytes, got {}", path.len()));
        return None;
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let plain = format!("/{}", parts.join("/"));
    match (parts.contains(&".."), plain == path) {
        (false, true) => Some(plain),
        (false, false) => {
            value.wrong(reading, &format!("'{path}' is not written plainly; write '{plain}'"));
            None
        }
        (true, _) => {
            value.wrong(reading, &format!("'{path}' must not contain '..'"));
            None
        }
    }
}

/// What a shell is told.
pub(super) fn command(value: &Value<'_>, reading: &mut Reading<'_>) -> Option<String> {
    let fits = |text: &&str| !text.trim().is_empty() && !text.contains('\0');
    let command = value.typed.as_str().filter(fits).map(str::to_owned);
    if command.is_none() {
        value.takes(reading, "a command of the shell in quotes");
    }
    command
}

/// A file of this machine.
pub(super) fn file(value: &Value<'_>, reading: &mut Reading<'_>) -> Option<PathBuf> {
    absolute(value, reading).map(PathBuf::from)
}

/// A unix socket of this machine.
pub(super) fn socket(value: &Value<'_>, reading: &mut Reading<'_>) -> Option<PathBuf> {
    let path = absolute(value, reading)?;
    if path.len() > SOCKET_PATH_MAX {
        value.wrong(reading, &format!("the path of a socket has at most {SOCKET_PATH_MAX} bytes, got {}", path.len()));
        return None;
    }
    Some(path.into())
}

/// Where to listen.
pub(super) fn address(value: &Value<'_>, reading: &mut Reading<'_>) -> Option<SocketAddr> {
    let Some(text) = value.typed.as_str() else {
        value.takes(reading, "an address in quotes, such as \"10.0.0.1:2049\"");
        return None;
    };
    let found = address::parse(text, reading.resolve());
    found.map_err(|said| value.wrong(reading, &said)).ok()
}

/// A server's name with its address.
pub(super) fn server(value: &Value<'_>, reading: &mut Reading<'_>) -> Option<(String, SocketAddr)> {
    let address = address(value, reading)?;
    if address.port() == 0 || address.ip().is_unspecified() {
        value.wrong(reading, &format!("{address} is not where a server can be"));
        return None;
    }
    value.typed.as_str().map(|name| (name.to_owned(), address))
}

pub(super) fn network(value: &Value<'_>, reading: &mut Reading<'_>) -> Option<Network> {
    let Some(text) = value.typed.as_str() else {
        value.takes(reading, "a network in quotes, such as \"10.0.0.0/8\"");
        return None;
    };
    Network::parse(text).map_err(|said| value.wrong(reading, &said)).ok()
}

pub(super) fn policy(value: &Value<'_>, reading: &mut Reading<'_>) -> Option<Policy> {
    let Some(text) = value.typed.as_str() else {
        value.takes(reading, "a name in quotes, such as \"first-fit\"");
        return None;
    };
    parse_policy(text).map_err(|said| value.wrong(reading, &said)).ok()
}

/// The policy that was typed, or the one that was probably meant.
pub(crate) fn parse_policy(text: &str) -> Result<Policy, String> {
    let typed = text.split(':').next().unwrap_or(text);
    let names = Policy::USAGE.map(|(usage, _)| usage.split(['[', ':']).next().unwrap_or(usage));
    Policy::parse(text).map_err(|said| match nearest(typed, names) {
        Some(near) if near != typed => format!("unknown policy '{typed}'; did you mean '{near}'?"),
        Some(_) | None => said,
    })
}

/// The shortest exact form of a size.
pub(super) fn show_size(bytes: u64) -> String {
    let unit = UNITS.iter().rev().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}

fn parse_size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*unit)
}

fn whole(value: &Value<'_>) -> Option<u64> {
    let number = value.typed.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn absolute(value: &Value<'_>, reading: &mut Reading<'_>) -> Option<String> {
    let fits = |text: &&str| text.starts_with('/') && !text.contains('\0');
    let path = value.typed.as_str().filter(fits).map(str::to_owned);
    if path.is_none() {
        value.takes(reading, "an absolute path in quotes");
    }
    path
}

const UNITS: [(&str, u64); 5] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
/// Bytes of a pool's name.
const NAME_MAX: usize = 64;
/// Bytes of a path in MOUNT (RFC 1813, 5.1.1: MNTPATHLEN).
const EXPORT_PATH_MAX: usize = 1024;
/// Bytes that the system has for the path of a unix socket, less its end.
const SOCKET_PATH_MAX: usize = 107;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_back() {
        for (text, bytes, shown) in [
            ("2MiB", 2 << 20, "2MiB"),
            ("1024KiB", 1 << 20, "1MiB"),
            ("1025KiB", 1025 << 10, "1025KiB"),
            ("1TiB", 1 << 40, "1TiB"),
            ("7B", 7, "7B"),
            ("0B", 0, "0"),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
            assert_eq!(show_size(bytes), shown, "{text}");
        }
        for text in ["", "5", "MiB", "1 MiB", "1MB", "-1MiB", "1.5MiB", "99999999999TiB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
