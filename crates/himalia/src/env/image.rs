//! Builds the Docker image of Python kernels.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, bail};

use crate::paths;

/// Path of the script in the sources.
const SCRIPT: &str = "docker/build-images.sh";

/// Runs the script that builds `himalia-kernel`; its exit code is ours.
pub(crate) fn build_image(given: Option<&Path>) -> anyhow::Result<ExitCode> {
    let script = match given {
        Some(given) => given.to_owned(),
        None => find()?,
    };
    let mut command = Command::new(&script);
    command.arg("kernel").stdin(Stdio::null());
    let status = command
        .status()
        .with_context(|| format!("cannot run {}", script.display()))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

/// In the current directory or one above it, or above this program (`target/release`).
fn find() -> anyhow::Result<PathBuf> {
    let current = std::env::current_dir().context("no current directory")?;
    let own = std::env::current_exe().unwrap_or_default();
    let places = current.ancestors().chain(own.ancestors());
    match places
        .map(|dir| dir.join(SCRIPT))
        .find(|file| paths::is_executable(file))
    {
        Some(script) => Ok(script),
        None => bail!("{SCRIPT} is part of the sources: call this there, or give --script FILE"),
    }
}
