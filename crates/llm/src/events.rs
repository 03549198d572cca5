//! The events of a stream, as they come (the format `text/event-stream` of the HTML standard).

use bytes::{Bytes, BytesMut};

/// Bytes of one event.
pub(crate) const MAX_EVENT: usize = 1 << 20;

/// Bytes that have come and are no whole event yet.
#[derive(Debug, Default)]
pub(crate) struct Events {
    held: BytesMut,
    /// Up to here there is no end of an event.
    searched: usize,
}

/// An event is longer than [`MAX_EVENT`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Events {
    /// More bytes have come.
    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.held.extend_from_slice(piece);
    }

    /// The next whole event, with the empty line behind it.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, TooLong> {
        let Some(end) = end(&self.held, self.searched) else {
            // The end may begin within the last three bytes.
            self.searched = self.held.len().saturating_sub(3);
            return if self.held.len() > MAX_EVENT {
                Err(TooLong)
            } else {
                Ok(None)
            };
        };
        self.searched = 0;
        Ok(Some(self.held.split_to(end).freeze()))
    }

    /// Bytes that are left at the end of the stream.
    pub(crate) fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.held).freeze()
    }
}

/// Behind the empty line that ends an event.
fn end(bytes: &[u8], from: usize) -> Option<usize> {
    const ENDS: [&[u8]; 3] = [b"\n\n", b"\n\r\n", b"\r\r"];
    (from..bytes.len()).find_map(|at| {
        let rest = bytes.get(at..)?;
        let end = ENDS.into_iter().find(|end| rest.starts_with(end))?;
        Some(at.saturating_add(end.len()))
    })
}

/// The data of an event: its lines with `data:`, joined.
pub(crate) fn data(event: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    for line in event.split(|byte| matches!(byte, b'\n' | b'\r')) {
        if let Some(text) = line.strip_prefix(b"data:") {
            if !data.is_empty() {
                data.push(b'\n');
            }
            data.extend_from_slice(text.strip_prefix(b" ").unwrap_or(text));
        }
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a text that comes in pieces of a length.
    fn all(text: &[u8], length: usize) -> Vec<Vec<u8>> {
        let mut events = Events::default();
        let mut found = Vec::new();
        for piece in text.chunks(length) {
            events.push(piece);
            while let Some(event) = events.next().unwrap() {
                found.push(event.to_vec());
            }
        }
        found.push(events.rest().to_vec());
        found
    }

    #[test]
    fn events_are_whole_however_their_bytes_come() {
        let text = b"data: {\"a\": 1}\n\n: comment\r\n\r\ndata: x\ndata:y\r\n\r\ndata: rest";
        let expected: [&[u8]; 4] = [
            b"data: {\"a\": 1}\n\n",
            b": comment\r\n\r\n",
            b"data: x\ndata:y\r\n\r\n",
            b"data: rest",
        ];
        for length in 1..text.len() {
            assert_eq!(all(text, length), expected, "{length}");
        }
        assert_eq!(data(expected[0]), b"{\"a\": 1}");
        assert_eq!(data(expected[1]), b"");
        assert_eq!(data(expected[2]), b"x\ny");
    }

    #[test]
    fn an_event_has_a_bound() {
        let mut events = Events::default();
        events.push(&vec![b'x'; MAX_EVENT]);
        assert_eq!(events.next(), Ok(None));
        events.push(b"x");
        assert_eq!(events.next(), Err(TooLong));
    }
}
