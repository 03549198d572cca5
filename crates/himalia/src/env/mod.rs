//! The Python environment of the `python3` kernel.
//!
//! It is a virtual environment in a directory named by the hash of the embedded lock file, so a new lock file makes a
//! new environment and running kernels keep theirs. Inside it, below `himalia/`:
//!
//! - `complete`: written last. A directory without it is the rest of an interrupted build and is built anew.
//! - `<hash>/himalia_kernel/`: the embedded package, one directory per version of it, so that a kernel that imports a
//!   part late gets the part of its own version. A `.pth` file names the newest.

mod build;
mod embedded;
mod image;
mod install;
mod packages;

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

pub(crate) use build::{build, check_python};
pub(crate) use image::build_image;
pub(crate) use install::install_package;

/// Environment for the lock file of this program, built or not.
#[derive(Clone, Debug)]
pub(crate) struct PythonEnv {
    /// Directory of the environment.
    pub(crate) dir: PathBuf,
}

impl PythonEnv {
    /// Below the directory that holds environments.
    pub(crate) fn locate(env_dir: &Path) -> Self {
        Self {
            dir: env_dir.join(&hash([embedded::LOCK])[..16]),
        }
    }

    /// Itself, if it is built and its interpreter is still there.
    pub(crate) fn ready(self) -> Option<Self> {
        (self.marker().is_file() && self.python().exists()).then_some(self)
    }

    /// Interpreter of the environment.
    pub(crate) fn python(&self) -> PathBuf {
        self.dir.join("bin/python3")
    }

    /// The directory that holds its kernelspec.
    pub(crate) fn kernelspecs(&self) -> PathBuf {
        self.dir.join("share/jupyter/kernels")
    }

    /// Brings the embedded package and kernelspec in it up to date; a few small files, or nothing.
    pub(crate) fn refresh(&self) -> anyhow::Result<()> {
        install::install(self)
    }

    /// The directory that holds this version of the embedded package.
    pub(crate) fn package(&self) -> anyhow::Result<PathBuf> {
        install::package(self)
    }

    fn marker(&self) -> PathBuf {
        self.dir.join("himalia/complete")
    }
}

/// SHA-256 of the parts, each preceded by its length, in hexadecimal.
fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex::encode(hasher.finalize())
}

/// Makes a shell script for a test. A child writes it: a file that this process has open for writing, even in
/// another thread's fork, cannot be executed.
#[cfg(test)]
fn script(path: &Path, text: &str) {
    let write = "printf '#!/bin/sh\n%s\n' \"$2\" > \"$1\" && chmod 755 \"$1\"";
    let status = std::process::Command::new("sh")
        .args(["-c", write, "sh"])
        .arg(path)
        .arg(text)
        .status();
    assert!(status.unwrap().success());
}
