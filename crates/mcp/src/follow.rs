//! Waiting for an execution.

use std::time::Duration;

use himalia_engine::{
    Closed, EngineError, ExecutionEvent, ExecutionEventKind, ExecutionFeed, ExecutionId, ExecutionResult,
};
use tokio::time::{Instant, sleep_until};

use crate::call::Call;
use crate::failure::Failure;
use crate::progress::Progress;

/// Waits until the execution has ended, asks for input, or `wait` has passed; then returns its current result. Prompts up to
/// the record `after` are old ones. Nothing that ends the wait ends the execution.
pub(crate) async fn wait(
    call: &Call,
    id: ExecutionId,
    after: Option<u64>,
    wait: Duration,
) -> Result<ExecutionResult, Failure> {
    call.subject.is_execution(id);
    if wait.is_zero() {
        return Ok(call.engine.execution(&call.principal, id).await?);
    }
    let deadline = Instant::now() + wait;
    let mut feed = call.engine.follow_execution(&call.principal, id, after).await?;
    let mut progress = Progress::wanted(&call.context);
    loop {
        let due = progress.as_ref().map(Progress::due);
        tokio::select! {
            biased;
            () = call.context.ct.cancelled() => break,
            () = call.shutdown.cancelled() => break,
            () = sleep_until(deadline) => break,
            () = sleep_until(due.unwrap_or(deadline)) => {
                if let Some(progress) = &mut progress {
                    progress.tell().await;
                }
            }
            next = feed.next() => {
                if is_enough(&feed, next, progress.as_mut())? {
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
    next: Result<Option<Vec<ExecutionEvent>>, Closed>,
    mut progress: Option<&mut Progress>,
) -> Result<bool, Failure> {
    let events = match next {
        Ok(Some(events)) => events,
        Err(Closed::Storage) => {
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
