//! The sandbox's sleeping zygote: a process that has the kernel's modules loaded already and forks kernels.
//!
//! It is reached by a unix `SEQPACKET` socket that the shim inherits; one JSON object per message, at most 64 KiB. It
//! forks twice, so that the kernel is the shim's child; the first kernel may be a process that waits for it already.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::proc_tree::{self, Process};

/// Most bytes of a message.
const MESSAGE_BYTES: usize = 64 * 1024;
/// For the zygote to fork a kernel.
const ANSWER: Duration = Duration::from_secs(10);
/// A zygote that did not answer in time is watched for so much longer: what it still forks is killed.
const LATE: Duration = Duration::from_mins(1);

/// Request for the zygote.
#[derive(Debug, Serialize)]
#[serde(tag = "op", rename = "start")]
pub(crate) struct Start<'a> {
    /// Path of the connection file.
    pub(crate) connection_file: &'a str,
    /// The complete environment.
    pub(crate) env: &'a BTreeMap<String, String>,
    /// Working directory.
    pub(crate) cwd: &'a str,
    /// Soft and hard limits, by name.
    pub(crate) rlimits: BTreeMap<&'static str, [u64; 2]>,
    /// `oom_score_adj` of the kernel.
    pub(crate) oom_score_adj: i16,
    /// The shim's pid, whose child the kernel becomes and with which it ends.
    pub(crate) parent_pid: u32,
}

/// Response of the zygote.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Answer {
    Started { pid: i32, zygote: Option<Vec<i32>> },
    Failed { error: String, zygote: Option<Vec<i32>> },
}

/// The way to the zygote.
#[derive(Debug)]
pub(crate) struct Zygote {
    /// Absent once it has failed.
    socket: RefCell<Option<Rc<UnixDatagram>>>,
    /// One start at a time: answers do not say what they answer.
    turn: Mutex<()>,
    /// Processes that the zygote reported; before its first response, all processes below the shim at its start.
    processes: RefCell<Vec<Process>>,
}

impl Zygote {
    /// Takes over the shim's end of the socket. Must be called before the first kernel is started.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        // Any socket that keeps messages apart can be used like one for datagrams.
        let socket = std::os::unix::net::UnixDatagram::from(socket);
        socket.set_nonblocking(true)?;
        let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        Ok(Self {
            socket: RefCell::new(Some(Rc::new(UnixDatagram::from_std(socket)?))),
            turn: Mutex::default(),
            processes: RefCell::new(proc_tree::below(own, &HashSet::new())),
        })
    }

    /// Running processes of the zygote.
    pub(crate) fn processes(&self) -> HashSet<i32> {
        let lives = |process: &&Process| {
            proc_tree::read(process.pid).is_some_and(|now| now.started == process.started)
        };
        self.processes
            .borrow()
            .iter()
            .filter(lives)
            .map(|process| process.pid)
            .collect()
    }

    /// Records that the first process may have become a kernel, and another one the zygote.
    fn is_now(&self, pids: Option<Vec<i32>>) {
        if let Some(pids) = pids {
            *self.processes.borrow_mut() = pids.into_iter().filter_map(proc_tree::read).collect();
        }
    }

    /// Has a kernel forked whose standard output and error are `output`. Gives its pid, or the reason why there is
    /// none; a zygote that does not answer is given up.
    pub(crate) async fn start(&self, start: &Start<'_>, output: BorrowedFd<'_>) -> Result<Pid, String> {
        let message = serde_json::to_vec(start).map_err(|error| error.to_string())?;
        if message.len() > MESSAGE_BYTES {
            return Err(format!("the environment is too large: {} bytes", message.len()));
        }
        let _turn = self.turn.lock().await;
        let socket = self.socket.borrow().clone();
        let Some(socket) = socket else {
            return Err("the zygote is gone".into());
        };
        let answer = timeout(ANSWER, async {
            send(&socket, &message, output).await?;
            receive(&socket).await
        });
        match answer.await {
            Ok(Ok(Answer::Started { pid, zygote })) => {
                self.is_now(zygote);
                Pid::from_raw(pid).ok_or_else(|| format!("the zygote names process {pid}"))
            }
            Ok(Ok(Answer::Failed { error, zygote })) => {
                self.is_now(zygote);
                Err(error)
            }
            Ok(Err(error)) => {
                self.socket.borrow_mut().take();
                Err(format!("the zygote is gone: {error}"))
            }
            Err(_) => {
                self.socket.borrow_mut().take();
                tokio::task::spawn_local(kill_late(socket));
                Err(format!("the zygote did not answer within {} s", ANSWER.as_secs()))
            }
        }
    }
}

/// Waits for what a zygote that was given up may still fork. Its own end follows from that of the socket.
async fn kill_late(socket: Rc<UnixDatagram>) {
    if let Ok(Ok(Answer::Started { pid, .. })) = timeout(LATE, receive(&socket)).await
        && let Some(pid) = Pid::from_raw(pid)
    {
        tracing::warn!("a kernel that the zygote started too late is killed");
        let _ = kill_process(pid, Signal::KILL);
    }
}

async fn send(socket: &UnixDatagram, message: &[u8], output: BorrowedFd<'_>) -> io::Result<()> {
    loop {
        socket.writable().await?;
        let sent = socket.try_io(Interest::WRITABLE, || {
            let descriptors = [output, output];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
            let flags = SendFlags::NOSIGNAL;
            Ok(sendmsg(
                socket.as_fd(),
                &[IoSlice::new(message)],
                &mut control,
                flags,
            )?)
        });
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            sent => return sent.map(drop),
        }
    }
}

async fn receive(socket: &UnixDatagram) -> io::Result<Answer> {
    let mut buffer = vec![0; MESSAGE_BYTES];
    loop {
        socket.readable().await?;
        let received = socket.try_io(Interest::READABLE, || {
            Ok(recv(socket.as_fd(), &mut buffer[..], RecvFlags::empty())?)
        });
        match received {
            Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((bytes, _)) => {
                return Ok(serde_json::from_slice(buffer.get(..bytes).unwrap_or_default())?);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}
