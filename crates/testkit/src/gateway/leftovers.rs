//! What a gateway may leave: processes that outlive it on purpose, and must not outlive a test; and nothing at all after a stop
//! that ends its kernels.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use himalia_proc::Stat;
use rustix::process::{Pid, Signal, kill_process};

/// Alive processes that name `root` in their command line, their environment or their mounts (a sandbox's directories
/// are below it), and all below them.
pub(super) fn find(root: &Path) -> BTreeSet<u32> {
    let own = std::process::id();
    let mut parents = BTreeMap::new();
    let mut found = BTreeSet::new();
    for stat in Stat::all().into_iter().flatten().filter(|stat| !stat.ended) {
        let (Ok(pid), Ok(parent)) = (u32::try_from(stat.pid), u32::try_from(stat.parent)) else {
            continue;
        };
        if pid == own {
            continue;
        }
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
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

/// What is there of the gateway whose directories are in `root`, a line for each: processes, mounts, control groups, and sockets,
/// keys and directories of sandboxes, and the run directory itself.
pub(super) fn left(root: &Path) -> Vec<String> {
    let run = root.join("run");
    let processes = find(root).into_iter().map(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        format!(
            "process {pid}: {}",
            String::from_utf8_lossy(&line).replace('\0', " ")
        )
    });
    let shown = |what: &'static str, paths: Vec<PathBuf>| {
        let lines = paths
            .into_iter()
            .map(move |path| format!("{what} {}", path.display()));
        lines.collect::<Vec<_>>()
    };
    let mut all: Vec<String> = processes.collect();
    all.extend(shown("mount", mounts(root)));
    all.extend(shown("control group", groups(&run)));
    all.extend(shown("in the run directory:", entries(&run)));
    if run.exists() {
        all.push(format!("the run directory {}", run.display()));
    }
    all.extend(shown("user ids reserved:", uids(&root.join("data"))));
    all
}

/// Notes of user ids that the gateway of a data directory has, where it is root.
fn uids(data: &Path) -> Vec<PathBuf> {
    let notes = fs::read_dir("/run/himalia/uids").into_iter().flatten().flatten();
    notes
        .map(|note| note.path())
        .filter(|note| fs::read(note).is_ok_and(|text| text == data.as_os_str().as_bytes()))
        .collect()
}

/// Mounts of this process's namespace below a directory.
fn mounts(root: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let places = table.lines().filter_map(|line| line.split(' ').nth(4));
    places
        .map(PathBuf::from)
        .filter(|place| place.starts_with(root))
        .collect()
}

/// Control groups of the sandboxes of a run directory, under both versions.
fn groups(run: &Path) -> Vec<PathBuf> {
    let name = format!("himalia{}", run.display().to_string().replace('/', "-"));
    let mut found = Vec::new();
    walk(Path::new("/sys/fs/cgroup"), &mut |path, kind| {
        if kind.is_dir() && path.parent().is_some_and(|above| above.ends_with(&name)) {
            found.push(path.to_owned());
        }
    });
    found
}

/// Sockets, keys and directories of sandboxes, whose names are long.
fn entries(run: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(run, &mut |path, kind| {
        let name = path.file_name().unwrap_or_default();
        if kind.is_socket() || kind.is_dir() && name.len() >= 16 || name == "key" {
            found.push(path.to_owned());
        }
    });
    found
}

/// Everything below a directory; links are not followed.
fn walk(dir: &Path, look: &mut impl FnMut(&Path, fs::FileType)) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else {
            continue;
        };
        look(&path, kind);
        if kind.is_dir() {
            walk(&path, look);
        }
    }
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
}
