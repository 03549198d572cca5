//! Words of violations, of a bounded length.

use std::io;

use serde_json::Value;

/// Characters of the text of a violation.
pub(super) const MAX_TEXT: usize = 300;
/// Bytes of a value in one.
const MAX_VALUE: usize = 120;

/// The beginning of the JSON of a value. No more than that is written.
pub(super) fn json(value: &Value) -> String {
    let mut start = Start(Vec::new());
    let whole = serde_json::to_writer(&mut start, value).is_ok();
    let text = String::from_utf8_lossy(&start.0);
    if whole {
        text.into_owned()
    } else {
        format!("{}…", text.trim_end_matches('\u{fffd}'))
    }
}

/// At most [`MAX_TEXT`] characters.
pub(super) fn clip(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// `a`, `a` or `b`, `a`, `b` or `c`.
pub(super) fn either<'a>(values: impl Iterator<Item = &'a Value>) -> String {
    const SHOWN: usize = 10;
    let mut values = values.peekable();
    let mut text = String::new();
    let mut count = 0;
    while let Some(value) = values.next() {
        if count == SHOWN {
            text.push_str(" …");
            break;
        }
        match (count, values.peek()) {
            (0, _) => {}
            (_, Some(_)) => text.push_str(", "),
            (_, None) => text.push_str(" or "),
        }
        text.push_str(&json(value));
        count += 1;
    }
    clip(&text)
}

struct Start(Vec<u8>);

impl io::Write for Start {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = MAX_VALUE.saturating_sub(self.0.len());
        self.0.extend(bytes.iter().take(room));
        if bytes.len() > room {
            return Err(io::Error::from(io::ErrorKind::WriteZero));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
