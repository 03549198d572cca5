//! Paths of clients: absolute ones as the sandbox sees them, and relative ones below the home of its user, which is the work directory.

use himalia_engine::SessionInfo;

use crate::failure::Failure;

/// The home that E2B's sandboxes have, which stands for the work directory.
const HOME: &str = "/home/user";

/// The work directory of a sandbox, which its files are in.
#[derive(Clone, Debug)]
pub(super) struct WorkDir(String);

impl WorkDir {
    pub(super) fn of(info: &SessionInfo) -> Self {
        Self(info.session.cwd.trim_end_matches('/').to_owned())
    }

    /// The path below the work directory, empty for that itself.
    pub(super) fn relative<'a>(&self, path: &'a str) -> Result<&'a str, Failure> {
        let path = if path == "~" {
            ""
        } else {
            path.strip_prefix("~/").unwrap_or(path)
        };
        if !path.starts_with('/') {
            return Ok(path.trim_start_matches("./"));
        }
        for root in [self.0.as_str(), HOME] {
            match path.strip_prefix(root) {
                Some("") => return Ok(""),
                Some(rest) if rest.starts_with('/') => return Ok(rest.trim_start_matches('/')),
                _ => {}
            }
        }
        let shown: String = path.chars().take(200).flat_map(char::escape_debug).collect();
        let reason = format!(
            "{shown} is not below {}, where the files of this sandbox are",
            self.0
        );
        Err(Failure::field("path", reason))
    }

    /// The same as the sandbox sees it.
    pub(super) fn absolute(&self, relative: &str) -> String {
        let relative = relative.trim_matches('/');
        if relative.is_empty() || relative == "." {
            self.0.clone()
        } else {
            format!("{}/{relative}", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_below_the_work_directory() {
        let dir = WorkDir("/session".to_owned());
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
}
