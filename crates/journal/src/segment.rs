//! The segment that is being written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::JournalError;
use crate::format::{RecordHeader, Tag, encode_segment_header};
use crate::record::{Meta, now_micros};

/// The path of the segment whose first record is `first`.
pub(crate) fn segment_path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:020}.seg"))
}

/// The first seq of a segment, from its file name; `None` for other files.
pub(crate) fn parse_segment_name(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg")?;
    (digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// An open segment, written at its end only.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) file: Arc<File>,
    path: PathBuf,
    /// Length of the sound content.
    len: u64,
    /// Bytes beyond `len` may be in the file: a failed write that could not be cut off yet.
    debris: bool,
    #[cfg(test)]
    pub(crate) fail_after: Option<usize>,
}

impl Segment {
    /// Makes a new segment. It appears under its name complete with its checkpoint, or not at all.
    pub(crate) fn create(dir: &Path, first: u64, checkpoint: Option<&[u8]>) -> Result<Self, JournalError> {
        let temporary = dir.join("next.tmp");
        let path = segment_path(dir, first);
        let made = Self::fill(&temporary, first, checkpoint).and_then(|(file, len)| {
            fs::rename(&temporary, &path)?;
            Ok((file, len))
        });
        match made {
            Ok((file, len)) => Ok(Self::new(file, path, len)),
            Err(error) => {
                let _ = fs::remove_file(&temporary);
                Err(JournalError::io("create segment", &path, error))
            }
        }
    }

    fn fill(path: &Path, first: u64, checkpoint: Option<&[u8]>) -> io::Result<(File, u64)> {
        let _ = fs::remove_file(path);
        let mut file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let mut start = encode_segment_header(first, checkpoint.is_some()).to_vec();
        if let Some(body) = checkpoint {
            let header = RecordHeader {
                seq: first - 1,
                at_micros: now_micros(),
                meta: Meta::default(),
                kind: 0,
                tag: Tag::Checkpoint,
            };
            start.extend_from_slice(&header.encode(body));
            start.extend_from_slice(body);
        }
        file.write_all(&start)?;
        Ok((file, start.len() as u64))
    }

    /// Opens a segment for appending after its first `len` bytes; what is beyond them is cut off.
    pub(crate) fn open(path: PathBuf, len: u64) -> Result<Self, JournalError> {
        let opened = OpenOptions::new().append(true).open(&path);
        let file = opened.map_err(|error| JournalError::io("open segment", &path, error))?;
        let mut segment = Self::new(file, path, len);
        segment.cut()?;
        Ok(segment)
    }

    fn new(file: File, path: PathBuf, len: u64) -> Self {
        Self {
            file: Arc::new(file),
            path,
            len,
            debris: false,
            #[cfg(test)]
            fail_after: None,
        }
    }

    /// Length of the sound content in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Appends all of `slices`, or nothing.
    pub(crate) fn append(&mut self, mut slices: &mut [IoSlice<'_>]) -> Result<(), JournalError> {
        if self.debris {
            self.cut()?;
        }
        let total: u64 = slices.iter().map(|slice| slice.len() as u64).sum();
        while !slices.is_empty() {
            match self.write_some(slices) {
                Ok(0) => return Err(self.failed(io::ErrorKind::WriteZero.into())),
                Ok(written) => IoSlice::advance_slices(&mut slices, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        self.len += total;
        Ok(())
    }

    #[cfg(not(test))]
    fn write_some(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self.file).write_vectored(slices)
    }

    /// In tests a disk that takes only `fail_after` more bytes can be had.
    #[cfg(test)]
    fn write_some(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(room) = self.fail_after else {
            return (&*self.file).write_vectored(slices);
        };
        let first = slices.iter().find(|slice| !slice.is_empty());
        let part = first.map_or(&[][..], |slice| &slice[..slice.len().min(room)]);
        if part.is_empty() && first.is_some() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.fail_after = Some(room - part.len());
        (&*self.file).write(part)
    }

    fn failed(&mut self, error: io::Error) -> JournalError {
        self.debris = true;
        if let Err(second) = self.cut() {
            tracing::warn!(error = %second, "a failed append is not cut off yet");
        }
        JournalError::io("append to", &self.path, error)
    }

    fn cut(&mut self) -> Result<(), JournalError> {
        self.file
            .set_len(self.len)
            .map_err(|error| JournalError::io("truncate", &self.path, error))?;
        self.debris = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_numbers_and_strangers_are_refused() {
        let path = segment_path(Path::new("/j"), 12);
        assert_eq!(path, Path::new("/j/00000000000000000012.seg"));
        assert_eq!(parse_segment_name("00000000000000000012.seg"), Some(12));
        for stranger in [
            "12.seg",
            "torn.seg",
            "0000000000000000001x.seg",
            "99999999999999999999.seg",
            "positions",
        ] {
            assert_eq!(parse_segment_name(stranger), None, "{stranger}");
        }
    }

    #[test]
    fn a_partial_write_is_cut_off_and_the_next_one_works() {
        let dir = tempfile::tempdir().unwrap();
        let mut segment = Segment::create(dir.path(), 1, None).unwrap();
        let sound = segment.len();
        for room in 0..9 {
            segment.fail_after = Some(room);
            let error = segment
                .append(&mut [IoSlice::new(b"hello"), IoSlice::new(b"world")])
                .unwrap_err();
            assert!(error.is_no_space());
            assert_eq!(segment.len(), sound);
            assert_eq!(segment.file.metadata().unwrap().len(), sound);
        }
        segment.fail_after = None;
        segment
            .append(&mut [IoSlice::new(b""), IoSlice::new(b"hello"), IoSlice::new(b"world")])
            .unwrap();
        assert_eq!(segment.file.metadata().unwrap().len(), sound + 10);
    }
}
