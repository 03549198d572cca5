//! Descriptors that were inherited under a number given on the command line.
#![allow(
    unsafe_code,
    reason = "std has no safe way to own a descriptor that is known by its number only"
)]

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

/// Takes over descriptor `number` and closes it in programs that are executed later.
///
/// Must be called once per number, before the process opens anything of its own: then the number cannot belong to
/// something that this process has opened, and so nothing else owns it. Standard input, output and error are refused,
/// since the standard library uses them.
///
/// # Errors
/// When there is no such descriptor.
pub(crate) fn take(number: RawFd) -> io::Result<OwnedFd> {
    if number < 3 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "must be at least 3"));
    }
    // SAFETY: only used to ask the kernel about the number, which fails when it is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_getfd(borrowed)?;
    fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
    // SAFETY: it is open (just checked) and nothing owns it (see above).
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
