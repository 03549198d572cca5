//! The record of a sandbox, by which a later gateway process finds it again.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::proc::{Process, ProcessId};
use crate::{Isolation, SandboxError, SandboxId, SandboxInfo};

/// Bytes of a record that are read back; a written one is far smaller.
const MAX_RECORD_BYTES: u64 = 256 << 10;

/// `<id>.json`. `D` is what one kind of provisioner adds; its fields stand beside the others in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record<D> {
    pub(crate) id: SandboxId,
    /// The boot of the host in which it was started; processes of another boot are gone.
    pub(crate) boot: String,
    /// The value of the variable that marks the sandbox's processes.
    pub(crate) mark: String,
    /// Microseconds since the Unix epoch.
    pub(crate) created_micros: u64,
    pub(crate) labels: BTreeMap<String, String>,
    /// `None` from just before the start until the process id is known.
    pub(crate) shim: Option<ProcessId>,
    #[serde(flatten)]
    pub(crate) details: D,
}

impl<D> Record<D> {
    pub(crate) fn new(id: SandboxId, mark: String, labels: BTreeMap<String, String>, details: D) -> Self {
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
            details,
        }
    }

    fn created(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_micros(self.created_micros))
            .unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// List entry of the sandbox, without its resource usage.
    pub(crate) fn info(&self, isolation: Isolation) -> SandboxInfo {
        SandboxInfo {
            id: self.id,
            alive: self.living_shim().is_some(),
            pid: self.shim.and_then(|shim| u32::try_from(shim.pid).ok()),
            created: self.created(),
            labels: self.labels.clone(),
            isolation,
            usage: None,
        }
    }

    /// The shim, if it lives.
    pub(crate) fn living_shim(&self) -> Option<Process> {
        self.shim
            .filter(|_| self.is_of_this_boot())
            .and_then(ProcessId::find)
    }

    /// Returns true if the record is of this boot, so that the processes that it names can exist.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        self.boot == boot_id()
    }
}

impl<D: Serialize + DeserializeOwned> Record<D> {
    /// Replaces the file in one step.
    pub(crate) fn write(&self, path: &Path) -> Result<(), SandboxError> {
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

    /// `None` when there is none, or one that cannot be understood or belongs to another sandbox.
    pub(crate) fn read(path: &Path, id: SandboxId) -> Option<Self> {
        if fs::metadata(path).ok()?.len() > MAX_RECORD_BYTES {
            return None;
        }
        let record: Self = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        (record.id == id).then_some(record)
    }
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}
