//! Interrupts: SIGINT or `interrupt_request` end what the script waits for.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The side that interrupts.
#[derive(Clone, Debug)]
pub(super) struct Interrupter {
    count: Arc<watch::Sender<u64>>,
    /// Set by `ignore-sigint`.
    pub(super) ignore_sigint: Arc<AtomicBool>,
}

/// The side that is interrupted.
#[derive(Debug)]
pub(super) struct Interrupts(watch::Receiver<u64>);

/// The script was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interrupted;

impl Interrupter {
    /// Also takes over SIGINT.
    pub(super) fn new() -> Result<(Self, Interrupts)> {
        let (count, receiver) = watch::channel(0);
        let this = Self {
            count: Arc::new(count),
            ignore_sigint: Arc::default(),
        };
        let mut sigint = signal(SignalKind::interrupt())?;
        let on_signal = this.clone();
        tokio::spawn(async move {
            while sigint.recv().await.is_some() {
                if !on_signal.ignore_sigint.load(Ordering::Relaxed) {
                    on_signal.interrupt();
                }
            }
        });
        Ok((this, Interrupts(receiver)))
    }

    pub(super) fn interrupt(&self) {
        self.count.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl Interrupts {
    /// Forgets what came while nothing ran.
    pub(super) fn clear(&mut self) {
        self.0.mark_unchanged();
    }

    /// Waits for `work` or for an interrupt, whichever is first.
    pub(super) async fn unless<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Interrupted> {
        tokio::select! {
            biased;
            changed = self.0.changed() => {
                if changed.is_err() {
                    // The process is ending.
                    std::future::pending::<()>().await;
                }
                Err(Interrupted)
            }
            value = work => Ok(value),
        }
    }
}
