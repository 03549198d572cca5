//! Paths of clients: absolute ones as the sandbox sees them, and relative ones below the home of its user, which is the work directory.
//! Answers name a file as the client did.

use himalia_engine::{BRANCHES, Isolation, SessionInfo, WORK_DIR};

/// The home that E2B's sandboxes have, which stands for the work directory.
const HOME: &str = "/home/user";

/// The work directory of a sandbox, which its files are in.
#[derive(Clone, Debug)]
pub(super) struct WorkDir {
    /// Path of the sandbox's own directory.
    own: String,
    /// Path of the directory that the files of a fork are a copy of. Paths below it from before the fork mean the fork's own files.
    copied: Option<String>,
    /// A link to the work directory, which paths may begin with too.
    link: Option<&'static str>,
}

impl WorkDir {
    pub(super) fn of(info: &SessionInfo) -> Self {
        let level = info.session.sandbox.isolation;
        Self::at(&info.session.cwd, level)
    }

    /// By the directory that the kernel was started in, which may be one below that of a fork.
    fn at(cwd: &str, level: Isolation) -> Self {
        let cwd = cwd.trim_end_matches('/');
        // The work directory is at this path only where it is no link.
        let link = (level == Isolation::Namespaces && below(cwd, HOME).is_some()).then_some(WORK_DIR);
        let fork = cwd.split_once(&format!("/{BRANCHES}/")).map(|(copied, rest)| {
            let number = rest.split('/').next().unwrap_or_default();
            (format!("{copied}/{BRANCHES}/{number}"), copied.to_owned())
        });
        let (own, copied) = match (fork, level) {
            (Some((own, copied)), _) => (own, Some(copied)),
            (None, Isolation::None) => (cwd.to_owned(), None),
            // Also where the kernel was started below it.
            (None, _) => (if link.is_some() { HOME } else { WORK_DIR }.to_owned(), None),
        };
        Self { own, copied, link }
    }

    /// The file that a client names.
    pub(super) fn client_path(&self, path: &str) -> ClientPath {
        match self.find(path) {
            Some((root, relative)) => ClientPath {
                root: root.to_owned(),
                path: if relative == "." {
                    ""
                } else {
                    relative.trim_matches('/')
                }
                .to_owned(),
            },
            None => ClientPath {
                root: String::new(),
                path: format!("/{}", path.trim_matches('/')),
            },
        }
    }

    /// The directory that relative paths begin in.
    pub(super) fn root(&self) -> &str {
        &self.own
    }

    /// The directory that a command is to run in, as the sandbox sees it. It may be anywhere.
    pub(super) fn for_command(&self, path: &str) -> String {
        match self.find(path) {
            Some((_, relative)) if path.starts_with(['/', '~']) => joined(&self.own, relative),
            _ => path.to_owned(),
        }
    }

    /// The path of the work directory by which answers name the file, and the path below it.
    fn find<'a>(&'a self, path: &'a str) -> Option<(&'a str, &'a str)> {
        let path = if path == "~" {
            ""
        } else {
            path.strip_prefix("~/").unwrap_or(path)
        };
        if !path.starts_with('/') {
            return Some((&self.own, path.trim_start_matches("./")));
        }
        if let Some(rest) = below(path, &self.own) {
            return Some((&self.own, rest));
        }
        let of_link = self.link.and_then(|link| below(path, link));
        let Some(copied) = &self.copied else {
            let linked = self.link.zip(of_link);
            return linked.or_else(|| Some((&self.own, below(path, HOME)?)));
        };
        let of_parent = below(path, copied).or(of_link);
        let own = of_parent.map(|rest| in_fork(rest).unwrap_or(rest));
        Some((&self.own, own.or_else(|| below(path, HOME))?))
    }
}

/// A file that a client names.
#[derive(Clone, Debug)]
pub(super) struct ClientPath {
    /// The work directory as the client named it; empty for a file elsewhere.
    root: String,
    /// Relative to the work directory, or absolute.
    path: String,
}

impl ClientPath {
    /// The path for the engine.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The path for the client.
    pub(super) fn shown(&self) -> String {
        self.show(&self.path)
    }

