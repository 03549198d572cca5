//! The shim's process.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::config::LocalConfig;
use crate::host::MARK_VARIABLE;
use crate::host::log::open_log;
use crate::{SandboxError, SandboxSpec};

/// Starts `himalia-shim --gateway-dir <dir> --runtime-dir <dir>` and the options that are set.
///
/// It gets `PATH`, `LANG` and the mark, nothing else of the gateway's environment, no input, the log for its output, `/`
/// as its directory, and a process group of its own, so that no signal of the gateway's terminal reaches it. (A session
/// of its own would need code between fork and exec.)
pub(super) fn spawn(
    config: &LocalConfig,
    spec: &SandboxSpec,
    gateway_dir: &Path,
    runtime_dir: &Path,
    log: &Path,
    mark: &str,
) -> Result<Child, SandboxError> {
    let output = open_log(log)?;
    let errors = output.try_clone().map_err(|error| SandboxError::io(log, error))?;
    let mut command = Command::new(&config.shim);
    command
        .arg("--gateway-dir")
        .arg(gateway_dir)
        .arg("--runtime-dir")
        .arg(runtime_dir);
    if let Some(ttl) = spec.orphan_ttl {
        command.arg("--orphan-ttl").arg(ttl.as_secs().max(1).to_string());
    }
    if let Some(dir) = &config.spill_dir {
        command.arg("--spill-dir").arg(dir);
    }
    if let Some(bytes) = config.shim_memory_bytes {
        command.arg("--memory-limit").arg(bytes.to_string());
    }
    command
        .env_clear()
        .env("PATH", &config.path)
        .env("LANG", &config.lang)
        .env(MARK_VARIABLE, mark)
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .spawn()
        .map_err(|source| SandboxError::Spawn {
            program: config.shim.clone(),
            source,
        })
}
