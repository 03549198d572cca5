//! Waiting for an execution.

use std::time::Duration;

use himalia_engine::{
    EngineError, ExecutionEvent, ExecutionEventKind, ExecutionFeed, ExecutionId, ExecutionResult,
    ExecutionStatus, FeedClosed,
};
use tokio::time::{Instant, sleep_until};

use crate::call::Call;
use crate::failure::Failure;
use crate::progress::Progress;

/// The time that a call waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For the end of the execution.
    pub(crate) wait: Duration,
    /// For its beginning, if the caller has named no wait. Such a caller does not wait for code that ignores interrupts either.
    pub(crate) queued: Option<Duration>,
}

impl Patience {
    /// A caller has named this wait.
    pub(crate) fn exact(wait: Duration) -> Self {
        Self { wait, queued: None }
    }
}

/// Waits until the execution has ended, asks for input, or the wait has passed; then returns its current result. Prompts up to
/// the record `after` are old ones. Nothing that ends the wait ends the execution.
pub(crate) async fn wait(
    call: &Call,
    id: ExecutionId,
    after: Option<u64>,
    patience: Patience,
) -> Result<ExecutionResult, Failure> {
    call.subject.is_execution(id);
    if patience.wait.is_zero() {
        return Ok(call.engine.execution(&call.principal, id).await?);
    }
    let feed = call.engine.follow_execution(&call.principal, id, after).await?;
    wait_in(call, feed, patience).await
}

/// The same, with the feed of the execution.
pub(crate) async fn wait_in(
    call: &Call,
    mut feed: ExecutionFeed,
    Patience { wait, queued }: Patience,
) -> Result<ExecutionResult, Failure> {
    let deadline = Instant::now() + wait;
    let mut start = queued.map(|queued| Instant::now() + queued);
    let mut progress = Progress::wanted(&call.context);
    loop {
        let due = progress.as_ref().map(Progress::due);
        tokio::select! {
            biased;
            () = call.context.ct.cancelled() => break,
            () = call.shutdown.cancelled() => break,
            () = sleep_until(deadline) => break,
            () = sleep_until(start.unwrap_or(deadline)) => {
                if feed.result().status == ExecutionStatus::Queued {
                    break;
                }
                start = None;
            }
            () = sleep_until(due.unwrap_or(deadline)) => {
                if let Some(progress) = &mut progress {
                    progress.tell().await;
                }
            }
            next = feed.next() => {
                if is_enough(&feed, next, progress.as_mut())? || (queued.is_some() && feed.result().stuck.is_some()) {
                    break;
                }
            }
        }
    }
    Ok(feed.result())
}

/// Looks at new events; whether the wait can end.
fn is_enough(
    feed: &ExecutionFeed,
    next: Result<Option<Vec<ExecutionEvent>>, FeedClosed>,
    mut progress: Option<&mut Progress>,
) -> Result<bool, Failure> {
    let events = match next {
        Ok(Some(events)) => events,
        Err(FeedClosed::Storage) => {
            let context = "reading a kernel's log".into();
            return Err(EngineError::Internal { context }.into());
        }
        // It has ended; or it continues without this gateway, or its session is gone: as far as it is known.
        Ok(None) | Err(_) => return Ok(true),
    };
    let (mut asks, mut detached) = (false, false);
    for event in events {
        detached |= matches!(event.kind, ExecutionEventKind::Detached);
        asks |= matches!(
            event.kind,
            ExecutionEventKind::InputRequest(_) | ExecutionEventKind::Prompt(_)
        );
        if let Some(progress) = &mut progress {
            progress.see(&event.kind);
        }
    }
    // A question may have been answered in the same batch.
    Ok(detached || (asks && feed.result().asks()))
}
