//! Directories of the host that sandboxes share, with ids mapped where their files have an owner.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use himalia_jail::{Failure, HostIds, NamespaceKind, Step};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};
use rustix::process::{WaitOptions, waitpid};
use rustix::thread::UnshareFlags;

use crate::failure::AtStep;
use crate::link::Link;
use crate::root::{CLOSED, READ_ONLY};
use crate::sys::{self, set_mount_attributes};

/// The mount of a shared directory, without a place. `ids`: the owner of its files, and who that is to be.
pub(crate) fn open(
    base: &Path,
    subdirectory: &Path,
    read_only: bool,
    ids: Option<(HostIds, HostIds)>,
) -> Result<OwnedFd, Failure> {
    let source = base.join(subdirectory);
    let at = format_args!("source {}", source.display()).to_string();
    let directory = directory(base, subdirectory).at(Step::Mounts, &at)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(&directory, "", flags).at(Step::Mounts, &at)?;
    let attributes: MountAttrFlags = if read_only { CLOSED | READ_ONLY } else { CLOSED };
    let Some((of_files, sandbox)) = ids else {
        set_mount_attributes(&tree, attributes, true, None).at(Step::Mounts, &at)?;
        return Ok(tree);
    };
    let namespace = mapping(of_files, sandbox)?;
    set_mount_attributes(&tree, attributes, true, Some(namespace.as_fd())).at(
        Step::Mounts,
        format_args!("{at}: ids cannot be mapped (its file system or this Linux has no idmapped mounts)"),
    )?;
    Ok(tree)
}

fn directory(base: &Path, subdirectory: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = openat(CWD, base, flags, Mode::empty())?;
    if subdirectory.as_os_str().is_empty() {
        return Ok(top);
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(&top, subdirectory, flags, Mode::empty(), resolve)
}

/// A user namespace in which the ids of the files are what is outside those of the sandbox. A process that does nothing
/// holds it until it is opened.
fn mapping(of_files: HostIds, sandbox: HostIds) -> Result<File, Failure> {
    let (near, far) = Link::pair()?;
    let (pid, near) = sys::spawn(UnshareFlags::NEWUSER, near, |near| {
        drop(near);
        // Until the other end is closed.
        let _ = far.receive();
    })
    .at(Step::IdMap, "fork")?;
    let process = format!("/proc/{}", pid.as_raw_nonzero());
    let write = |file: &str, inside: u32, outside: u32| {
        std::fs::write(format!("{process}/{file}"), format!("{inside} {outside} 1\n")).at(Step::IdMap, file)
    };
    let opened = write("gid_map", of_files.gid, sandbox.gid)
        .and_then(|()| write("uid_map", of_files.uid, sandbox.uid))
        .and_then(|()| {
            let user = NamespaceKind::User.name();
            File::open(format!("{process}/ns/{user}")).at(Step::Namespaces, user)
        });
    drop(near);
    let _ = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
    opened
}
