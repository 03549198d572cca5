//! An answer that comes in pieces, on its way to code.

use bytes::Bytes;
use himalia_credentials::Mask;
use himalia_egress::BodyError;
use himalia_kernel::ToolOutcome;
use himalia_llm::{Failure, Stream};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::answer::failure;
use super::hold::Hold;
use crate::tools::{BegunCall, shown};

/// Events that wait for the code to read them.
const WAITING: usize = 16;

enum End {
    Whole,
    /// The code has stopped to read it.
    Dropped,
    /// Before its end.
    Failed(Failure),
}

/// Passes an answer on, and notes its end.
pub(super) fn start(
    stream: Stream,
    begun: BegunCall,
    held: Hold,
    mask: Mask,
    chars: usize,
    deadline: Instant,
) -> mpsc::Receiver<Result<Bytes, BodyError>> {
    let (pieces, received) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let mut stream = stream;
        let end = pass(&mut stream, &pieces, deadline).await;
        let took = stream.took();
        let (mut record, error) = match end {
            End::Whole => (begun.end(ToolOutcome::Done, None), None),
            End::Dropped => (begun.left(), None),
            End::Failed(reason) => {
                let (outcome, error) = failure(&begun.tool, &reason);
                let record = begun.end(outcome, Some((error.code.as_str(), &error.message)));
                (record, Some(error.message))
            }
        };
        record.reply = Some(shown(&Value::from(stream.text()), None, &mask, chars));
        record.reply_bytes = stream.bytes() as u64;
        record.model_use = Some(took);
        held.settle(&took);
        begun.write(record).await;
        // The end of the log is before the end of the answer.
        if let Some(message) = error {
            let _ = pieces.send(Err(message.into())).await;
        }
    });
    received
}

async fn pass(
    stream: &mut Stream,
    pieces: &mpsc::Sender<Result<Bytes, BodyError>>,
    deadline: Instant,
) -> End {
    loop {
        let event = tokio::select! {
            () = pieces.closed() => return End::Dropped,
            event = stream.next() => event,
        };
        match event {
            Ok(Some(event)) => {
                let sent = timeout_at(deadline, pieces.send(Ok(event))).await;
                if !matches!(sent, Ok(Ok(()))) {
                    return End::Dropped;
                }
            }
            Ok(None) => return End::Whole,
            Err(reason) => return End::Failed(reason),
        }
    }
}
