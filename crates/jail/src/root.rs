//! The root of a sandbox: a tmpfs that holds what the plan names.
//!
//! Everything is a mount without a place first, made or opened while the host's files can still be seen. Then the new
//! root takes the place of the old one, which is gone before the first target is looked up: no name in a directory
//! that the sandbox could write to can lead to the host.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use himalia_jail::{Failure, HostIds, Mount, Step};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mkdirat, openat, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount, open_tree,
    unmount,
};
use rustix::process::{chdir, fchdir, pivot_root};

use crate::failure::AtStep;
use crate::proc;
use crate::shared;
use crate::sys::set_mount_attributes;

/// A directory that every host has. The new root is put on it, in this process' own view of the host, for a moment.
const STAGE: &str = "/tmp";
/// Space for the directories, links and files of the root itself.
const ROOT_BYTES: u64 = 16 << 20;
/// A tmpfs may hold one file for so many bytes of its size.
const BYTES_PER_FILE: u64 = 4 << 10;
const MIN_FILES: u64 = 1 << 10;

pub(crate) const CLOSED: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);
pub(crate) const READ_ONLY: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_RDONLY;

/// Makes the root and goes there. This process must be in a new mount namespace, with all capabilities over it. `owner`
/// is who owns what each tmpfs holds, as this process names ids.
pub(crate) fn build(mounts: &[Mount], owner: HostIds) -> Result<(), Failure> {
    // What happens here from now on does not show on the host, nor the other way round.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).at(Step::Mounts, "/")?;
    let floating = mounts.iter().map(|mount| float(mount, owner));
    let floating = floating.collect::<Result<Vec<_>, _>>()?;

    let root = memory(ROOT_BYTES, 0o755, None).at(Step::Mounts, "the root")?;
    place(&root, CWD, STAGE).at(Step::Mounts, STAGE)?;
    mkdirat(&root, "proc", Mode::from_raw_mode(0o755)).at(Step::Mounts, "/proc")?;
    proc::mount_lifeless(&root)?;
    fchdir(&root).at(Step::Mounts, STAGE)?;
    pivot_root(".", ".").at(Step::Mounts, "pivot_root")?;
    unmount(".", UnmountFlags::DETACH).at(Step::Mounts, "the host's root")?;
    chdir("/").at(Step::Mounts, "/")?;

    for (mount, floating) in mounts.iter().zip(floating) {
        enter(&root, mount, floating)?;
    }
    set_mount_attributes(&root, CLOSED | READ_ONLY, false, None).at(Step::Mounts, "the root")
}

/// The mount that an entry is, still without a place; `None` for entries that are no mounts.
fn float(mount: &Mount, owner: HostIds) -> Result<Option<OwnedFd>, Failure> {
    match mount {
        Mount::Bind {
            source, read_only, ..
        } => {
            let attributes = if *read_only { CLOSED | READ_ONLY } else { CLOSED };
            copy(source, attributes)
                .at(Step::Mounts, format_args!("source {}", source.display()))
                .map(Some)
        }
        Mount::Device { device } => {
            let attributes =
                MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC | READ_ONLY;
            copy(Path::new(device.path()), attributes)
                .at(Step::Mounts, format_args!("device {}", device.path()))
                .map(Some)
        }
        Mount::Shared {
            base,
            subdirectory,
            read_only,
            owner: of_files,
            ..
        } => {
            let ids = of_files.map(|of_files| (of_files, owner));
            shared::open(base, subdirectory, *read_only, ids).map(Some)
        }
        Mount::Tmpfs {
            target,
            size_bytes,
            mode,
        } => memory(*size_bytes, *mode, Some(owner))
            .at(Step::Mounts, target.display())
            .map(Some),
        Mount::Pty => terminals().at(Step::Mounts, "/dev/pts").map(Some),
        Mount::Symlink { .. } | Mount::File { .. } | Mount::Directory { .. } => Ok(None),
    }
}

/// A copy of the mounts at and below a path of the present root.
pub(crate) fn copy(source: &Path, attributes: MountAttrFlags) -> std::io::Result<OwnedFd> {
    // Recursive: a user namespace may not look below the mounts that it was given.
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, source, flags)?;
    set_mount_attributes(&tree, attributes, true, None)?;
    Ok(tree)
}

fn memory(size_bytes: u64, mode: u32, owner: Option<HostIds>) -> rustix::io::Result<OwnedFd> {
    let system = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&system, "source", "tmpfs")?;
    bound(&system, size_bytes)?;
    fsconfig_set_string(&system, "mode", format!("{mode:o}"))?;
    if let Some(owner) = owner {
        fsconfig_set_string(&system, "uid", owner.uid.to_string())?;
        fsconfig_set_string(&system, "gid", owner.gid.to_string())?;
    }
    fsconfig_create(&system)?;
    fsmount(&system, FsMountFlags::FSMOUNT_CLOEXEC, CLOSED)
}

