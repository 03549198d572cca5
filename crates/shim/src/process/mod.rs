//! Commands beside the kernels: each a process of its own, on a stream of its own.
//!
//! A command is in the sandbox what a kernel is: a child of the shim, with the limits and the variables of the session. Its stream
//! carries its input and output for as long as it runs. When the stream ends before it, it is killed with its whole group, so that
//! no command is left that no caller can reach.

mod relay;
mod spawn;

use std::path::Path;

use himalia_link::Gateway;
use himalia_shim_protocol::{Hello, KernelSpec, RunProcess, StreamFailure};
use tokio::sync::OwnedSemaphorePermit;

use crate::reaper::Reaper;
use relay::Relay;

/// Most commands at once.
pub(crate) const PROCESSES_MAX: usize = 64;
/// Stack of a command's thread, in bytes.
const STACK_BYTES: usize = 256 << 10;

/// Destination of a command's stream.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) gateway: Gateway,
    pub(crate) link: String,
    pub(crate) hello: Hello,
}

/// Starts a command as a process of the session whose kernel is `spec`. Whatever comes of it is said on its stream; an error
/// means that there will be none. `permit` is its place among [`PROCESSES_MAX`].
///
/// # Errors
/// A code and one line.
pub(crate) fn start(
    reaper: &Reaper,
    spec: &KernelSpec,
    work_dir: &Path,
    task: RunProcess,
    target: Target,
    permit: OwnedSemaphorePermit,
) -> Result<(), (StreamFailure, String)> {
    let failed = |error: std::io::Error| {
        (
            StreamFailure::Failed,
            format!("the command was not started: {error}"),
        )
    };
    let spawned = spawn::spawn(spec, work_dir, task).map_err(failed)?;
    let death = reaper.watch(spawned.pid);
    let thread = std::thread::Builder::new()
        .name("command".to_owned())
        .stack_size(STACK_BYTES);
    let run = move || {
        Relay::run(spawned, death, target);
        drop(permit);
    };
    thread.spawn(run).map(drop).map_err(failed)
}
