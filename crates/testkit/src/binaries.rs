//! Where the workspace's binaries are.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// The path of a binary of this workspace, for example `himalia-fake-kernel`: beside the test that asks, in
/// the same target directory and profile.
pub fn path(name: &str) -> Result<PathBuf> {
    let test = std::env::current_exe().context("the test's own path")?;
    let places = test.ancestors().skip(1).take(2);
    let found = places.map(|dir| dir.join(name)).find(|path| path.is_file());
    let Some(found) = found else {
        bail!(
            "{name} is not built: run `cargo build --workspace --bins` with the test's profile and target directory"
        );
    };
    Ok(found)
}

/// The fake kernel.
pub fn fake_kernel() -> Result<PathBuf> {
    path("himalia-fake-kernel")
}

/// The hostile kernel.
pub fn hostile_kernel() -> Result<PathBuf> {
    path("himalia-hostile-kernel")
}
