//! Calls the binary `himalia-jail`.

use std::fs::File;
use std::io::{self, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt as _, FdMapping};
use himalia_jail::{
    ExecPlan, ExecReply, Failure, HostIds, NamespaceKind, Plan, PrepareReply, ProbeReport, Resize,
    ResizeReply,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SocketFlags,
    SocketType, recvmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::SandboxError;
use crate::host::MARK_VARIABLE;

/// Upper bound of a call's duration; a call usually takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of an answer.
const MAX_ANSWER: usize = 256 << 10;
/// Descriptor of the answer in `himalia-jail`.
const REPORT_FD: i32 = 3;

/// Descriptor of a process of the sandbox that is to be changed.
const PROCESS_FD: i32 = 4;

/// The binary.
#[derive(Clone, Debug)]
pub(super) struct Jail {
    program: PathBuf,
}

/// A sandbox without a process, as `himalia-jail prepare` leaves it.
#[derive(Debug)]
pub(super) struct PreparedSandbox {
    pub(super) prepared: PrepareReply,
    /// In the order of [`PrepareReply::fds`].
    pub(super) namespaces: Vec<OwnedFd>,
}

/// Result of a call.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Answer<T> {
    Failed(Failure),
    Done(T),
}

impl Jail {
    pub(super) fn new(program: &Path) -> Self {
        Self {
            program: program.to_owned(),
        }
    }

    /// Makes a sandbox and starts its first process; gives back its id. `fds` are descriptors with the numbers from 4
    /// on that the plan knows them by; `mark` is in the environment of all that is started; `log` takes what
    /// `himalia-jail` itself has to say. Blocks.
    pub(super) fn exec(
        &self,
        plan: &ExecPlan,
        mark: &str,
        fds: Vec<(OwnedFd, i32)>,
        log: File,
    ) -> Result<i32, SandboxError> {
        let (ours, theirs) = self.channel()?;
        let mut fds = fds;
        fds.push((theirs, REPORT_FD));
        let call = self.call("exec", plan, mark, fds, log)?;
        let (text, _) = call.answer(&ours, &self.program)?;
        let started: ExecReply = self.read(&text)?;
        i32::try_from(started.pid).map_err(|_| self.failed("the process id is out of range"))
    }

    /// Makes a sandbox without a process. Blocks.
    pub(super) fn prepare(
        &self,
        plan: &Plan,
        mark: &str,
        log: File,
    ) -> Result<PreparedSandbox, SandboxError> {
        let (ours, theirs) = self.channel()?;
        let call = self.call("prepare", plan, mark, vec![(theirs, REPORT_FD)], log)?;
        let (text, namespaces) = call.answer(&ours, &self.program)?;
        let prepared: PrepareReply = self.read(&text)?;
        if namespaces.len() != prepared.fds.len() {
            return Err(self.failed("descriptors are missing in the answer"));
        }
        Ok(PreparedSandbox { prepared, namespaces })
    }

    /// Gives file systems in memory of the sandbox of this process other sizes. Blocks.
    pub(super) fn resize(
        &self,
        plan: &Resize,
        mark: &str,
        process: OwnedFd,
        log: File,
    ) -> Result<(), SandboxError> {
        let (ours, theirs) = self.channel()?;
        let fds = vec![(theirs, REPORT_FD), (process, PROCESS_FD)];
        let call = self.call("resize", plan, mark, fds, log)?;
        let (text, _) = call.answer(&ours, &self.program)?;
        self.read::<ResizeReply>(&text).map(drop)
    }

    /// Tries whether there can be sandboxes, as root with these ids. Blocks.
    pub(super) fn probe(&self, ids: Option<HostIds>) -> Result<ProbeReport, SandboxError> {
        let mut command = Command::new(&self.program);
        command.arg("probe");
        if let Some(ids) = ids {
            command.arg("--host-uid").arg(ids.uid.to_string());
            command.arg("--host-gid").arg(ids.gid.to_string());
        }
        let output = command
            .env_clear()
            .stdin(Stdio::null())
            .output()
            .map_err(|source| self.spawn_error(source))?;
        serde_json::from_slice(&output.stdout).map_err(|error| {
            let said = String::from_utf8_lossy(&output.stderr);
            self.failed(format!("{}: {error}; it said: {}", output.status, said.trim()))
        })
    }

