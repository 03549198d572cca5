//! `prepare`: a sandbox without a process.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use himalia_jail::seccomp::{Arch, filter};
use himalia_jail::{Failure, NamespaceKind, Plan, PrepareReply, Step};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::failure::AtStep;
use crate::maker::Maker;
use crate::proc;

/// Makes the sandbox and sends its namespaces over `report`, a unix socket.
pub(crate) fn run(plan: &Plan, report: &OwnedFd) -> Result<(), Failure> {
    let filter = filter(Arch::HOST).at(Step::Seccomp, "filter")?;
    // The maker stays until the namespaces are opened.
    let maker = Maker::start(plan, |link| link.receive().map(drop))?;
    let opened: Result<Vec<_>, Failure> = NamespaceKind::ALL
        .iter()
        .map(|kind| maker.namespace(*kind).at(Step::Namespaces, kind.name()))
        .collect();
    maker.wait();
    let opened = opened?;
    let prepared = PrepareReply {
        fds: NamespaceKind::ALL.to_vec(),
        seccomp: STANDARD.encode(filter.to_bytes()),
        setgroups: plan.host_ids.is_some(),
        proc: proc::rules(),
    };
    let mut line = serde_json::to_vec(&prepared).at(Step::Report, "answer")?;
    line.push(b'\n');
    let fds: Vec<BorrowedFd<'_>> = opened.iter().map(AsFd::as_fd).collect();
    send(report, &line, &fds)
}

/// One message with the descriptors, whole: the socket's buffer is far above its size.
fn send(socket: &OwnedFd, line: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Failure> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(NamespaceKind::ALL.len()))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(fds));
    let sent = rustix::io::retry_on_intr(|| {
        sendmsg(socket, &[IoSlice::new(line)], &mut control, SendFlags::NOSIGNAL)
    })
    .at(Step::Report, "sendmsg")?;
    if sent < line.len() {
        return Err(Failure::new(
            Step::Report,
            "the answer did not fit into the socket",
        ));
    }
    Ok(())
}
