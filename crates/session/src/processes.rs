//! Commands of a session, beside its kernels.

use bytes::{Bytes, BytesMut};
use himalia_link::{StreamConnection, StreamError, StreamReader, StreamWriter};
use himalia_model::{EngineError, FileError};
use himalia_shim_protocol::{
    CHUNK_BYTES, ProcessExit, ProcessFrame, ProcessOrder, ProcessSource, ProcessStarted,
};
use tokio::sync::OwnedSemaphorePermit;

use crate::files::failure;

/// Most commands of one sandbox at once.
pub const MAX_PROCESSES: usize = 32;

/// A command that runs. It ends when this is dropped.
#[derive(Debug)]
pub struct Process {
    /// As its sandbox counts processes.
    pub pid: u32,
    /// True if its input and output are a terminal.
    pub has_terminal: bool,
    pub events: ProcessEvents,
    pub writer: ProcessWriter,
}

/// Something that a command does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessEvent {
    /// It has written this.
    Output(ProcessSource, Bytes),
    /// It has ended; the last event.
    Exited(ProcessExit),
}

/// Events of a command, in order. While it is not read, the command waits.
#[derive(Debug)]
pub struct ProcessEvents {
    reader: StreamReader,
    _permit: OwnedSemaphorePermit,
}

/// Input of a command.
#[derive(Debug)]
pub struct ProcessWriter(StreamWriter);

impl Process {
    /// A stream that the shim has opened; waits until the program runs. The permit is given back at the end.
    pub async fn begin(
        stream: StreamConnection,
        has_terminal: bool,
        permit: OwnedSemaphorePermit,
    ) -> Result<Self, EngineError> {
        let (mut reader, writer) = stream.split();
        let ProcessFrame::Started(ProcessStarted { pid }) = next(&mut reader).await? else {
            return Err(lost(
                "the sandbox has said something else than that the command runs",
            ));
        };
        Ok(Self {
            pid,
            has_terminal,
            events: ProcessEvents {
                reader,
                _permit: permit,
            },
            writer: ProcessWriter(writer),
        })
    }
}

impl ProcessEvents {
    /// The next event. Cancel-safe.
    ///
    /// # Errors
    /// When the sandbox has gone, or does not keep to the protocol.
    pub async fn next(&mut self) -> Result<ProcessEvent, EngineError> {
        match next(&mut self.reader).await? {
            ProcessFrame::Output(source, bytes) => Ok(ProcessEvent::Output(source, bytes)),
            ProcessFrame::Exited(exit) => Ok(ProcessEvent::Exited(exit)),
            ProcessFrame::Started(_) | ProcessFrame::Failed(_) => Err(lost("the sandbox has said too much")),
        }
    }
}

impl ProcessWriter {
    /// Gives an order. Waits while the command does not take its input. Not cancel-safe.
    ///
    /// # Errors
    /// When the sandbox has gone.
    pub async fn order(&mut self, order: ProcessOrder) -> Result<(), EngineError> {
        let mut rest = match order {
            ProcessOrder::Input(bytes) if bytes.len() > CHUNK_BYTES => bytes,
            order => return self.send(&order).await,
        };
        while !rest.is_empty() {
            let part = rest.split_to(rest.len().min(CHUNK_BYTES));
            self.send(&ProcessOrder::Input(part)).await?;
        }
        Ok(())
    }

    async fn send(&mut self, order: &ProcessOrder) -> Result<(), EngineError> {
        let mut out = BytesMut::new();
        let encoded = order.encode(&mut out);
        encoded.map_err(|error| lost(&error.to_string()))?;
        let sent = self.0.send(&out).await;
        sent.map_err(|error| lost(&format!("the stream of the command broke off: {error}")))
    }
}

async fn next(reader: &mut StreamReader) -> Result<ProcessFrame, EngineError> {
    let frame = reader.next().await.map_err(|error| match error {
        StreamError::Closed => lost("the sandbox closed the stream of the command"),
        StreamError::Io(error) => lost(&format!("the stream of the command broke off: {error}")),
        StreamError::Protocol(error) => nonsense(&error),
    })?;
    match ProcessFrame::parse(frame).map_err(|error| nonsense(&error))? {
        ProcessFrame::Failed(failed) => Err(failure(&failed)),
        frame => Ok(frame),
    }
}

fn nonsense(error: &himalia_shim_protocol::ProtocolError) -> EngineError {
    lost(&format!("the sandbox does not keep to the protocol: {error}"))
}

fn lost(reason: &str) -> EngineError {
    EngineError::Files {
        code: FileError::Failed,
        reason: reason.to_owned(),
    }
}
