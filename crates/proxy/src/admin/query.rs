//! What stands behind the question mark of an address, as a value: names and texts, each once, none unknown.

use super::routes::Refusal;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Reads the query; every field of `T` that it may have is a text.
pub(super) fn read<T: DeserializeOwned>(query: Option<&str>) -> Result<T, Refusal> {
    let mut fields = Map::new();
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (text(name)?, text(value)?);
        if let Some(_before) = fields.insert(name.clone(), Value::String(value)) {
            return Err(Refusal::wrong(format!("'{}' is given twice", name.escape_debug())));
        }
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| Refusal::wrong(error.to_string()))
}

/// A number that was given as a text.
pub(super) fn number(name: &str, typed: &str) -> Result<u64, Refusal> {
    typed.parse().map_err(|_| Refusal::wrong(format!("{name} is a number, got '{}'", typed.escape_debug())))
}

/// What was written with `%` and `+`.
fn text(written: &str) -> Result<String, Refusal> {
    let wrong = || Refusal::wrong(format!("'{}' is not written as in an address", written.escape_debug()));
    let (mut bytes, mut rest) = (Vec::new(), written.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next(), rest.next()].map(|digit| char::from(digit.unwrap_or_default()).to_digit(16));
                let [Some(high), Some(low)] = digits else { return Err(wrong()) };
                (high * 16 + low) as u8
            }
            plain => plain,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::watch::Filter;

    #[test]
    fn queries_are_read_or_refused_with_a_reason() {
        let filter = |query| read::<Filter>(Some(query)).map_err(|Refusal(_, why)| why);
        let path = Some("/scratch/a b&ü".to_owned());
        assert_eq!(filter("path=/scratch/a+b%26%C3%BC").unwrap(), Filter { path, ..Filter::default() });
        assert_eq!(filter("&client=::1&").unwrap().client, Some("::1".to_owned()));
        assert_eq!(read::<Filter>(None).unwrap(), Filter::default());
        let cases = [
            ("path=%f", "not written as"),
            ("path=%zz", "not written as"),
            ("path=%ff", "not written as"),
            ("path=a&path=b", "'path' is given twice"),
            ("pth=a", "unknown field `pth`"),
        ];
        for (query, why) in cases {
            let said = filter(query).unwrap_err();
            assert!(said.contains(why), "{query}: {said}");
        }
        assert!(number("since", "12").is_ok_and(|number| number == 12) && number("since", "-1").is_err());
    }
}
