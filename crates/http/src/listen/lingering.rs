//! The end of a connection on which the rest of a body is still coming.
//!
//! If a socket is closed with unread bytes, the system sends a reset, and the client loses the response that was sent
//! before. So the response goes first, then the end of our direction, and the rest is read and dropped, within bounds.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Bytes of a rest.
const BYTES: usize = 64 << 20;
/// The time for which a rest is read.
const TIME: Duration = Duration::from_secs(30);
/// The longest silence of a rest that is read.
const PAUSE: Duration = Duration::from_secs(5);
/// Bytes that are read at a time.
const BUFFER: usize = 16 << 10;

/// True if the latest request of a connection has a body that was not read to its end.
#[derive(Clone, Debug, Default)]
pub(super) struct UnreadFlag(Arc<AtomicBool>);

impl UnreadFlag {
    pub(super) fn set(&self, unread: bool) {
        self.0.store(unread, Ordering::Relaxed);
    }
}

/// A stream whose end waits for the rest of a body.
#[derive(Debug)]
pub(crate) struct LingeringStream<S> {
    stream: S,
    unread: UnreadFlag,
    stopping: CancellationToken,
    rest: Option<Rest>,
}

#[derive(Debug)]
struct Rest {
    bytes: usize,
    end: Pin<Box<Sleep>>,
    pause: Pin<Box<Sleep>>,
    stopped: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<S> LingeringStream<S> {
    /// `stopping`: the gateway stops, and nothing is waited for.
    pub(super) fn new(stream: S, unread: UnreadFlag, stopping: CancellationToken) -> Self {
        Self {
            stream,
            unread,
            stopping,
            rest: None,
        }
    }

    pub(crate) fn into_inner(self) -> S {
        self.stream
    }
}

impl<S> From<S> for LingeringStream<S> {
    /// A stream whose end waits for nothing.
    fn from(stream: S) -> Self {
        Self::new(stream, UnreadFlag::default(), CancellationToken::new())
    }
}

impl<S: AsyncRead + Unpin> LingeringStream<S> {
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(rest) = &mut self.rest else {
            return Poll::Ready(());
        };
        let is_over = rest.stopped.as_mut().poll(context).is_ready()
            || rest.end.as_mut().poll(context).is_ready()
            || rest.pause.as_mut().poll(context).is_ready();
        if is_over {
            return Poll::Ready(());
        }
        let mut bytes = [0; BUFFER];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer));
            let count = buffer.filled().len();
            rest.bytes = rest.bytes.saturating_sub(count);
            if read.is_err() || count == 0 || rest.bytes == 0 {
                return Poll::Ready(());
            }
            rest.pause.as_mut().reset(Instant::now() + PAUSE);
            // It is polled again: its time is watched.
            let _ = rest.pause.as_mut().poll(context);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LingeringStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.rest.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(context))?;
            if !self.unread.0.load(Ordering::Relaxed) {
                return Poll::Ready(Ok(()));
            }
            self.rest = Some(Rest {
                bytes: BYTES,
                end: Box::pin(sleep(TIME)),
                pause: Box::pin(sleep(PAUSE)),
                stopped: Box::pin(self.stopping.clone().cancelled_owned()),
            });
        }
        self.poll_rest(context).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    /// Both ends; the near one has been shut down in a task.
    fn ended(
        unread: bool,
        stopping: &CancellationToken,
    ) -> (tokio::task::JoinHandle<Duration>, DuplexStream) {
        let (near, far) = duplex(1 << 20);
        let flag = UnreadFlag::default();
        flag.set(unread);
        let mut near = LingeringStream::new(near, flag, stopping.clone());
        let start = Instant::now();
        let task = tokio::spawn(async move {
            near.shutdown().await.unwrap();
            start.elapsed()
        });
        (task, far)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_was_read_is_not_waited_for() {
        let (end, _far) = ended(false, &CancellationToken::new());
        assert_eq!(end.await.unwrap(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn the_client_sees_the_end_and_sends_the_rest() {
        let (end, mut far) = ended(true, &CancellationToken::new());
        assert_eq!(far.read(&mut [0]).await.unwrap(), 0);
        for _ in 0..32 {
            far.write_all(&vec![0; 1 << 20]).await.unwrap();
        }
        drop(far);
        assert_eq!(end.await.unwrap(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_is_bounded_in_bytes_and_time() {
        let (end, mut far) = ended(true, &CancellationToken::new());
        let sent = async {
            let mut sent = 0;
            while far.write_all(&vec![0; 1 << 20]).await.is_ok() {
                sent += 1 << 20;
            }
            sent
        };
        assert!((BYTES..BYTES + (2 << 20)).contains(&sent.await));
        assert_eq!(end.await.unwrap(), Duration::ZERO);
        // Nothing more comes.
        let (end, _far) = ended(true, &CancellationToken::new());
        assert_eq!(end.await.unwrap().as_secs(), PAUSE.as_secs());
        // It comes slowly.
        let (end, mut far) = ended(true, &CancellationToken::new());
        while far.write_all(b"x").await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(end.await.unwrap().as_secs(), TIME.as_secs());
        // The gateway stops.
        let stopping = CancellationToken::new();
        let (end, _far) = ended(true, &stopping);
        stopping.cancel();
        assert_eq!(end.await.unwrap(), Duration::ZERO);
    }
}
