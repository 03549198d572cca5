//! Processes beside the kernels: each a command with a stream of its own.
//!
//! `open` names what is run. On the stream the shim sends `head` when the program runs, chunks of its output, and `done` at its end, or
//! `failed` when it was not started. The gateway sends chunks of its input, the last one empty, and orders as `head`. A stream that
//! closes before `done` ends the command.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::packet::{from_json, to_json};
use crate::{Frame, Kind, ProtocolError, StreamFailed, encode_frame};

/// A command that is to be run.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct RunProcess {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Variables over those of the session.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Directory: absolute, or relative to the work directory. `None`: the work directory.
    #[serde(default)]
    pub cwd: Option<String>,
    /// True if the command has an input. Without one it reads the end of the file at once.
    #[serde(default)]
    pub stdin: bool,
    /// The size of its terminal, if it has one: input and output are that then.
    #[serde(default)]
    pub terminal: Option<TerminalSize>,
}

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Characters of a line.
    pub cols: u16,
}

/// Body of the `head` with which the shim begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct ProcessStarted {
    /// As the sandbox counts processes.
    pub pid: u32,
}

/// Output stream of a command; its number is that of the chunk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ProcessSource {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Output of the command's terminal.
    Terminal,
}

impl ProcessSource {
    fn number(self) -> u64 {
        match self {
            Self::Stdout => 1,
            Self::Stderr => 2,
            Self::Terminal => 3,
        }
    }

    fn from_number(number: u64) -> Option<Self> {
        let all = [Self::Stdout, Self::Stderr, Self::Terminal];
        all.into_iter().find(|source| source.number() == number)
    }
}

/// Body of `done`: how a command ended. Neither is known where the system does not tell.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessExit {
    /// Exit code; `None` after a signal, or if unknown.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// Frame of the shim about a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ProcessFrame {
    /// It runs.
    Started(ProcessStarted),
    /// It has written this.
    Output(ProcessSource, Bytes),
    /// It has ended; the last frame.
    Exited(ProcessExit),
    /// It was not started; the only frame.
    Failed(StreamFailed),
}

impl ProcessFrame {
    /// Understands a frame.
    ///
    /// # Errors
    /// [`ProtocolError::Body`] or [`ProtocolError::Direction`].
    pub fn parse(frame: Frame) -> Result<Self, ProtocolError> {
        let Frame {
            kind, number, body, ..
        } = frame;
        let direction = || ProtocolError::Direction { kind: kind.as_str() };
        Ok(match kind {
            Kind::Head => Self::Started(from_json(kind, &body)?),
            Kind::Chunk => Self::Output(ProcessSource::from_number(number).ok_or_else(direction)?, body),
            Kind::Done => Self::Exited(from_json(kind, &body)?),
            Kind::Failed => Self::Failed(from_json(kind, &body)?),
            _ => return Err(direction()),
        })
    }

    /// Appends the frame.
    ///
    /// # Errors
    /// [`ProtocolError::Length`] when the body is too large for its kind.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), ProtocolError> {
        match self {
            Self::Started(started) => encode_frame(out, Kind::Head, 0, 0, &to_json(Kind::Head, started)?),
            Self::Output(source, bytes) => encode_frame(out, Kind::Chunk, 0, source.number(), bytes),
            Self::Exited(exit) => encode_frame(out, Kind::Done, 0, 0, &to_json(Kind::Done, exit)?),
            Self::Failed(failed) => encode_frame(out, Kind::Failed, 0, 0, &to_json(Kind::Failed, failed)?),
        }
    }
}

/// Order of the gateway to a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ProcessOrder {
    /// Input; nothing: its end.
    Input(Bytes),
    /// A signal for its group: 2, 9 or 15.
    Signal {
        /// The number.
        signal: i32,
    },
    /// Resize the terminal.
    Resize(TerminalSize),
}

/// The body of the `head` that an order is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OrderBody {
    Signal(i32),
    Resize(TerminalSize),
}

impl ProcessOrder {
    /// Understands a frame.
    ///
    /// # Errors
    /// [`ProtocolError::Body`] or [`ProtocolError::Direction`].
    pub fn parse(frame: Frame) -> Result<Self, ProtocolError> {
        let Frame { kind, body, .. } = frame;
        match kind {
            Kind::Chunk => Ok(Self::Input(body)),
            Kind::Head => Ok(match from_json(kind, &body)? {
                OrderBody::Signal(signal) => Self::Signal { signal },
                OrderBody::Resize(size) => Self::Resize(size),
            }),
            _ => Err(ProtocolError::Direction { kind: kind.as_str() }),
        }
    }

    /// Appends the frame.
    ///
    /// # Errors
    /// [`ProtocolError::Length`] when the body is too large for its kind.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), ProtocolError> {
        let body = match self {
            Self::Input(bytes) => return encode_frame(out, Kind::Chunk, 0, 0, bytes),
            Self::Signal { signal } => OrderBody::Signal(*signal),
            Self::Resize(size) => OrderBody::Resize(*size),
        };
        encode_frame(out, Kind::Head, 0, 0, &to_json(Kind::Head, &body)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decoder, FileTask, Open, StreamFailure, StreamTask};

    fn back(encode: impl FnOnce(&mut BytesMut)) -> Frame {
        let mut out = BytesMut::new();
        encode(&mut out);
        let mut decoder = Decoder::new();
        decoder.buffer().extend_from_slice(&out);
        decoder.next().unwrap().unwrap()
    }

    #[test]
    fn frames_come_back() {
        for frame in [
            ProcessFrame::Started(ProcessStarted { pid: 7 }),
            ProcessFrame::Output(ProcessSource::Stderr, Bytes::from_static(b"x")),
            ProcessFrame::Output(ProcessSource::Terminal, Bytes::new()),
            ProcessFrame::Exited(ProcessExit {
                code: Some(3),
                signal: None,
            }),
            ProcessFrame::Failed(StreamFailed {
                code: StreamFailure::NotFound,
                reason: "r".into(),
            }),
        ] {
            let got = back(|out| frame.encode(out).unwrap());
            assert_eq!(ProcessFrame::parse(got).unwrap(), frame);
        }
        for order in [
            ProcessOrder::Input(Bytes::from_static(b"x")),
            ProcessOrder::Input(Bytes::new()),
            ProcessOrder::Signal { signal: 9 },
            ProcessOrder::Resize(TerminalSize { rows: 2, cols: 3 }),
        ] {
            let got = back(|out| order.encode(out).unwrap());
            assert_eq!(ProcessOrder::parse(got).unwrap(), order);
        }
        let unknown = back(|out| encode_frame(out, Kind::Chunk, 0, 9, b"x").unwrap());
        assert!(ProcessFrame::parse(unknown).is_err());
    }

    #[test]
    fn a_task_is_read_as_it_was_written() {
        let run = StreamTask::Run(Box::new(RunProcess {
            argv: vec!["a".into()],
            stdin: true,
            ..RunProcess::default()
        }));
        let delete = StreamTask::File(FileTask::Delete {
            path: "a".into(),
            recursive: true,
        });
        for task in [run, delete] {
            let open = Open {
                stream: "s".into(),
                task,
                absolute: false,
            };
            let json = serde_json::to_string(&open).unwrap();
            assert_eq!(serde_json::from_str::<Open>(&json).unwrap(), open, "{json}");
        }
    }
}
