//! Finding the programs that stand beside this one: `himalia-shim`, which every kernel stands below, and `himalia-jail`,
//! which makes sandboxes of namespaces.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::paths;

/// A program and the setting that says where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    name: &'static str,
    setting: &'static str,
}

/// Stands for a kernel while gateways come and go.
pub(crate) const SHIM: Program = Program {
    name: "himalia-shim",
    setting: "shim",
};
/// Makes sandboxes of namespaces.
pub(crate) const JAIL: Program = Program {
    name: "himalia-jail",
    setting: "jail",
};

impl Program {
    /// The given program, else the one beside this program, else the first on `PATH`.
    pub(crate) fn find(self, given: Option<&Path>) -> anyhow::Result<PathBuf> {
        let Self { name, setting } = self;
        if let Some(given) = given {
            let path = std::path::absolute(given).context(setting)?;
            ensure!(
                paths::is_executable(&path),
                "{setting}: {} is not an executable file",
                path.display()
            );
            return Ok(path);
        }
        paths::program(name)
            .with_context(|| format!("{name} was not found next to himalia or on PATH. Set --{setting} FILE"))
    }
}

/// The version that a program reports: shows that it can run here.
pub(crate) fn version(program: &Path) -> anyhow::Result<String> {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output();
    let output = output.with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(
        output.status.success(),
        "{} --version: {}",
        program.display(),
        output.status
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
