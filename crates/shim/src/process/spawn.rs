//! The start of a command: its pipes or its terminal, and the step that becomes it.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use himalia_shim_protocol::{KernelSpec, RunProcess, TerminalSize};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::Pid;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::exec_kernel::{Input, MODE, Plan};
use crate::kernel::{own_program, send_plan};

/// A command that was just forked. It must be watched before anything is awaited.
pub(super) struct SpawnedCommand {
    pub(super) pid: Pid,
    /// Source of a start error; it is closed when the program runs.
    pub(super) report: UnixStream,
    /// Standard input, if the command has one.
    pub(super) input: Option<OwnedFd>,
    pub(super) output: Output,
}

/// Destination of a command's output.
pub(super) enum Output {
    /// Standard output and standard error.
    Pipes(OwnedFd, OwnedFd),
    /// The other end of its terminal, for reading.
    Terminal(OwnedFd),
}

pub(super) fn spawn(spec: &KernelSpec, work_dir: &Path, task: RunProcess) -> io::Result<SpawnedCommand> {
    let RunProcess {
        argv,
        env,
        cwd,
        stdin,
        terminal,
    } = task;
    let mut all = spec.env.clone();
    all.extend(env);
    let plan = Plan {
        argv,
        env: all,
        cwd: directory(work_dir, cwd.as_deref()),
        limits: spec.limits,
        parent: i32::try_from(std::process::id()).unwrap_or(0),
        input: match (&terminal, stdin) {
            (Some(_), _) => Input::Terminal,
            (None, true) => Input::Given,
            (None, false) => Input::Nothing,
        },
    };
    let plan = serde_json::to_vec(&plan)?;
    let (report, theirs) = UnixStream::pair()?;
    let mut command = Command::new(own_program());
    command.arg(MODE).env_clear().stdin(OwnedFd::from(theirs));
    let (input, output) = match terminal {
        Some(size) => attach_terminal(&mut command, size)?,
        None => (None, attach_pipes(&mut command)?),
    };
    let (input, given) = match input {
        None if stdin => {
            let (read, write) = io::pipe()?;
            (Some(OwnedFd::from(write)), Some(OwnedFd::from(read)))
        }
        input => (input, None),
    };
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("no pid"))?;
    // The reaper waits for it, not this handle.
    drop(child);
    let plan = match given {
        Some(given) => {
            let (first, rest) = plan.split_at(1);
            send_with(&report, first, &given)?;
            rest.to_vec()
        }
        None => plan,
    };
    report.set_nonblocking(true)?;
    send_plan(&report, plan)?;
    Ok(SpawnedCommand {
        pid,
        report,
        input,
        output,
    })
}

/// The directory of a command: below the work directory, unless it is absolute.
fn directory(work_dir: &Path, wanted: Option<&str>) -> String {
    let directory = work_dir.join(wanted.unwrap_or_default());
    directory.to_string_lossy().into_owned()
}

/// Sends bytes together with a descriptor.
fn send_with(socket: &UnixStream, bytes: &[u8], descriptor: &OwnedFd) -> io::Result<()> {
    let descriptors = [descriptor.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn attach_pipes(command: &mut Command) -> io::Result<Output> {
    let (output, output_write) = io::pipe()?;
    let (errors, errors_write) = io::pipe()?;
    command.stdout(output_write).stderr(errors_write);
    Ok(Output::Pipes(output.into(), errors.into()))
}

fn attach_terminal(command: &mut Command, size: TerminalSize) -> io::Result<(Option<OwnedFd>, Output)> {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&controller)?;
    unlockpt(&controller)?;
    resize(&controller, size)?;
    let user = user_end(&controller)?;
    command
        .stdout(Stdio::from(user.try_clone()?))
        .stderr(Stdio::from(user));
    ioctl_fionbio(&controller, true)?;
    Ok((Some(controller.try_clone()?), Output::Terminal(controller)))
}

/// The end of a terminal that programs have.
fn user_end(controller: &OwnedFd) -> io::Result<OwnedFd> {
    let by_call = ioctl_tiocgptpeer(
        controller,
        OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC,
    );
    match by_call {
        // gVisor has names alone.
        Err(Errno::NOTTY | Errno::INVAL) => {
            let name = ptsname(controller, Vec::new())?;
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            Ok(open(name, flags, Mode::empty())?)
        }
        user => Ok(user?),
    }
}

/// Gives a terminal its size.
pub(super) fn resize(terminal: &OwnedFd, size: TerminalSize) -> io::Result<()> {
    let size = Winsize {
        ws_row: size.rows,
        ws_col: size.cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(tcsetwinsize(terminal, size)?)
}
