//! Detects where control groups can be created.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{CgroupRoot, ControllerDir, GroupLimits, Groups, Version};

/// The group that a gateway moves itself into where version 2 asks for it, or is started in (`DelegateSubgroup=` of a
/// systemd unit): a group with processes in it cannot limit those below.
const GATEWAY_GROUP: &str = "himalia-gateway";
/// Name of the group that is made to see whether one can be made.
const TRIAL: &str = "trial";
const TRIAL_LIMITS: GroupLimits = GroupLimits {
    memory_bytes: Some(256 << 20),
    pids: Some(64),
    cpu_millis: Some(1000),
};

/// A mounted control group file system, seen from this process.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct CgroupMount {
    pub(super) version: Version,
    /// Controllers of version 1; empty for version 2.
    pub(super) controllers: Vec<String>,
    /// The root of the file system as far as it is mounted.
    pub(super) mount: PathBuf,
    /// This process's own group.
    pub(super) own: PathBuf,
}

impl CgroupRoot {
    /// Finds the controllers in which this process can make groups, by making one in each. `run_dir` names the gateway:
    /// those of other gateways are left alone.
    ///
    /// Under version 2 and outside the root group this process may move itself into a group of its own below the one
    /// that it was started in (a systemd unit needs `Delegate=yes`), unless it was started in such a one.
    pub fn detect(run_dir: &Path) -> Self {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let mounted = parse(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
        let name = format!("himalia{}", run_dir.display().to_string().replace('/', "-"));
        let mut root = Self::default();
        for found in &mounted {
            let Some(parent) = found.parent() else { continue };
            let group = || {
                Some(ControllerDir {
                    version: found.version,
                    dir: parent.join(&name),
                })
            };
            let has = |controller: &str| match found.version {
                Version::V1 => found.controllers.iter().any(|name| name == controller),
                Version::V2 => controllers(&parent).iter().any(|name| name == controller),
            };
            for (controller, slot) in [
                ("memory", &mut root.memory),
                ("pids", &mut root.pids),
                ("cpu", &mut root.cpu),
            ] {
                if slot.is_none() && has(controller) {
                    *slot = group();
                }
            }
        }
        root.tried()
    }

    /// Keeps what works.
    pub(super) fn tried(mut self) -> Self {
        let works =
            |memory: Option<&ControllerDir>, pids: Option<&ControllerDir>, cpu: Option<&ControllerDir>| {
                let only = Self {
                    memory: memory.cloned(),
                    pids: pids.cloned(),
                    cpu: cpu.cloned(),
                };
                let groups: Groups = only.plan(TRIAL, TRIAL_LIMITS);
                let created = groups.create(TRIAL_LIMITS);
                let removed = groups.remove();
                if let Err(error) = created.and(removed) {
                    tracing::debug!(%error, "a control group cannot be used");
                    return false;
                }
                true
            };
        self.memory = self.memory.filter(|group| works(Some(group), None, None));
        self.pids = self.pids.filter(|group| works(None, Some(group), None));
        self.cpu = self.cpu.filter(|group| works(None, None, Some(group)));
        self
    }
}

impl CgroupMount {
    /// The group below which ours are made, ready for it.
    pub(super) fn parent(&self) -> Option<PathBuf> {
        if self.version == Version::V1 {
            return Some(self.own.clone());
        }
        if self.own == self.mount {
            return delegate(&self.own).is_ok().then(|| self.own.clone());
        }
        if self.own.ends_with(GATEWAY_GROUP) {
            let parent = self.own.parent()?;
            // Who started us there may have left that to us, as systemd does.
            return delegate(parent).is_ok().then(|| parent.to_owned());
        }
        // Moving to a subgroup is right only if no other process is in our group.
        let procs = fs::read_to_string(self.own.join("cgroup.procs")).ok()?;
        if procs.trim() != std::process::id().to_string() {
            return None;
        }
        let gateway = self.own.join(GATEWAY_GROUP);
        match fs::create_dir(&gateway) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return None,
            _ => {}
        }
        fs::write(gateway.join("cgroup.procs"), "0").ok()?;
        delegate(&self.own).ok()?;
        Some(self.own.clone())
    }
}

/// Lets the groups below one of version 2 have the controllers that it has itself. Nothing happens under version 1.
pub(super) fn delegate(dir: &Path) -> io::Result<()> {
    let file = dir.join("cgroup.subtree_control");
    if !file.exists() {
        return Ok(());
    }
    let given = fs::read_to_string(&file)?;
    let missing: Vec<String> = controllers(dir)
        .into_iter()
        .filter(|name| ["memory", "pids", "cpu"].contains(&name.as_str()))
        .filter(|name| !given.split_ascii_whitespace().any(|has| has == name))
        .map(|name| format!("+{name}"))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    fs::write(file, missing.join(" "))
}

/// Controllers that a group of version 2 has.
fn controllers(dir: &Path) -> Vec<String> {
    fs::read_to_string(dir.join("cgroup.controllers"))
        .unwrap_or_default()
        .split_ascii_whitespace()
        .map(str::to_owned)
        .collect()
}

/// Reads `/proc/self/mountinfo` and `/proc/self/cgroup` (`proc(5)`, `cgroups(7)`).
pub(super) fn parse(mountinfo: &str, cgroup: &str) -> Vec<CgroupMount> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut left = left.split(' ').skip(3);
            let (root, mount) = (left.next()?, left.next()?);
            let mut right = right.split(' ');
            let version = match right.next()? {
                "cgroup" => Version::V1,
                "cgroup2" => Version::V2,
                _ => return None,
            };
            let options: Vec<&str> = right.nth(1)?.split(',').collect();
            let (own, controllers) = cgroup.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':');
                let (_, names, path) = (fields.next()?, fields.next()?, fields.next()?);
                let names: Vec<&str> = names.split(',').filter(|name| !name.is_empty()).collect();
                let fits = match version {
                    Version::V1 => !names.is_empty() && names.iter().all(|name| options.contains(name)),
                    Version::V2 => names.is_empty(),
                };
                fits.then_some((path, names))
            })?;
            Some(CgroupMount {
                version,
                controllers: controllers.into_iter().map(str::to_owned).collect(),
                mount: mount.into(),
                // A path that is not below what is mounted cannot be reached.
                own: Path::new(mount).join(Path::new(own).strip_prefix(root).ok()?),
            })
        })
        .collect()
}
