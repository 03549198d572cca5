//! Passes on what a command reads and writes, for as long as it runs.

use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::io;
use std::os::fd::OwnedFd;
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use himalia_link::{Socket, WriteQueue};
use himalia_shim_protocol::{
    Cause, Decoder, ProcessExit, ProcessFrame, ProcessOrder, ProcessSource, ProcessStarted, StreamFailed,
    StreamFailure, ToGateway,
};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Target;
use super::spawn::{Output, SpawnedCommand, resize};
use crate::reaper::Death;

/// For the step between the shim and the program.
const EXEC: Duration = Duration::from_secs(10);
/// Longest wait for the gateway to read the end.
const LAST: Duration = Duration::from_secs(30);
/// Output that waits for the gateway; above it the command waits.
const OUT_BYTES: usize = 256 << 10;
/// Input that waits for the command; above it the gateway waits.
const IN_BYTES: usize = 256 << 10;
/// Read from a pipe at once.
const READ_BYTES: usize = 64 << 10;
/// Read after the end of the command, from a pipe that something else still writes to.
const REST_BYTES: usize = 1 << 20;

/// One output of the command.
struct Reading {
    source: ProcessSource,
    pipe: Option<pipe::Receiver>,
}

/// The stream of a running command.
pub(super) struct Relay {
    pid: Pid,
    socket: Socket,
    decoder: Decoder,
    out: WriteQueue,
    reading: [Reading; 2],
    input: Option<pipe::Sender>,
    /// Input that the command has not read.
    waiting: VecDeque<Bytes>,
    waiting_bytes: usize,
    /// The gateway sends no more input.
    input_ends: bool,
    terminal: Option<OwnedFd>,
    buffer: Vec<u8>,
}

/// Next step.
enum Step {
    Received(io::Result<usize>),
    Room(io::Result<()>),
    Readable(usize),
    Writable,
    Dead(Death),
}

impl Relay {
    /// Runs on a thread of its own until the command and its stream have ended.
    pub(super) fn run(spawned: SpawnedCommand, death: oneshot::Receiver<Death>, target: Target) {
        let pid = spawned.pid;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let served = match runtime {
            Ok(runtime) => runtime.block_on(serve(spawned, death, target)),
            Err(error) => Err(error),
        };
        if let Err(error) = served {
            tracing::info!(%error, "the stream of a command broke off");
            kill(pid, Signal::KILL);
        }
    }
}

async fn serve(spawned: SpawnedCommand, death: oneshot::Receiver<Death>, target: Target) -> io::Result<()> {
    let SpawnedCommand {
        pid,
        report,
        input,
        output,
    } = spawned;
    let mut socket = target.gateway.connect(&target.link).await?;
    let mut out = WriteQueue::default();
    out.push_with(|out| ToGateway::Hello(Box::new(target.hello)).encode(out))
        .map_err(io::Error::other)?;
    if let Err(reason) = executed(report).await {
        let failed = StreamFailed {
            code: StreamFailure::NotFound,
            reason: reason.chars().take(500).collect(),
        };
        push(&mut out, &ProcessFrame::Failed(failed))?;
        return flush(&mut out, &mut socket).await;
    }
    let started = ProcessStarted {
        pid: pid.as_raw_nonzero().get().unsigned_abs(),
    };
    push(&mut out, &ProcessFrame::Started(started))?;
    let (reading, terminal) = match output {
        Output::Pipes(output, errors) => {
            let open = |fd, source| reading(fd, source);
            (
                [
                    open(output, ProcessSource::Stdout)?,
                    open(errors, ProcessSource::Stderr)?,
                ],
                None,
            )
        }
        Output::Terminal(controller) => {
            let read = reading(controller.try_clone()?, ProcessSource::Terminal)?;
            let none = Reading {
                source: ProcessSource::Stderr,
                pipe: None,
            };
            ([read, none], Some(controller))
        }
    };
    let input = input
        .map(|fd| {
            rustix::io::ioctl_fionbio(&fd, true)?;
            pipe::Sender::from_owned_fd_unchecked(fd)
        })
        .transpose()?;
    let relay = Relay {
        pid,
        socket,
        decoder: Decoder::new(),
        out,
        reading,
        input,
        waiting: VecDeque::new(),
        waiting_bytes: 0,
        input_ends: false,
        terminal,
        buffer: vec![0; READ_BYTES],
    };
    relay.relay(death).await
}

fn reading(fd: OwnedFd, source: ProcessSource) -> io::Result<Reading> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    Ok(Reading {
        source,
        pipe: Some(pipe::Receiver::from_owned_fd_unchecked(fd)?),
    })
}

/// Waits until the program runs. The error says why it does not.
async fn executed(report: std::os::unix::net::UnixStream) -> Result<(), String> {
    let mut socket = UnixStream::from_std(report).map_err(|error| error.to_string())?;
    let mut error = String::new();
    match timeout(EXEC, socket.read_to_string(&mut error)).await {
        Ok(Ok(0)) => Ok(()),
        Ok(Ok(_)) => Err(error),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("it was not executed within {} s", EXEC.as_secs())),
    }
}

impl Relay {
    async fn relay(mut self, mut death: oneshot::Receiver<Death>) -> io::Result<()> {
        let dead = loop {
            match self.next(&mut death).await {
                Step::Received(read) => {
                    if read? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    while let Some(frame) = self.decoder.next().map_err(io::Error::other)? {
                        self.order(ProcessOrder::parse(frame).map_err(io::Error::other)?);
                    }
                }
                Step::Room(room) => {
                    room?;
                    self.out.write_to(&mut self.socket)?;
                }
                Step::Readable(which) => {
                    self.read(which, pipe::Receiver::try_read)?;
                }
                Step::Writable => self.write(),
                Step::Dead(death) => break death,
            }
        };
        // What cannot be said any more is lost with its reader: the command has ended.
        let _ = self.finish(dead).await;
        Ok(())
    }

