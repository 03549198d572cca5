use himalia_shim_protocol::{PATH_BYTES, StreamFailure};

use super::failure::{Failure, Result};

/// Most directories inside of each other.
pub(super) const DEPTH_MAX: usize = 100;

/// A path below the work directory: names only, no `..`. Empty for the work directory itself.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Relative(Vec<String>);

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
        Ok(Self(names))
    }

    /// The directory that it is in, and its name there.
    pub(super) fn split(&self) -> Result<(&[String], &str)> {
        match self.0.split_last() {
            Some((name, parent)) => Ok((parent, name)),
            None => Err(Failure::new(StreamFailure::BadPath, "the path is empty")),
        }
    }

    pub(super) fn names(&self) -> &[String] {
        &self.0
    }

    /// `.` for the work directory.
    pub(super) fn text(&self) -> String {
        if self.0.is_empty() {
            ".".to_owned()
        } else {
            self.0.join("/")
        }
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
