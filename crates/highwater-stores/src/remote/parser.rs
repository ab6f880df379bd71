//! The grammar of server-sent events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).
//!
//! By hand, because the parsers at hand buffer a line or an event for as long as it goes on, and keep
//! comments to themselves: here what is held is bounded, and a comment is a sign of life.

use std::{fmt, mem};

use bytes::Bytes;

/// Longest event, in bytes. The largest state (a payload of 64 KiB, a message of 16 KiB, every byte
/// of it escaped) fits several times.
const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// What was heard.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Something happened.
    Event(Event),
    /// Nothing happened, and the server is there.
    Comment,
}

/// One event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// What kind it is of; empty if it did not say.
    pub(super) name: String,
    /// What a later request resumes behind it with, if it said so.
    pub(super) id: Option<String>,
    /// Its lines, joined by line feeds.
    pub(super) data: String,
}

/// Why bytes are no events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Malformed {
    /// One does not come to an end.
    TooLong,
    /// One is no UTF-8.
    NotText,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::TooLong => write!(f, "it has more than {EVENT_BYTES_MAX} bytes"),
            Malformed::NotText => f.write_str("it is no UTF-8"),
        }
    }
}

impl std::error::Error for Malformed {}

/// Cuts a stream of bytes into events. What is left of one at the end of the stream is no event.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    /// The last line ended in a carriage return: a line feed that follows belongs to it.
    is_after_return: bool,
    name: Vec<u8>,
    id: Vec<u8>,
    /// Every line of it with a line feed.
    data: Vec<u8>,
}

impl Parser {
    /// Reads up to the end of the next event or comment, and takes what it has read from `input`.
    /// `None`: all was taken, and there is no more in it.
    pub(super) fn read(&mut self, input: &mut Bytes) -> Result<Option<Heard>, Malformed> {
        while !input.is_empty() {
            if mem::take(&mut self.is_after_return) && input[0] == b'\n' {
                let _ = input.split_to(1);
                continue;
            }
            let end = input.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = input.split_to(end.unwrap_or(input.len()));
            let held = self.line.len() + self.name.len() + self.id.len() + self.data.len();
            if held + part.len() > EVENT_BYTES_MAX {
                return Err(Malformed::TooLong);
            }
            if end.is_none() {
                self.line.extend_from_slice(&part);
                break;
            }
            self.is_after_return = input.split_to(1)[..] == *b"\r";
            let heard = if self.line.is_empty() {
                self.take_line(&part)?
            } else {
                self.line.extend_from_slice(&part);
                let mut line = mem::take(&mut self.line);
                let heard = self.take_line(&line)?;
                line.clear();
                self.line = line;
                heard
            };
            if heard.is_some() {
                return Ok(heard);
            }
        }
        Ok(None)
    }

    fn take_line(&mut self, line: &[u8]) -> Result<Option<Heard>, Malformed> {
        if line.is_empty() {
            return self.dispatch();
        }
        let colon = line.iter().position(|&byte| byte == b':');
        let (field, value) = match colon {
            Some(0) => return Ok(Some(Heard::Comment)),
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => value.clone_into(&mut self.name),
            b"id" => value.clone_into(&mut self.id),
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            // The standard's `retry`, and what the future brings.
            _ => {}
        }
        Ok(None)
    }

