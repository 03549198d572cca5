//! Messages between the processes that create a sandbox, over a socket pair, one datagram each.

use std::os::fd::OwnedFd;

use himalia_jail::{Failure, Step};
use rustix::io::retry_on_intr;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use serde::{Deserialize, Serialize};

use crate::failure::AtStep;

/// Longest note, in bytes. An error text with two paths of full length fits.
const MAX_NOTE_BYTES: usize = 16 << 10;

/// Message between the processes of the jail.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum Note {
    /// From the maker: it is in its user namespace and waits for ids.
    MapIds,
    /// To the maker: continue.
    Go,
    /// From the maker: the sandbox stands.
    Ready,
    /// From the maker: the sandbox's first process has this id. It may have failed since.
    FirstProcess(u32),
    /// From the maker or the first process: the end.
    Failed(Failure),
}

/// One end.
#[derive(Debug)]
pub(crate) struct Link(OwnedFd);

impl Link {
    /// Two ends. `execve` closes them.
    pub(crate) fn pair() -> Result<(Self, Self), Failure> {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (near, far) =
            socketpair(AddressFamily::UNIX, kind, flags, None).at(Step::Process, "socketpair")?;
        Ok((Self(near), Self(far)))
    }

    pub(crate) fn send(&self, note: &Note) -> Result<(), Failure> {
        let text = serde_json::to_vec(note).at(Step::Process, "note")?;
        retry_on_intr(|| send(&self.0, &text, SendFlags::NOSIGNAL)).at(Step::Process, "send")?;
        Ok(())
    }

    /// The next note; `None` when all other ends are closed.
    pub(crate) fn receive(&self) -> Result<Option<Note>, Failure> {
        let mut buffer = vec![0; MAX_NOTE_BYTES];
        let (length, _) = retry_on_intr(|| recv(&self.0, buffer.as_mut_slice(), RecvFlags::empty()))
            .at(Step::Process, "receive")?;
        if length == 0 {
            return Ok(None);
        }
        serde_json::from_slice(&buffer[..length])
            .map(Some)
            .at(Step::Process, "note")
    }

    /// Waits for [`Note::Go`].
    pub(crate) fn wait_for_go(&self) -> Result<(), Failure> {
        match self.receive()? {
            Some(Note::Go) => Ok(()),
            other => Err(Failure::new(
                Step::Process,
                format_args!("waited for the word to continue, got {other:?}"),
            )),
        }
    }
}
