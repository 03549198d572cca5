//! Checks the machine: system, limits, and the isolation that it could provide.

use std::fs;
use std::path::Path;
use std::thread;

use rustix::process::{Resource, getrlimit};

use super::finding::{Finding, Level};

/// Open files below which fifty kernels with their clients do not fit.
const FEW_FILES: u64 = 4_096;

pub(super) fn look() -> Vec<Finding> {
    vec![system(), open_files(), seccomp(), cgroups()]
}

fn system() -> Finding {
    let uname = rustix::system::uname();
    let kernel = uname.release().to_string_lossy().into_owned();
    let machine = uname.machine().to_string_lossy().into_owned();
    let processors = thread::available_parallelism().map_or_else(|_| "?".into(), |count| count.to_string());
    let memory =
        line_value("/proc/meminfo", "MemTotal:").map_or_else(|| "?".into(), |kib| mebibytes(kib * 1024));
    let text = format!("Linux {kernel} {machine}, {processors} processors, {memory} memory");
    Finding::new(Level::Info, "system", text)
}

fn open_files() -> Finding {
    let limit = getrlimit(Resource::Nofile);
    let show = |value: Option<u64>| value.map_or_else(|| "unlimited".into(), |value| value.to_string());
    let few = limit.maximum.is_some_and(|maximum| maximum < FEW_FILES);
    let text = format!(
        "{} now, raised at start to at most {}",
        show(limit.current),
        show(limit.maximum)
    );
    if few {
        let text =
            format!("{text}; a busy gateway needs {FEW_FILES} or more: ulimit -Hn, LimitNOFILE= of systemd");
        return Finding::new(Level::Warn, "open files", text);
    }
    Finding::new(Level::Good, "open files", text)
}

/// Checks for filters of system calls; the trial of namespaces loads one.
fn seccomp() -> Finding {
    match fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(actions) if actions.split_whitespace().any(|action| action == "errno") => {
            Finding::new(Level::Info, "seccomp", "there")
        }
        _ => Finding::new(
            Level::Warn,
            "seccomp",
            "this Linux has none: no sandbox can be made",
        ),
    }
}

fn cgroups() -> Finding {
    let root = Path::new("/sys/fs/cgroup");
    let text = if let Ok(controllers) = fs::read_to_string(root.join("cgroup.controllers")) {
        format!("version 2, controllers: {}", controllers.trim())
    } else if root.join("memory").is_dir() {
        "version 1".to_owned()
    } else {
        "none mounted".to_owned()
    };
    let writable = rustix::fs::access(root, rustix::fs::Access::WRITE_OK).is_ok();
    let text = format!(
        "{text}{}",
        if writable {
            ", writable"
        } else {
            ", not writable by this user"
        }
    );
    Finding::new(Level::Info, "cgroups", text)
}

/// The first number after `key` in a file of the kernel's.
fn line_value(file: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Bytes in a readable unit.
pub(super) fn mebibytes(bytes: u64) -> String {
    let mib = bytes >> 20;
    if mib < 10_240 {
        format!("{mib} MiB")
    } else {
        format!("{} GiB", mib >> 10)
    }
}
