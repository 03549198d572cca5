//! The directory that a kernel starts in.

use std::path::{Path, PathBuf};

use himalia_model::EngineError;

/// The variable by which gateway clients name the directory that they are in.
pub(super) const CLIENT_VARIABLE: &str = "KERNEL_WORKING_DIR";
/// The variable that tells a kernel of the client's directory when it is not the kernel's own.
pub(super) const UNUSED_VARIABLE: &str = "HIMALIA_CLIENT_CWD";

/// Bytes of a directory's name (`PATH_MAX`).
const MAX_BYTES: usize = 4096;

/// The directory that was chosen for a request.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Choice {
    pub(super) cwd: PathBuf,
    /// The requested directory, if it cannot be used.
    pub(super) unused: Option<String>,
}

/// Chooses the directory: the requested one if the kernel shares the host's files and it is an absolute path of a directory,
/// else the fallback.
pub(super) fn choose(
    requested: Option<&str>,
    shares_files: bool,
    fallback: &Path,
) -> Result<Choice, EngineError> {
    let fallback = || fallback.to_owned();
    let Some(requested) = requested.filter(|requested| !requested.is_empty()) else {
        return Ok(Choice {
            cwd: fallback(),
            unused: None,
        });
    };
    if requested.len() > MAX_BYTES || requested.contains('\0') {
        return Err(EngineError::bad_request(
            "path",
            format!("is not a path of at most {MAX_BYTES} bytes"),
        ));
    }
    let wanted = Path::new(requested);
    if shares_files && wanted.is_absolute() && wanted.is_dir() {
        return Ok(Choice {
            cwd: wanted.to_owned(),
            unused: None,
        });
    }
    Ok(Choice {
        cwd: fallback(),
        unused: Some(requested.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requested_directory_is_used_where_that_is_possible() {
        let choose = |requested, shares| choose(requested, shares, Path::new("/work")).unwrap();
        let met = Choice {
            cwd: "/tmp".into(),
            unused: None,
        };
        assert_eq!(choose(Some("/tmp"), true), met);
        for requested in ["/nonexistent/dir", "relative", "/dev/null"] {
            let unmet = Choice {
                cwd: "/work".into(),
                unused: Some(requested.into()),
            };
            assert_eq!(choose(Some(requested), true), unmet, "{requested}");
        }
        assert_eq!(choose(Some("/tmp"), false).unused.as_deref(), Some("/tmp"));
        for nothing in [None, Some("")] {
            assert_eq!(
                choose(nothing, true),
                Choice {
                    cwd: "/work".into(),
                    unused: None
                }
            );
        }
        assert!(super::choose(Some("/a\0b"), true, Path::new("/")).is_err());
        assert!(super::choose(Some(&"/a".repeat(4096)), true, Path::new("/")).is_err());
    }
}
