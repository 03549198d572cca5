//! A zygote's process and the socket to it.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use command_fds::{CommandFdExt as _, FdMapping};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
    socketpair,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::home::Home;
use crate::host::log::{bound_log, open_log};
use crate::host::watch::watchable;
use crate::namespaces::jail::receive_now;
use crate::{SandboxError, ZygoteSpec};

/// Descriptor of the socket in the zygote.
const CONTROL_FD: i32 = 3;
/// Longest time from the close of a zygote's socket to its end.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two looks at an ending zygote.
const PAUSE: Duration = Duration::from_millis(10);
/// Descriptors that one message may carry: namespaces, key and log, or groups.
const MAX_FDS: usize = 16;

/// Shared settings of all zygotes.
#[derive(Clone, Debug)]
pub(in crate::namespaces) struct Surroundings {
    /// The directory that holds the Python package `himalia_kernel`.
    pub(in crate::namespaces) kernel_package_dir: PathBuf,
    /// The directory for the homes of zygotes.
    pub(in crate::namespaces) homes: PathBuf,
    /// File for the output of zygotes.
    pub(in crate::namespaces) log: PathBuf,
    /// The gateway's own directories, resolved: sandboxes write below them, so no program is taken from there.
    pub(in crate::namespaces) private: Vec<PathBuf>,
}

/// A running zygote. Dropped, its socket closes, on which it ends.
#[derive(Debug)]
pub(super) struct ZygoteProcess {
    socket: AsyncFd<OwnedFd>,
    child: Option<Child>,
    /// Removed when it is ready, or has ended.
    home: Option<Home>,
}

impl ZygoteProcess {
    /// Starts `<python> -P -m himalia_kernel.zygote --control-fd 3` in the gateway's own namespaces, if only root and
    /// this user can have put the program there. Blocks, and needs the runtime.
    pub(super) fn start(spec: &ZygoteSpec, surroundings: &Surroundings) -> Result<Self, SandboxError> {
        let failed = |source: io::Error| SandboxError::Spawn {
            program: spec.python.clone(),
            source,
        };
        super::trust::check(&spec.python, &surroundings.private)
            .map_err(|reason| failed(io::Error::new(io::ErrorKind::PermissionDenied, reason)))?;
        let home = Home::make(&surroundings.homes)?;
        bound_log(&surroundings.log);
        let log = open_log(&surroundings.log)?;
        let errors = log.try_clone().map_err(failed)?;
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|error| failed(error.into()))?;
        rustix::io::ioctl_fionbio(&ours, true).map_err(|error| failed(error.into()))?;
        let socket = watchable(ours, Interest::READABLE | Interest::WRITABLE)
            .ok_or_else(|| failed(io::Error::other("its socket cannot be watched")))?;
        let mut command = Command::new(&spec.python);
        command
            .args(["-P", "-m", "himalia_kernel.zygote", "--control-fd"])
            .arg(CONTROL_FD.to_string())
            .env_clear()
            .envs(home.env(&spec.env))
            .env("PYTHONPATH", python_path(spec, &surroundings.kernel_package_dir))
            .env("HIMALIA_PRELOAD", spec.preload.join(","))
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .fd_mappings(vec![FdMapping {
                parent_fd: theirs,
                child_fd: CONTROL_FD,
            }])
            .map_err(|error| failed(io::Error::other(error)))?;
        let child = command.spawn().map_err(failed)?;
        Ok(Self {
            socket,
            child: Some(child),
            home: Some(home),
        })
    }

    /// Removes its home directory: once it is ready it uses that no more. Blocks.
    pub(super) fn leave_home(&mut self) {
        self.home = None;
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The next datagram. An error is the end of the zygote. Safe to cancel: nothing is lost.
    pub(super) async fn receive(&self) -> io::Result<Vec<u8>> {
        let read = |socket: &OwnedFd| receive_now(socket).map(|(text, _)| text);
        self.socket.async_io(Interest::READABLE, read).await
    }

    /// Sends a datagram with descriptors; waits while the zygote has no room for it.
    pub(super) async fn send(&self, text: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let send = |socket: &OwnedFd| send_now(socket, text, fds);
        self.socket.async_io(Interest::WRITABLE, send).await
    }
}

/// Sends a datagram with descriptors over a socket that does not block.
pub(super) fn send_now(socket: &OwnedFd, text: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    if fds.len() > MAX_FDS || text.len() > super::protocol::MAX_MESSAGE {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a request that is too long",
        ));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(fds));
    let flags = SendFlags::NOSIGNAL;
    Ok(sendmsg(socket.as_fd(), &[IoSlice::new(text)], &mut control, flags).map(drop)?)
}

impl Drop for ZygoteProcess {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        if let Some(home) = self.home.take() {
            // It still loads modules, and would make files in its home directory.
            let _ = child.kill();
            let _ = child.wait();
            drop(home);
            return;
        }
        let end = move || {
            let mut left = PATIENCE;
            while matches!(child.try_wait(), Ok(None)) {
                if left.is_zero() {
                    let _ = child.kill();
                    let _ = child.wait();
                    return;
                }
                std::thread::sleep(PAUSE);
                left = left.saturating_sub(PAUSE);
            }
        };
        // The socket closes when this function has returned; the thread continues to reap.
        if std::thread::Builder::new()
            .name("zygote-end".into())
            .spawn(end)
            .is_err()
        {
            tracing::warn!("no thread to wait for the end of a zygote");
        }
    }
}

fn python_path(spec: &ZygoteSpec, kernel_package_dir: &Path) -> String {
    let own = kernel_package_dir.display();
    match spec.env.get("PYTHONPATH").filter(|path| !path.is_empty()) {
        Some(path) => format!("{own}:{path}"),
        None => own.to_string(),
    }
}
