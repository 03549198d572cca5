//! Directories and files of the host that are mounted into the sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use himalia_jail::Mount;

use crate::SandboxError;

/// Binds that one spec may have.
const MAX_BINDS: usize = 128;
/// Symbolic links that are followed in one path.
const MAX_LINKS: usize = 40;
/// Places that are made otherwise in every sandbox, or show the host. Nothing is bound there or below.
const TAKEN: [&str; 6] = ["/proc", "/sys", "/dev", "/etc", "/himalia", "/session"];
/// A place that is made otherwise, below which more can be bound.
const MADE: &str = "/tmp";

/// Bind mounts of a root in addition to the system's directories. Each host path is mounted at the same path, and symbolic links on the way
/// to it are kept, so that every spelling that works on the host works in the sandbox.
#[derive(Debug)]
pub(super) struct Binds<'a> {
    /// Directories of the gateway, resolved; they and what holds them cannot be bound.
    private: &'a [PathBuf],
    /// Directories that are already mounted, with everything below them.
    covered: Vec<PathBuf>,
    paths: BTreeSet<PathBuf>,
    links: BTreeMap<PathBuf, PathBuf>,
}

impl<'a> Binds<'a> {
    /// `covered` are directories, resolved, that the root has in any case.
    pub(super) fn new(private: &'a [PathBuf], covered: Vec<PathBuf>) -> Self {
        Self {
            private,
            covered,
            paths: BTreeSet::new(),
            links: BTreeMap::new(),
        }
    }

    /// Adds the paths of a spec.
    pub(super) fn add_all(&mut self, paths: &[PathBuf]) -> Result<(), SandboxError> {
        if paths.len() > MAX_BINDS {
            return Err(bad(format!(
                "are {}, at most {MAX_BINDS} are allowed",
                paths.len()
            )));
        }
        paths.iter().try_for_each(|path| self.add(path))
    }

    fn add(&mut self, path: &Path) -> Result<(), SandboxError> {
        let plain = path.is_absolute()
            && path.to_str().is_some()
            && path
                .components()
                .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        if !plain {
            return Err(bad(format!(
                "{} is not an absolute path in UTF-8 without . and ..",
                path.display()
            )));
        }
        let mut at = path.to_owned();
        for _ in 0..MAX_LINKS {
            let Some((link, to, rest)) = first_link(&at) else {
                return self.add_resolved(path, at);
            };
            if !self.is_covered(&link) {
                check_place(path, &link)?;
                self.links.insert(link, to.clone());
            }
            at = to.join(rest);
        }
        Err(bad(format!("{} has too many symbolic links", path.display())))
    }

    fn add_resolved(&mut self, asked: &Path, path: PathBuf) -> Result<(), SandboxError> {
        if self.is_covered(&path) {
            return Ok(());
        }
        check_place(asked, &path)?;
        if let Err(error) = fs::metadata(&path) {
            return Err(bad(format!("{}: {error}", asked.display())));
        }
        for private in self.private {
            if path.starts_with(private) || private.starts_with(&path) {
                return Err(bad(format!(
                    "{} shows {}, which is the gateway's own",
                    asked.display(),
                    private.display()
                )));
            }
        }
        self.paths.insert(path);
        Ok(())
    }

    fn is_covered(&self, path: &Path) -> bool {
        self.covered.iter().any(|covered| path.starts_with(covered))
    }

    /// The entries, in an order in which each can be made.
    pub(super) fn into_mounts(self) -> Vec<Mount> {
        let mut mounts = Vec::new();
        // In the order of a BTreeSet a directory comes before what is in it.
        let mut last: Option<&Path> = None;
        for path in &self.paths {
            if last.is_some_and(|last| path.starts_with(last)) {
                continue;
            }
            last = Some(path);
            mounts.push(read_only(path));
        }
        let bound = |path: &Path| self.paths.iter().any(|bind| path.starts_with(bind));
        let links = self.links.iter().filter(|(link, _)| !bound(link));
        mounts.extend(links.map(|(link, to)| Mount::Symlink {
            target: link.clone(),
            to: to.clone(),
        }));
        mounts
    }
}

/// A path of the host at its own place.
pub(super) fn read_only(path: &Path) -> Mount {
    Mount::Bind {
        source: path.to_owned(),
        target: path.to_owned(),
        read_only: true,
    }
}

fn bad(reason: String) -> SandboxError {
    SandboxError::BadSpec {
        field: "binds",
        reason,
    }
}

