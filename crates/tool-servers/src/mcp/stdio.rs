//! Carries the messages of `rmcp` to a program, line by line over its standard input, and the answers of the program back.
//!
//! ```text
//! rmcp -> send()  -> writer task -> standard input       a question of ours is noted (asked.rs) before it is written
//! rmcp <- receive <- reader task <- standard output      lines.rs; the answers to our questions go to their tickets, as bytes
//!                                <- standard error       errors.rs
//! ```
//!
//! A line that is no message is left out: programs print all kinds of things.

mod asked;
mod errors;
mod lines;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use himalia_upstream::json;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, GetExtensions as _, RequestId, ServerJsonRpcMessage};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use self::asked::{AnswerTarget, OpenRequests};
pub(super) use self::errors::Errors;
use self::lines::{Line, Lines};
use super::connection::Signals;
use super::message::{Kind, Message};
use super::ticket::{Answer, Ticket};
use crate::call::CallError;
use crate::programs::{Program, ProgramEvent, ProgramInput};

/// Bytes of the answer to a message of `rmcp` itself, such as `initialize`, and of a notification.
const CONTROL_BYTES: usize = 1 << 20;
/// Longest wait until a program reads a message of `rmcp` itself.
const CONTROL_TIME: Duration = Duration::from_secs(20);
/// Bytes of a message around the result that has its own bound.
const ENVELOPE_BYTES: usize = 1024;
/// Bytes that a program may write within a minute without answering anything, standard error included. Beyond that it is given up.
const IDLE_BYTES: u64 = 16 << 20;
const MINUTE: Duration = Duration::from_mins(1);
/// Messages that wait until the program reads them, and answers that wait for `rmcp`.
const QUEUE: usize = 64;

/// The connection to a program. The program ends when this is dropped.
pub(super) struct Stdio {
    asked: Arc<OpenRequests>,
    received: mpsc::Receiver<ServerJsonRpcMessage>,
    passed: mpsc::WeakSender<ServerJsonRpcMessage>,
    outgoing: mpsc::Sender<OutgoingMessage>,
    _reader: AbortOnDropHandle<()>,
    _writer: AbortOnDropHandle<()>,
}

/// Reasons why a message was not written.
#[derive(Debug)]
pub(super) struct StdioError(String);

impl fmt::Display for StdioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StdioError {}

/// A message that is to be written.
struct OutgoingMessage {
    line: Bytes,
    /// The number of a request, and for whom its answer is.
    asks: Option<(i64, AnswerTarget)>,
    written: Option<oneshot::Sender<()>>,
}

impl Stdio {
    pub(super) fn start(program: Program, errors: Errors, signals: Arc<Signals>) -> Self {
        let Program { events, input } = program;
        let asked = Arc::<OpenRequests>::default();
        let (passes, received) = mpsc::channel(QUEUE);
        let (outgoing, waiting) = mpsc::channel(QUEUE);
        let passed = passes.downgrade();
        let reader = Reader {
            asked: Arc::clone(&asked),
            passes,
            outgoing: outgoing.clone(),
            signals,
            errors,
            idle: Idle::default(),
        };
        let writer = write(input, waiting, Arc::clone(&asked));
        Self {
            asked,
            received,
            passed,
            outgoing,
            _reader: AbortOnDropHandle::new(tokio::spawn(reader.run(events))),
            _writer: AbortOnDropHandle::new(tokio::spawn(writer)),
        }
    }
}

