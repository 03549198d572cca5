//! A client's requests to a kernel.

use std::sync::Arc;

use himalia_budget::CpuGate;
use himalia_kernel::{Envelope, Handle, Request, RequestKind, TracedRequest, parent_key};
use himalia_model::{EngineError, TraceContext};
use himalia_wire::Channel;
use himalia_wire::header::string_field;
use himalia_wire::v1::Frame;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::client::Connection;

/// Sends a client's requests to its kernel. Clones share their bounds.
#[derive(Clone, Debug)]
pub struct Requests {
    handle: Arc<Handle>,
    owner: u64,
    /// The span in which the client came.
    caller: Option<TraceContext>,
    /// Quota of the processor time of the kernel's owner.
    cpu: Option<CpuGate>,
    _connection: Arc<Connection>,
}

impl Requests {
    /// Requests of a client with this owner, which came in this span. Executions are below it unless their metadata name another one (`traceparent`).
    pub fn new(
        handle: Arc<Handle>,
        owner: u64,
        caller: Option<TraceContext>,
        cpu: Option<CpuGate>,
        connection: Arc<Connection>,
    ) -> Self {
        Self {
            handle,
            owner,
            caller,
            cpu,
            _connection: connection,
        }
    }

    /// Sends one message.
    ///
    /// Returns once the kernel's actor has it. `Control` and `Stdin` have a lane of their own, which a full shell lane does not delay, and fail with
    /// [`EngineError::Unavailable`] when it is full; `Shell` waits for room: a facade that continues to read
    /// control messages meanwhile polls this beside its reader. Errors: [`EngineError::BadRequest`] for a header
    /// without the required fields or the channel `Iopub`; [`EngineError::NotFound`] when the kernel is gone;
    /// [`EngineError::Unavailable`] while the log cannot be written; [`EngineError::QuotaExceeded`] for an execution of a tenant without processor
    /// time.
    pub async fn send(&self, frame: Frame) -> Result<(), EngineError> {
        let channel = frame.channel();
        let request = self.understand(frame)?;
        if self
            .handle
            .disk_failing
            .load(std::sync::atomic::Ordering::Relaxed)
        {
            return Err(EngineError::unavailable(
                "the log of this kernel cannot be written, is the disk full?",
            ));
        }
        if request.kind == RequestKind::Execute
            && let Some(cpu) = &self.cpu
        {
            cpu.check()?;
        }
        let share = Handle::share(request.frame.bytes().len());
        if channel == Channel::Shell {
            let permit = Arc::clone(&self.handle.shell_bytes)
                .acquire_many_owned(share)
                .await
                .ok();
            let envelope = Envelope {
                request,
                share: permit,
            };
            return self.handle.shell.send(envelope).await.map_err(|_| self.gone());
        }
        let full = || EngineError::unavailable(format!("too many {channel} messages wait for this kernel"));
        let permit: OwnedSemaphorePermit = Arc::clone(&self.handle.urgent_bytes)
            .try_acquire_many_owned(share)
            .map_err(|_| full())?;
        let envelope = Envelope {
            request,
            share: Some(permit),
        };
        self.handle
            .urgent
            .try_send(envelope)
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => full(),
                mpsc::error::TrySendError::Closed(_) => self.gone(),
            })
    }

    fn gone(&self) -> EngineError {
        EngineError::no_kernel(self.handle.id())
    }

    fn understand(&self, frame: Frame) -> Result<Request, EngineError> {
        if frame.channel() == Channel::Iopub {
            return Err(EngineError::bad_request("channel", "iopub takes no messages"));
        }
        let bad = |error: himalia_wire::Error| EngineError::bad_request("message", error.to_string());
        let header = frame.peek().map_err(bad)?;
        let kind = match &*header.msg_type {
            "execute_request" => RequestKind::Execute,
            "shutdown_request" if !restarts(frame.content()) => RequestKind::Shutdown,
            other if other.ends_with("_request") => RequestKind::Request,
            _ => RequestKind::Notice,
        };
        let parent = parent_key(&header.msg_id, &header.session);
        let traced = kind == RequestKind::Execute && self.handle.traces.is_on();
        let trace = if traced { self.trace(&frame, parent) } else { None };
        Ok(Request {
            owner: self.owner,
            kind,
            parent,
            frame,
            trace,
        })
    }

    fn trace(&self, frame: &Frame, key: u64) -> Option<Box<TracedRequest>> {
        let told = string_field(frame.metadata(), "traceparent");
        let told = told.and_then(|text| text.parse().ok());
        TracedRequest::of_client(told.or(self.caller)?, key).map(Box::new)
    }
}

/// True if a `shutdown_request` asks for a restart.
fn restarts(content: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Content {
        #[serde(default)]
        restart: bool,
    }
    serde_json::from_slice::<Content>(content).is_ok_and(|content| content.restart)
}
