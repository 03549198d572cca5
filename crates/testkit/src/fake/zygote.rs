//! A zygote as small as a test of the shim needs it: it starts fake kernels, forked twice.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::ValueEnum;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, SocketType,
    recvmsg, send, socketpair,
};
use serde_json::{Value, json};

use super::branch;

/// What the zygote does when it is asked for a kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ZygoteMode {
    /// Starts it.
    Ok,
    /// Says that it cannot.
    Fail,
    /// Ends itself.
    Die,
    /// Starts one that has ended before the answer.
    Stillborn,
}

/// The first process of a sandbox, before it becomes the shim: starts the zygote, then executes `shim` (program and
/// arguments) with `--zygote-fd` and `--key-fd`; the key is read from the file `key`. Returns only on failure.
pub fn become_shim(mode: &str, key: &Path, shim: &[String]) -> io::Error {
    match prepare(mode, key, shim) {
        Ok(mut command) => command.exec(),
        Err(error) => error,
    }
}

fn prepare(mode: &str, key: &Path, shim: &[String]) -> io::Result<Command> {
    // Inherited over exec: no CLOEXEC.
    let flags = SocketFlags::empty();
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC)?;
    let zygote = Command::new(std::env::current_exe()?)
        .args(["--zygote", mode])
        .stdin(theirs)
        .stdout(Stdio::null())
        .spawn()?;
    drop(zygote);
    rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::empty())?;
    let (read, mut write) = io::pipe()?;
    write.write_all(&std::fs::read(key)?)?;
    drop(write);
    let read = OwnedFd::from(read);
    rustix::io::fcntl_setfd(&read, rustix::io::FdFlags::empty())?;
    let (program, arguments) = shim.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .arg(format!("--zygote-fd={}", ours.as_raw_fd()))
        .arg(format!("--key-fd={}", read.as_raw_fd()));
    // They live on in the program.
    std::mem::forget((ours, read));
    Ok(command)
}

/// Runs the zygote; the socket is standard input.
///
/// # Errors
/// When the socket fails.
pub fn run(mode: ZygoteMode) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let slices = &mut [IoSliceMut::new(&mut buffer)];
        let received = recvmsg(
            rustix::stdio::stdin(),
            slices,
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        if received.bytes == 0 || mode == ZygoteMode::Die {
            return Ok(());
        }
        let descriptors: Vec<OwnedFd> = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            })
            .flatten()
            .collect();
        let asked: Value = serde_json::from_slice(&buffer[..received.bytes])?;
        let answer = start(mode, &asked, descriptors);
        send(
            rustix::stdio::stdin(),
            answer.to_string().as_bytes(),
            SendFlags::NOSIGNAL,
        )?;
    }
}

fn start(mode: ZygoteMode, asked: &Value, mut descriptors: Vec<OwnedFd>) -> Value {
    let failed = |error: &str| json!({"op": "failed", "error": error});
    if mode == ZygoteMode::Fail {
        return failed("told to fail");
    }
    let shim = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get());
    // All that the contract has, and nothing else.
    let mut names: Vec<&str> = asked
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| &name[..])
        .collect();
    names.sort_unstable();
    if asked["op"] != "start"
        || names
            != [
                "connection_file",
                "cwd",
                "env",
                "oom_score_adj",
                "op",
                "parent_pid",
                "rlimits",
            ]
        || asked["parent_pid"] != json!(shim)
        || descriptors.len() != 2
    {
        return failed(&format!(
            "not a start: {names:?}, {} descriptors",
            descriptors.len()
        ));
    }
    let mut env: BTreeMap<String, String> = serde_json::from_value(asked["env"].clone()).unwrap_or_default();
    env.insert("FROM_ZYGOTE".into(), asked["rlimits"].to_string());
    let file = asked["connection_file"].as_str().unwrap_or_default();
    let mut arguments = vec!["-f", file];
    if mode == ZygoteMode::Stillborn {
        arguments.extend(["--exit-at-start", "5"]);
    }
    let cwd = asked["cwd"].as_str().map(Path::new);
    let output = descriptors.pop().map_or_else(Stdio::null, Stdio::from);
    match branch::launch(&arguments, &env, cwd, output) {
        Ok(pid) => json!({"op": "started", "pid": pid}),
        Err(error) => failed(&error.to_string()),
    }
}