impl rmcp::transport::Transport<RoleClient> for Stdio {
    type Error = StdioError;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), StdioError>> + Send + 'static {
        let (asked, outgoing, passed) = (
            Arc::clone(&self.asked),
            self.outgoing.clone(),
            self.passed.clone(),
        );
        async move {
            let mut line = serde_json::to_vec(&item).map_err(|error| StdioError(error.to_string()))?;
            line.push(b'\n');
            let (mut ticket, mut asks) = (None, None);
            if let ClientJsonRpcMessage::Request(request) = &item
                && let RequestId::Number(number) = request.id
            {
                ticket = request.request.extensions().get::<Ticket>().cloned();
                asks = Some((
                    number,
                    ticket.clone().map_or(AnswerTarget::Rmcp, AnswerTarget::Us),
                ));
            }
            let number = asks.as_ref().map(|(number, _)| *number);
            let (written, is_written) = oneshot::channel();
            let message = OutgoingMessage {
                line: line.into(),
                asks,
                written: Some(written),
            };
            let write = async {
                let closed = || StdioError("the program has ended".to_owned());
                outgoing.send(message).await.map_err(|_| closed())?;
                is_written.await.map_err(|_| closed())
            };
            let Some(ticket) = ticket else {
                return tokio::select! {
                    written = write => written,
                    () = sleep(CONTROL_TIME) => Err(StdioError("the program does not read".to_owned())),
                };
            };
            tokio::select! {
                biased;
                () = ticket.given_up() => {}
                written = write => {
                    written?;
                    ticket.given_up().await;
                }
            }
            // The caller has its answer, or waits no longer: `rmcp` need not wait either.
            if let Some(number) = number
                && asked.give_up(number)
                && let Some(passed) = passed.upgrade()
            {
                let _ = passed.send(end(number)).await;
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.received.recv().await
    }

    async fn close(&mut self) -> Result<(), StdioError> {
        self.received.close();
        Ok(())
    }
}

/// The end of a request of ours, for `rmcp`, which does not need its answer.
fn end(number: i64) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(
        ErrorData::internal_error("elsewhere", None),
        Some(RequestId::Number(number)),
    )
}

/// Writes one message after another, whole.
async fn write(
    mut input: Box<dyn ProgramInput>,
    mut waiting: mpsc::Receiver<OutgoingMessage>,
    asked: Arc<OpenRequests>,
) {
    while let Some(OutgoingMessage { line, asks, written }) = waiting.recv().await {
        if let Some((number, whose)) = asks {
            // Before it is written: the answer may come at once.
            let ticket = match &whose {
                AnswerTarget::Us(ticket) => Some(ticket.clone()),
                AnswerTarget::Rmcp | AnswerTarget::NoOne => None,
            };
            if ticket.as_ref().is_some_and(|ticket| !ticket.begin()) {
                continue;
            }
            asked.ask(number, whose);
            if ticket.is_some_and(|ticket| ticket.is_given_up()) {
                asked.give_up(number);
            }
        }
        if input.write(line).await.is_err() {
            // The reader sees its end.
            return;
        }
        if let Some(written) = written {
            let _ = written.send(());
        }
    }
}

/// Recent output of a program that answers nothing.
#[derive(Debug, Default)]
struct Idle {
    since: Option<Instant>,
    bytes: u64,
}

impl Idle {
    /// Adds bytes, and returns true if there are too many.
    fn add(&mut self, bytes: u64) -> bool {
        if self.since.is_none_or(|since| since.elapsed() >= MINUTE) {
            (self.since, self.bytes) = (Some(Instant::now()), 0);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.bytes > IDLE_BYTES
    }
}

/// Reads what a program writes.
struct Reader {
    asked: Arc<OpenRequests>,
    passes: mpsc::Sender<ServerJsonRpcMessage>,
    outgoing: mpsc::Sender<OutgoingMessage>,
    signals: Arc<Signals>,
    errors: Errors,
    idle: Idle,
}

impl Reader {
    async fn run(mut self, events: BoxStream<'static, ProgramEvent>) {
        let reason = self.read(events).await;
        let tail = self.errors.tail();
        let reason = match tail.as_str() {
            "" => reason,
            tail => format!("{reason}; the end of its standard error: {tail}"),
        };
        self.signals.program_ended(reason);
        // The texts of its errors are not for callers.
        self.asked.end("the program of the server has ended");
    }

    /// Reads to the end, and says what that is.
    async fn read(&mut self, mut events: BoxStream<'static, ProgramEvent>) -> String {
        let mut lines = Lines::default();
        let flood = || format!("it has written more than {IDLE_BYTES} bytes without a reply within a minute");
        while let Some(event) = events.next().await {
            match event {
                ProgramEvent::Output(mut output) => {
                    while let Some(line) = lines.next(&mut output, self.longest()) {
                        let idle = match line {
                            Line::Whole(text) => self.take(text).await,
                            Line::Long { head, bytes } => self.too_long(&head, bytes).await,
                            Line::Endless => return "it has written a line without an end".to_owned(),
                        };
                        if self.idle.add(idle) {
                            return flood();
                        }
                    }
                }
                ProgramEvent::Errors(bytes) => {
                    self.errors.add(&bytes);
                    if self.idle.add(bytes.len() as u64) {
                        return flood();
                    }
                }
                ProgramEvent::Ended(reason) => return reason,
            }
        }
        "its sandbox has ended".to_owned()
    }

