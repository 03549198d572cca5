//! Removes a directory with hostile contents: any depth, any modes, links to any path.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Removes `name` in `parent` with all that is in it. No link is followed. Nothing may write to it meanwhile.
///
/// Directories inside directories are moved up first, so that neither memory, descriptors nor the stack grow with the
/// depth of the tree.
pub(super) fn remove(parent: &Path, name: &str) -> io::Result<()> {
    let parent = rustix::fs::open(parent, FLAGS, Mode::empty())?;
    let top = match open(parent.as_fd(), name) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(rustix::fs::unlinkat(parent, name, AtFlags::empty())?),
        Err(error) => return Err(error.into()),
    };
    let mut moved: u64 = 0;
    loop {
        let names = names(&top)?;
        if names.is_empty() {
            break;
        }
        for name in names {
            if !unlink(top.as_fd(), &name)? {
                flatten(top.as_fd(), &name, &mut moved)?;
            }
        }
    }
    Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}

/// Empties the directory `name` in `top`: its files go, its directories become entries of `top`. Then removes it.
fn flatten(top: BorrowedFd<'_>, name: &CString, moved: &mut u64) -> io::Result<()> {
    let directory = open(top, name.as_c_str())?;
    for child in names(&directory)? {
        if unlink(directory.as_fd(), &child)? {
            continue;
        }
        // Moving a directory changes its `..`, for which it must be writable.
        drop(open(directory.as_fd(), child.as_c_str())?);
        loop {
            *moved += 1;
            // A name that is taken by something else than an empty directory is refused, and the next one is tried.
            match rustix::fs::renameat(directory.as_fd(), &child, top, format!("moved-{moved}")) {
                Ok(()) => break,
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(rustix::fs::unlinkat(top, name, AtFlags::REMOVEDIR)?)
}

/// Removes what is not a directory; `false` for a directory.
fn unlink(directory: BorrowedFd<'_>, name: &CString) -> io::Result<bool> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens a directory, made readable and writable for its owner.
fn open<P: rustix::path::Arg + Copy>(directory: BorrowedFd<'_>, name: P) -> Result<OwnedFd, Errno> {
    let opened = match rustix::fs::openat(directory, name, FLAGS, Mode::empty()) {
        Err(Errno::ACCESS) => {
            // It is a directory, not a link: for a link the error is another one.
            rustix::fs::chmodat(directory, name, Mode::RWXU, AtFlags::empty())?;
            rustix::fs::openat(directory, name, FLAGS, Mode::empty())?
        }
        other => other?,
    };
    rustix::fs::fchmod(&opened, Mode::RWXU)?;
    Ok(opened)
}

/// Names in a directory, at most a few thousand of them: the caller comes again until there are none.
fn names(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    const AT_ONCE: usize = 4096;
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
        if names.len() >= AT_ONCE {
            break;
        }
    }
    Ok(names)
}
