//! Decides whether a program may run outside of every sandbox: only if no user except root and this one could write it.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// Symbolic links, and steps to a parent, on the way to one program.
const MAX_LINKS: usize = 40;
/// Write permission of group and others.
const OTHERS_WRITE: u32 = 0o022;
/// In such a directory no user can replace what belongs to another user.
const STICKY: u32 = 0o1000;
/// Directories above a program in which Python looks for `pyvenv.cfg`, so that a new file there would count.
const NEAR: usize = 2;

/// Refuses a program that another user can replace, and one that lies in `private` directories.
///
/// The program, each directory on every way to it and each symbolic link must belong to root or to this user, and no
/// other user may write there, not even members of the group, unless the group is root's or this user's own. A sticky
/// directory as `/tmp` may be on the way, but not right above the program.
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

/// Rest of the path after a component.
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

    struct ProgramTree(tempfile::TempDir);

    impl ProgramTree {
        fn new() -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(tree.path("env/bin")).unwrap();
            fs::write(tree.path("env/bin/python"), "").unwrap();
            tree
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
    fn no_other_user_may_write_on_the_way() {
        let tree = ProgramTree::new();
        // The directory of the test lies below a sticky one.
        assert_eq!(check(&tree.path("env/bin/python"), &[]), Ok(()));
        for (name, mode, usual) in [
            ("env/bin/python", 0o777, 0o755),
            ("env/bin", 0o757, 0o755),
            ("env/bin", 0o1777, 0o755),
            ("env", 0o1777, 0o755),
            ("env", 0o702, 0o755),
        ] {
            tree.mode(name, mode);
            let refused = tree.refusal("env/bin/python");
            assert!(
                refused.starts_with(&format!("{} can be written", tree.path(name).display())),
                "{refused}"
            );
            tree.mode(name, usual);
        }
        assert!(tree.refusal("env/bin/other").contains("No such file"));
        assert!(check(Path::new("python"), &[]).unwrap_err().contains("absolute"));
    }

    #[test]
    fn both_sides_of_a_link_count() {
        let tree = ProgramTree::new();
        fs::create_dir_all(tree.path("real/bin")).unwrap();
        fs::write(tree.path("real/bin/python3.11"), "").unwrap();
        symlink("python3.11", tree.path("real/bin/python3")).unwrap();
        symlink("../../real/bin/python3", tree.path("env/bin/link")).unwrap();
        assert_eq!(check(&tree.path("env/bin/link"), &[]), Ok(()));
        for dir in ["env/bin", "real/bin", "real"] {
            tree.mode(dir, 0o777);
            assert!(tree.refusal("env/bin/link").contains("can be written"), "{dir}");
            tree.mode(dir, 0o755);
        }
        symlink("loop", tree.path("env/bin/loop")).unwrap();
        assert!(tree.refusal("env/bin/loop").contains("symbolic links"));
        // A link into a directory of the gateway is as bad as a path there.
        let refused = check(&tree.path("env/bin/link"), &[tree.path("real")]).unwrap_err();
        assert!(refused.contains("where sandboxes have files"), "{refused}");
        let refused = check(&tree.path("env/bin/link"), &[tree.path("env")]).unwrap_err();
        assert!(refused.contains("where sandboxes have files"), "{refused}");
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            // Only root can make such a file; what root itself owns is trusted.
            assert_eq!(check(Path::new("/usr/bin/env"), &[]), Ok(()));
            return;
        }
        let tree = ProgramTree::new();
        for name in ["env/bin/python", "env/bin", "env"] {
            chown(tree.path(name), Some(64_123), None).unwrap();
            assert!(
                tree.refusal("env/bin/python").contains("belongs to user 64123"),
                "{name}"
            );
            chown(tree.path(name), Some(0), None).unwrap();
        }
    }
}
