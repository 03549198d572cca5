//! Records of network connections on their way to the log of the session.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use himalia_egress::{DenialKind, Report, Reports};
use himalia_kernel::{Command, Handle, NetworkOutcome, NetworkRecord};
use himalia_metrics::Network;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Records of one session in [`WINDOW`]. What ends beyond them is summed up in the next record.
const RECORDS: usize = 32;
/// See [`RECORDS`].
const WINDOW: Duration = Duration::from_secs(1);

/// Takes reports of one kernel's connections. Bounded: what cannot be noted one by one is summed up.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    waiting: Mutex<WaitingRecords>,
    came: Notify,
    metrics: OnceLock<Network>,
}

#[derive(Debug, Default)]
struct WaitingRecords {
    records: Vec<NetworkRecord>,
    /// When the present window began, and the records in it.
    window: Option<(Instant, usize)>,
    /// The latest of those that were omitted, with the sums of all of them.
    omitted: Option<NetworkRecord>,
}

impl WaitingRecords {
    fn add(&mut self, record: NetworkRecord, now: Instant) {
        let (began, count) = self.window.get_or_insert((now, 0));
        if now.saturating_duration_since(*began) >= WINDOW {
            (*began, *count) = (now, 0);
        }
        if *count < RECORDS {
            *count += 1;
            let record = match self.omitted.take() {
                Some(omitted) => sum(&omitted, record),
                None => record,
            };
            return self.records.push(record);
        }
        self.omitted = Some(match self.omitted.take() {
            Some(omitted) => sum(&omitted, record),
            None => record,
        });
    }

    /// Records that can be written now, and the time of the next ones.
    fn take(&mut self, now: Instant) -> (Vec<NetworkRecord>, Option<Instant>) {
        let end = self.window.map(|(began, _)| began + WINDOW);
        if end.is_some_and(|end| end <= now)
            && let Some(omitted) = self.omitted.take()
        {
            self.add(omitted, now);
        }
        let again = self.omitted.as_ref().and(end);
        (std::mem::take(&mut self.records), again)
    }
}

/// The later one, with the bytes of both.
fn sum(earlier: &NetworkRecord, later: NetworkRecord) -> NetworkRecord {
    NetworkRecord {
        sent_bytes: later.sent_bytes.saturating_add(earlier.sent_bytes),
        received_bytes: later.received_bytes.saturating_add(earlier.received_bytes),
        omitted: later.omitted.saturating_add(earlier.omitted).saturating_add(1),
        ..later
    }
}

impl Notes {
    /// Sets the metrics that count them too.
    pub(crate) fn count(&self, metrics: Network) {
        // The same each time.
        let _ = self.metrics.set(metrics);
    }
}

impl Reports for Notes {
    fn report(&self, report: Report) {
        if let Some(metrics) = self.metrics.get() {
            metrics.ended(match report.denial.as_ref().map(|denial| denial.kind) {
                None => "ended",
                Some(DenialKind::Policy) => "denied",
                Some(DenialKind::Limit) => "limit",
                Some(DenialKind::Unreachable) => "unreachable",
                Some(DenialKind::Request) => "request",
                Some(DenialKind::Credential | DenialKind::CredentialUnavailable) => "credential",
            });
        }
        self.waiting.lock().add(record(report), Instant::now());
        self.came.notify_one();
    }
}

fn record(report: Report) -> NetworkRecord {
    let outcome = match report.denial.as_ref().map(|denial| denial.kind) {
        None => NetworkOutcome::Ended,
        Some(DenialKind::Unreachable | DenialKind::CredentialUnavailable) => NetworkOutcome::Unreachable,
        Some(DenialKind::Policy | DenialKind::Request | DenialKind::Limit | DenialKind::Credential) => {
            NetworkOutcome::Refused
        }
    };
    NetworkRecord {
        host: report.target.host.to_string(),
        port: report.target.port,
        outcome,
        credential: Some(report.credentials.join(", ")).filter(|names| !names.is_empty()),
        reason: report.denial.map(|denial| denial.to_string()),
        sent_bytes: report.sent_bytes,
        received_bytes: report.received_bytes,
        duration_ms: u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX),
        omitted: 0,
    }
}

/// Writes what comes into the log of the kernel, until it has ended or `stop`.
pub(crate) async fn write(notes: Arc<Notes>, handle: Arc<Handle>, stop: CancellationToken) {
    loop {
        let (records, again) = notes.waiting.lock().take(Instant::now());
        for record in records {
            if handle
                .order(Command::NoteConnection(Box::new(record)))
                .await
                .is_none()
            {
                return;
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = handle.gone() => return,
            () = notes.came.notified() => {}
            () = sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(port: u16) -> NetworkRecord {
        NetworkRecord {
            host: "a.test".to_owned(),
            port,
            outcome: NetworkOutcome::Ended,
            credential: None,
            reason: None,
            sent_bytes: 1,
            received_bytes: 10,
            duration_ms: 5,
            omitted: 0,
        }
    }

    #[tokio::test]
    async fn a_flood_is_summed_up() {
        let (mut waiting, now) = (WaitingRecords::default(), Instant::now());
        for port in 0..1000 {
            waiting.add(one(port), now);
        }
        let (records, again) = waiting.take(now);
        assert_eq!((records.len(), again), (RECORDS, Some(now + WINDOW)));
        assert!(waiting.take(now).0.is_empty());
        let (records, again) = waiting.take(now + WINDOW);
        let [sum] = &records[..] else {
            panic!("{records:?}")
        };
        assert_eq!(again, None);
        assert_eq!(
            (sum.port, sum.omitted, sum.sent_bytes, sum.received_bytes),
            (999, 967, 968, 9680)
        );
        waiting.add(one(1), now + WINDOW);
        assert_eq!(waiting.take(now + WINDOW).0, [one(1)]);
    }
}
