//! The directories above the data directory: who may write to one of them can put another directory in place of the data directory.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};

const OTHERS_WRITE: u32 = 0o002;
/// In such a directory no user can replace what belongs to another one.
const STICKY: u32 = 0o1000;
/// Symbolic links, and steps to a parent, on the way.
const MAX_LINKS: usize = 40;
/// A pod has this variable, and no users beside those of its containers. Its volumes are writable for all of them.
const POD: &str = "KUBERNETES_SERVICE_HOST";

/// Checks each directory and each symbolic link on the way to a directory, as far as it is there: it belongs to root or to this user, and if
/// every user may write to it, it is sticky.
///
/// # Errors
/// Names the directory or the link, its mode or its owner, and what to do.
pub(crate) fn check(dir: &Path) -> anyhow::Result<()> {
    check_for(dir, Trust::of_this_process())
}

/// Owners whose directories are trusted.
#[derive(Clone, Copy)]
struct Trust {
    user: u32,
    /// Owner that the system shows for users without a number in this user namespace, for example for root of the host.
    unmapped: Option<u32>,
    in_pod: bool,
}

impl Trust {
    fn of_this_process() -> Self {
        Self {
            user: rustix::process::geteuid().as_raw(),
            unmapped: unmapped(),
            in_pod: std::env::var_os(POD).is_some(),
        }
    }

    fn check(self, at: &Path, found: &Metadata, dir: &Path) -> anyhow::Result<()> {
        let (owner, mode) = (found.uid(), found.mode() & 0o7777);
        let (at, dir) = (at.display(), dir.display());
        if owner != 0 && owner != self.user && Some(owner) != self.unmapped {
            bail!(
                "data_dir: {at}, above {dir}, belongs to the user with uid {owner} (mode {mode:o}), who could put another directory in its \
                 place; expected root or uid {}, which runs the gateway: give a directory whose parents belong to them, with --data-dir",
                self.user
            );
        }
        let is_open = mode & OTHERS_WRITE != 0 && mode & STICKY == 0;
        if is_open && !found.is_symlink() && !self.in_pod {
            bail!(
                "data_dir: every user may write to {at} (mode {mode:o}), above {dir}, and could put another directory in its place; run \
                 chmod o-w {at}, or chmod +t {at} if others need it"
            );
        }
        Ok(())
    }
}

fn check_for(dir: &Path, trust: Trust) -> anyhow::Result<()> {
    let mut way = dir.to_owned();
    for _ in 0..MAX_LINKS {
        match walk(&way, dir, trust)? {
            None => return Ok(()),
            Some(next) => way = next,
        }
    }
    bail!(
        "data_dir: there are too many symbolic links on the way to {}",
        dir.display()
    )
}

/// Checks what is above the last part of a path, up to the first symbolic link or `..`; the path with that resolved.
fn walk(way: &Path, dir: &Path, trust: Trust) -> anyhow::Result<Option<PathBuf>> {
    let parts: Vec<Component<'_>> = way.components().collect();
    let mut at = PathBuf::new();
    for (index, part) in parts.iter().enumerate() {
        let rest = || parts.iter().skip(index + 1).collect::<PathBuf>();
        if *part == Component::ParentDir {
            // All before it is a directory and no link.
            at.pop();
            return Ok(Some(at.join(rest())));
        }
        at.push(part);
        let found = match fs::symlink_metadata(&at) {
            Ok(found) => found,
            // It is to be made, and what is below it too.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("data_dir: cannot look at {}", at.display()));
            }
        };
        if found.is_symlink() {
            trust.check(&at, &found, dir)?;
            let to = fs::read_link(&at)
                .with_context(|| format!("data_dir: cannot read the link {}", at.display()))?;
            let above = at.parent().unwrap_or(Path::new("/"));
            return Ok(Some(above.join(to).join(rest())));
        }
        if index + 1 < parts.len() {
            trust.check(&at, &found, dir)?;
        }
    }
    Ok(None)
}

/// The owner that files of users without a number have; `None` where all users have one.
fn unmapped() -> Option<u32> {
    let map = fs::read_to_string("/proc/self/uid_map").ok()?;
    let mut words = map.split_whitespace();
    if (words.next(), words.next(), words.next()) == (Some("0"), Some("0"), Some("4294967295")) {
        return None;
    }
    fs::read_to_string("/proc/sys/kernel/overflowuid")
        .ok()?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    /// A tree of directories, whose own one is not writable for others.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            fs::create_dir_all(tree.path("a/b")).unwrap();
            tree
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn mode(&self, name: &str, mode: u32) {
            fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
        }

        fn refusal(&self, name: &str) -> String {
            check(&self.path(name)).unwrap_err().to_string()
        }
    }

    #[test]
    fn a_parent_that_every_user_may_write_to_is_refused() {
        let tree = Tree::new();
        // The directory of the test lies below a sticky one.
        check(&tree.path("a/b/data")).unwrap();
        for (name, mode) in [("a/b", 0o777), ("a", 0o777), ("a", 0o703), ("a", 0o2777)] {
            tree.mode(name, mode);
            for data in ["a/b/data", "a/b/new/data"] {
                let (refused, at) = (tree.refusal(data), tree.path(name).display().to_string());
                let wanted = format!("every user may write to {at} (mode {mode:o})");
                assert!(
                    refused.contains(&wanted) && refused.contains(&format!("chmod o-w {at}")),
                    "{refused}"
                );
            }
            let in_pod = Trust {
                in_pod: true,
                ..Trust::of_this_process()
            };
            check_for(&tree.path("a/b/data"), in_pod).unwrap();
            tree.mode(name, 0o755);
        }
        for mode in [0o1777, 0o775, 0o755] {
            tree.mode("a", mode);
            check(&tree.path("a/b/data")).unwrap();
        }
        // Its own mode is not that of a parent.
        tree.mode("a/b", 0o777);
        check(&tree.path("a/b")).unwrap();
    }

    #[test]
    fn both_sides_of_a_link_count() {
        let tree = Tree::new();
        fs::create_dir_all(tree.path("c/d")).unwrap();
        symlink("../c/d", tree.path("a/link")).unwrap();
        check(&tree.path("a/link/data")).unwrap();
        for open in ["a", "c", "c/d"] {
            tree.mode(open, 0o777);
            for data in ["a/link/data", "a/b/../link/data"] {
                assert!(
                    tree.refusal(data).contains("every user may write"),
                    "{open} {data}"
                );
            }
            tree.mode(open, 0o755);
        }
        symlink("loop", tree.path("a/loop")).unwrap();
        assert!(tree.refusal("a/loop/data").contains("symbolic links"));
    }

    #[test]
    fn a_parent_of_another_user_is_refused() {
        let tree = Tree::new();
        let mut trust = Trust::of_this_process();
        // Only root can give one away; for another user, those of this one are another user's.
        if chown(tree.path("a"), Some(64_123), None).is_err() {
            trust.user = 64_123;
        }
        let data = tree.path("a/b/data");
        let refused = check_for(&data, trust).unwrap_err().to_string();
        assert!(refused.contains("belongs to the user with uid"), "{refused}");
        let owner = fs::metadata(tree.path("a")).unwrap().uid();
        trust.unmapped = Some(owner);
        check_for(&data, trust).unwrap();
    }
}
