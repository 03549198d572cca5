//! The log of a shim: bounded in size, with its last lines for reports.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::{LOG_TAIL_BYTES, SandboxError};

/// A log that has grown beyond this is emptied at the next look.
pub(crate) const MAX_LOG_BYTES: u64 = 256 << 10;

/// Opens the log for appending, so that it can be emptied under a running shim.
pub(crate) fn open_log(path: &Path) -> Result<File, SandboxError> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| SandboxError::io(path, error))
}

/// Empties the log if it is too long. A shim prints little: this is for one that lives for weeks.
pub(crate) fn bound_log(path: &Path) {
    let Ok(file) = OpenOptions::new().write(true).open(path) else {
        return;
    };
    if file.metadata().is_ok_and(|meta| meta.len() > MAX_LOG_BYTES) {
        let _ = file.set_len(0);
    }
}

/// The last [`LOG_TAIL_BYTES`] of the log, from the start of a line where it was cut.
pub(crate) fn log_tail(path: &Path) -> String {
    let mut bytes = Vec::new();
    let Ok(mut file) = File::open(path) else {
        return String::new();
    };
    let length = file.metadata().map_or(0, |meta| meta.len());
    let from = length.saturating_sub(LOG_TAIL_BYTES as u64);
    if file.seek(SeekFrom::Start(from)).is_ok() {
        let _ = file.take(LOG_TAIL_BYTES as u64).read_to_end(&mut bytes);
    }
    let mut tail = bytes.as_slice();
    if from > 0
        && let Some(newline) = tail.iter().position(|byte| *byte == b'\n')
    {
        tail = &tail[newline + 1..];
    }
    String::from_utf8_lossy(tail).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_cut_at_a_line_and_emptied() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        assert_eq!(log_tail(&path), "");
        std::fs::write(&path, "line\n".repeat(100_000)).unwrap();
        let tail = log_tail(&path);
        assert!(tail.len() <= LOG_TAIL_BYTES && tail.len() > LOG_TAIL_BYTES - 5);
        assert!(tail.starts_with("line\n") && tail.ends_with("line\n"));
        bound_log(&path);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
        std::fs::write(&path, "short").unwrap();
        bound_log(&path);
        assert_eq!(log_tail(&path), "short");
    }
}
