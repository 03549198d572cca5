//! `resize`: changes the sizes of file systems in memory of a running sandbox.

use std::os::fd::{AsFd, OwnedFd};

use himalia_jail::{Failure, Resize, ResizeReply, Step, TmpfsSize};
use rustix::fs::{CWD, Mode, OFlags, fstat, fstatfs, openat};
use rustix::io::Errno;
use rustix::mount::{FsPickFlags, fsconfig_reconfigure, fspick};
use rustix::process::geteuid;
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

use crate::failure::AtStep;
use crate::root::bound;

/// Type of a tmpfs (`statfs(2)`).
const TMPFS: i64 = 0x0102_1994;

/// Enters the sandbox of a process and changes the sizes, in their order.
pub(crate) fn run(plan: &Resize, process: &OwnedFd) -> Result<ResizeReply, Failure> {
    // The user that made the mounts may change them: root in its own user namespace, others in the sandbox's.
    let namespaces = if geteuid().is_root() {
        ThreadNameSpaceType::MOUNT
    } else {
        ThreadNameSpaceType::USER | ThreadNameSpaceType::MOUNT
    };
    move_into_thread_name_spaces(process.as_fd(), namespaces).at(Step::Namespaces, "setns")?;
    for size in &plan.tmpfs {
        change(size).at(Step::Mounts, size.target.display())?;
    }
    Ok(ResizeReply {
        resized: plan.tmpfs.len(),
    })
}

fn change(size: &TmpfsSize) -> rustix::io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = openat(CWD, &size.target, flags, Mode::empty())?;
    // Those that were made for the sandbox belong to it; one of the host that is bound there does not.
    if fstatfs(&root)?.f_type != TMPFS || fstat(&root)?.st_uid == 0 {
        return Err(Errno::INVAL);
    }
    let flags = FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_EMPTY_PATH;
    let system = fspick(&root, "", flags)?;
    bound(&system, size.size_bytes)?;
    fsconfig_reconfigure(&system)
}
