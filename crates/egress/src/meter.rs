//! Bytes and outcome of one connection to a host.

use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::account::Account;
use crate::denial::{Denial, Target};
use crate::upstream::HttpProxy;

/// One connection that has ended, or was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub target: Target,
    /// Names of the credentials whose secrets were sent, in their order.
    pub credentials: Vec<String>,
    /// Reason why it was refused, not made, or cut; `None`: it has ended by itself.
    pub denial: Option<Denial>,
    /// Bytes from the sandbox.
    pub sent_bytes: u64,
    /// Bytes to the sandbox.
    pub received_bytes: u64,
    /// From the request to its end.
    pub duration: Duration,
}

/// Takes reports.
pub trait Reports: Send + Sync {
    /// One connection has ended, or was refused. Must not block.
    fn report(&self, report: Report);
}

/// Counts one connection, and reports it when it is dropped.
pub(crate) struct Meter {
    target: Target,
    began: Instant,
    sent: AtomicU64,
    received: AtomicU64,
    /// Time of the latest byte, in milliseconds since `began`.
    latest: AtomicU64,
    denial: Mutex<Option<Denial>>,
    account: Arc<dyn Account>,
    credentials: Mutex<BTreeSet<String>>,
    reports: Arc<dyn Reports>,
}

impl Meter {
    pub(crate) fn new(target: Target, account: Arc<dyn Account>, reports: Arc<dyn Reports>) -> Self {
        Self {
            target,
            account,
            began: Instant::now(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            latest: AtomicU64::new(0),
            denial: Mutex::new(None),
            credentials: Mutex::default(),
            reports,
        }
    }

    /// Notes why it is refused, or cut. The first reason wins.
    pub(crate) fn deny(&self, denial: &Denial) {
        self.denial.lock().get_or_insert_with(|| denial.clone());
    }

    /// The secret of a credential is sent.
    pub(crate) fn used(&self, credential: &str) {
        let mut credentials = self.credentials.lock();
        if !credentials.contains(credential) {
            credentials.insert(credential.to_owned());
        }
    }

    /// Time since the latest byte.
    pub(crate) fn idle(&self) -> Duration {
        let latest = Duration::from_millis(self.latest.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(latest)
    }

    pub(crate) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// Longest time of the connection.
    pub(crate) fn longest(&self) -> Option<Duration> {
        self.account.longest()
    }

    /// Refuses a connection that may carry nothing.
    pub(crate) fn check(&self) -> Result<(), Denial> {
        self.account.carried(0, 0).map_err(Denial::limit)
    }

    /// Bytes from the sandbox. An error: they were the last that it may carry.
    pub(crate) fn sent(&self, bytes: usize) -> io::Result<()> {
        let bytes = count(&self.sent, bytes);
        self.carried(self.account.carried(bytes, 0))
    }

    /// Bytes to the sandbox. An error: they were the last that it may carry.
    pub(crate) fn received(&self, bytes: usize) -> io::Result<()> {
        let bytes = count(&self.received, bytes);
        self.carried(self.account.carried(0, bytes))
    }

    fn carried(&self, may: Result<(), String>) -> io::Result<()> {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.latest.store(now, Ordering::Relaxed);
        may.map_err(|reason| {
            let denial = Denial::limit(reason);
            self.deny(&denial);
            io::Error::other(denial.to_string())
        })
    }
}

fn count(counter: &AtomicU64, bytes: usize) -> u64 {
    let bytes = u64::try_from(bytes).unwrap_or(0);
    counter.fetch_add(bytes, Ordering::Relaxed);
    bytes
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.reports.report(Report {
            target: self.target.clone(),
            credentials: std::mem::take(self.credentials.get_mut()).into_iter().collect(),
            denial: self.denial.get_mut().take(),
            sent_bytes: *self.sent.get_mut(),
            received_bytes: *self.received.get_mut(),
            duration: self.began.elapsed(),
        });
    }
}

/// A connection to a host whose bytes are counted.
pub(crate) struct MeteredStream<S> {
    pub(crate) stream: S,
    pub(crate) meter: Arc<Meter>,
    /// It is to a proxy that takes whole URLs.
    pub(crate) via: Option<HttpProxy>,
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        Poll::Ready(this.meter.received(buffer.filled().len() - before))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MeteredStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.stream).poll_write(cx, bytes))?;
        this.meter.sent(written)?;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
