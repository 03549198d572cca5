//! Names and modes of the files of sandboxes on this host.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use himalia_link::{FIRST_LINK, KEY_FILE};

use crate::{SandboxError, SandboxId, SandboxKey};

/// The longest path that a unix socket can have.
pub const SOCKET_PATH_BYTES: usize = 107;
/// The longest name, `/` included, that a shim may give to a socket in its runtime directory.
pub const RUNTIME_NAME_BYTES: usize = 16;

const ID_BYTES: usize = 32;
const SUFFIXES: [&str; 4] = [".rt", ".log", ".json.new", ".json"];

/// Output of zygotes, in a provisioner's run directory.
pub(crate) const ZYGOTES_LOG: &str = "zygotes.log";
/// The home directories of zygotes, likewise.
pub(crate) const ZYGOTES_DIR: &str = "zygotes";
/// Tries to remove a directory in which something else ends meanwhile.
const TRIES: u32 = 10;

/// Removes the run directory of a provisioner that is used no more, unless a sandbox has files in it. What is not a
/// provisioner's stays. Blocks.
pub fn remove_run_dir(run: &Path) {
    let sandboxes = Layout::look_at(run).sandboxes();
    if !sandboxes.is_ok_and(|found| found.is_empty()) {
        return;
    }
    let _ = fs::remove_file(run.join(ZYGOTES_LOG));
    for _ in 0..TRIES {
        if fs::remove_dir_all(run.join(ZYGOTES_DIR)).is_ok() || !run.join(ZYGOTES_DIR).exists() {
            break;
        }
    }
    let _ = fs::remove_dir(run);
}

/// Makes a directory and its parents, mode 0700, unless they exist.
pub(crate) fn private_dir(path: &Path) -> Result<(), SandboxError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| SandboxError::io(path, error))
}

/// The run directory, checked.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    run: PathBuf,
}

impl Layout {
    /// A run directory that is only looked at, and need not be there.
    pub(crate) fn look_at(run: &Path) -> Self {
        Self { run: run.to_owned() }
    }

    /// Makes the run directory if it is missing, and checks its owner, its mode and its length.
    pub(crate) fn open(run: &Path) -> Result<Self, SandboxError> {
        let refuse = |reason: String| SandboxError::RunDir {
            path: run.to_owned(),
            reason,
        };
        if !run.is_absolute() || run.to_str().is_none() {
            return Err(refuse("is not an absolute path in UTF-8".to_owned()));
        }
        let longest = (1 + ID_BYTES + 1 + FIRST_LINK.len()).max(1 + ID_BYTES + 4 + RUNTIME_NAME_BYTES);
        let room = SOCKET_PATH_BYTES - longest;
        let length = run.as_os_str().as_bytes().len();
        if length > room {
            let why = "unix sockets have short paths; choose one such as /run/himalia";
            return Err(refuse(format!(
                "has {length} bytes, at most {room} are possible: {why}"
            )));
        }
        private_dir(run).map_err(|error| refuse(format!("cannot be made: {error}")))?;
        let meta = fs::symlink_metadata(run).map_err(|error| refuse(error.to_string()))?;
        if !meta.is_dir() {
            return Err(refuse(
                "is not a directory (a symbolic link is not accepted)".to_owned(),
            ));
        }
        let user = rustix::process::geteuid().as_raw();
        if meta.uid() != user {
            return Err(refuse(format!(
                "belongs to user {}, not to this one ({user})",
                meta.uid()
            )));
        }
        if meta.mode() & 0o077 != 0 {
            let mode = meta.mode() & 0o777;
            return Err(refuse(format!(
                "has mode {mode:03o}, others can look into it; chmod 700 it"
            )));
        }
        Ok(Self { run: run.to_owned() })
    }

    pub(crate) fn gateway_dir(&self, id: SandboxId) -> PathBuf {
        self.run.join(id.to_string())
    }

    pub(crate) fn runtime_dir(&self, id: SandboxId) -> PathBuf {
        self.run.join(format!("{id}.rt"))
    }

    pub(crate) fn log(&self, id: SandboxId) -> PathBuf {
        self.run.join(format!("{id}.log"))
    }

    pub(crate) fn record(&self, id: SandboxId) -> PathBuf {
        self.run.join(format!("{id}.json"))
    }

    /// Makes the gateway directory.
    pub(crate) fn create_gateway_dir(&self, id: SandboxId) -> Result<PathBuf, SandboxError> {
        let path = self.gateway_dir(id);
        directory(&path, 0o711)?;
        Ok(path)
    }

    /// Makes the shim's private directory.
    pub(crate) fn create_runtime_dir(&self, id: SandboxId) -> Result<(), SandboxError> {
        directory(&self.runtime_dir(id), 0o700)
    }

    /// Writes the key file into the gateway directory.
    pub(crate) fn write_key(&self, id: SandboxId, key: &SandboxKey) -> Result<(), SandboxError> {
        let file = self.gateway_dir(id).join(KEY_FILE);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&file)
            .and_then(|mut file| file.write_all(key.expose().as_bytes()))
            .map_err(|error| SandboxError::io(&file, error))
    }

    /// Removes every file of a sandbox; none is missed by one that cannot be removed. The record goes last, so
    /// that a removal that was cut short is taken up by the next sweep.
    pub(crate) fn remove(&self, id: SandboxId) -> Result<(), SandboxError> {
        let mut first = Ok(());
        let mut note = |path: PathBuf, result: io::Result<()>| match result {
            Err(error) if error.kind() != io::ErrorKind::NotFound && first.is_ok() => {
                first = Err(SandboxError::io(&path, error));
            }
            _ => {}
        };
        for path in [self.gateway_dir(id), self.runtime_dir(id)] {
            let result = fs::remove_dir_all(&path);
            note(path, result);
        }
        let record = self.record(id);
        for path in [self.log(id), record.with_extension("json.new"), record] {
            let result = fs::remove_file(&path);
            note(path, result);
        }
        first
    }

    /// The sandboxes that have any file here.
    pub(crate) fn sandboxes(&self) -> Result<BTreeSet<SandboxId>, SandboxError> {
        let failed = |error: io::Error| SandboxError::io(&self.run, error);
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(&self.run).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(name) = name.to_str() else { continue };
            let id = SUFFIXES
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix))
                .unwrap_or(name);
            // Anything else in the directory is not ours.
            found.extend(id.parse::<SandboxId>().ok());
        }
        Ok(found)
    }
}

/// Makes a directory with this mode, which is set apart, as the umask may take bits from the one given at creation.
fn directory(path: &Path, mode: u32) -> Result<(), SandboxError> {
    DirBuilder::new()
        .mode(0o700)
        .create(path)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(mode)))
        .map_err(|error| SandboxError::io(path, error))
}
