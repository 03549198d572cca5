use std::io;

use himalia_shim_protocol::{StreamFailed, StreamFailure};
use rustix::io::Errno;

/// Reason why an operation on files failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) code: StreamFailure,
    pub(super) reason: String,
}

pub(super) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(super) fn new(code: StreamFailure, reason: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
        }
    }

    /// Failure of a system call on `what`.
    pub(super) fn of(what: &str, error: Errno) -> Self {
        use StreamFailure as Code;
        let (code, reason) = match error {
            Errno::NOENT => (Code::NotFound, "there is no such file"),
            Errno::XDEV => (Code::Outside, "leads out of the session's files"),
            Errno::ISDIR => (Code::IsADirectory, "is a directory"),
            Errno::NOTDIR => (Code::NotADirectory, "a part of the path is not a directory"),
            Errno::NOTEMPTY | Errno::EXIST => (Code::NotEmpty, "is not empty"),
            Errno::NXIO => (Code::NotAFile, "is not a file"),
            Errno::NOSPC | Errno::DQUOT => (Code::NoSpace, "there is no room for it"),
            Errno::FBIG => (Code::TooLarge, "is too large"),
            Errno::ACCESS | Errno::PERM | Errno::ROFS => (Code::Permission, "the session may not do this"),
            Errno::LOOP => (Code::BadPath, "has too many links"),
            Errno::NAMETOOLONG => (Code::BadPath, "a name is too long"),
            other => {
                let error = io::Error::from(other);
                return Self::new(Code::Failed, format!("{what}: {error}"));
            }
        };
        Self::new(code, format!("{what}: {reason}"))
    }

    /// Failure of reading or writing `what`.
    pub(super) fn io(what: &str, error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(number) => Self::of(what, Errno::from_raw_os_error(number)),
            None => Self::new(StreamFailure::Failed, format!("{what}: {error}")),
        }
    }

    pub(super) fn into_body(self) -> StreamFailed {
        // Within the bound of its frame, whatever a file is called.
        let mut reason = String::new();
        for one in self.reason.chars().take(500) {
            match one {
                // They are for people, who should see quotes as quotes.
                '\'' | '"' => reason.push(one),
                _ => reason.extend(one.escape_debug()),
            }
        }
        StreamFailed {
            code: self.code,
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_short_and_plain() {
        let failed = Failure::new(
            StreamFailure::Failed,
            format!("a's \"b\"\n\u{1b}[0m{}", "x".repeat(900)),
        );
        let reason = failed.into_body().reason;
        assert!(reason.starts_with(r#"a's "b"\n\u{1b}[0mxx"#), "{reason:.60}");
        assert!(reason.len() < 520);
    }
}
