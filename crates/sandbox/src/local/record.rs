//! What is written down of a sandbox, for a later gateway process.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::proc::{Process, ProcessId};
use crate::{SandboxError, SandboxId};

/// Processes that are remembered per sandbox. Dead ones make room for new ones.
pub(super) const MAX_NOTED: usize = 64;

/// Bytes of a record that are read back; a written one is far smaller.
const MAX_RECORD_BYTES: u64 = 256 << 10;

/// `<id>.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) id: SandboxId,
    /// The boot of the host in which it was started; processes of another boot are gone.
    pub(super) boot: String,
    /// The value of the variable that marks the sandbox's processes.
    pub(super) mark: String,
    /// Microseconds since the Unix epoch.
    pub(super) created_micros: u64,
    pub(super) labels: BTreeMap<String, String>,
    /// `None` from just before the start until the process id is known.
    pub(super) shim: Option<ProcessId>,
    /// Kernels, as far as they were told.
    pub(super) noted: Vec<Noted>,
}

/// A process below the shim, with the ids that its children inherit.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Noted {
    pub(super) process: ProcessId,
    pub(super) session: i32,
    pub(super) group: i32,
}

impl Record {
    pub(super) fn new(id: SandboxId, mark: String, labels: BTreeMap<String, String>) -> Self {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let created_micros = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        Self {
            id,
            boot: boot_id(),
            mark,
            created_micros,
            labels,
            shim: None,
            noted: Vec::new(),
        }
    }

    pub(super) fn created(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_micros(self.created_micros))
            .unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// The shim, if it lives.
    pub(super) fn living_shim(&self) -> Option<Process> {
        self.shim
            .filter(|_| self.is_of_this_boot())
            .and_then(ProcessId::find)
    }

    /// Whether the processes that it names can exist.
    pub(super) fn is_of_this_boot(&self) -> bool {
        self.boot == boot_id()
    }

    /// Adds a process; `false` when there are [`MAX_NOTED`] living ones already.
    pub(super) fn note(&mut self, process: &Process) -> bool {
        if self.noted.iter().any(|noted| noted.process == process.id) {
            return true;
        }
        if self.noted.len() >= MAX_NOTED {
            self.noted.retain(|noted| noted.process.find().is_some());
        }
        if self.noted.len() >= MAX_NOTED {
            return false;
        }
        self.noted.push(Noted {
            process: process.id,
            session: process.session,
            group: process.group,
        });
        true
    }

    /// Replaces the file in one step.
    pub(super) fn write(&self, path: &Path) -> Result<(), SandboxError> {
        let new = path.with_extension("json.new");
        let text =
            serde_json::to_vec(self).map_err(|error| SandboxError::io(path, io::Error::from(error)))?;
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| file.write_all(&text))
            .and_then(|()| fs::rename(&new, path))
            .map_err(|error| SandboxError::io(path, error))
    }

    /// `None` when there is none, or one that cannot be understood.
    pub(super) fn read(path: &Path) -> Option<Self> {
        if fs::metadata(path).ok()?.len() > MAX_RECORD_BYTES {
            return None;
        }
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}
