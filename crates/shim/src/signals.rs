use std::io;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

/// Bytes of a `struct signalfd_siginfo`.
const RECORD_BYTES: usize = 128;
/// Records of one read.
const RECORDS: usize = 8;

/// The signals that the shim takes, blocked for the whole process and read from a descriptor: the sender of each is
/// known then.
#[derive(Debug)]
pub(crate) struct Signals {
    fd: SignalFd,
    /// As init of a pid namespace it must ignore signals from inside: a kernel could end its sandbox otherwise.
    init: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SignalRequest {
    /// Children may have ended.
    Reap,
    /// Stop the kernels and exit.
    Terminate,
}

impl Signals {
    /// Blocks CHLD, TERM, INT and HUP. Must be called before any thread exists, so that all inherit it.
    pub(crate) fn block() -> nix::Result<Self> {
        let mut mask = SigSet::empty();
        for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            mask.add(signal);
        }
        mask.thread_block()?;
        let fd = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self {
            fd,
            init: std::process::id() == 1,
        })
    }

    /// Registers with the runtime.
    pub(crate) fn listen(self) -> io::Result<Listener> {
        // Any descriptor that epoll knows can be read as a pipe is; `AsyncFd` would need unsafe code.
        let fd = Receiver::from_owned_fd_unchecked(self.fd.into())?;
        Ok(Listener { fd, init: self.init })
    }
}

/// Waits for signals.
#[derive(Debug)]
pub(crate) struct Listener {
    fd: Receiver,
    init: bool,
}

impl Listener {
    /// The next signals that count, without repetition.
    pub(crate) async fn next(&mut self) -> io::Result<Vec<SignalRequest>> {
        let mut buffer = [0; RECORD_BYTES * RECORDS];
        let read = self.fd.read(&mut buffer).await?;
        let records = buffer.get(..read).unwrap_or_default().chunks_exact(RECORD_BYTES);
        let mut asked: Vec<SignalRequest> = records.filter_map(|record| self.understand(record)).collect();
        asked.dedup();
        Ok(asked)
    }

    /// A `struct signalfd_siginfo`: number at 0, sender's pid at 12.
    fn understand(&self, record: &[u8]) -> Option<SignalRequest> {
        let word = |at: usize| Some(u32::from_ne_bytes(*record.get(at..)?.first_chunk()?));
        let signal = Signal::try_from(i32::try_from(word(0)?).ok()?).ok()?;
        let sender = word(12)?;
        match signal {
            Signal::SIGCHLD => Some(SignalRequest::Reap),
            // The sender's pid is 0 when it stands outside of our pid namespace.
            _ if self.init && sender != 0 => {
                tracing::warn!("{signal} from inside the sandbox (pid {sender}) is ignored");
                None
            }
            Signal::SIGTERM | Signal::SIGINT => Some(SignalRequest::Terminate),
            _ => None,
        }
    }
}