    async fn finish(&mut self, dead: Death) -> io::Result<()> {
        self.rest()?;
        let done = match dead.cause {
            Cause::Exit { code } => ProcessExit {
                code: Some(code),
                signal: None,
            },
            Cause::Signal { signal } => ProcessExit {
                code: None,
                signal: Some(signal),
            },
            Cause::Unknown | Cause::ProtocolAbort => ProcessExit::default(),
        };
        push(&mut self.out, &ProcessFrame::Exited(done))?;
        flush(&mut self.out, &mut self.socket).await
    }

    async fn next(&mut self, death: &mut oneshot::Receiver<Death>) -> Step {
        let takes_output = self.out.len() < OUT_BYTES;
        let takes_input = self.waiting_bytes < IN_BYTES;
        let has_output = !self.out.is_empty();
        let (socket, decoder) = (&mut self.socket, &mut self.decoder);
        let socket_ready = poll_fn(move |cx| {
            if takes_input && let Poll::Ready(read) = socket.poll_read(cx, decoder.buffer()) {
                return Poll::Ready(Step::Received(read));
            }
            if has_output && let Poll::Ready(room) = socket.poll_room(cx) {
                return Poll::Ready(Step::Room(room));
            }
            Poll::Pending
        });
        let [first, second] = &self.reading;
        tokio::select! {
            step = socket_ready => step,
            () = readable(first), if takes_output => Step::Readable(0),
            () = readable(second), if takes_output => Step::Readable(1),
            () = writable(self.input.as_ref()), if !self.waiting.is_empty() || self.input_ends => Step::Writable,
            dead = death => match dead {
                Ok(dead) => Step::Dead(dead),
                // The reaper has gone, and the sandbox with it.
                Err(_) => Step::Received(Ok(0)),
            },
        }
    }

    fn order(&mut self, order: ProcessOrder) {
        match order {
            ProcessOrder::Input(bytes) if bytes.is_empty() => self.input_ends = true,
            ProcessOrder::Input(bytes) => {
                if self.input.is_some() && !self.input_ends {
                    self.waiting_bytes += bytes.len();
                    self.waiting.push_back(bytes);
                }
            }
            ProcessOrder::Signal { signal } => {
                let signal = match signal {
                    2 => Signal::INT,
                    15 => Signal::TERM,
                    _ => Signal::KILL,
                };
                kill(self.pid, signal);
            }
            ProcessOrder::Resize(size) => {
                if let Some(terminal) = &self.terminal
                    && let Err(error) = resize(terminal, size)
                {
                    tracing::info!(%error, "a terminal was not resized");
                }
            }
        }
    }

    /// Reads once from an output by `read`; the number of bytes.
    fn read(
        &mut self,
        which: usize,
        read: impl FnOnce(&pipe::Receiver, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let Some(Reading { source, pipe }) = self.reading.get_mut(which) else {
            return Ok(0);
        };
        let Some(open) = pipe else { return Ok(0) };
        match read(open, &mut self.buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            // A terminal ends with an error.
            Ok(0) | Err(_) => {
                *pipe = None;
                Ok(0)
            }
            Ok(read) => {
                let bytes = Bytes::copy_from_slice(self.buffer.get(..read).unwrap_or_default());
                push(&mut self.out, &ProcessFrame::Output(*source, bytes))?;
                Ok(read)
            }
        }
    }

    /// Passes on what is there after the end of the command, and no more: processes in the background may write for ever.
    fn rest(&mut self) -> io::Result<()> {
        for which in 0..self.reading.len() {
            let mut total = 0;
            while total < REST_BYTES {
                // By the system, since tokio may not know yet that there is something.
                let now = |pipe: &pipe::Receiver, buffer: &mut [u8]| Ok(rustix::io::read(pipe, buffer)?);
                match self.read(which, now)? {
                    0 => break,
                    read => total += read,
                }
            }
        }
        Ok(())
    }

    /// Gives the command what it takes of its input.
    fn write(&mut self) {
        let Some(input) = &self.input else { return };
        while let Some(first) = self.waiting.front_mut() {
            match input.try_write(first) {
                Ok(written) => {
                    self.waiting_bytes -= written;
                    first.advance(written);
                    if first.is_empty() {
                        self.waiting.pop_front();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // It has closed its input.
                Err(_) => {
                    self.waiting.clear();
                    self.waiting_bytes = 0;
                    self.input = None;
                    return;
                }
            }
        }
        if self.input_ends {
            self.input = None;
            self.input_ends = false;
        }
    }
}

async fn readable(reading: &Reading) {
    match &reading.pipe {
        Some(pipe) if pipe.readable().await.is_ok() => {}
        _ => pending().await,
    }
}

async fn writable(input: Option<&pipe::Sender>) {
    match input {
        Some(input) if input.writable().await.is_ok() => {}
        _ => pending().await,
    }
}

fn push(out: &mut WriteQueue, frame: &ProcessFrame) -> io::Result<()> {
    out.push_with(|out: &mut BytesMut| frame.encode(out))
        .map_err(io::Error::other)
}

async fn flush(out: &mut WriteQueue, socket: &mut Socket) -> io::Result<()> {
    let flushed = timeout(LAST, async {
        while !out.write_to(socket)? {
            poll_fn(|cx| socket.poll_room(cx)).await?;
        }
        io::Result::Ok(())
    });
    flushed
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Signals the whole group. It may have ended.
fn kill(pid: Pid, signal: Signal) {
    let _ = kill_process_group(pid, signal);
}
