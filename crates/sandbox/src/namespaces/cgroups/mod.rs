//! Control groups, versions 1 and 2, for the limits of one sandbox.
//!
//! A sandbox's groups lie below the gateway's own, so that what limits the gateway limits its sandboxes too. Version 1
//! has one directory for each controller, version 2 one for all. Groups are made only for limits that are set, since
//! joining one of version 1 costs milliseconds.

mod change;
mod detect;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::SandboxError;

/// Longest time that a group may stay busy after its processes were killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two attempts to remove a group.
const PAUSE: Duration = Duration::from_millis(5);
/// Attempts to make a group whose parent another sandbox's end removes at the same time.
const ATTEMPTS: usize = 5;
/// Length of the period that a share of processor time is counted in, in microseconds.
const CPU_PERIOD: u64 = 100_000;
/// The least share of processor time that the kernel takes, in microseconds of a period.
const CPU_QUOTA_MIN: u64 = 1_000;

/// Parent directories of control groups: one for each usable controller.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CgroupRoot {
    memory: Option<ControllerDir>,
    pids: Option<ControllerDir>,
    cpu: Option<ControllerDir>,
}

/// A directory of a control group file system.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(super) struct ControllerDir {
    version: Version,
    dir: PathBuf,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Version {
    V1,
    V2,
}

/// The limits of one sandbox that groups are to enforce.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GroupLimits {
    pub(super) memory_bytes: Option<u64>,
    pub(super) pids: Option<u32>,
    pub(super) cpu_millis: Option<u32>,
}

/// The groups of one sandbox, as its record keeps them.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub(super) struct Groups {
    pub(super) memory: Option<ControllerDir>,
    pub(super) pids: Option<ControllerDir>,
    pub(super) cpu: Option<ControllerDir>,
}

impl CgroupRoot {
    /// The groups that a sandbox of this name gets. Nothing is made yet.
    pub(super) fn plan(&self, name: &str, wanted: GroupLimits) -> Groups {
        let below = |group: &Option<ControllerDir>, is_wanted: bool| {
            group.as_ref().filter(|_| is_wanted).map(|group| ControllerDir {
                version: group.version,
                dir: group.dir.join(name),
            })
        };
        Groups {
            memory: below(&self.memory, wanted.memory_bytes.is_some()),
            pids: below(&self.pids, wanted.pids.is_some()),
            cpu: below(&self.cpu, wanted.cpu_millis.is_some()),
        }
    }

    /// The groups of this name under every controller.
    pub(super) fn all(&self, name: &str) -> Groups {
        let everything = GroupLimits {
            memory_bytes: Some(0),
            pids: Some(0),
            cpu_millis: Some(0),
        };
        self.plan(name, everything)
    }

    /// Names of all groups below this root.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = [&self.memory, &self.pids, &self.cpu]
            .into_iter()
            .flatten()
            .filter_map(|group| fs::read_dir(&group.dir).ok())
            .flatten()
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    pub(super) fn has_memory(&self) -> bool {
        self.memory.is_some()
    }

    pub(super) fn has_pids(&self) -> bool {
        self.pids.is_some()
    }

    pub(super) fn has_cpu(&self) -> bool {
        self.cpu.is_some()
    }
}

impl Groups {
    /// Makes the groups and writes their limits. What it made before it failed is for [`Self::remove`].
    pub(super) fn create(&self, wanted: GroupLimits) -> Result<(), SandboxError> {
        for dir in self.dirs() {
            make(dir)?;
        }
        if let (Some(group), Some(bytes)) = (&self.memory, wanted.memory_bytes) {
            group.limit_memory(bytes)?;
        }
        if let (Some(group), Some(pids)) = (&self.pids, wanted.pids) {
            group.write("pids.max", &pids.to_string())?;
        }
        if let (Some(group), Some(millis)) = (&self.cpu, wanted.cpu_millis) {
            group.limit_cpu(millis)?;
        }
        Ok(())
    }

    /// The files that a process writes itself into.
    pub(super) fn procs(&self) -> Vec<PathBuf> {
        self.dirs()
            .into_iter()
            .map(|dir| dir.join("cgroup.procs"))
            .collect()
    }

    /// Number of processes that the operating system kernel killed for lack of memory; `None` without a group.
    pub(super) fn oom_kills(&self) -> Option<u64> {
        let group = self.memory.as_ref()?;
        group.field(group.pick("memory.oom_control", "memory.events"), "oom_kill")
    }

