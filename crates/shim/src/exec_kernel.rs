//! The step between the shim and a kernel: the same binary, run as `himalia-shim exec-kernel`, sets up its own process
//! and becomes the kernel. So nothing runs between fork and exec in the shim, and no unsafe code is needed.
//!
//! Standard input is a socket: the plan comes in as JSON, up to its end; an error goes out as one line. On success the
//! socket is closed by exec.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use himalia_shim_protocol::ResourceLimits;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{
    Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit, setsid,
};
use serde::{Deserialize, Serialize};

/// First argument that selects this mode.
pub(crate) const MODE: &str = "exec-kernel";
/// Exit code when the kernel could not be executed.
const FAILED: u8 = 127;
/// `oom_score_adj` when the plan names none.
pub(crate) const OOM_SCORE_ADJ: i16 = 500;

/// Description of the process to execute.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) argv: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: String,
    pub(crate) limits: ResourceLimits,
    /// The shim's pid; when the parent is another process the shim is dead already.
    pub(crate) parent: i32,
    /// Standard input of the process.
    pub(crate) input: Input,
}

/// Standard input of a process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Input {
    /// The end.
    Nothing,
    /// The descriptor that is sent with the plan.
    Given,
    /// The terminal that is also its standard output.
    Terminal,
}

/// Becomes the kernel; returns only on failure.
pub(crate) fn run() -> ExitCode {
    match prepare() {
        Ok((plan, given, mut report)) => {
            let error = become_kernel(&plan, given);
            // The shim may be gone: then there is no process to tell.
            let _ = report.write_all(error.as_bytes());
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "himalia-shim exec-kernel: {error}");
        }
    }
    ExitCode::from(FAILED)
}

/// Moves the socket away from standard input, to a descriptor that exec closes, and reads the plan.
fn prepare() -> io::Result<(Plan, Option<OwnedFd>, UnixStream)> {
    let mut report = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?);
    rustix::stdio::dup2_stdin(nothing()?)?;
    let (mut plan, given) = first(&report)?;
    report.read_to_end(&mut plan)?;
    Ok((serde_json::from_slice(&plan)?, given, report))
}

/// The first byte of the plan, and a descriptor that may come with it.
fn first(report: &UnixStream) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        report,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let given = descriptors.flatten().next();
    Ok((byte[..received.bytes.min(1)].to_vec(), given))
}

/// `/dev/null`, or in a root without it a pipe at its end.
fn nothing() -> io::Result<OwnedFd> {
    match File::open("/dev/null") {
        Ok(file) => Ok(file.into()),
        Err(_) => Ok(io::pipe()?.0.into()),
    }
}

fn become_kernel(plan: &Plan, given: Option<OwnedFd>) -> String {
    if let Err(error) = set_up(plan) {
        return error;
    }
    if let Err(error) = read_from(plan.input, given) {
        return format!("input: {error}");
    }
    let Some((program, arguments)) = plan.argv.split_first() else {
        return "argv is empty".into();
    };
    let error = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(&plan.env)
        .exec();
    format!("{program}: {error}")
}

fn set_up(plan: &Plan) -> Result<(), String> {
    let step =
        |name: &str, result: rustix::io::Result<()>| result.map_err(|error| format!("{name}: {error}"));
    // The shim blocks the signals that it takes.
    nix::sys::signal::SigSet::empty()
        .thread_set_mask()
        .map_err(|error| format!("signal mask: {error}"))?;
    step("setsid", setsid().map(drop))?;
    step(
        "PR_SET_PDEATHSIG",
        set_parent_process_death_signal(Some(Signal::KILL)),
    )?;
    if getppid().map(|parent| parent.as_raw_nonzero().get()) != Some(plan.parent) {
        return Err("the shim is gone".into());
    }
    std::env::set_current_dir(&plan.cwd)
        .map_err(|error| format!("working directory {}: {error}", plan.cwd))?;
    raise_oom_score(plan.limits.oom_score_adj.unwrap_or(OOM_SCORE_ADJ));
    // The shim's own soft limit is not the kernel's.
    let data = getrlimit(Resource::Data);
    step(
        "RLIMIT_DATA",
        setrlimit(
            Resource::Data,
            Rlimit {
                current: data.maximum,
                maximum: data.maximum,
            },
        ),
    )?;
    let limits = [
        ("RLIMIT_NOFILE", Resource::Nofile, plan.limits.open_files),
        ("RLIMIT_NPROC", Resource::Nproc, plan.limits.processes),
        ("RLIMIT_CORE", Resource::Core, plan.limits.core_bytes),
        ("RLIMIT_FSIZE", Resource::Fsize, plan.limits.file_bytes),
        ("RLIMIT_DATA", Resource::Data, plan.limits.data_bytes),
        ("RLIMIT_CPU", Resource::Cpu, plan.limits.cpu_seconds),
    ];
    for (name, resource, value) in limits {
        if let Some(value) = value {
            // A hard limit below the wanted one stays what it is.
            let hard = getrlimit(resource).maximum;
            let value = hard.map_or(value, |hard| value.min(hard));
            step(
                name,
                setrlimit(
                    resource,
                    Rlimit {
                        current: Some(value),
                        maximum: Some(value),
                    },
                ),
            )?;
        }
    }
    Ok(())
}

/// Puts in the place of standard input what the process reads.
fn read_from(input: Input, given: Option<OwnedFd>) -> io::Result<()> {
    match input {
        Input::Nothing => {}
        Input::Given => {
            let given = given.ok_or_else(|| io::Error::other("it did not come"))?;
            rustix::stdio::dup2_stdin(&given)?;
        }
        Input::Terminal => {
            rustix::stdio::dup2_stdin(io::stdout())?;
            rustix::process::ioctl_tiocsctty(io::stdin())?;
        }
    }
    Ok(())
}

/// Makes the kernel a likelier victim than the shim. Where `/proc` is not writable the scores stay equal.
fn raise_oom_score(wanted: i16) {
    let path = "/proc/self/oom_score_adj";
    let own = std::fs::read_to_string(path)
        .ok()
        .and_then(|text| text.trim().parse::<i16>().ok());
    let _ = std::fs::write(path, wanted.max(own.unwrap_or(0)).min(1000).to_string());
}