/// Gives a file system in memory its size, and bounds the number of its files by it.
pub(crate) fn bound(system: &OwnedFd, size_bytes: u64) -> rustix::io::Result<()> {
    let files = (size_bytes / BYTES_PER_FILE).max(MIN_FILES);
    fsconfig_set_string(system, "size", size_bytes.to_string())?;
    fsconfig_set_string(system, "nr_inodes", files.to_string())
}

fn terminals() -> rustix::io::Result<OwnedFd> {
    let system = fsopen("devpts", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&system, "source", "devpts")?;
    fsconfig_set_string(&system, "mode", "0620")?;
    fsconfig_set_string(&system, "ptmxmode", "0666")?;
    fsconfig_create(&system)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&system, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Gives a mount its place. `path` is not followed if it is a symbolic link.
pub(crate) fn place(mount: impl AsFd, directory: impl AsFd, path: &str) -> rustix::io::Result<()> {
    move_mount(
        mount,
        "",
        directory,
        path,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
}

/// Makes an entry in the new root.
fn enter(root: &OwnedFd, mount: &Mount, floating: Option<OwnedFd>) -> Result<(), Failure> {
    let target = match mount {
        Mount::Bind { target, .. }
        | Mount::Shared { target, .. }
        | Mount::Tmpfs { target, .. }
        | Mount::Symlink { target, .. }
        | Mount::File { target, .. }
        | Mount::Directory { target } => target,
        Mount::Device { device } => Path::new(device.path()),
        Mount::Pty => Path::new("/dev/pts"),
    };
    let parent = directory_above(root, target)?;
    let name = target.file_name().unwrap_or_default();
    let at =
        |result: std::io::Result<()>| result.at(Step::Mounts, format_args!("target {}", target.display()));
    match mount {
        Mount::Symlink { to, .. } => at(symlinkat(to, &parent, name).map_err(Into::into)),
        Mount::File { content, .. } => at(write_file(&parent, name, content)),
        Mount::Directory { .. } => at(mount_point(&parent, name, true).map(drop)),
        Mount::Pty => {
            at(attach(floating, &parent, name))?;
            at(symlinkat("pts/ptmx", &parent, "ptmx").map_err(Into::into))
        }
        Mount::Bind { .. } | Mount::Shared { .. } | Mount::Tmpfs { .. } | Mount::Device { .. } => {
            at(attach(floating, &parent, name))
        }
    }
}

/// Opens the directory above `target`, making those that are missing.
fn directory_above(root: &OwnedFd, target: &Path) -> Result<OwnedFd, Failure> {
    let above = target.parent().unwrap_or(target);
    let mut at = root.try_clone().at(Step::Mounts, "the root")?;
    for part in above.components() {
        let Component::Normal(name) = part else {
            continue;
        };
        at = mount_point(&at, name, true).at(
            Step::Mounts,
            format_args!("target {}, at {}", target.display(), Path::new(name).display()),
        )?;
    }
    Ok(at)
}

/// Opens the entry `name`, making it if it is missing. A symbolic link is refused.
fn mount_point(parent: &OwnedFd, name: &OsStr, directory: bool) -> std::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || openat(parent, name, flags, Mode::empty());
    let found = match open() {
        Err(Errno::NOENT) => {
            if directory {
                mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
            } else {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                openat(parent, name, flags, Mode::from_raw_mode(0o644))?;
            }
            open()?
        }
        other => other?,
    };
    let kind = FileType::from_raw_mode(fstat(&found)?.st_mode);
    match (kind, directory) {
        (FileType::Directory, true) => Ok(found),
        (FileType::Symlink, _) => Err(std::io::Error::other("is a symbolic link")),
        (_, true) => Err(Errno::NOTDIR.into()),
        (FileType::Directory, false) => Err(Errno::ISDIR.into()),
        (_, false) => Ok(found),
    }
}

fn attach(floating: Option<OwnedFd>, parent: &OwnedFd, name: &OsStr) -> std::io::Result<()> {
    let Some(mount) = floating else {
        return Ok(());
    };
    let directory = FileType::from_raw_mode(fstat(&mount)?.st_mode) == FileType::Directory;
    let point = mount_point(parent, name, directory)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, "", point, "", flags)?)
}

fn write_file(parent: &OwnedFd, name: &OsStr, content: &str) -> std::io::Result<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(parent, name, flags, Mode::from_raw_mode(0o644))?;
    std::io::Write::write_all(&mut std::fs::File::from(file), content.as_bytes())
}
