//! A reply's body as it arrives.

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;

use super::find;

#[derive(Debug)]
enum Rest {
    /// So many bytes.
    Known(u64),
    /// Chunks, each with its length before it.
    Chunked,
    /// Until the connection ends.
    Open,
}

#[derive(Debug)]
pub(super) struct Body {
    stream: BufReader<TcpStream>,
    rest: Rest,
}

impl Body {
    pub(super) fn new(
        stream: BufReader<TcpStream>,
        status: u16,
        method: &str,
        headers: &[(String, String)],
    ) -> Self {
        let length = find(headers, "content-length").and_then(|text| text.parse().ok());
        let rest = if method == "HEAD" || status == 204 || status == 304 {
            Rest::Known(0)
        } else if find(headers, "transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
            Rest::Chunked
        } else {
            length.map_or(Rest::Open, Rest::Known)
        };
        Self { stream, rest }
    }

    /// More of the body; `None` at its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Vec<u8>>> {
        match self.rest {
            Rest::Known(0) => Ok(None),
            Rest::Known(left) => {
                let read = self.some(left).await?;
                anyhow::ensure!(!read.is_empty(), "the body ended {left} bytes early");
                self.rest = Rest::Known(left - read.len() as u64);
                Ok(Some(read))
            }
            Rest::Open => {
                let read = self.some(u64::MAX).await?;
                Ok((!read.is_empty()).then_some(read))
            }
            Rest::Chunked => self.next_chunk().await,
        }
    }

    async fn some(&mut self, at_most: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(at_most.min(1 << 16))?];
        let read = self.stream.read(&mut bytes).await?;
        bytes.truncate(read);
        Ok(bytes)
    }

    async fn next_chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await?;
        let length = line.trim_end().split(';').next().unwrap_or_default();
        let length = usize::from_str_radix(length, 16).with_context(|| format!("chunk length {line:?}"))?;
        let mut bytes = Vec::new();
        (&mut self.stream)
            .take(length as u64)
            .read_to_end(&mut bytes)
            .await?;
        anyhow::ensure!(bytes.len() == length, "a chunk ended early");
        let mut end = [0; 2];
        self.stream.read_exact(&mut end).await?;
        if length == 0 {
            self.rest = Rest::Known(0);
            return Ok(None);
        }
        Ok(Some(bytes))
    }
}
