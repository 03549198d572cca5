//! Opens what is below a directory and nothing else.
//!
//! The kernel whose files these are continues meanwhile and is hostile. Links are followed as long as they stay below the
//! root; `openat2` sees to that, and where the system does not have it (gVisor) a walk that opens one name at a time
//! without following and goes through links itself. Both hold against renames: neither ever opens a path that it has
//! looked at before.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, fstat, fstatfs, mkdirat, open, openat,
    openat2, readlinkat,
};
use rustix::io::Errno;

use super::failure::{Failure, Result};
use super::path::{DEPTH_MAX, Relative};

/// Links that one path may go through, as the system has it.
const LINKS_MAX: u32 = 40;
/// Retries for a path that was moved during its lookup.
const RETRIES: u32 = 64;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Method of path resolution.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Resolver {
    /// By the system: `openat2`.
    System,
    Walk,
}

/// The root of a session's files, or of the whole sandbox.
#[derive(Debug)]
pub(super) struct Root {
    dir: OwnedFd,
    resolver: Resolver,
    scope: Scope,
}

/// Region that paths and links may lead to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Scope {
    /// Below the root; an absolute link leads out.
    WorkDir,
    /// Anywhere that the user of the sandbox may go, but for the directories of processes in `/proc`: one of them is this process's.
    Sandbox,
}

impl Scope {
    fn flags(self) -> ResolveFlags {
        let inside = match self {
            Self::WorkDir => ResolveFlags::BENEATH,
            Self::Sandbox => ResolveFlags::IN_ROOT,
        };
        inside | ResolveFlags::NO_MAGICLINKS
    }
}

impl Root {
    pub(super) fn open(path: &Path) -> Result<Self> {
        Self::at(path, Scope::WorkDir)
    }

    /// The root of the sandbox.
    pub(super) fn whole() -> Result<Self> {
        Self::at(Path::new("/"), Scope::Sandbox)
    }

    fn at(path: &Path, scope: Scope) -> Result<Self> {
        let opened = open(
            path,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let dir = opened.map_err(|error| Failure::of("the work directory", error))?;
        // Whatever a filter answers that does not know it: it is not to be had.
        let probe = openat2(
            &dir,
            ".",
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            scope.flags(),
        );
        let resolver = match probe {
            Ok(_) | Err(Errno::AGAIN) => Resolver::System,
            Err(_) => Resolver::Walk,
        };
        Ok(Self { dir, resolver, scope })
    }

    #[cfg(test)]
    pub(super) fn with_resolver(path: &Path, resolver: Resolver) -> Self {
        Self {
            resolver,
            ..Self::open(path).unwrap()
        }
    }

    /// Opens what is there; nothing is made.
    pub(super) fn get(&self, path: &Relative, flags: OFlags) -> Result<OwnedFd> {
        self.resolve(path.names(), flags)
            .map_err(|error| Failure::of(&path.text(), error))
    }

    /// Opens a directory.
    pub(super) fn dir(&self, path: &Relative) -> Result<OwnedFd> {
        self.get(path, DIRECTORY)
    }

    /// Opens the directory that `path` is in, and tells its name there, which may be a link.
    pub(super) fn parent<'a>(&self, path: &'a Relative) -> Result<(OwnedFd, &'a str)> {
        let (parent, name) = path.split()?;
        let dir = self.resolve(parent, DIRECTORY);
        Ok((dir.map_err(|error| Failure::of(&path.text(), error))?, name))
    }

    /// Opens a directory, which is made with those above it where they are missing.
    pub(super) fn make_dir(&self, names: &[String], what: &str) -> Result<OwnedFd> {
        let failed = |error| Failure::of(what, error);
        let mut dir = match self.resolve(names, DIRECTORY) {
            Err(Errno::NOENT) => self.resolve(&[], DIRECTORY).map_err(failed)?,
            other => return other.map_err(failed),
        };
        for count in 1..=names.len() {
            let Some(upto) = names.get(..count) else { break };
            dir = match self.resolve(upto, DIRECTORY) {
                Err(Errno::NOENT) => {
                    let name = upto.last().map_or("", String::as_str);
                    match mkdirat(&dir, name, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(failed(error)),
                    }
                    openat(&dir, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()).map_err(failed)?
                }
                other => other.map_err(failed)?,
            };
        }
        Ok(dir)
    }

