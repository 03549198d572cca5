use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use himalia_shim_protocol::shim_link::SpillStore;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, ftruncate, open};

/// Parts up to this are copied to be written together.
const SMALL_BYTES: usize = 16 << 10;
/// Space that is given back at once.
const PUNCH_BYTES: u64 = 4 << 20;

/// A spill file without a name, made when it is first needed.
#[derive(Debug)]
pub(crate) struct SpillFile {
    dir: PathBuf,
    file: Option<File>,
    punched: u64,
}

impl SpillFile {
    /// A spill file in `dir`.
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            file: None,
            punched: 0,
        }
    }

    fn file(&mut self) -> io::Result<&File> {
        if self.file.is_none() {
            self.file = Some(make(&self.dir)?);
        }
        self.file
            .as_ref()
            .ok_or_else(|| io::Error::other("no spill file"))
    }
}

/// `O_TMPFILE` where the file system has it, else a file whose name is removed at once.
fn make(dir: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(fd) = open(dir, flags | OFlags::TMPFILE, Mode::RUSR | Mode::WUSR) {
        return Ok(File::from(fd));
    }
    let path = dir.join(format!(".spill-{:016x}", crate::random::random_u64()?));
    let fd = open(
        &path,
        flags | OFlags::CREATE | OFlags::EXCL,
        Mode::RUSR | Mode::WUSR,
    )?;
    std::fs::remove_file(&path)?;
    Ok(File::from(fd))
}

impl SpillStore for SpillFile {
    fn write(&mut self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        let file = self.file()?;
        let mut at = offset;
        // Small parts are put next to each other: one write for them.
        let mut small = Vec::new();
        let mut write = |bytes: &[u8]| {
            file.write_all_at(bytes, at)?;
            at += bytes.len() as u64;
            io::Result::Ok(())
        };
        for part in parts {
            if part.len() <= SMALL_BYTES {
                small.extend_from_slice(part);
            } else {
                write(&std::mem::take(&mut small))?;
                write(part)?;
            }
        }
        write(&small)?;
        Ok(())
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file()?.read_exact_at(into, offset)
    }

    fn discard(&mut self, offset: u64) {
        let from = self.punched;
        if offset - from.min(offset) < PUNCH_BYTES {
            return;
        }
        self.punched = offset;
        if let Some(file) = &self.file {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // Without it the file only stays larger until it is empty.
            let _ = fallocate(file, flags, from, offset - from);
        }
    }

    fn clear(&mut self) {
        self.punched = 0;
        if let Some(file) = &self.file
            && ftruncate(file, 0).is_err()
        {
            self.file = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_written_one_after_the_other_and_leave_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let mut spill = SpillFile::new(dir.path());
        spill.write(0, &[b"ab", b"cd", b"efg"]).unwrap();
        spill.write(7, &[b"h"]).unwrap();
        let mut into = [0; 7];
        spill.read(1, &mut into).unwrap();
        assert_eq!(&into, b"bcdefgh");
        assert!(spill.read(2, &mut into).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        spill.clear();
        assert!(spill.read(0, &mut [0]).is_err());
    }

    #[test]
    fn small_parts_around_a_large_one_stay_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut spill = SpillFile::new(dir.path());
        let large = vec![7; SMALL_BYTES + 1];
        let parts: [&[u8]; 5] = [b"ab", b"", &large, b"cd", b"e"];
        spill.write(3, &parts).unwrap();
        let mut into = vec![0; large.len() + 5];
        spill.read(3, &mut into).unwrap();
        assert!(into == parts.concat());
    }

    #[test]
    fn space_is_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut spill = SpillFile::new(dir.path());
        let body = vec![7; 8 << 20];
        spill.write(0, &[&body]).unwrap();
        let blocks =
            |spill: &SpillFile| rustix::fs::fstat(spill.file.as_ref().unwrap()).unwrap().st_blocks * 512;
        let before = blocks(&spill);
        spill.discard(6 << 20);
        assert!(
            blocks(&spill) < before,
            "the file system of the test cannot punch holes"
        );
        let mut last = [0; 4];
        spill.read((8 << 20) - 4, &mut last).unwrap();
        assert_eq!(last, [7; 4]);
    }
}
