//! Directories of the host that the operator shares with sandboxes: found, made where they may be, and whose they are.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, chownat, fchmod, fstat, mkdirat, open, openat2};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::{FileOwner, MountSource, SandboxError, SharedMount};

/// Permission bits of a directory that is made on the way to another one: it can be passed, and not listed.
const PASSED: u32 = 0o711;
/// The same of the last one, which belongs to the owner of the files.
const OWN: u32 = 0o700;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct SharedDirectory {
    pub(crate) base: PathBuf,
    pub(crate) subdirectory: PathBuf,
    /// User of the files to which the sandbox's user is mapped; `None`: not mapped.
    pub(crate) owner: Option<FileOwner>,
}

impl SharedDirectory {
    pub(crate) fn path(&self) -> PathBuf {
        // Joining nothing would add a slash.
        if self.subdirectory.as_os_str().is_empty() {
            return self.base.clone();
        }
        self.base.join(&self.subdirectory)
    }
}

/// Finds the directory of a mount, and makes it if it is missing and may be written to, unless this is `only_a_check`; `None` for what is no directory. One that shows
/// a directory of the gateway's own (`private`, resolved) is refused.
///
/// # Errors
/// [`SandboxError::BadSpec`] for `mounts`, with the name of the mount and what is wrong.
pub(crate) fn open_directory(
    mount: &SharedMount,
    private: &[PathBuf],
    only_a_check: bool,
) -> Result<Option<SharedDirectory>, SandboxError> {
    let MountSource::Directory { base, subdirectory } = &mount.source else {
        return Ok(None);
    };
    let found = SharedDirectory {
        base: base.clone(),
        subdirectory: subdirectory.clone(),
        owner: None,
    };
    let failed = |error: io::Error| bad(mount, &format!("{}: {error}", found.path().display()));
    let resolved = std::fs::canonicalize(base).map_err(failed)?;
    let shows = |own: &&PathBuf| resolved.starts_with(own) || own.starts_with(&resolved);
    if let Some(own) = private.iter().find(shows) {
        let reason = format!(
            "{} shows {}, which is the gateway's own",
            base.display(),
            own.display()
        );
        return Err(bad(mount, &reason));
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = open(base, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
    let owner = owner(mount, &top)?;
    if mount.read_only || only_a_check {
        beneath(&top, subdirectory).map_err(|error| failed(error.into()))?;
    } else {
        make(top, subdirectory, owner).map_err(failed)?;
    }
    Ok(Some(SharedDirectory { owner, ..found }))
}

/// User of the files to which the sandbox's user is mapped.
fn owner(mount: &SharedMount, top: &OwnedFd) -> Result<Option<FileOwner>, SandboxError> {
    let own = geteuid().as_raw();
    let owner = match mount.owner {
        Some(owner) => owner,
        None if mount.read_only => return Ok(None),
        None => {
            let status = fstat(top).map_err(|error| bad(mount, &error.to_string()))?;
            FileOwner {
                uid: status.st_uid,
                gid: status.st_gid,
            }
        }
    };
    if owner.uid == 0 || owner.gid == 0 {
        return Err(bad(
            mount,
            "its directory belongs to root: give it to the user whose files are to be in it, or set uid",
        ));
    }
    if own != 0 && owner.uid != own {
        let uid = owner.uid;
        return Err(bad(
            mount,
            &format!(
                "its files belong to user {uid} and the gateway runs as {own}; only root can write as another user"
            ),
        ));
    }
    Ok(Some(owner))
}

/// Opens a directory in another one, which no symbolic link leads to.
fn beneath(top: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let here = Path::new(".");
    let path = if path.as_os_str().is_empty() { here } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(top, path, flags, Mode::empty(), resolve)
}

/// Makes what is missing of a path. What is there is left as it is.
fn make(top: OwnedFd, path: &Path, owner: Option<FileOwner>) -> io::Result<()> {
    let mut at = top;
    let mut parts = path.components().peekable();
    while let Some(Component::Normal(name)) = parts.next() {
        let is_last = parts.peek().is_none();
        match mkdirat(&at, name, Mode::from_raw_mode(OWN)) {
            Ok(()) => {
                let mode = if is_last { OWN } else { PASSED };
                if let Some(owner) = owner.filter(|_| is_last && geteuid().is_root()) {
                    let ids = (
                        rustix::fs::Uid::from_raw(owner.uid),
                        rustix::fs::Gid::from_raw(owner.gid),
                    );
                    chownat(&at, name, Some(ids.0), Some(ids.1), AtFlags::SYMLINK_NOFOLLOW)?;
                }
                // The mask of this process may take bits away.
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let made = rustix::fs::openat(&at, name, flags, Mode::empty())?;
                fchmod(&made, Mode::from_raw_mode(mode))?;
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        at = beneath(&at, Path::new(name))?;
    }
    Ok(())
}

pub(crate) fn bad(mount: &SharedMount, reason: &str) -> SandboxError {
    SandboxError::BadSpec {
        field: "mounts",
        reason: format!("{}: {reason}", mount.name),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    fn mount(base: &Path, subdirectory: &str, read_only: bool) -> SharedMount {
        SharedMount {
            name: "home".to_owned(),
            source: MountSource::Directory {
                base: base.to_owned(),
                subdirectory: subdirectory.into(),
            },
            target: "/mnt/home".into(),
            read_only,
            owner: Some(FileOwner {
                uid: owner_here(),
                gid: owner_here(),
            }),
        }
    }

    /// One that this process may give files to.
    fn owner_here() -> u32 {
        match geteuid().as_raw() {
            0 => 54_321,
            own => own,
        }
    }

    #[test]
    fn what_is_missing_is_made_for_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let found = open_directory(&mount(dir.path(), "acme/ada", false), &[], false)
            .unwrap()
            .unwrap();
        let made = fs::metadata(dir.path().join("acme/ada")).unwrap();
        assert_eq!(
            (made.uid(), made.permissions().mode() & 0o7777),
            (owner_here(), OWN)
        );
        let passed = fs::metadata(dir.path().join("acme")).unwrap();
        assert_eq!(
            (passed.uid(), passed.permissions().mode() & 0o7777),
            (geteuid().as_raw(), PASSED)
        );
        assert_eq!(found.path(), dir.path().join("acme/ada"));
        // What is there stays as it is.
        fs::set_permissions(dir.path().join("acme/ada"), fs::Permissions::from_mode(0o750)).unwrap();
        open_directory(&mount(dir.path(), "acme/ada", false), &[], false).unwrap();
        assert_eq!(
            fs::metadata(dir.path().join("acme/ada"))
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o750
        );
        // Nothing is made where nothing may be written.
        let missing = open_directory(&mount(dir.path(), "other", true), &[], false)
            .unwrap_err()
            .to_string();
        assert!(
            missing.contains("home: ") && missing.contains("No such file"),
            "{missing}"
        );
        assert!(!dir.path().join("other").exists());
    }

    #[test]
    fn a_link_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        symlink(outside.path(), dir.path().join("acme")).unwrap();
        for read_only in [true, false] {
            for path in ["acme", "acme/ada"] {
                assert!(
                    open_directory(&mount(dir.path(), path, read_only), &[], false).is_err(),
                    "{path}"
                );
            }
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_the_gateways_own_is_not_shared() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        for own in [base.clone(), base.join("data"), base.parent().unwrap().to_owned()] {
            let refused = open_directory(&mount(&base, "", true), &[own], false)
                .unwrap_err()
                .to_string();
            assert!(refused.contains("gateway's own"), "{refused}");
        }
    }

    #[test]
    fn files_of_root_are_not_written_to() {
        if !geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let mut own = mount(dir.path(), "", false);
        own.owner = None;
        let refused = open_directory(&own, &[], false).unwrap_err().to_string();
        assert!(refused.contains("belongs to root"), "{refused}");
        own.read_only = true;
        assert_eq!(open_directory(&own, &[], false).unwrap().unwrap().owner, None);
    }
}
