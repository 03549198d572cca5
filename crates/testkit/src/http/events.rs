//! Server-sent events.

use anyhow::{Result, bail};

use super::body::Body;
use crate::patience::within;

/// One event.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Event {
    /// `id:`
    pub id: Option<String>,
    /// `event:`; empty if there is none.
    pub event: String,
    /// `data:`, lines joined.
    pub data: String,
}

/// An open event stream.
#[derive(Debug)]
pub struct Events {
    body: Body,
    text: Vec<u8>,
}

impl Events {
    pub(super) fn new(body: Body) -> Self {
        Self {
            body,
            text: Vec::new(),
        }
    }

    /// The next event; an error when the stream ends or patience does. Comments are skipped.
    pub async fn next(&mut self) -> Result<Event> {
        loop {
            while let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.text.drain(..end + 2).collect();
                if let Some(event) = parse(&String::from_utf8_lossy(&block)) {
                    return Ok(event);
                }
            }
            match within("an event", self.body.chunk()).await?? {
                Some(chunk) => self.text.extend_from_slice(&chunk),
                None => bail!("the event stream ended"),
            }
        }
    }
}

/// `None` for a block of comments.
fn parse(block: &str) -> Option<Event> {
    let mut event = Event::default();
    let mut any = false;
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => event.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut event.event),
            "data" if event.data.is_empty() => value.clone_into(&mut event.data),
            "data" => event.data = format!("{}\n{value}", event.data),
            _ => continue,
        }
        any = true;
    }
    any.then_some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks() {
        let event = parse("id: 7\nevent: message\ndata: {\"a\":\ndata: 1}\n\n").unwrap();
        assert_eq!(event.id.as_deref(), Some("7"));
        assert_eq!(
            (event.event.as_str(), event.data.as_str()),
            ("message", "{\"a\":\n1}")
        );
        assert_eq!(parse(": keep-alive\n\n"), None);
    }
}
