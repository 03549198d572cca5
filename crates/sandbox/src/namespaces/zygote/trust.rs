//! Whether a program may run outside of every sandbox: only if nobody but root and this user can have put it there.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// Symbolic links, and steps to a parent, on the way to one program.
const MAX_LINKS: usize = 40;
/// Write permission of group and others.
const OTHERS_WRITE: u32 = 0o022;
/// In such a directory nobody can replace what belongs to somebody else.
const STICKY: u32 = 0o1000;
/// Directories above a program in which Python looks for `pyvenv.cfg`, so that a new file there would count.
const NEAR: usize = 2;

/// Refuses a program that another user can replace, and one that lies in `private` directories.
///
/// The program, each directory on every way to it and each symbolic link must belong to root or to this user, and
/// nobody else may write there: group members neither, unless the group is root's or this user's own. A sticky directory
/// as `/tmp` may be on the way, but not right above the program.
///
/// # Errors
/// What is wrong, with the path.
pub(super) fn check(program: &Path, private: &[PathBuf]) -> Result<(), String> {
    let mut at = program.to_owned();
    for _ in 0..MAX_LINKS {
        match walk(&at, private)? {
            None => return Ok(()),
            Some(next) => at = next,
        }
    }
    Err(format!("{} has too many symbolic links", program.display()))
}

/// Checks all parts of a path up to its first symbolic link or `..`; gives the path with that resolved.
fn walk(path: &Path, private: &[PathBuf]) -> Result<Option<PathBuf>, String> {
    if !path.is_absolute() {
        return Err(format!("{} is not an absolute path", path.display()));
    }
    if let Some(own) = private.iter().find(|own| path.starts_with(own)) {
        return Err(format!(
            "{} lies in {}, where sandboxes have files",
            path.display(),
            own.display()
        ));
    }
    let count = path.components().count();
    let mut at = PathBuf::new();
    for (index, part) in path.components().enumerate() {
        match part {
            Component::RootDir | Component::Normal(_) => at.push(part),
            Component::ParentDir => {
                // All before it is a directory and no link.
                at.pop();
                return Ok(Some(at.join(rest(path, index))));
            }
            Component::CurDir | Component::Prefix(_) => continue,
        }
        let found = fs::symlink_metadata(&at).map_err(|error| format!("{}: {error}", at.display()))?;
        if found.is_symlink() {
            check_owner(&at, &found)?;
            let to = fs::read_link(&at).map_err(|error| format!("{}: {error}", at.display()))?;
            let parent = at.parent().unwrap_or(Path::new("/"));
            return Ok(Some(parent.join(to).join(rest(path, index))));
        }
        check_owner(&at, &found)?;
        let is_near = index + 1 + NEAR >= count;
        if can_others_write(&found) && (is_near || !found.is_dir() || found.mode() & STICKY == 0) {
            return Err(format!(
                "{} can be written by others than root and this user (mode {:04o})",
                at.display(),
                found.mode() & 0o7777
            ));
        }
    }
    Ok(None)
}

/// What comes after a component.
fn rest(path: &Path, index: usize) -> PathBuf {
    path.components().skip(index + 1).collect()
}

fn check_owner(path: &Path, found: &Metadata) -> Result<(), String> {
    let uid = found.uid();
    if uid == 0 || uid == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(format!("{} belongs to user {uid}", path.display()))
}

/// A group that has its user's number is that user's own.
fn can_others_write(found: &Metadata) -> bool {
    let gid = found.gid();
    let is_own = gid == 0
        || (gid == rustix::process::getegid().as_raw() && gid == rustix::process::geteuid().as_raw());
    let counts = if is_own {
        OTHERS_WRITE & !0o020
    } else {
        OTHERS_WRITE
    };
    found.mode() & counts != 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(place.path("env/bin")).unwrap();
            fs::write(place.path("env/bin/python"), "").unwrap();
            place
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn mode(&self, name: &str, mode: u32) {
            fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
        }

        fn refusal(&self, name: &str) -> String {
            check(&self.path(name), &[]).unwrap_err()
        }
    }

    #[test]
    fn nobody_else_may_write_on_the_way() {
        let place = Place::new();
        // The directory of the test lies below a sticky one.
        assert_eq!(check(&place.path("env/bin/python"), &[]), Ok(()));
        for (name, mode, usual) in [
            ("env/bin/python", 0o777, 0o755),
            ("env/bin", 0o757, 0o755),
            ("env/bin", 0o1777, 0o755),
            ("env", 0o1777, 0o755),
            ("env", 0o702, 0o755),
        ] {
            place.mode(name, mode);
            let refused = place.refusal("env/bin/python");
            assert!(
                refused.starts_with(&format!("{} can be written", place.path(name).display())),
                "{refused}"
            );
            place.mode(name, usual);
        }
        assert!(place.refusal("env/bin/other").contains("No such file"));
        assert!(check(Path::new("python"), &[]).unwrap_err().contains("absolute"));
    }

    #[test]
    fn both_sides_of_a_link_count() {
        let place = Place::new();
        fs::create_dir_all(place.path("real/bin")).unwrap();
        fs::write(place.path("real/bin/python3.11"), "").unwrap();
        symlink("python3.11", place.path("real/bin/python3")).unwrap();
        symlink("../../real/bin/python3", place.path("env/bin/link")).unwrap();
        assert_eq!(check(&place.path("env/bin/link"), &[]), Ok(()));
        for dir in ["env/bin", "real/bin", "real"] {
            place.mode(dir, 0o777);
            assert!(place.refusal("env/bin/link").contains("can be written"), "{dir}");
            place.mode(dir, 0o755);
        }
        symlink("loop", place.path("env/bin/loop")).unwrap();
        assert!(place.refusal("env/bin/loop").contains("symbolic links"));
        // A link into a directory of the gateway is as bad as a path there.
        let refused = check(&place.path("env/bin/link"), &[place.path("real")]).unwrap_err();
        assert!(refused.contains("where sandboxes have files"), "{refused}");
        let refused = check(&place.path("env/bin/link"), &[place.path("env")]).unwrap_err();
        assert!(refused.contains("where sandboxes have files"), "{refused}");
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            // Only root can make such a file; what root itself owns is trusted.
            assert_eq!(check(Path::new("/usr/bin/env"), &[]), Ok(()));
            return;
        }
        let place = Place::new();
        for name in ["env/bin/python", "env/bin", "env"] {
            chown(place.path(name), Some(64_123), None).unwrap();
            assert!(
                place.refusal("env/bin/python").contains("belongs to user 64123"),
                "{name}"
            );
            chown(place.path(name), Some(0), None).unwrap();
        }
    }
}
