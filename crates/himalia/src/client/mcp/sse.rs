//! Server-sent events as MCP uses them: the data alone.

use anyhow::{bail, ensure};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

/// Bytes of one event.
const EVENT_BYTES: usize = 64 << 20;

/// The events of a reply.
#[derive(Debug)]
pub(super) struct Events {
    body: Incoming,
    reading: Reading,
}

impl Events {
    pub(super) fn new(body: Incoming) -> Self {
        Self {
            body,
            reading: Reading::default(),
        }
    }

    /// The data of the next event that has any; `None` at the end.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        loop {
            if let Some(data) = self.reading.next() {
                return Ok(Some(data));
            }
            ensure!(
                self.reading.len() < EVENT_BYTES,
                "an event is longer than {EVENT_BYTES} bytes"
            );
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.reading.add(&data);
                    }
                }
                Some(Err(error)) => bail!("the connection was lost: {error}"),
                None => return Ok(None),
            }
        }
    }
}

/// What was received and not taken yet.
#[derive(Debug, Default)]
struct Reading {
    buffer: Vec<u8>,
    /// So much of the buffer has no end of a line.
    searched: usize,
    data: Vec<u8>,
}

impl Reading {
    fn add(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    fn len(&self) -> usize {
        self.buffer.len() + self.data.len()
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        while let Some(end) = self.buffer[self.searched..]
            .iter()
            .position(|byte| *byte == b'\n')
        {
            let line: Vec<u8> = self.buffer.drain(..=self.searched + end).collect();
            self.searched = 0;
            let line = line.trim_ascii_end();
            if let Some(data) = line.strip_prefix(b"data:") {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(data.trim_ascii_start());
            } else if line.is_empty() && !self.data.is_empty() {
                return Some(std::mem::take(&mut self.data));
            }
        }
        self.searched = self.buffer.len();
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_whole_however_they_are_cut() {
        let text = "retry: 3000\ndata: \n\n: comment\n\nid: 1\nevent: message\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata:{}\n\n";
        for size in 1..text.len() {
            let (mut reading, mut found) = (Reading::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                reading.add(piece);
                while let Some(data) = reading.next() {
                    found.push(String::from_utf8(data).unwrap());
                }
            }
            assert_eq!(found, ["{\"a\":\n1}", "{}"], "{size}");
        }
    }
}