    /// The event that an empty line ends, if there was one.
    fn dispatch(&mut self) -> Result<Option<Heard>, Malformed> {
        let text = |bytes| String::from_utf8(bytes).map_err(|_| Malformed::NotText);
        let (name, id) = (text(mem::take(&mut self.name))?, text(mem::take(&mut self.id))?);
        let mut data = text(mem::take(&mut self.data))?;
        if name.is_empty() && data.is_empty() {
            return Ok(None);
        }
        data.pop(); // The line feed of its last line.
        let id = Some(id).filter(|id| !id.is_empty());
        Ok(Some(Heard::Event(Event { name, id, data })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, id: &str, data: &str) -> Heard {
        let id = Some(id.to_owned()).filter(|id| !id.is_empty());
        Heard::Event(Event { name: name.to_owned(), id, data: data.to_owned() })
    }

    /// What is heard of these chunks.
    fn heard(chunks: &[&[u8]]) -> Result<Vec<Heard>, Malformed> {
        let (mut parser, mut all) = (Parser::default(), Vec::new());
        for chunk in chunks {
            let mut input = Bytes::copy_from_slice(chunk);
            while let Some(heard) = parser.read(&mut input)? {
                all.push(heard);
            }
            assert!(input.is_empty(), "all was taken");
        }
        Ok(all)
    }

    #[track_caller]
    fn check(text: &str, expected: &[Heard]) {
        let text = text.as_bytes();
        assert_eq!(heard(&[text]).unwrap(), expected, "whole");
        for at in 0..text.len() {
            let (one, other) = text.split_at(at);
            assert_eq!(heard(&[one, other]).unwrap(), expected, "cut at {at}");
        }
        let bytes: Vec<_> = text.chunks(1).collect();
        assert_eq!(heard(&bytes).unwrap(), expected, "byte by byte");
    }

    #[test]
    fn an_event_ends_with_an_empty_line() {
        check("event: put\nid: 7\ndata: {\"a\":1}\n\n", &[event("put", "7", "{\"a\":1}")]);
    }

    #[test]
    fn two_events_share_nothing() {
        let text = "event: put\nid: 7\ndata: a\n\ndata:b\n\n";
        check(text, &[event("put", "7", "a"), event("", "", "b")]);
    }

    #[test]
    fn any_end_of_line_will_do() {
        let expected = [event("put", "7", "a\nb"), event("live", "", "")];
        for end in ["\n", "\r\n", "\r"] {
            let text = "event: put|id: 7|data: a|data: b||event: live|data: ||".replace('|', end);
            check(&text, &expected);
        }
    }

    #[test]
    fn data_of_many_lines_is_joined() {
        check("data: a\ndata:\ndata:  b:c\n\n", &[event("", "", "a\n\n b:c")]);
    }

    #[test]
    fn a_comment_is_a_sign_of_life_and_no_part_of_an_event() {
        let expected = [Heard::Comment, Heard::Comment, event("put", "", "a"), Heard::Comment];
        check(":\n\nevent: put\n: hm\ndata: a\n\n:keep\n\n", &expected);
    }

    #[test]
    fn what_is_not_known_is_skipped() {
        check("retry: 10\n\nodd\n\ncolour: red\ndata: a\n\n", &[event("", "", "a")]);
    }

    #[test]
    fn text_is_not_torn() {
        check("data: ü 日本 🟢\n\n", &[event("", "", "ü 日本 🟢")]);
    }

    #[test]
    fn half_an_event_is_none() {
        check("event: put\ndata: a\n", &[]);
        check("event: put\ndata: a", &[]);
    }

    #[test]
    fn what_is_no_text_is_refused() {
        assert_eq!(heard(&[b"data: \xff\n\n"]), Err(Malformed::NotText));
    }

    #[test]
    fn what_does_not_end_is_refused_before_it_fills_the_memory() {
        let fits = "x".repeat(EVENT_BYTES_MAX - "data: ".len());
        let (text, end) = (format!("data: {fits}"), "\n\n");
        assert_eq!(heard(&[text.as_bytes(), end.as_bytes()]).unwrap().len(), 1);
        let chunk = vec![b'x'; 64 * 1024];
        let chunks: Vec<&[u8]> = std::iter::repeat_n(&chunk[..], 17).collect();
        assert_eq!(heard(&chunks), Err(Malformed::TooLong), "a line");
        let line = format!("data: {}\n", "x".repeat(64 * 1024));
        let lines: Vec<&[u8]> = std::iter::repeat_n(line.as_bytes(), 17).collect();
        assert_eq!(heard(&lines), Err(Malformed::TooLong), "an event of many lines");
        let comments: Vec<&[u8]> = std::iter::repeat_n(&b": hm\n"[..], 300_000).collect();
        assert_eq!(heard(&comments).unwrap().len(), 300_000, "comments are not kept");
    }
}
