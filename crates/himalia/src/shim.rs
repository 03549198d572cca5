//! Finding `himalia-shim`, the program that every kernel stands below.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

use crate::paths;

const NAME: &str = "himalia-shim";

/// The given program, else the one beside this program, else the first on `PATH`.
pub(crate) fn find(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        let path = std::path::absolute(given).context("shim")?;
        ensure!(
            paths::is_executable(&path),
            "shim: {} is not an executable file",
            path.display()
        );
        return Ok(path);
    }
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(|dir| dir.join(NAME));
    if let Some(beside) = beside.filter(|file| paths::is_executable(file)) {
        return Ok(beside);
    }
    if let Some(found) = paths::on_path(NAME) {
        return Ok(found);
    }
    bail!("{NAME} is neither beside this program nor on PATH; say where it is with --shim FILE");
}

/// The version that a shim reports: shows that it can run here.
pub(crate) fn version(shim: &Path) -> anyhow::Result<String> {
    let output = Command::new(shim).arg("--version").stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {}", shim.display()))?;
    ensure!(
        output.status.success(),
        "{} --version: {}",
        shim.display(),
        output.status
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
