//! The task that sends what waits.

use std::time::Duration;

use himalia_metrics::ExportCounts;
use himalia_traces::SpanRecord;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::collector::{Collector, ExportOutcome, Signal};
use crate::encode;

/// Spans of one request.
const BATCH: usize = 512;
/// Time that a request waits for more spans.
const LINGER: Duration = Duration::from_secs(1);
/// Pauses before a request is sent again; then its spans are dropped.
const PAUSES: &[Duration] = &[
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

/// Sends spans until it is to finish.
#[derive(Debug)]
pub struct Exporter {
    finish: CancellationToken,
    task: JoinHandle<()>,
}

impl Exporter {
    /// Sends what comes out of the queue. `resource` describes this gateway (`service.name` …). Must be called within a tokio runtime.
    pub fn start(
        collector: Collector,
        resource: Vec<(&'static str, String)>,
        spans: mpsc::Receiver<SpanRecord>,
        counts: ExportCounts,
    ) -> Self {
        let finish = CancellationToken::new();
        let sending = ExportTask {
            collector,
            resource,
            counts,
            finish: finish.clone(),
            fails: false,
        };
        Self {
            finish,
            task: tokio::spawn(sending.run(spans)),
        }
    }

    /// Sends what waits, each request once, for at most `limit`.
    pub async fn finish(self, limit: Duration) {
        self.finish.cancel();
        let mut task = self.task;
        if timeout_at(Instant::now() + limit, &mut task).await.is_err() {
            task.abort();
        }
    }
}

struct ExportTask {
    collector: Collector,
    resource: Vec<(&'static str, String)>,
    counts: ExportCounts,
    finish: CancellationToken,
    /// The latest request was not taken: one line of the log per outage.
    fails: bool,
}

impl ExportTask {
    async fn run(mut self, mut spans: mpsc::Receiver<SpanRecord>) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            if !self.collect(&mut spans, &mut batch).await {
                return;
            }
            let body = encode::request(&self.resource, &batch);
            self.send(body, batch.len() as u64).await;
            batch.clear();
        }
    }

    /// The next spans. `false`: there are none, and none will come.
    async fn collect(&self, spans: &mut mpsc::Receiver<SpanRecord>, batch: &mut Vec<SpanRecord>) -> bool {
        if !self.finish.is_cancelled() {
            tokio::select! {
                biased;
                () = self.finish.cancelled() => {}
                _ = spans.recv_many(batch, BATCH) => {}
            }
        }
        let until = Instant::now() + LINGER;
        while batch.len() < BATCH && !self.finish.is_cancelled() {
            let room = BATCH - batch.len();
            tokio::select! {
                biased;
                () = self.finish.cancelled() => {}
                more = timeout_at(until, spans.recv_many(batch, room)) => {
                    if !matches!(more, Ok(1..)) {
                        break;
                    }
                }
            }
        }
        while batch.len() < BATCH
            && let Ok(span) = spans.try_recv()
        {
            batch.push(span);
        }
        !batch.is_empty()
    }

    async fn send(&mut self, body: Vec<u8>, count: u64) {
        let mut pauses = PAUSES.iter();
        loop {
            let reason = match self.collector.send(Signal::Traces, body.clone()).await {
                ExportOutcome::Taken { refused } => {
                    let refused = refused.min(count);
                    self.counts.sent.inc_by(count - refused);
                    self.counts.dropped.inc_by(refused);
                    if std::mem::take(&mut self.fails) {
                        tracing::info!("the collector of traces takes spans again");
                    }
                    return;
                }
                ExportOutcome::Later(reason) => {
                    self.report(&reason);
                    if let Some(pause) = pauses.next().filter(|_| !self.finish.is_cancelled()) {
                        tokio::select! {
                            () = self.finish.cancelled() => {}
                            () = sleep(*pause) => {}
                        }
                        continue;
                    }
                    reason
                }
                ExportOutcome::Never(reason) => reason,
            };
            self.report(&reason);
            self.counts.dropped.inc_by(count);
            return;
        }
    }

    fn report(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.fails, true) {
            tracing::warn!(
                reason,
                "the collector of traces takes no spans; they are dropped and counted"
            );
        }
    }
}

#[cfg(test)]
#[path = "exporter_tests.rs"]
#[allow(clippy::unwrap_used, reason = "a test ends by panicking")]
mod tests;