fn check_place(asked: &Path, path: &Path) -> Result<(), SandboxError> {
    let holds = |place: &str| Path::new(place).starts_with(path);
    let mut taken = TAKEN
        .into_iter()
        .filter(|place| path.starts_with(place) || holds(place));
    match taken.next().or_else(|| holds(MADE).then_some(MADE)) {
        None => Ok(()),
        Some(place) => Err(bad(format!(
            "{} would cover {place} of the sandbox or show it the host's",
            asked.display()
        ))),
    }
}

/// The first component that is a symbolic link, what it points to (absolute, without `.` and `..`), and what comes after it.
fn first_link(path: &Path) -> Option<(PathBuf, PathBuf, PathBuf)> {
    let mut at = PathBuf::from("/");
    let mut parts = path.components();
    parts.next();
    while let Some(part) = parts.next() {
        let parent = at.clone();
        at.push(part);
        let Ok(to) = fs::read_link(&at) else { continue };
        let mut target = if to.is_absolute() {
            PathBuf::from("/")
        } else {
            parent
        };
        for part in to.components() {
            match part {
                Component::Normal(name) => target.push(name),
                // The parent has no link in it: this is what the kernel would do.
                Component::ParentDir => {
                    target.pop();
                }
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        return Some((at, target, parts.as_path().to_owned()));
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mounts(paths: &[&Path], covered: &[&Path]) -> Result<Vec<Mount>, SandboxError> {
        let private = [PathBuf::from("/var/lib/himalia/data")];
        let mut binds = Binds::new(&private, covered.iter().map(|path| (*path).to_owned()).collect());
        let paths: Vec<PathBuf> = paths.iter().map(|path| (*path).to_owned()).collect();
        binds.add_all(&paths)?;
        Ok(binds.into_mounts())
    }

    fn refusal(path: &str) -> String {
        mounts(&[Path::new(path)], &[]).unwrap_err().to_string()
    }

    #[test]
    fn places_of_the_host_and_of_the_gateway_are_refused() {
        for path in ["usr", "/usr/../etc", "", "/a/./../b"] {
            assert!(refusal(path).contains("absolute"), "{path}");
        }
        for path in [
            "/",
            "/proc",
            "/proc/self",
            "/sys/fs",
            "/dev/sda",
            "/etc",
            "/tmp",
            "/etc/shadow",
            "/himalia/bin",
            "/session",
        ] {
            assert!(refusal(path).contains("would cover"), "{path}");
        }
        assert!(refusal("/missing/path").contains("No such file"));
        let dir = tempfile::tempdir().unwrap();
        symlink("/proc/self", dir.path().join("sly")).unwrap();
        let sly = dir.path().join("sly");
        assert!(refusal(sly.to_str().unwrap()).contains("would cover"));
        symlink("loop", dir.path().join("loop")).unwrap();
        assert!(refusal(dir.path().join("loop").to_str().unwrap()).contains("symbolic links"));
        let private = [fs::canonicalize(dir.path()).unwrap().join("inner/data")];
        fs::create_dir_all(private[0].join("files")).unwrap();
        for path in [
            dir.path().join("inner"),
            private[0].clone(),
            private[0].join("files"),
        ] {
            let refused = Binds::new(&private, Vec::new()).add_all(&[path]);
            assert!(refused.unwrap_err().to_string().contains("gateway's own"));
        }
        let many = vec![PathBuf::from("/usr"); MAX_BINDS + 1];
        assert!(Binds::new(&[], Vec::new()).add_all(&many).is_err());
    }

    #[test]
    fn nested_and_double_ones_are_bound_once() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(base.join("a/b")).unwrap();
        // It sorts between a and a/b as text, not as a path.
        fs::create_dir_all(base.join("a-b")).unwrap();
        let (a, b, ab) = (base.join("a"), base.join("a/b"), base.join("a-b"));
        assert_eq!(
            mounts(&[&b, &ab, &a, &a], &[]).unwrap(),
            [read_only(&a), read_only(&ab)]
        );
        assert!(mounts(&[&b, &a], &[&base]).unwrap().is_empty());
    }

    #[test]
    fn links_on_the_way_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(base.join("real/deep/python")).unwrap();
        symlink("real", base.join("first")).unwrap();
        symlink("deep/../deep", base.join("real/second")).unwrap();
        let asked = base.join("first/second/python");
        let link = |from: PathBuf, to: PathBuf| Mount::Symlink { target: from, to };
        assert_eq!(
            mounts(&[&asked], &[]).unwrap(),
            [
                read_only(&base.join("real/deep/python")),
                link(base.join("first"), base.join("real")),
                link(base.join("real/second"), base.join("real/deep")),
            ]
        );
        assert_eq!(mounts(&[&asked], &[&base]).unwrap(), []);
    }
}
