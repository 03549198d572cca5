//! A streamed reply of JSON lines.

use std::io;
use std::pin::Pin;

use anyhow::{Context as _, bail};
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use reqwest::Response;
use serde_json::Value;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};
use tokio_util::io::StreamReader;

const LINE_BYTES: usize = 64 << 20;

/// The bytes of a reply.
type Chunks = Pin<Box<dyn Stream<Item = io::Result<tokio_util::bytes::Bytes>> + Send>>;

/// Lines of a reply, as they come. Dropping it closes the connection.
pub(super) struct Lines(FramedRead<StreamReader<Chunks, tokio_util::bytes::Bytes>, LinesCodec>);

impl Lines {
    pub(super) fn new(response: Response) -> Self {
        let chunks: Chunks = Box::pin(response.bytes_stream().map_err(io::Error::other));
        Self(FramedRead::new(
            StreamReader::new(chunks),
            LinesCodec::new_with_max_length(LINE_BYTES),
        ))
    }

    /// The next line; `None` at the end. Cancel-safe.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Value>> {
        match self.0.next().await {
            None => Ok(None),
            Some(Ok(line)) => serde_json::from_str(&line)
                .map(Some)
                .context("a line of the response is not JSON"),
            Some(Err(LinesCodecError::MaxLineLengthExceeded)) => {
                bail!("a line is longer than {LINE_BYTES} bytes")
            }
            Some(Err(LinesCodecError::Io(error))) => bail!("the connection was lost: {error}"),
        }
    }
}
