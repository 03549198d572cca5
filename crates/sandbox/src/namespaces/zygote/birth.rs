//! The start of a sandbox's first process by a zygote: it is forked before its sandbox exists, and enters it afterwards.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use himalia_jail::Rlimit;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::Serialize;
use tokio::sync::oneshot;

use super::process::send_now;
use super::protocol::{Enter, Join};
use crate::SandboxError;
use crate::host::proc::ProcessId;
use crate::namespaces::jail::PreparedSandbox;

/// Order to enter a sandbox as its first process.
#[derive(Debug)]
pub(in crate::namespaces) struct Order {
    pub(in crate::namespaces) sandbox: PreparedSandbox,
    /// Gives the sandbox's key and ends.
    pub(in crate::namespaces) key: OwnedFd,
    /// File for standard output and error.
    pub(in crate::namespaces) log: File,
    pub(in crate::namespaces) rlimits: Vec<Rlimit>,
    pub(in crate::namespaces) argv: Vec<String>,
    pub(in crate::namespaces) env: BTreeMap<String, String>,
}

/// A first process.
#[derive(Debug)]
pub(in crate::namespaces) struct ForkedProcess {
    pub(in crate::namespaces) process: ProcessId,
    /// Exit status as in `waitpid(2)`. Closed without a value if the zygote died first.
    pub(in crate::namespaces) status: oneshot::Receiver<i32>,
}

/// A first process that was asked for. Dropped, it ends.
#[derive(Debug)]
pub(in crate::namespaces) struct Birth {
    order: OwnedFd,
    born: oneshot::Receiver<Result<ForkedProcess, SandboxError>>,
}

impl Birth {
    /// It, and its end of the socket.
    pub(super) fn new(
        cgroups: &[File],
        born: oneshot::Receiver<Result<ForkedProcess, SandboxError>>,
    ) -> Result<(Self, OwnedFd), SandboxError> {
        let pair = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        );
        let (order, theirs) = pair.map_err(|error| failed(&error.into()))?;
        // It is Python, which waits in its own calls.
        rustix::io::ioctl_fionbio(&theirs, false).map_err(|error| failed(&error.into()))?;
        let groups: Vec<_> = cgroups.iter().map(AsFd::as_fd).collect();
        tell(&order, &Join {}, &groups)?;
        Ok((Self { order, born }, theirs))
    }

    /// Has it enter. Blocks; the answer comes within seconds in any case.
    pub(in crate::namespaces) fn enter(self, order: &Order) -> Result<ForkedProcess, SandboxError> {
        let namespaces = order.sandbox.namespaces.iter().map(AsFd::as_fd);
        let fds: Vec<_> = namespaces.chain([order.key.as_fd(), order.log.as_fd()]).collect();
        let told = tell(&self.order, &Enter::new(order), &fds);
        // A process that failed before cannot receive the order, but its zygote says why.
        match (self.born.blocking_recv(), told) {
            (Ok(answer), _) => answer,
            (Err(_), Err(error)) => Err(error),
            (Err(_), Ok(())) => Err(SandboxError::Zygote("it died at work".to_owned())),
        }
    }
}

/// Sends one datagram; there is room for the two that are sent.
fn tell(socket: &OwnedFd, what: &impl Serialize, fds: &[BorrowedFd<'_>]) -> Result<(), SandboxError> {
    let text = serde_json::to_vec(what).map_err(|error| failed(&error.into()))?;
    send_now(socket, &text, fds).map_err(|error| failed(&error))
}

fn failed(error: &io::Error) -> SandboxError {
    SandboxError::Zygote(error.to_string())
}
