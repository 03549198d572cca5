use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use himalia_shim_protocol::{KernelSpec, ResourceLimits};
use himalia_wire::ConnectionFile;
use rustix::process::{Pid, Resource, getrlimit};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::output::Tail;
use crate::exec_kernel::{Input, MODE, OOM_SCORE_ADJ, Plan};
use crate::random::random_u64;
use crate::reaper::{Death, Reaper};
use crate::zygote::{self, Zygote};

/// For the step between the shim and the kernel.
const EXEC: Duration = Duration::from_secs(10);

/// A process that was just forked.
pub(super) struct SpawnedKernel {
    pub(super) pid: Pid,
    pub(super) output: pipe::Receiver,
    report: UnixStream,
}

/// Makes the directory of a kernel, its connection file and, the first time, its key; removes old sockets.
pub(crate) fn prepare(
    dir: &Path,
    spec: &KernelSpec,
    before: Option<ConnectionFile>,
) -> Result<ConnectionFile, String> {
    let failed = |error: io::Error| format!("{}: {error}", dir.display());
    fs::create_dir_all(dir).map_err(failed)?;
    for entry in fs::read_dir(dir).map_err(failed)?.flatten() {
        let _ = fs::remove_file(entry.path());
    }
    let mut file = match before {
        Some(file) => file,
        None => ConnectionFile::new_ipc(
            dir,
            &new_key().map_err(|error| format!("no random numbers: {error}"))?,
        )
        .map_err(|error| error.to_string())?,
    };
    file.kernel_name = (!spec.kernel_name.is_empty()).then(|| spec.kernel_name.clone());
    let json = file.to_json().map_err(|error| error.to_string())?;
    let path = dir.join("connection.json");
    let mut out = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    out.write_all(&json).map_err(failed)?;
    Ok(file)
}

fn new_key() -> io::Result<String> {
    Ok(format!(
        "{:016x}{:016x}{:016x}{:016x}",
        random_u64()?,
        random_u64()?,
        random_u64()?,
        random_u64()?
    ))
}

/// Has the zygote fork the kernel. It is our child, watched from here on.
pub(super) async fn fork(
    zygote: &Zygote,
    reaper: &Reaper,
    dir: &Path,
    spec: &KernelSpec,
    tail: &Tail,
) -> Result<(Pid, oneshot::Receiver<Death>), String> {
    let failed = |error: io::Error| error.to_string();
    let connection_file = connection_path(dir);
    let start = zygote::Start {
        connection_file: &connection_file,
        env: &spec.env,
        cwd: &spec.cwd,
        rlimits: rlimits(&spec.limits),
        oom_score_adj: spec.limits.oom_score_adj.unwrap_or(OOM_SCORE_ADJ),
        parent_pid: std::process::id(),
    };
    let (output, write) = io::pipe().map_err(failed)?;
    let output = pipe::Receiver::from_owned_fd(output.into()).map_err(failed)?;
    let pid = zygote.start(&start, write.as_fd()).await?;
    let Some(death) = reaper.adopt(pid).await else {
        return Err("the zygote names a process that is not our child".into());
    };
    tokio::task::spawn_local(tail.follow(output));
    Ok((pid, death))
}

/// Limits as the zygote wants them: never above our own hard limits, which it has inherited too.
fn rlimits(limits: &ResourceLimits) -> BTreeMap<&'static str, [u64; 2]> {
    let named = [
        ("RLIMIT_NOFILE", Resource::Nofile, limits.open_files),
        ("RLIMIT_NPROC", Resource::Nproc, limits.processes),
        ("RLIMIT_CORE", Resource::Core, limits.core_bytes),
        ("RLIMIT_FSIZE", Resource::Fsize, limits.file_bytes),
        ("RLIMIT_DATA", Resource::Data, limits.data_bytes),
        ("RLIMIT_CPU", Resource::Cpu, limits.cpu_seconds),
    ];
    let bounded = named.into_iter().filter_map(|(name, resource, value)| {
        let hard = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let value = value?.min(hard);
        Some((name, [value, value]))
    });
    bounded.collect()
}

fn connection_path(dir: &Path) -> String {
    dir.join("connection.json").to_string_lossy().into_owned()
}

/// Forks the step to the kernel. The caller must watch the pid before it awaits anything.
pub(super) fn spawn(dir: &Path, spec: &KernelSpec) -> io::Result<SpawnedKernel> {
    let connection = connection_path(dir);
    let plan = Plan {
        argv: spec
            .argv
            .iter()
            .map(|argument| argument.replace("{connection_file}", &connection))
            .collect(),
        env: spec.env.clone(),
        cwd: spec.cwd.clone(),
        limits: spec.limits,
        parent: i32::try_from(std::process::id()).unwrap_or(0),
        input: Input::Nothing,
    };
    let plan = serde_json::to_vec(&plan)?;
    let (report, theirs) = UnixStream::pair()?;
    let (output, write) = io::pipe()?;
    let both = write.try_clone()?;
    let child = Command::new(own_program())
        .arg(MODE)
        .env_clear()
        .stdin(OwnedFd::from(theirs))
        .stdout(write)
        .stderr(both)
        .spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("no pid"))?;
    // The reaper waits for it, not this handle.
    drop(child);
    report.set_nonblocking(true)?;
    send_plan(&report, plan)?;
    Ok(SpawnedKernel {
        pid,
        output: pipe::Receiver::from_owned_fd(output.into())?,
        report,
    })
}

/// The same binary, also when the file was replaced since.
pub(crate) fn own_program() -> std::path::PathBuf {
    let link = Path::new("/proc/self/exe");
    if link.exists() {
        return link.to_owned();
    }
    std::env::current_exe()
        .ok()
        .or_else(|| std::env::args_os().next().map(Into::into))
        .unwrap_or_else(|| link.to_owned())
}

/// Writes the plan from a task of its own: an environment can be larger than the socket's buffer.
pub(crate) fn send_plan(report: &UnixStream, plan: Vec<u8>) -> io::Result<()> {
    let mut socket = tokio::net::UnixStream::from_std(report.try_clone()?)?;
    tokio::task::spawn_local(async move {
        use tokio::io::AsyncWriteExt;
        // A reader that has died is reported by its exit.
        let _ = socket.write_all(&plan).await;
        let _ = socket.shutdown().await;
    });
    Ok(())
}

impl SpawnedKernel {
    /// Waits until the kernel's program runs. The error says why it does not.
    pub(super) async fn executed(self, tail: &Tail) -> Result<(), String> {
        tokio::task::spawn_local(tail.follow(self.output));
        let mut socket = tokio::net::UnixStream::from_std(self.report).map_err(|error| error.to_string())?;
        let mut error = String::new();
        match timeout(EXEC, socket.read_to_string(&mut error)).await {
            Ok(Ok(0)) => Ok(()),
            Ok(Ok(_)) => Err(error),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("it was not executed within {} s", EXEC.as_secs())),
        }
    }
}
