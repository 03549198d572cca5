//! Errors of the API server, and calls that are made again.

use std::time::Duration;

use himalia_backoff::Backoff;
use himalia_provisioner::SandboxError;
use tokio::time::{Instant, sleep};

/// The first pause after a refusal that passes.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_LONGEST: Duration = Duration::from_secs(5);
/// Time for a call with its retries.
const CALL_TIME: Duration = Duration::from_secs(20);
const ATTEMPT_TIME: Duration = Duration::from_secs(10);

/// The status code of a refusal.
pub(crate) fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// True if the same call may succeed later: too many requests (429), a server that is busy or restarts, no connection.
pub(crate) fn passes(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 429 | 500 | 502 | 503 | 504),
        kube::Error::HyperError(_) | kube::Error::Service(_) => true,
        _ => false,
    }
}

/// The pause that the API server names, if it names one.
fn named(error: &kube::Error) -> Duration {
    let details = match error {
        kube::Error::Api(status) => status.details.as_ref(),
        _ => None,
    };
    details.map_or(Duration::ZERO, |details| {
        Duration::from_secs(details.retry_after_seconds.into())
    })
}

/// As a provisioner reports it. `what` completes "cannot …".
pub(crate) fn failed(what: &str, error: &kube::Error) -> SandboxError {
    let reason = match error {
        kube::Error::Api(status) if status.code == 403 => {
            format!("cannot {what}: the API server refuses: {}", status.message)
        }
        kube::Error::Api(status) => format!("cannot {what}: {} ({})", status.message, status.code),
        other => format!("cannot {what}: {other}"),
    };
    SandboxError::Cluster {
        away: passes(error),
        reason,
    }
}

/// Makes a call, and makes it again with growing pauses while the API server has no answer, not before it wants. `call` must have the same
/// result however often it is made.
pub(crate) async fn call<T, F>(what: &str, call: impl Fn() -> F) -> Result<T, kube::Error>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let end = Instant::now() + CALL_TIME;
    let mut pauses = Backoff::new(PAUSE_FIRST, PAUSE_LONGEST);
    loop {
        let error = match tokio::time::timeout(ATTEMPT_TIME, call()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error,
            Err(_) => kube::Error::Service("no response in time".into()),
        };
        let wait = pauses.pause().max(named(&error));
        if !passes(&error) || Instant::now() + wait > end {
            return Err(error);
        }
        tracing::debug!(what, %error, "the API server is asked again");
        sleep(wait).await;
    }
}