    fn channel(&self) -> Result<(OwnedFd, OwnedFd), SandboxError> {
        socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|error| self.spawn_error(error.into()))
    }

    fn call(
        &self,
        verb: &str,
        plan: &impl Serialize,
        mark: &str,
        fds: Vec<(OwnedFd, i32)>,
        log: File,
    ) -> Result<Call, SandboxError> {
        let plan = serde_json::to_vec(plan).map_err(|error| self.failed(error))?;
        let mappings = fds
            .into_iter()
            .map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd })
            .collect();
        let mut command = Command::new(&self.program);
        command
            .arg(verb)
            .env_clear()
            .env(MARK_VARIABLE, mark)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .fd_mappings(mappings)
            .map_err(|error| self.failed(error))?;
        let mut child = command.spawn().map_err(|source| self.spawn_error(source))?;
        // Our copies of its descriptors go with the command: else the end of its answer would not be seen.
        drop(command);
        let stdin = child.stdin.take();
        let call = Call { child };
        // It reads to the end before it does anything else, so this cannot block for ever.
        let written = stdin.map(|mut stdin: ChildStdin| stdin.write_all(&plan));
        match written {
            // It ended early; its answer says why.
            Some(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Err(self.spawn_error(error)),
            _ => Ok(call),
        }
    }

    fn read<T: DeserializeOwned>(&self, text: &[u8]) -> Result<T, SandboxError> {
        match serde_json::from_slice(text) {
            Ok(Answer::Done(answer)) => Ok(answer),
            Ok(Answer::Failed(failure)) => Err(SandboxError::Jail(failure.to_string())),
            Err(error) => Err(self.failed(format!("unreadable reply from himalia-jail: {error}"))),
        }
    }

    fn failed(&self, reason: impl std::fmt::Display) -> SandboxError {
        self.spawn_error(io::Error::other(reason.to_string()))
    }

    fn spawn_error(&self, source: io::Error) -> SandboxError {
        SandboxError::Spawn {
            program: self.program.clone(),
            source,
        }
    }
}

/// A running `himalia-jail`. Dropped, it is killed and reaped.
struct Call {
    child: Child,
}

impl Call {
    /// Takes the answer and waits for the end.
    fn answer(mut self, socket: &OwnedFd, program: &Path) -> Result<(Vec<u8>, Vec<OwnedFd>), SandboxError> {
        let taken = receive(socket, Instant::now() + PATIENCE);
        let answer = taken.map_err(|source| SandboxError::Spawn {
            program: program.to_owned(),
            source,
        })?;
        let _ = self.child.wait();
        Ok(answer)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One message with its descriptors.
fn receive(socket: &OwnedFd, deadline: Instant) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer"));
        }
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => break,
            Err(error) => return Err(error.into()),
        }
    }
    receive_now(socket)
}

/// One message with its descriptors from a socket that has one, or is closed.
pub(super) fn receive_now(socket: impl AsFd) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut text = vec![0; MAX_ANSWER];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(NamespaceKind::ALL.len()))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut text)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let fds = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    if message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::other("a message that is too long"));
    }
    if message.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    text.truncate(message.bytes);
    Ok((text, fds))
}

/// A pipe that no child inherits.
pub(super) fn pipe() -> io::Result<(OwnedFd, File)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    Ok((read, File::from(write)))
}

/// Runs a program in a sandbox and waits until it has closed its output; gives back what it printed, at most 64 KiB.
pub(super) fn output(read: OwnedFd) -> io::Result<String> {
    let mut text = String::new();
    let deadline = Instant::now() + PATIENCE;
    let mut file = File::from(read).take(64 << 10);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(file.get_ref(), PollFlags::IN)], Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => {
                let mut part = [0; 4096];
                let length = file.read(&mut part)?;
                if length == 0 {
                    return Ok(text);
                }
                text.push_str(&String::from_utf8_lossy(&part[..length]));
            }
            Err(error) => return Err(error.into()),
        }
    }
}