    /// Memory in use, in bytes, the files in its tmpfs included; `None` without a group.
    pub(super) fn memory_bytes(&self) -> Option<u64> {
        let group = self.memory.as_ref()?;
        group
            .read(group.pick("memory.usage_in_bytes", "memory.current"))?
            .trim()
            .parse()
            .ok()
    }

    /// Kills what is left and removes the directories. Blocks for at most 10 s. A directory that is not there is
    /// removed.
    pub(super) fn remove(&self) -> Result<(), SandboxError> {
        let mut first = Ok(());
        for dir in self.dirs() {
            if let Err(error) = remove(dir)
                && first.is_ok()
            {
                first = Err(error);
            }
            // The parent goes with the last sandbox; until then it is not empty.
            if let Some(parent) = dir.parent() {
                let _ = fs::remove_dir(parent);
            }
        }
        first
    }

    fn dirs(&self) -> Vec<&Path> {
        let mut dirs: Vec<&Path> = [&self.memory, &self.pids, &self.cpu]
            .into_iter()
            .flatten()
            .map(|group| group.dir.as_path())
            .collect();
        dirs.dedup();
        dirs
    }
}

impl ControllerDir {
    fn pick(&self, v1: &'static str, v2: &'static str) -> &'static str {
        match self.version {
            Version::V1 => v1,
            Version::V2 => v2,
        }
    }

    fn limit_memory(&self, bytes: u64) -> Result<(), SandboxError> {
        self.write(
            self.pick("memory.limit_in_bytes", "memory.max"),
            &bytes.to_string(),
        )?;
        self.limit_swap(bytes)
    }

    /// Memory that is swapped out would escape the limit. The file is missing where the host accounts no swap.
    fn limit_swap(&self, bytes: u64) -> Result<(), SandboxError> {
        let (file, value) = match self.version {
            Version::V1 => ("memory.memsw.limit_in_bytes", bytes),
            Version::V2 => ("memory.swap.max", 0),
        };
        match self.write(file, &value.to_string()) {
            Err(SandboxError::Io { source, .. })
                if matches!(
                    source.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
                ) =>
            {
                Ok(())
            }
            other => other,
        }
    }

    fn limit_cpu(&self, millis: u32) -> Result<(), SandboxError> {
        let quota = (u64::from(millis) * CPU_PERIOD / 1000).max(CPU_QUOTA_MIN);
        match self.version {
            Version::V1 => {
                self.write("cpu.cfs_period_us", &CPU_PERIOD.to_string())?;
                self.write("cpu.cfs_quota_us", &quota.to_string())
            }
            Version::V2 => self.write("cpu.max", &format!("{quota} {CPU_PERIOD}")),
        }
    }

    fn write(&self, file: &str, value: &str) -> Result<(), SandboxError> {
        let path = self.dir.join(file);
        fs::write(&path, value).map_err(|error| SandboxError::io(&path, error))
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.dir.join(file)).ok()
    }

    /// The number behind `name` in a file of lines `name number`.
    fn field(&self, file: &str, name: &str) -> Option<u64> {
        self.read(file)?.lines().find_map(|line| {
            let (found, value) = line.split_once(' ')?;
            (found == name).then(|| value.trim().parse().ok())?
        })
    }
}

/// Makes a group; its parent too, which another sandbox's end may remove at any time.
fn make(dir: &Path) -> Result<(), SandboxError> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let parent = dir.parent().unwrap_or(dir);
        let made = match fs::create_dir(parent) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => detect::delegate(parent).and_then(|()| fs::create_dir(dir)),
        };
        match made {
            Err(error) if error.kind() == io::ErrorKind::NotFound => last = Some(error),
            other => return other.map_err(|error| SandboxError::io(dir, error)),
        }
    }
    Err(SandboxError::io(
        dir,
        last.unwrap_or_else(|| io::ErrorKind::NotFound.into()),
    ))
}

fn remove(dir: &Path) -> Result<(), SandboxError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match fs::remove_dir(dir) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if Instant::now() >= deadline => return Err(SandboxError::io(dir, error)),
            Err(_) => {}
        }
        kill(dir);
        std::thread::sleep(PAUSE);
    }
}

fn kill(dir: &Path) {
    // Version 2 only; the processes one by one elsewhere.
    let kill = dir.join("cgroup.kill");
    if kill.exists() && fs::write(kill, "1").is_ok() {
        return;
    }
    let procs = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    for pid in procs
        .lines()
        .filter_map(|line| line.parse().ok().and_then(Pid::from_raw))
    {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

#[cfg(test)]
mod tests;
