//! Processes that outlive a gateway on purpose, and must not outlive a test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// Alive processes that name `root` in their command line, their environment or their mounts (a sandbox's directories
/// are below it), and all below them.
pub(super) fn find(root: &Path) -> BTreeSet<u32> {
    let own = std::process::id();
    let mut parents = BTreeMap::new();
    let mut found = BTreeSet::new();
    for pid in pids().filter(|pid| *pid != own) {
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let Some((state, parent)) = state_and_parent(&read("stat")) else {
            continue;
        };
        if state == b'Z' {
            continue;
        }
        parents.insert(pid, parent);
        let needle = root.as_os_str().as_bytes();
        if [read("cmdline"), read("environ"), read("mountinfo")]
            .iter()
            .any(|text| contains(text, needle))
        {
            found.insert(pid);
        }
    }
    loop {
        let below = parents
            .iter()
            .filter(|(_, parent)| found.contains(parent))
            .map(|(pid, _)| *pid);
        let more: Vec<u32> = below.filter(|pid| !found.contains(pid)).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// Kills them until none is left; a few rounds, since a shim starts its kernel again or its children get new
/// parents.
pub(super) fn kill(root: &Path) {
    for _ in 0..20 {
        let found = find(root);
        if found.is_empty() {
            return;
        }
        for pid in found {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// From `/proc/<pid>/stat`: the name in brackets may hold anything, so what follows the last one counts.
fn state_and_parent(stat: &[u8]) -> Option<(u8, u32)> {
    let text = String::from_utf8_lossy(stat);
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    Some((state, fields.next()?.parse().ok()?))
}

fn contains(text: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty() && text.windows(needle.len()).any(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn finds_and_kills_what_names_the_directory() {
        let root = tempfile::tempdir().unwrap();
        let sleeper = || {
            Command::new("sleep")
                .arg("1000")
                .env("ROOT", root.path())
                .stdin(Stdio::null())
                .spawn()
        };
        let mut child = sleeper().unwrap();
        let deadline = crate::patience::Deadline::new();
        while !find(root.path()).contains(&child.id()) {
            assert!(!deadline.is_over(), "not found");
        }
        kill(root.path());
        assert!(!child.wait().unwrap().success());
        assert!(find(root.path()).is_empty());
    }

    #[test]
    fn odd_process_names() {
        assert_eq!(state_and_parent(b"12 (a) b) S 7 12 12"), Some((b'S', 7)));
        assert_eq!(state_and_parent(b"12 a"), None);
    }
}