    /// Bytes that a line may have now.
    fn longest(&self) -> usize {
        self.asked
            .longest()
            .max(CONTROL_BYTES)
            .saturating_add(ENVELOPE_BYTES)
    }

    /// Takes a line. Gives its bytes if it is the answer to nothing.
    async fn take(&mut self, text: Bytes) -> u64 {
        let bytes = text.len() as u64;
        let Some(message) = Message::parse(&text) else {
            return bytes;
        };
        let Some(number) = message.number().filter(|_| message.method.is_none()) else {
            self.unsolicited(&text, message).await;
            return bytes;
        };
        match self.asked.take(number) {
            Some(AnswerTarget::Us(ticket)) => {
                let answer = if text.len() > ticket.most().saturating_add(ENVELOPE_BYTES) {
                    Err(CallError::too_long(ticket.most()))
                } else {
                    match message.kind(Some(&RequestId::Number(number))) {
                        Kind::Response(Ok(result)) => Ok(Answer {
                            result: text.slice_ref(result.get().as_bytes()),
                            bytes: text.len(),
                        }),
                        Kind::Response(Err(error)) => Err(CallError::refused(error.code, &error.message)),
                        _ => Err(CallError::failed("the answer is not a JSON-RPC message")),
                    }
                };
                self.answered(number, &ticket, answer).await;
                0
            }
            Some(AnswerTarget::Rmcp) => {
                let id = RequestId::Number(number);
                let parsed = match json::parse(&text) {
                    Ok(parsed) if text.len() <= CONTROL_BYTES => parsed,
                    Ok(_) => refuse(id, &format!("the answer has more than {CONTROL_BYTES} bytes")),
                    Err(reason) => refuse(id, &format!("the answer {reason}")),
                };
                let _ = self.passes.send(parsed).await;
                0
            }
            // No one waits for it any more.
            Some(AnswerTarget::NoOne) => 0,
            None => bytes,
        }
    }

    /// A line of so many bytes, which were not kept. Gives them if they are the answer to nothing.
    async fn too_long(&self, head: &[u8], bytes: u64) -> u64 {
        let asked = asked::number_in(head).and_then(|number| Some((number, self.asked.take(number)?)));
        match asked {
            Some((number, AnswerTarget::Us(ticket))) => {
                let answer = Err(CallError::too_long(ticket.most()));
                self.answered(number, &ticket, answer).await;
                0
            }
            Some((number, AnswerTarget::Rmcp)) => {
                let reason = format!("the answer has more than {CONTROL_BYTES} bytes");
                let _ = self.passes.send(refuse(RequestId::Number(number), &reason)).await;
                0
            }
            Some((_, AnswerTarget::NoOne)) => 0,
            None => bytes,
        }
    }

    /// Puts the answer down, before `rmcp` hears that there is one.
    async fn answered(&self, number: i64, ticket: &Ticket, answer: Result<Answer, CallError>) {
        ticket.answer(answer);
        let _ = self.passes.send(end(number)).await;
    }

    /// Handles a message that answers nothing: a change of the tools, or a request of the program.
    async fn unsolicited(&self, text: &Bytes, message: Message<'_>) {
        match message.kind(None) {
            Kind::Notification(method) => {
                let is_change = method == "notifications/tools/list_changed";
                if is_change {
                    self.signals.list_changed();
                }
                if is_change || method.starts_with("notifications/subscriptions/") {
                    self.pass(text).await;
                }
            }
            // `rmcp` answers it when a person has.
            Kind::Request(request) if request.is_question() => self.pass(text).await,
            Kind::Request(request) => {
                let Some(line) = request.response(None) else {
                    return;
                };
                let message = OutgoingMessage {
                    line: line.into(),
                    asks: None,
                    written: None,
                };
                // One that asks faster than it reads gets no answer.
                let _ = self.outgoing.try_send(message);
            }
            Kind::Response(_) | Kind::Other => {}
        }
    }

    /// Gives a message to `rmcp`.
    async fn pass(&self, text: &Bytes) {
        if text.len() <= CONTROL_BYTES
            && let Ok(parsed) = json::parse(text)
        {
            let _ = self.passes.send(parsed).await;
        }
    }
}

fn refuse(id: RequestId, reason: &str) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(ErrorData::internal_error(reason.to_owned(), None), Some(id))
}
