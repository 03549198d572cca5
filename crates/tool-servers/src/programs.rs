//! Programs that are servers: what starts them is elsewhere.

use std::fmt;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use himalia_model::ToolServerConfig;

/// Starts the programs of servers, each in a sandbox of its own.
pub trait Programs: Send + Sync + fmt::Debug {
    /// Starts the program of a server ([`himalia_model::ToolServerKind::Program`]), in the sandbox of that server, which it starts before if it is not there.
    /// When this future is dropped, nothing is left that was begun.
    ///
    /// # Errors
    /// Why it does not run.
    fn start<'a>(&'a self, server: &'a ToolServerConfig) -> BoxFuture<'a, Result<Program, String>>;
}

/// A program that runs. It ends when both members are dropped.
pub struct Program {
    /// Output and end of the program, in order; the last is [`ProgramEvent::Ended`]. While it is not read, the program waits.
    pub events: BoxStream<'static, ProgramEvent>,
    /// Standard input of the program.
    pub input: Box<dyn ProgramInput>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Program")
    }
}

/// Something that a program does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramEvent {
    /// It has written this to its standard output.
    Output(Bytes),
    /// It has written this to its standard error.
    Errors(Bytes),
    /// It has ended, or its sandbox has, for this reason.
    Ended(String),
}

/// The standard input of a program.
pub trait ProgramInput: Send {
    /// Writes all of it. Waits while the program does not read. Nothing is written any more after one that was dropped.
    ///
    /// # Errors
    /// The program reads no more.
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<(), String>>;
}
