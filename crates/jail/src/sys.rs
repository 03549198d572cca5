//! The system calls that no crate in use wraps in a safe function. All unsafe code of this crate is here.
#![allow(
    unsafe_code,
    reason = "fork, unshare, an ioctl, keyctl and descriptors by number have no safe wrapper"
)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::mount::MountAttrFlags;
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

/// The flag of a device that is on (`netdevice(7)`), in the width that `ifreq` has for it.
const IFF_UP: libc::c_short = 1;

/// The request that sets them, in the width that this C library's `ioctl` takes.
const SET_FLAGS: libc::Ioctl = libc::SIOCSIFFLAGS as libc::Ioctl;

/// Forks a process that runs `body`, ends with status 0 and never returns into the caller's code. With flags it begins
/// in new namespaces; with `CLONE_NEWPID` it is PID 1 there, and the id that is returned is the one outside. Both
/// processes own `shared` afterwards: the child's comes to `body`.
pub(crate) fn spawn<T>(namespaces: UnshareFlags, shared: T, body: impl FnOnce(T)) -> io::Result<(Pid, T)> {
    let flags = i64::from(namespaces.bits()) | i64::from(libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with a null stack this is fork(2). This program has one thread, so the child finds
    // no lock held by another; and every path below ends the child.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0_i64, 0_i64, 0_i64, 0_i64) };
    if pid == 0 {
        let status = i32::from(catch_unwind(AssertUnwindSafe(|| body(shared))).is_err());
        // SAFETY: ends the process without the exit handlers and buffers that belong to the parent.
        unsafe { libc::_exit(status) }
    }
    check(pid)?;
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    Ok((pid.ok_or(io::ErrorKind::InvalidData)?, shared))
}

/// Moves this process into new namespaces. Never with the flags that unshare descriptors, the reason why the call is
/// unsafe.
pub(crate) fn unshare(namespaces: UnshareFlags) -> io::Result<()> {
    let kinds = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS;
    // SAFETY: only namespace flags are left, and one thread exists.
    Ok(unsafe { rustix::thread::unshare_unsafe(namespaces & kinds) }?)
}

/// Sets attributes on a mount; `recursive`: on all below it too. `ids` is a user namespace whose maps become those of
/// the mount: an id of a file appears as what it is outside of that namespace.
pub(crate) fn set_mount_attributes(
    mount: impl AsFd,
    attributes: MountAttrFlags,
    recursive: bool,
    ids: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mapped = if ids.is_some() { libc::MOUNT_ATTR_IDMAP } else { 0 };
    let change = libc::mount_attr {
        attr_set: u64::from(attributes.bits()) | mapped,
        attr_clr: 0,
        propagation: 0,
        userns_fd: ids
            .and_then(|ids| u64::try_from(ids.as_raw_fd()).ok())
            .unwrap_or(0),
    };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a C string, `change` outlives the call and its size is its own.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const change,
            size_of::<libc::mount_attr>(),
        )
    };
    check(result)
}

/// Switches the device `lo` of this network namespace on; it has its two addresses then.
pub(crate) fn start_loopback(socket: impl AsFd) -> io::Result<()> {
    let name = c"lo";
    // SAFETY: `ifreq` is plain data, for which zeroes are a value; its name is longer than this one with its end.
    let mut request: libc::ifreq = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        name.as_ptr()
            .copy_to_nonoverlapping(request.ifr_name.as_mut_ptr(), name.count_bytes() + 1);
        request
    };
    request.ifr_ifru.ifru_flags = IFF_UP;
    // SAFETY: SIOCSIFFLAGS reads an `ifreq`, which outlives the call.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SET_FLAGS, &raw const request) };
    check(result.into())
}

/// Gives this process a new, empty session keyring.
pub(crate) fn leave_keyring() -> io::Result<()> {
    // SAFETY: the name is null, which means a keyring without one.
    let result = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            i64::from(libc::KEYCTL_JOIN_SESSION_KEYRING),
            0_i64,
        )
    };
    check(result.min(0))
}

/// Marks all descriptors from `first` on as to be closed by `execve`.
pub(crate) fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    // SAFETY: it closes nothing now, so no owner of a descriptor is disturbed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            i64::from(first),
            i64::from(u32::MAX),
            i64::from(libc::CLOSE_RANGE_CLOEXEC),
        )
    };
    check(result)
}

/// A duplicate of a descriptor that was inherited under this number, above the standard ones.
pub(crate) fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call takes any number, and fails for one that is not open. The result is new and has no other owner.
    unsafe {
        let copy = libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3);
        check(copy.into())?;
        Ok(OwnedFd::from_raw_fd(copy))
    }
}

/// Lets a descriptor pass through `execve` under its number.
pub(crate) fn keep_through_exec(number: RawFd) -> io::Result<()> {
    // SAFETY: the call takes any number, and fails for one that is not open.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, 0) }.into())
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