    fn resolve(&self, names: &[String], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let found = match self.resolver {
            Resolver::System => self.ask_system(names, flags),
            Resolver::Walk => walk(self.dir.as_fd(), self.scope, names, flags),
        }?;
        if self.scope == Scope::Sandbox && is_of_a_process(found.as_fd())? {
            return Err(Errno::ACCESS);
        }
        Ok(found)
    }

    fn ask_system(&self, names: &[String], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let text = if names.is_empty() {
            ".".to_owned()
        } else {
            names.join("/")
        };
        let mut result = Err(Errno::AGAIN);
        for _ in 0..RETRIES {
            result = openat2(
                &self.dir,
                &text,
                flags | OFlags::CLOEXEC,
                Mode::empty(),
                self.scope.flags(),
            );
            if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        result
    }
}

/// True if something lies in the directory of a process. In `/proc` itself, and in `/proc/sys`, is what processes share.
pub(super) fn is_of_a_process(found: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    if !is_proc(found)? {
        return Ok(false);
    }
    let place = readlinkat(CWD, format!("/proc/self/fd/{}", found.as_raw_fd()), Vec::new())?.into_bytes();
    let Some(below) = place.strip_prefix(b"/proc") else {
        return Ok(true);
    };
    let name = below.split(|byte| *byte == b'/').nth(1).unwrap_or_default();
    Ok(name.first().is_some_and(u8::is_ascii_digit))
}

/// True for what the system makes up as it is read. Sizes there are 0.
pub(super) fn is_proc(found: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    Ok(fstatfs(found)?.f_type == PROC_SUPER_MAGIC)
}

/// Opens one name after the other, never following, and goes through links itself. `..` of a link goes back to the directory
/// that it came from, wherever that is now.
fn walk(root: BorrowedFd<'_>, scope: Scope, names: &[String], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let mut todo: VecDeque<Vec<u8>> = names.iter().map(|name| name.clone().into_bytes()).collect();
    let mut above: Vec<OwnedFd> = Vec::new();
    let mut links = 0;
    while let Some(name) = todo.pop_front() {
        if matches!(&name[..], b"" | b".") {
            continue;
        }
        if name == b".." {
            if above.pop().is_none() && scope == Scope::WorkDir {
                return Err(Errno::XDEV);
            }
            continue;
        }
        let here = above.last().map_or(root, AsFd::as_fd);
        let path_only = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = openat(here, &name[..], path_only, Mode::empty())?;
        match FileType::from_raw_mode(fstat(&found)?.st_mode) {
            FileType::Symlink => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP);
                }
                let target = readlinkat(&found, "", Vec::new())?.into_bytes();
                if target.starts_with(b"/") {
                    if scope == Scope::WorkDir {
                        return Err(Errno::XDEV);
                    }
                    // Links of `/proc` that are none: where they lead is not what they say.
                    if is_proc(found.as_fd())? && is_of_a_process(here)? {
                        return Err(Errno::LOOP);
                    }
                    above.clear();
                }
                for part in target.rsplit(|byte| *byte == b'/') {
                    todo.push_front(part.to_vec());
                }
            }
            FileType::Directory if above.len() >= 2 * DEPTH_MAX => return Err(Errno::NAMETOOLONG),
            FileType::Directory => above.push(found),
            _ if todo.is_empty() => {
                // By its name: a descriptor of this kind cannot be read. It may be another thing by now, and no link.
                return openat(
                    here,
                    &name[..],
                    flags | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                    Mode::empty(),
                );
            }
            _ => return Err(Errno::NOTDIR),
        }
    }
    let here = above.last().map_or(root, AsFd::as_fd);
    openat(here, ".", flags | OFlags::CLOEXEC, Mode::empty())
}
