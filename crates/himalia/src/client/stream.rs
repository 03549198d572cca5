//! A reply that comes line by line, each line JSON.

use anyhow::{Context as _, bail, ensure};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::task::JoinHandle;

/// Bytes of one line.
const LINE_BYTES: usize = 64 << 20;

/// Lines of a reply, as they come.
#[derive(Debug)]
pub(super) struct Lines {
    body: Incoming,
    buffer: Vec<u8>,
    /// Keeps the connection.
    connection: JoinHandle<Result<(), hyper::Error>>,
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Lines {
    pub(super) fn new(body: Incoming, connection: JoinHandle<Result<(), hyper::Error>>) -> Self {
        Self {
            body,
            buffer: Vec::new(),
            connection,
        }
    }

    /// The next line; `None` at the end. Cancel-safe.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Value>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return serde_json::from_slice(&line)
                    .map(Some)
                    .context("a line is no JSON");
            }
            ensure!(
                self.buffer.len() < LINE_BYTES,
                "a line is longer than {LINE_BYTES} bytes"
            );
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => bail!("the connection was lost: {error}"),
                None => return Ok(None),
            }
        }
    }
}
