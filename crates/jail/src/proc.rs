//! `/proc` of a sandbox.

use std::os::fd::OwnedFd;
use std::path::Path;

use himalia_jail::{Failure, ProcRules, Step};
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
};
use rustix::process::{WaitOptions, waitpid};
use rustix::thread::UnshareFlags;

use crate::failure::AtStep;
use crate::link::{Link, Note};
use crate::root::{copy, place};
use crate::sys;

const CLOSED: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID
    .union(MountAttrFlags::MOUNT_ATTR_NODEV)
    .union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

/// Files of `/proc` that reveal or control the host: the lists of Docker (`MaskedPaths`, `ReadonlyPaths`), with `sysrq-trigger`, `kmsg` and
/// `kpage*` in addition.
pub(crate) fn rules() -> ProcRules {
    let owned = |paths: &[&str]| paths.iter().map(|path| format!("/proc/{path}")).collect();
    ProcRules {
        files: owned(&[
            "interrupts",
            "kcore",
            "key-users",
            "keys",
            "kmsg",
            "kpagecgroup",
            "kpagecount",
            "kpageflags",
            "latency_stats",
            "sched_debug",
            "sysrq-trigger",
            "timer_list",
            "timer_stats",
        ]),
        directories: owned(&["acpi", "asound", "scsi"]),
        read_only: owned(&["bus", "fs", "irq", "sys"]),
    }
}

fn instance() -> rustix::io::Result<OwnedFd> {
    let system = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&system, "source", "proc")?;
    fsconfig_create(&system)?;
    fsmount(&system, FsMountFlags::FSMOUNT_CLOEXEC, CLOSED)
}

/// Puts the `/proc` of a PID namespace that has ended at `proc` in `root`.
///
/// Linux allows a process in a user namespace to mount `/proc` only where it can see one already. The host's own must
/// not be there; this one shows no process.
pub(crate) fn mount_lifeless(root: &OwnedFd) -> Result<(), Failure> {
    let (near, far) = Link::pair()?;
    let body = |()| {
        let made = instance().and_then(|proc| place(proc, root, "proc"));
        if let Err(failure) = made.at(Step::Proc, "/proc") {
            let _ = far.send(&Note::Failed(failure));
        }
    };
    let (child, ()) = sys::spawn(UnshareFlags::NEWPID, (), body).at(Step::Namespaces, "a PID namespace")?;
    drop(far);
    let said = near.receive()?;
    rustix::io::retry_on_intr(|| waitpid(Some(child), WaitOptions::empty())).at(Step::Process, "waitpid")?;
    match said {
        Some(Note::Failed(failure)) => Err(failure),
        _ => Ok(()),
    }
}

/// Mounts the `/proc` of this process' PID namespace and hides what [`rules`] says.
pub(crate) fn mount() -> Result<(), Failure> {
    let proc = instance().at(Step::Proc, "/proc")?;
    place(proc, CWD, "/proc").at(Step::Proc, "/proc")?;
    let rules = rules();
    for path in &rules.files {
        cover(path, || {
            copy(
                Path::new("/dev/null"),
                CLOSED.difference(MountAttrFlags::MOUNT_ATTR_NODEV),
            )
        })?;
    }
    for path in &rules.directories {
        cover(path, || Ok(nothing()?))?;
    }
    for path in &rules.read_only {
        cover(path, || {
            copy(Path::new(path), CLOSED | MountAttrFlags::MOUNT_ATTR_RDONLY)
        })?;
    }
    Ok(())
}

/// Mounts over a path, if it exists.
fn cover(path: &str, with: impl FnOnce() -> std::io::Result<OwnedFd>) -> Result<(), Failure> {
    let covered = match rustix::fs::statat(CWD, path, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => with().and_then(|mount| Ok(place(mount, CWD, path)?)),
    };
    covered.at(Step::Proc, path)
}

/// An empty directory.
fn nothing() -> rustix::io::Result<OwnedFd> {
    let system = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&system, "source", "tmpfs")?;
    fsconfig_set_string(&system, "size", "4096")?;
    fsconfig_set_string(&system, "mode", "555")?;
    fsconfig_create(&system)?;
    fsmount(
        &system,
        FsMountFlags::FSMOUNT_CLOEXEC,
        CLOSED | MountAttrFlags::MOUNT_ATTR_RDONLY,
    )
}
