//! Splits streams of server-sent events, so that a client gets complete events of one owner after the other.

use bytes::{Bytes, BytesMut};
use himalia_engine::FeedClosed;

/// A larger event is taken in parts.
const WHOLE_BYTES: usize = 1 << 20;

/// A part of the stream of an owner.
#[derive(Debug, PartialEq, Eq)]
pub enum EventPart {
    /// Complete events, or a part of a large one.
    Events(Bytes),
    /// The owner stops: the next one has the rest of the stream.
    Stops,
}

/// An event of which a part was taken.
#[derive(Debug)]
struct TornEvent {
    id: Option<Vec<u8>>,
}

/// Splits a stream into complete events.
#[derive(Debug, Default)]
pub struct EventSplitter {
    buffer: BytesMut,
    /// The first bytes of the buffer, which hold no end of an event.
    searched: usize,
    /// The `id` of the last complete event.
    pub last: Option<Vec<u8>>,
    /// The event of which a part was taken.
    torn: Option<TornEvent>,
    /// Set if events above 1 MiB are taken in parts.
    pub large_in_parts: bool,
    /// The end of the owner was found behind events that are taken first.
    stops: bool,
}

impl EventSplitter {
    /// Adds bytes of the stream.
    pub fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// Returns whether the stream ends between two events.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty() && self.torn.is_none()
    }

    /// Returns whether the last event was taken in part only.
    pub fn is_torn(&self) -> bool {
        self.torn.is_some()
    }

    /// Prepares for another stream, which repeats the incomplete events of this one.
    pub fn restart(&mut self) {
        self.buffer.clear();
        self.searched = 0;
        self.stops = false;
    }

    /// Takes all complete events, or a part of a large one.
    pub fn take(&mut self) -> Option<EventPart> {
        if self.stops {
            return Some(EventPart::Stops);
        }
        let mut end = 0;
        let mut from = self.searched;
        while let Some(at) = find_end(&self.buffer, from) {
            let event = self.buffer.get(end..at).unwrap_or_default();
            if let Some(TornEvent { id }) = self.torn.take() {
                self.last = id.or(self.last.take());
            } else if matches!(end_of(event), Some(FeedClosed::Draining)) {
                self.stops = true;
                break;
            } else if let Some(id) = line(event, b"id: ") {
                self.last = Some(id.to_vec());
            }
            (end, from) = (at, at);
        }
        self.searched = if self.stops {
            0
        } else {
            self.buffer.len().saturating_sub(end + 1)
        };
        if end > 0 {
            return Some(EventPart::Events(self.buffer.split_to(end).freeze()));
        }
        if self.stops {
            return Some(EventPart::Stops);
        }
        if self.large_in_parts && self.buffer.len() >= WHOLE_BYTES {
            if self.torn.is_none() {
                let id = line(&self.buffer, b"id: ").map(<[u8]>::to_vec);
                self.torn = Some(TornEvent { id });
            }
            // The last byte may be the first of two line breaks.
            let part = self.buffer.split_to(self.buffer.len().saturating_sub(1)).freeze();
            self.searched = 0;
            return Some(EventPart::Events(part));
        }
        None
    }
}

/// The end of the first event that ends after `from`.
fn find_end(buffer: &[u8], from: usize) -> Option<usize> {
    let rest = buffer.get(from..)?;
    rest.windows(2)
        .position(|two| two == b"\n\n")
        .map(|at| from + at + 2)
}

/// Iterates over complete events.
pub fn events_of(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let end = find_end(rest, 0)?;
        let (event, after) = rest.split_at_checked(end)?;
        rest = after;
        Some(event)
    })
}

/// The rest of the line of an event that begins with `begin`.
pub fn line<'a>(event: &'a [u8], begin: &[u8]) -> Option<&'a [u8]> {
    event
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(begin))
}

