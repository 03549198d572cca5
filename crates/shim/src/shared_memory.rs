//! `/dev/shm`: what it means for a process that it is full, and what processes that have ended left there.

use std::collections::HashSet;
use std::fs::{self, DirEntry};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use himalia_shim_protocol::Cause;
use rustix::process::Signal;

const DIR: &str = "/dev/shm";
/// Lines of `/proc/<pid>/maps` that are read of one process.
const LINES_MAX: usize = 200_000;
/// Entries of the directory that are looked at.
const ENTRIES_MAX: usize = 10_000;

/// The meaning of a death by this cause, if it is known.
pub(crate) fn explanation(cause: Cause) -> Option<String> {
    let is_bus_error = cause
        == Cause::Signal {
            signal: Signal::BUS.as_raw(),
        };
    let space = rustix::fs::statvfs(DIR).ok().filter(|_| is_bus_error)?;
    let mib = space.f_blocks.saturating_mul(space.f_frsize) >> 20;
    Some(format!(
        "mapped memory without space behind it; shared memory lies in {DIR}, which has {mib} MiB (limits.shm_bytes)"
    ))
}

/// Removes what no process of this sandbox uses. Does nothing where the shim is not the sandbox's first process: the directory may
/// be that of a host.
pub(crate) fn remove_unused() {
    if std::process::id() == 1 {
        remove_unused_in(Path::new(DIR), Path::new("/proc"));
    }
}

fn remove_unused_in(dir: &Path, proc: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let entries: Vec<DirEntry> = entries.flatten().take(ENTRIES_MAX).collect();
    if entries.is_empty() {
        return;
    }
    let used = used(dir, proc);
    let mut removed = 0_u32;
    for entry in entries {
        let path = entry.path();
        if used.iter().any(|file| file.starts_with(&path)) {
            continue;
        }
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let gone = if is_dir {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        removed += u32::from(gone.is_ok());
    }
    tracing::info!(removed, "shared memory that no process used");
}

/// The files in `dir` that a process has mapped or open. Processes whose files are hidden from this one are not of a kernel.
fn used(dir: &Path, proc: &Path) -> HashSet<PathBuf> {
    let mut used = HashSet::new();
    let processes = fs::read_dir(proc).into_iter().flatten().flatten();
    for process in processes.filter(|entry| {
        entry
            .file_name()
            .as_encoded_bytes()
            .iter()
            .all(u8::is_ascii_digit)
    }) {
        let descriptors = fs::read_dir(process.path().join("fd"))
            .into_iter()
            .flatten()
            .flatten();
        used.extend(descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()));
        let Ok(maps) = fs::File::open(process.path().join("maps")) else {
            continue;
        };
        let lines = BufReader::new(maps).lines().take(LINES_MAX).map_while(Result::ok);
        // The path is the rest of a line from its first slash on.
        used.extend(lines.filter_map(|line| line.get(line.find('/')?..).map(PathBuf::from)));
    }
    used.retain(|path| path.starts_with(dir));
    used
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_mapped_or_open_stays() {
        let root = tempfile::tempdir().unwrap();
        let (shm, proc) = (root.path().join("shm"), root.path().join("proc"));
        for dir in [
            "shm/kept_folder",
            "shm/folder",
            "proc/7/fd",
            "proc/8",
            "proc/self",
        ] {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        for file in ["mapped one", "open", "left", "kept_folder/in", "folder/in"] {
            fs::write(shm.join(file), "x").unwrap();
        }
        symlink(shm.join("open"), proc.join("7/fd/3")).unwrap();
        let line = |file: &str| {
            format!(
                "7f00-7f01 rw-s 00000000 00:19 5    {}\n",
                shm.join(file).display()
            )
        };
        let anonymous = "7f02-7f03 rw-p 00000000 00:00 0\n";
        fs::write(
            proc.join("7/maps"),
            [&line("mapped one"), anonymous, &line("kept_folder/in")].concat(),
        )
        .unwrap();
        remove_unused_in(&shm, &proc);
        let mut left: Vec<_> = fs::read_dir(&shm)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["kept_folder", "mapped one", "open"]);
        remove_unused_in(&root.path().join("missing"), &proc);
    }

    #[test]
    fn only_a_bus_error_is_explained() {
        let text = explanation(Cause::Signal { signal: 7 }).unwrap();
        assert!(text.contains("MiB (limits.shm_bytes)"), "{text}");
        assert_eq!(explanation(Cause::Signal { signal: 11 }), None);
        assert_eq!(explanation(Cause::Exit { code: 7 }), None);
    }
}
