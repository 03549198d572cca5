//! Changes to the limits of groups that have processes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{ControllerDir, GroupLimits, Groups, Version, make};
use crate::SandboxError;

/// Looks at the processes of a sandbox, each of which lets those join that did not; its kernel is idle, so that two are
/// enough.
const LOOKS: usize = 10;
/// No such process (`ESRCH`): it has ended meanwhile.
const GONE: i32 = 3;

impl Groups {
    /// These groups, and those of `other` for controllers without one.
    pub(in super::super) fn or(self, other: Self) -> Self {
        Self {
            memory: self.memory.or(other.memory),
            pids: self.pids.or(other.pids),
            cpu: self.cpu.or(other.cpu),
        }
    }

    /// Writes the limits that differ. Groups that `had` lacks are made, and joined by the sandbox's processes, which
    /// `processes` finds. What it made before it failed is for [`Self::remove`].
    pub(in super::super) fn change(
        &self,
        had: &Self,
        (from, to): (GroupLimits, GroupLimits),
        processes: impl Fn() -> Vec<i32>,
    ) -> Result<(), SandboxError> {
        let old = had.dirs();
        let new: Vec<&Path> = self.dirs().into_iter().filter(|dir| !old.contains(dir)).collect();
        new.iter().try_for_each(|dir| make(dir))?;
        if let (Some(group), Some(bytes)) = (&self.memory, to.memory_bytes)
            && from.memory_bytes != to.memory_bytes
        {
            group.change_memory(bytes)?;
        }
        if let (Some(group), Some(pids)) = (&self.pids, to.pids)
            && from.pids != to.pids
        {
            group.write("pids.max", &pids.to_string())?;
        }
        if let (Some(group), Some(millis)) = (&self.cpu, to.cpu_millis)
            && from.cpu_millis != to.cpu_millis
        {
            group.limit_cpu(millis)?;
        }
        new.iter().try_for_each(|dir| join(dir, &processes))
    }
}

impl ControllerDir {
    fn change_memory(&self, bytes: u64) -> Result<(), SandboxError> {
        let number = |file: &str| self.read(file)?.trim().parse::<u64>().ok();
        // Version 2 would kill processes until the rest fits.
        let used = number(self.pick("memory.usage_in_bytes", "memory.current")).unwrap_or(0);
        if used >= bytes {
            return Err(SandboxError::BadSpec {
                field: "memory_bytes",
                reason: format!("would be {bytes}, the sandbox has {used} already"),
            });
        }
        // Version 1 refuses a limit above that of memory and swap together.
        if self.version == Version::V1 && number("memory.limit_in_bytes").is_some_and(|now| now < bytes) {
            self.limit_swap(bytes)?;
        }
        self.limit_memory(bytes)
    }
}

/// Moves processes into a group until none of them is outside.
fn join(dir: &Path, processes: impl Fn() -> Vec<i32>) -> Result<(), SandboxError> {
    let file = dir.join("cgroup.procs");
    for _ in 0..LOOKS {
        let text = fs::read_to_string(&file).map_err(|error| SandboxError::io(&file, error))?;
        let inside: BTreeSet<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        let outside: Vec<i32> = processes()
            .into_iter()
            .filter(|pid| !inside.contains(pid))
            .collect();
        if outside.is_empty() {
            return Ok(());
        }
        for pid in outside {
            match fs::write(&file, pid.to_string()) {
                Err(error) if error.raw_os_error() != Some(GONE) => {
                    return Err(SandboxError::io(&file, error));
                }
                _ => {}
            }
        }
    }
    Err(SandboxError::io(
        &file,
        std::io::Error::other("the sandbox starts processes faster than they can join"),
    ))
}
