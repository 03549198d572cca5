use himalia_shim_protocol::{PATH_BYTES, StreamFailure};

use super::failure::{Failure, Result};

/// Most directories inside of each other.
pub(super) const DEPTH_MAX: usize = 100;

/// A path below the work directory, or below the root of the sandbox: names only, no `..`. Empty for that directory itself.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Relative {
    names: Vec<String>,
    /// It is below the root, and is shown with a leading slash.
    is_absolute: bool,
}

impl Relative {
    /// Empty names and `.` are left out; a leading slash, `..` and NUL are refused.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let bad = |reason: &str| Err(Failure::new(StreamFailure::BadPath, reason));
        if text.len() > PATH_BYTES {
            return bad("the path is too long");
        }
        if text.starts_with('/') {
            return bad("the path is not relative");
        }
        if text.contains('\0') {
            return bad("the path has a NUL in it");
        }
        let names: Vec<String> = text
            .split('/')
            .filter(|name| !matches!(*name, "" | "."))
            .map(str::to_owned)
            .collect();
        if names.iter().any(|name| name == "..") {
            return bad("the path has .. in it");
        }
        if names.len() > DEPTH_MAX {
            return bad("the path has too many parts");
        }
        Ok(Self {
            names,
            is_absolute: false,
        })
    }

    /// The same for what follows the first slash of an absolute path.
    pub(super) fn parse_absolute(rest: &str) -> Result<Self> {
        Ok(Self {
            is_absolute: true,
            ..Self::parse(rest)?
        })
    }

    /// The directory that it is in, and its name there.
    pub(super) fn split(&self) -> Result<(&[String], &str)> {
        match self.names.split_last() {
            Some((name, parent)) => Ok((parent, name)),
            None => Err(Failure::new(StreamFailure::BadPath, "the path is empty")),
        }
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// `.` for the work directory.
    pub(super) fn text(&self) -> String {
        match (self.is_absolute, self.names.is_empty()) {
            (true, _) => format!("/{}", self.names.join("/")),
            (false, true) => ".".to_owned(),
            (false, false) => self.names.join("/"),
        }
    }

    /// Beginning of the paths of the entries of this directory.
    pub(super) fn prefix(&self) -> String {
        let first = if self.is_absolute { "/" } else { "" };
        let names = self.names.iter().flat_map(|name| [name, "/"]);
        std::iter::once(first).chain(names).collect()
    }
}

/// Does a link with this target, at a place `depth` directories below some root, name something below that root? Judged by
/// its text alone.
pub(super) fn stays_inside(target: &[u8], depth: usize) -> bool {
    let mut depth = depth;
    if target.is_empty() || target.starts_with(b"/") {
        return false;
    }
    for name in target.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => match depth.checked_sub(1) {
                Some(above) => depth = above,
                None => return false,
            },
            _ => depth += 1,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_lead_out_is_refused() {
        let long = "a/".repeat(DEPTH_MAX + 1);
        let longer = "a".repeat(PATH_BYTES + 1);
        for bad in ["..", "a/..", "a/../b", "/a", "//", "a\0", &long, &longer] {
            let code = Relative::parse(bad).unwrap_err().code;
            assert_eq!(code, StreamFailure::BadPath, "{bad:?}");
        }
        let absolute = |text| Relative::parse_absolute(text).unwrap();
        assert_eq!(absolute("tmp//a").text(), "/tmp/a");
        assert_eq!(
            (absolute("").text(), absolute("").prefix()),
            ("/".into(), "/".into())
        );
        assert_eq!(absolute("tmp").prefix(), "/tmp/");
        assert!(Relative::parse_absolute("tmp/../a").is_err());
        for (text, names) in [
            ("", &[][..]),
            (".", &[]),
            ("a", &["a"]),
            ("./a//b/.", &["a", "b"]),
            ("..a/b..", &["..a", "b.."]),
            ("a\\..\\b", &["a\\..\\b"]),
        ] {
            assert_eq!(Relative::parse(text).unwrap().names(), names, "{text:?}");
        }
    }

    #[test]
    fn a_links_target_is_judged_by_its_text() {
        for (target, depth, inside) in [
            ("a", 0, true),
            ("../a", 0, false),
            ("../a", 1, true),
            ("a/../../b", 0, false),
            ("a/../b", 0, true),
            ("/a", 5, false),
            ("", 5, false),
            ("..", 1, true),
        ] {
            assert_eq!(
                stays_inside(target.as_bytes(), depth),
                inside,
                "{target} at {depth}"
            );
        }
    }
}
