//! Server-sent events as MCP uses them: the data alone.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::bail;
use futures_util::{Stream, StreamExt as _};
use sse_stream::{Sse, SseStream};
use tokio_util::bytes::Bytes;

/// Bytes from one event to the next, comments included.
const EVENT_BYTES: usize = 64 << 20;

/// The events of a reply.
pub(super) struct Events {
    events: Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>,
    /// Bytes that came since the last event: the parser has no bound of its own.
    held: Arc<AtomicUsize>,
}

impl Events {
    pub(super) fn new<E>(chunks: impl Stream<Item = Result<Bytes, E>> + Send + 'static) -> Self
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let held = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&held);
        let bounded = chunks.map(move |chunk| {
            let chunk = chunk.map_err(io::Error::other)?;
            let before = count.fetch_add(chunk.len(), Ordering::Relaxed);
            if before.saturating_add(chunk.len()) > EVENT_BYTES {
                return Err(io::Error::other(format!(
                    "an event is longer than {EVENT_BYTES} bytes"
                )));
            }
            Ok(chunk)
        });
        Self {
            events: Box::pin(SseStream::from_bytes_stream(bounded)),
            held,
        }
    }

    /// The data of the next event that has any; `None` at the end.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<String>> {
        while let Some(event) = self.events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(sse_stream::Error::Body(error)) => bail!("the connection was lost: {error}"),
                Err(error) => bail!("the gateway's events cannot be read: {error}"),
            };
            self.held.store(0, Ordering::Relaxed);
            if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(pieces: Vec<Bytes>) -> Events {
        Events::new(futures_util::stream::iter(
            pieces.into_iter().map(Ok::<_, io::Error>),
        ))
    }

    #[tokio::test]
    async fn events_come_whole_however_they_are_cut() {
        let text = "retry: 3000\ndata: \n\n: comment\n\nid: 1\nevent: message\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata:{}\n\n";
        for size in 1..text.len() {
            let pieces = text.as_bytes().chunks(size).map(Bytes::copy_from_slice);
            let (mut events, mut found) = (events(pieces.collect()), Vec::new());
            while let Some(data) = events.next().await.unwrap() {
                found.push(data);
            }
            assert_eq!(found, ["{\"a\":\n1}", "{}"], "{size}");
        }
    }

    #[tokio::test]
    async fn an_event_without_end_is_refused_and_many_events_are_not() {
        let piece = Bytes::from(vec![b'x'; EVENT_BYTES / 4]);
        let mut endless = vec![Bytes::from_static(b"data: ")];
        endless.extend(std::iter::repeat_n(piece.clone(), 5));
        let error = events(endless).next().await.unwrap_err();
        assert!(error.to_string().contains("longer than"), "{error}");
        let one = [Bytes::from_static(b"data: "), piece, Bytes::from_static(b"\n\n")];
        let mut many = events(one.iter().cycle().take(3 * 6).cloned().collect());
        for _ in 0..6 {
            assert!(many.next().await.unwrap().is_some());
        }
        assert!(many.next().await.unwrap().is_none());
    }
}
