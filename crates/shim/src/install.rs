//! The mode of an init container: copies the shim, its keys and the package of the kernel into volumes of a pod, and exits.
//!
//! The kernel's container has a mount of the copies alone, from which the shim deletes the keys when it has read them. So
//! kernels see neither the secret nor the keys.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use himalia_link::{CA_FILE, CERT_FILE, CERT_KEY_FILE, KEY_FILE};

/// First argument that selects this mode.
pub(crate) const MODE: &str = "install";
/// The shim's name where it is copied to.
const PROGRAM: &str = "himalia-shim";
/// Directories below each other in the package.
const DEPTH_MAX: usize = 16;

/// Copies what a sandbox needs into the volumes of its pod.
#[derive(Debug, Parser)]
#[command(name = "himalia-shim install", version)]
struct Options {
    /// Directory with `key`, `tls.crt`, `tls.key` and `ca.crt`.
    #[arg(long)]
    keys_from: PathBuf,
    /// Directory to which the keys are copied, readable by their owner only.
    #[arg(long)]
    keys_to: PathBuf,
    /// Directory that this program is copied into.
    #[arg(long)]
    program_to: PathBuf,
    /// Directory with the Python package of the kernel.
    #[arg(long)]
    package_from: PathBuf,
    /// Directory to which the package's content is copied.
    #[arg(long)]
    package_to: PathBuf,
}

pub(crate) fn run() -> ExitCode {
    let options = Options::parse_from(std::env::args_os().skip(1));
    match install(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn install(options: &Options) -> anyhow::Result<()> {
    for name in [KEY_FILE, CA_FILE, CERT_FILE, CERT_KEY_FILE] {
        put(&options.keys_from.join(name), &options.keys_to.join(name), 0o600)?;
    }
    put(
        Path::new("/proc/self/exe"),
        &options.program_to.join(PROGRAM),
        0o755,
    )?;
    copy_dir(&options.package_from, &options.package_to, DEPTH_MAX)
}

fn put(from: &Path, to: &Path, mode: u32) -> anyhow::Result<()> {
    let copy = || -> io::Result<()> {
        let _ = fs::remove_file(to);
        fs::copy(from, to)?;
        fs::set_permissions(to, fs::Permissions::from_mode(mode))
    };
    copy().with_context(|| format!("{} to {}", from.display(), to.display()))
}

fn copy_dir(from: &Path, to: &Path, depth: usize) -> anyhow::Result<()> {
    anyhow::ensure!(depth > 0, "{} is too deep", from.display());
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &target, depth - 1)?;
        } else {
            put(&entry.path(), &target, 0o644)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_copied_and_keys_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["secret", "gw", "bin", "kernel/himalia_kernel", "package"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        for name in [KEY_FILE, CA_FILE, CERT_FILE, CERT_KEY_FILE] {
            fs::write(at("secret").join(name), name).unwrap();
        }
        fs::write(at("kernel/himalia_kernel/__init__.py"), "x").unwrap();
        let options = Options {
            keys_from: at("secret"),
            keys_to: at("gw"),
            program_to: at("bin"),
            package_from: at("kernel"),
            package_to: at("package"),
        };
        // Twice: a container can be started again.
        install(&options).unwrap();
        install(&options).unwrap();
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(at("gw").join(KEY_FILE)), 0o600);
        assert_eq!(mode(at("bin").join(PROGRAM)), 0o755);
        assert!(at("package/himalia_kernel/__init__.py").exists());
        fs::remove_file(at("secret").join(KEY_FILE)).unwrap();
        assert!(format!("{:#}", install(&options).unwrap_err()).contains("secret/key"));
    }
}
