//! Directories, volumes and claims that the operator shares with sandboxes.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::inside::DATA_DIR;
use crate::{SandboxError, SandboxSpec};

/// Mounts that one sandbox may have.
pub const MAX_MOUNTS: usize = 16;
/// First components of places in a sandbox that no mount may have: the system, and what every sandbox has.
const TAKEN: &[&str] = &[
    "bin", "boot", "dev", "etc", "himalia", "lib", "lib32", "lib64", "libx32", "nix", "proc", "root", "run",
    "sbin", "session", "sys", "tmp", "usr",
];

/// One mount of a sandbox. What a caller says is in none of its fields, except as a name that replaces a placeholder.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct SharedMount {
    /// The operator's name for it, for messages.
    pub name: String,
    /// Source of the files.
    pub source: MountSource,
    /// Absolute path in the sandbox; [`check_target`] has the rules.
    pub target: PathBuf,
    /// True if the sandbox can only read the files.
    pub read_only: bool,
    /// The owner of the files in it, who the sandbox's user is to them. `None`: the owner of the directory where it is
    /// writable; no user in particular where it is read-only.
    pub owner: Option<FileOwner>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum MountSource {
    /// A directory of the host.
    Directory {
        /// An existing directory, absolute. Symbolic links in it are the operator's, and are followed.
        base: PathBuf,
        /// The part of it that is mounted, relative, without `.` and `..`; empty: all. A symbolic link in it is refused. Where the
        /// mount is writable it is made if it is missing.
        subdirectory: PathBuf,
    },
    /// A volume of the container engine.
    Volume(String),
    /// A claim of the cluster's namespace.
    Claim {
        /// Name of the volume claim.
        claim: String,
        /// As that of a directory.
        subdirectory: PathBuf,
    },
}

impl MountSource {
    pub fn kind(&self) -> MountKind {
        match self {
            Self::Directory { .. } => MountKind::Directory,
            Self::Volume(_) => MountKind::Volume,
            Self::Claim { .. } => MountKind::Claim,
        }
    }
}

/// Kinds of what is mounted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MountKind {
    /// [`MountSource::Directory`].
    Directory,
    /// [`MountSource::Volume`].
    Volume,
    /// [`MountSource::Claim`].
    Claim,
}

impl MountKind {
    /// The key of configuration that names one.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Volume => "volume",
            Self::Claim => "claim",
        }
    }
}

/// Ids of the owner of files, on the host. Neither is root's.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct FileOwner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// Checks that a mount may be at this path of a sandbox.
///
/// # Errors
/// The reason, for a text that begins with the name of the field.
pub fn check_target(target: &Path) -> Result<(), String> {
    let mut parts = target.components();
    let plain = parts.next() == Some(Component::RootDir)
        && target
            .to_str()
            .is_some_and(|text| !text.contains(['\0', ':', ',']))
        && parts.all(|part| matches!(part, Component::Normal(_)));
    if !plain {
        return Err("must be an absolute path without . and ..".to_owned());
    }
    let first = target.components().nth(1);
    let first = first
        .and_then(|part| part.as_os_str().to_str())
        .unwrap_or_default();
    if first.is_empty() || TAKEN.contains(&first) {
        return Err(format!(
            "{} is a place of the sandbox itself; use one such as /mnt/NAME, /data or /home/NAME",
            target.display()
        ));
    }
    Ok(())
}

/// Two of the places that cover one another.
pub fn overlapping<'a>(targets: &[&'a Path]) -> Option<(&'a Path, &'a Path)> {
    targets.iter().enumerate().find_map(|(at, one)| {
        let other = targets[..at]
            .iter()
            .find(|other| one.starts_with(other) || other.starts_with(one));
        other.map(|other| (*other, *one))
    })
}

/// Returns true if the sandbox shows its work directory at [`DATA_DIR`] too: the spec requests it, and no mount has that path.
pub fn shows_data(spec: &SandboxSpec) -> bool {
    let place = Path::new(DATA_DIR);
    let mut targets = spec.mounts.iter().map(|mount| mount.target.as_path());
    spec.show_data && !targets.any(|target| target.starts_with(place) || place.starts_with(target))
}

/// Refuses mounts of kinds that a provisioner does not have.
///
/// # Errors
/// [`SandboxError::BadSpec`] for `mounts`.
pub fn check_kinds(mounts: &[SharedMount], kinds: &[MountKind]) -> Result<(), SandboxError> {
    let missing = mounts.iter().find(|mount| !kinds.contains(&mount.source.kind()));
    missing.map_or(Ok(()), |mount| {
        Err(SandboxError::BadSpec {
            field: "mounts",
            reason: format!(
                "{}: a {} cannot be mounted here",
                mount.name,
                mount.source.kind().as_str()
            ),
        })
    })
}

/// Refuses mounts that one sandbox cannot have: of kinds that a provisioner does not have, too many, and bad places.
///
/// # Errors
/// [`SandboxError::BadSpec`] for `mounts`.
pub fn check_mounts(mounts: &[SharedMount], kinds: &[MountKind]) -> Result<(), SandboxError> {
    let bad = |reason: String| {
        Err(SandboxError::BadSpec {
            field: "mounts",
            reason,
        })
    };
    check_kinds(mounts, kinds)?;
    if mounts.len() > MAX_MOUNTS {
        return bad(format!("are {}, at most {MAX_MOUNTS} are allowed", mounts.len()));
    }
    for mount in mounts {
        check_target(&mount.target).or_else(|reason| bad(format!("{}: path {reason}", mount.name)))?;
    }
    let targets: Vec<_> = mounts.iter().map(|mount| mount.target.as_path()).collect();
    match overlapping(&targets) {
        None => Ok(()),
        Some((one, other)) => bad(format!(
            "{} and {} cover one another",
            one.display(),
            other.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_not_one_of_the_sandbox() {
        for good in ["/data", "/mnt/a", "/home/kernel", "/opt/data"] {
            assert_eq!(check_target(Path::new(good)), Ok(()), "{good}");
        }
        for bad in [
            "",
            "/",
            "data",
            "/data/../etc",
            "/etc",
            "/session/a",
            "/usr/share/x",
            "/tmp",
            "/proc/1",
            "/a:b",
            "/a,b",
        ] {
            assert!(check_target(Path::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn places_that_cover_one_another_are_found() {
        let found = |texts: &[&str]| {
            let paths: Vec<_> = texts.iter().map(Path::new).collect();
            overlapping(&paths).is_some()
        };
        assert!(!found(&["/a", "/ab", "/b/c", "/b/d"]));
        for covered in [["/a", "/b", "/a/c"], ["/a/c", "/b", "/a"], ["/a", "/b", "/a"]] {
            assert!(found(&covered), "{covered:?}");
        }
    }
}