    /// The same for a file that was found there.
    pub(super) fn show(&self, found: &str) -> String {
        if found.starts_with('/') {
            found.to_owned()
        } else {
            joined(&self.root, found)
        }
    }

    /// True for the directory that relative paths begin in, and for the root of the sandbox.
    pub(super) fn is_root(&self) -> bool {
        matches!(self.path.as_str(), "" | "/")
    }
}

fn joined(root: &str, relative: &str) -> String {
    let relative = relative.trim_matches('/');
    if relative.is_empty() || relative == "." {
        root.to_owned()
    } else {
        format!("{root}/{relative}")
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
    fn answers_name_files_as_their_callers_did() {
        let dir = WorkDir::at("/home/user/sub", Isolation::Namespaces);
        for (path, asked, shown) in [
            ("a.txt", "a.txt", "/home/user/a.txt"),
            ("./a", "a", "/home/user/a"),
            ("", "", "/home/user"),
            ("~", "", "/home/user"),
            (".", "", "/home/user"),
            ("~/a/", "a", "/home/user/a"),
            ("/session", "", "/session"),
            ("/session/a/b", "a/b", "/session/a/b"),
            ("/home/user/a", "a", "/home/user/a"),
            ("/home/user", "", "/home/user"),
            ("/home/users/a", "/home/users/a", "/home/users/a"),
            ("/tmp/x", "/tmp/x", "/tmp/x"),
            ("/", "/", "/"),
        ] {
            let named = dir.client_path(path);
            assert_eq!((named.path(), named.shown().as_str()), (asked, shown), "{path}");
        }
        assert_eq!(dir.client_path("a").show("a/b"), "/home/user/a/b");
        assert_eq!(dir.client_path("/tmp").show("/tmp/b"), "/tmp/b");
        assert!(
            dir.client_path("/").is_root()
                && dir.client_path(".").is_root()
                && !dir.client_path("a").is_root()
        );
        for (path, command) in [
            ("/home/user/a", "/home/user/a"),
            ("~/a", "/home/user/a"),
            ("/session/a", "/home/user/a"),
            ("/tmp", "/tmp"),
        ] {
            assert_eq!(dir.for_command(path), command, "{path}");
        }
    }

    #[test]
    fn answers_name_the_directory_that_code_sees() {
        // In a container, and where something else is at /home/user.
        for level in [Isolation::Container, Isolation::Namespaces] {
            let plain = WorkDir::at("/session", level);
            assert_eq!(plain.client_path("/home/user/a").shown(), "/session/a");
            assert_eq!(plain.for_command("/home/user/a"), "/session/a");
        }
        // Without a root of its own, where other directories are those of the host.
        for home in ["/home/ada", "/home/user"] {
            let host = WorkDir::at(home, Isolation::None);
            assert_eq!(host.client_path("/home/user/a").shown(), format!("{home}/a"));
            assert_eq!(host.client_path("/session/a").path(), "/session/a");
        }
    }

    #[test]
    fn a_fork_has_what_its_parent_named() {
        for home in ["/session", "/home/user"] {
            // The parent had changed its directory.
            let fork = WorkDir::at(&format!("{home}/.branches/2/sub"), Isolation::Namespaces);
            for (path, relative) in [
                ("a", "a"),
                ("/session/a", "a"),
                ("/session", ""),
                ("/home/user/a", "a"),
                (&format!("{home}/.branches/2/sub/a"), "sub/a"),
                // Of the fork that this one is a fork of.
                ("/session/.branches/1/a", "a"),
                (&format!("{home}/.branches/1"), ""),
            ] {
                assert_eq!(fork.client_path(path).path(), relative, "{path}");
            }
            let own = format!("{home}/.branches/2");
            assert_eq!(fork.client_path("a").shown(), format!("{own}/a"));
            assert_eq!(fork.client_path("/home/user").shown(), own);
            assert_eq!(fork.client_path("/tmp/a").path(), "/tmp/a");
            for (path, command) in [
                ("/session/sub", format!("{own}/sub")),
                ("~/sub", format!("{own}/sub")),
                ("/home/user", own),
                ("sub", "sub".to_owned()),
                ("/", "/".to_owned()),
                ("/tmp", "/tmp".to_owned()),
            ] {
                assert_eq!(fork.for_command(path), command, "{path}");
            }
        }
    }
}
