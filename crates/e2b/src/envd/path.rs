//! Paths of clients: absolute ones as the sandbox sees them, and relative ones below the home of its user, which is the work directory.

use himalia_engine::{BRANCHES, Isolation, SessionInfo, WORK_DIR};

use crate::failure::Failure;

/// The home that E2B's sandboxes have, which stands for the work directory.
const HOME: &str = "/home/user";

/// The work directory of a sandbox, which its files are in.
#[derive(Clone, Debug)]
pub(super) struct WorkDir {
    /// Path of the sandbox's own directory.
    own: String,
    /// Path of the directory that the files of a fork are a copy of. Paths below it from before the fork mean the fork's own files.
    copied: Option<String>,
}

impl WorkDir {
    pub(super) fn of(info: &SessionInfo) -> Self {
        let has_root = info.session.sandbox.isolation != Isolation::None;
        Self::at(&info.session.cwd, has_root)
    }

    /// By the directory that the kernel was started in, which may be one below that of a fork.
    fn at(cwd: &str, has_root: bool) -> Self {
        let cwd = cwd.trim_end_matches('/');
        let fork = cwd.split_once(&format!("/{BRANCHES}/")).map(|(copied, rest)| {
            let number = rest.split('/').next().unwrap_or_default();
            (format!("{copied}/{BRANCHES}/{number}"), copied.to_owned())
        });
        match fork {
            Some((own, copied)) => Self {
                own,
                copied: Some(copied),
            },
            None => Self {
                // Also where the kernel was started below it.
                own: if has_root { WORK_DIR } else { cwd }.to_owned(),
                copied: None,
            },
        }
    }

    /// The path below the work directory, empty for that itself.
    pub(super) fn relative<'a>(&self, path: &'a str) -> Result<&'a str, Failure> {
        self.find(path).ok_or_else(|| {
            let shown: String = path.chars().take(200).flat_map(char::escape_debug).collect();
            let reason = format!(
                "{shown} is not below {}, where the files of this sandbox are",
                self.own
            );
            Failure::field("path", reason)
        })
    }

    /// The directory that a command is to run in, as the sandbox sees it. It may be anywhere.
    pub(super) fn for_command(&self, path: &str) -> String {
        match self.find(path) {
            Some(relative) if path.starts_with(['/', '~']) => self.absolute(relative),
            _ => path.to_owned(),
        }
    }

    fn find<'a>(&self, path: &'a str) -> Option<&'a str> {
        let path = if path == "~" {
            ""
        } else {
            path.strip_prefix("~/").unwrap_or(path)
        };
        if !path.starts_with('/') {
            return Some(path.trim_start_matches("./"));
        }
        let roots = [Some(self.own.as_str()), Some(HOME), self.copied.as_deref()];
        let found = roots
            .into_iter()
            .flatten()
            .find_map(|root| below(path, root).map(|rest| (root, rest)));
        let (root, rest) = found?;
        let of_fork = self.copied.as_deref() == Some(root);
        Some(of_fork.then(|| in_fork(rest)).flatten().unwrap_or(rest))
    }

    /// The same as the sandbox sees it.
    pub(super) fn absolute(&self, relative: &str) -> String {
        let relative = relative.trim_matches('/');
        if relative.is_empty() || relative == "." {
            self.own.clone()
        } else {
            format!("{}/{relative}", self.own)
        }
    }
}

fn below<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(root)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
}

/// The path below the directory of a fork: one that this fork was made from, whose files it has too.
fn in_fork(path: &str) -> Option<&str> {
    let numbered = path.strip_prefix(BRANCHES)?.strip_prefix('/')?;
    Some(numbered.split_once('/').map_or("", |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_below_the_work_directory() {
        let dir = WorkDir::at("/session/sub", true);
        for (path, relative) in [
            ("a.txt", "a.txt"),
            ("./a", "a"),
            ("", ""),
            ("~", ""),
            ("~/a", "a"),
            ("/session", ""),
            ("/session/", ""),
            ("/session/a/b", "a/b"),
            ("/home/user/a", "a"),
            ("/home/user", ""),
        ] {
            assert_eq!(dir.relative(path).unwrap(), relative, "{path}");
        }
        for outside in ["/etc/passwd", "/", "/sessions/a", "/home/users/a", "/tmp/x"] {
            assert!(dir.relative(outside).is_err(), "{outside}");
        }
        assert_eq!(dir.absolute("a/b"), "/session/a/b");
        assert_eq!(dir.absolute(""), "/session");
    }

    #[test]
    fn a_fork_has_what_its_parent_named() {
        // The parent had changed its directory.
        let fork = WorkDir::at("/session/.branches/2/sub", true);
        for (path, relative) in [
            ("a", "a"),
            ("/session/a", "a"),
            ("/session", ""),
            ("/home/user/a", "a"),
            ("/session/.branches/2/sub/a", "sub/a"),
            // Of the fork that this one is a fork of.
            ("/session/.branches/1/a", "a"),
            ("/session/.branches/1", ""),
        ] {
            assert_eq!(fork.relative(path).unwrap(), relative, "{path}");
        }
        assert!(fork.relative("/tmp/a").is_err());
        assert_eq!(fork.absolute("a"), "/session/.branches/2/a");
        assert_eq!(fork.absolute(""), "/session/.branches/2");
        for (path, command) in [
            ("/session/sub", "/session/.branches/2/sub"),
            ("~/sub", "/session/.branches/2/sub"),
            ("/home/user", "/session/.branches/2"),
            ("sub", "sub"),
            ("/", "/"),
            ("/tmp", "/tmp"),
        ] {
            assert_eq!(fork.for_command(path), command, "{path}");
        }
    }
}