/// The reason of the end of a stream, if this is its last event.
pub fn end_of(event: &[u8]) -> Option<FeedClosed> {
    if line(event, b"event: ") != Some(b"end") {
        return None;
    }
    let data = line(event, b"data: ").unwrap_or_default();
    let says = |reason: &str| data.windows(reason.len()).any(|part| part == reason.as_bytes());
    Some(if says("draining") {
        FeedClosed::Draining
    } else if says("kernel_gone") {
        FeedClosed::KernelGone
    } else if says("replaced") {
        FeedClosed::Replaced
    } else {
        FeedClosed::Storage
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(events: &mut EventSplitter) -> Option<String> {
        match events.take() {
            Some(EventPart::Events(bytes)) => Some(String::from_utf8(bytes.to_vec()).unwrap()),
            Some(EventPart::Stops) => Some("stops".into()),
            None => None,
        }
    }

    #[test]
    fn events_are_taken_whole() {
        let mut events = EventSplitter::default();
        events.push(b"id: 7\ndata: a\n\n: keep-alive\n\nid: 8\nda");
        assert_eq!(taken(&mut events).unwrap(), "id: 7\ndata: a\n\n: keep-alive\n\n");
        assert_eq!(
            (taken(&mut events), events.last.as_deref()),
            (None, Some(&b"7"[..]))
        );
        events.push(b"ta: b\n");
        assert_eq!(taken(&mut events), None);
        events.push(b"\n");
        assert_eq!(taken(&mut events).unwrap(), "id: 8\ndata: b\n\n");
        assert_eq!(events.last.as_deref(), Some(&b"8"[..]));
        assert!(events.is_empty());
    }

    #[test]
    fn the_end_of_an_owner_is_not_that_of_the_stream() {
        let mut events = EventSplitter::default();
        events.push(b"id: 7\ndata: a\n\nevent: end\ndata: {\"reason\":\"draining\"}\n\n");
        assert_eq!(taken(&mut events).unwrap(), "id: 7\ndata: a\n\n");
        assert_eq!(taken(&mut events).unwrap(), "stops");
        events.restart();
        events.push(b"event: end\ndata: {\"reason\":\"kernel_gone\"}\n\n");
        assert!(taken(&mut events).unwrap().contains("kernel_gone"));
    }

    #[test]
    fn a_large_event_is_taken_in_parts() {
        let mut events = EventSplitter {
            large_in_parts: true,
            ..EventSplitter::default()
        };
        let mut text = b"id: 9\ndata: ".to_vec();
        text.resize(WHOLE_BYTES, b'x');
        events.push(&text);
        let mut all = taken(&mut events).unwrap();
        assert!(events.is_torn() && events.last.is_none());
        events.push(b"y\n");
        assert_eq!(taken(&mut events), None);
        events.push(b"\nid: 10\n");
        all += &taken(&mut events).unwrap();
        assert_eq!(all.len(), WHOLE_BYTES + 3);
        assert_eq!(
            (events.is_torn(), events.last.as_deref()),
            (false, Some(&b"9"[..]))
        );
    }

    proptest! {
        /// However a stream is cut, its events and the position come out the same.
        #[test]
        fn cuts_change_nothing(sizes in prop::collection::vec(1usize..40, 1..100)) {
            let event = |n: usize| format!("id: {n}\nevent: x\ndata: {}\n\n", "y".repeat(n));
            let whole = (1..50).map(event).collect::<Vec<_>>().concat();
            let (mut events, mut out, mut at) = (EventSplitter::default(), String::new(), 0);
            for size in sizes.iter().cycle() {
                if at == whole.len() {
                    break;
                }
                let next = (at + size).min(whole.len());
                events.push(&whole.as_bytes()[at..next]);
                at = next;
                while let Some(text) = taken(&mut events) {
                    prop_assert!(text.ends_with("\n\n"));
                    out += &text;
                }
            }
            prop_assert_eq!(out, whole);
            prop_assert_eq!(events.last.as_deref(), Some(&b"49"[..]));
        }
    }
}
