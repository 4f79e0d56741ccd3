//! Server-sent events, as bytes come: lines, an empty one ends an event. What is neither name nor data is no concern of ours.

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) event: String,
    pub(crate) data: String,
}

/// What has come of the next event.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    begun: Vec<u8>,
    message: Message,
    /// Whether the event under way has data: an empty line alone is none.
    data: bool,
}

/// An event has grown beyond [`LARGEST`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

impl Parser {
    /// The events that end in these bytes.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Message>, TooLarge> {
        let mut ended = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.begun.len() + self.message.data.len() + part.len() > LARGEST {
                return Err(TooLarge);
            }
            self.begun.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.begun);
                ended.extend(self.line(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r'])));
            }
        }
        Ok(ended)
    }

    fn line(&mut self, line: &str) -> Option<Message> {
        if line.is_empty() {
            let message = std::mem::take(&mut self.message);
            return std::mem::take(&mut self.data).then_some(message);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.message.event),
            "data" => {
                if std::mem::replace(&mut self.data, true) {
                    self.message.data.push('\n');
                }
                self.message.data.push_str(value);
            }
            _comment_or_unknown => {}
        }
        None
    }
}

/// Far above five minutes of a thousand servers.
const LARGEST: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn message(event: &str, data: &str) -> Message {
        Message { event: event.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn events_are_the_same_however_their_bytes_are_cut() {
        let text = ": hello\n\nevent: past\ndata: []\n\nevent: frame\r\nid: 7\r\ndata: {\"a\":\r\ndata:1}\r\n\r\nevent: cut\ndata: x\n";
        let want = [message("past", "[]"), message("frame", "{\"a\":\n1}")];
        for size in 1..text.len() {
            let mut parser = Parser::default();
            let found: Vec<Message> =
                text.as_bytes().chunks(size).flat_map(|bytes| parser.take(bytes).unwrap()).collect();
            assert_eq!(found, want, "{size} bytes at a time");
        }
    }

    #[test]
    fn an_event_without_end_is_given_up() {
        let mut parser = Parser::default();
        let chunk = vec![b'x'; 1 << 20];
        let taken = (0..).take_while(|_| parser.take(&chunk).is_ok()).take(100).count();
        assert_eq!(taken, LARGEST >> 20);
    }
}
