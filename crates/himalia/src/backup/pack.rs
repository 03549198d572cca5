//! Writes a backup.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use himalia_engine::{REPLICA_FILE, copy_database};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use super::manifest::{self, Manifest};
use super::{DATABASE, MANIFEST};

/// Names at the top of a data directory that a backup omits: the database, which is copied separately, files of a process or of a machine,
/// and the cache of packages.
const LEFT_OUT: &[&str] = &[
    "himalia.db",
    "himalia.db-wal",
    "himalia.db-shm",
    "himalia.db.lock",
    "lock",
    "run-dir",
    "gateway.json",
    "packages",
];

/// Copies a data directory into a new file, while its gateway runs or not.
pub(crate) fn backup(data_dir: &Path, output: &Path) -> anyhow::Result<ExitCode> {
    ensure!(
        !data_dir.join(REPLICA_FILE).exists(),
        "{} belongs to a replica of a shared store: its sessions are in Postgres, and with --object-store its logs are there and in \
         the object store. Back these up with their own tools",
        data_dir.display()
    );
    ensure!(
        data_dir.join(DATABASE).exists(),
        "{} is not the data directory of a gateway: it has no {DATABASE}",
        data_dir.display()
    );
    let inside = output.parent().and_then(|dir| dir.canonicalize().ok());
    ensure!(
        !inside.is_some_and(|dir| dir.starts_with(data_dir.canonicalize().unwrap_or_default())),
        "{} is in the data directory itself",
        output.display()
    );
    // Removed unless all is well. What has the final name is complete.
    let partial = Partial::new(output, "part");
    let manifest = write(data_dir, &partial.path)?;
    fs::hard_link(&partial.path, output)
        .with_context(|| format!("cannot make {}: does it exist already?", output.display()))?;
    let bytes: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    writeln!(
        io::stdout(),
        "{}: {} files, {} MiB",
        output.display(),
        manifest.files.len(),
        bytes >> 20
    )?;
    Ok(ExitCode::SUCCESS)
}

fn write(data_dir: &Path, to: &Path) -> anyhow::Result<Manifest> {
    let file = new_file(to)?;
    let mut pack = Pack {
        tar: Builder::new(BufWriter::with_capacity(1 << 20, file)),
        manifest: Manifest::new(),
        skipped: 0,
    };
    // The database first: logs only grow, and what was in them then is in them still.
    let database = Partial::new(to, "db");
    copy_database(&data_dir.join(DATABASE), &database.path)?;
    let copy = File::open(&database.path).with_context(|| said(&database.path))?;
    pack.file(copy, Path::new(DATABASE))?;
    drop(database);
    let top = File::open(data_dir).with_context(|| said(data_dir))?;
    pack.directory(&top.into(), Path::new(""))?;
    if pack.skipped > 0 {
        eprintln!(
            "himalia: {} sockets, pipes and devices were left out",
            pack.skipped
        );
    }
    pack.finish()
}

struct Pack {
    tar: Builder<BufWriter<File>>,
    manifest: Manifest,
    skipped: usize,
}

impl Pack {
    /// Packs an open directory under this name. Sandboxes may change their files meanwhile: symbolic links are not followed, and each name
    /// is looked up once on the way down.
    fn directory(&mut self, from: &OwnedFd, name: &Path) -> anyhow::Result<()> {
        let mut names = Vec::new();
        for entry in Dir::read_from(from).with_context(|| said(name))? {
            let entry = entry.with_context(|| said(name))?;
            if ![&b"."[..], b".."].contains(&entry.file_name().to_bytes()) {
                names.push(entry.file_name().to_owned());
            }
        }
        names.sort();
        for file in names {
            let path = name.join(OsStr::from_bytes(file.to_bytes()));
            if LEFT_OUT.iter().any(|left| path.as_os_str() == *left) {
                continue;
            }
            let Some(data) = still_there(statat(from, &file, AtFlags::SYMLINK_NOFOLLOW), &path)? else {
                continue;
            };
            match FileType::from_raw_mode(data.st_mode) {
                FileType::Directory => {
                    let below = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    if let Some(below) = still_there(openat(from, &file, below, Mode::empty()), &path)? {
                        let data = fstat(&below).with_context(|| said(&path))?;
                        let mut header = header(&data, EntryType::Directory, 0);
                        self.tar.append_data(&mut header, &path, io::empty())?;
                        self.directory(&below, &path)?;
                    }
                }
                FileType::Symlink => {
                    if let Some(target) = still_there(readlinkat(from, &file, Vec::new()), &path)? {
                        let mut header = header(&data, EntryType::Symlink, 0);
                        let target = OsStr::from_bytes(target.to_bytes());
                        self.tar.append_link(&mut header, &path, target)?;
                    }
                }
                FileType::RegularFile => {
                    // A pipe that has just taken its place is not waited for.
                    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                    if let Some(fd) = still_there(openat(from, &file, flags, Mode::empty()), &path)? {
                        self.file(File::from(fd), &path)?;
                    }
                }
                _ => self.skipped += 1,
            }
        }
        Ok(())
    }

    /// A file as it is now; what is added to it meanwhile is left out.
    fn file(&mut self, file: File, name: &Path) -> anyhow::Result<()> {
        let data = fstat(&file).with_context(|| said(name))?;
        if FileType::from_raw_mode(data.st_mode) != FileType::RegularFile {
            self.skipped += 1;
            return Ok(());
        }
        let bytes = u64::try_from(data.st_size).unwrap_or(0);
        let mut header = header(&data, EntryType::Regular, bytes);
        let mut content = HashedFile::new(file, bytes);
        self.tar
            .append_data(&mut header, name, &mut content)
            .with_context(|| said(name))?;
        self.manifest.files.push(manifest::File {
            path: name.to_string_lossy().into_owned(),
            bytes,
            sha256: content.digest(),
        });
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<Manifest> {
        let text = serde_json::to_vec(&self.manifest)?;
        if text.len() as u64 > manifest::MAX_BYTES {
            bail!("there are too many files: {}", self.manifest.files.len());
        }
        let mut header = Header::new_gnu();
        header.set_mode(0o600);
        header.set_size(text.len() as u64);
        self.tar.append_data(&mut header, MANIFEST, &text[..])?;
        let mut out = self.tar.into_inner()?;
        out.flush()?;
        out.get_ref().sync_all()?;
        Ok(self.manifest)
    }
}

fn header(data: &Stat, kind: EntryType, bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(data.st_mode & 0o7777);
    header.set_uid(data.st_uid.into());
    header.set_gid(data.st_gid.into());
    header.set_mtime(u64::try_from(data.st_mtime).unwrap_or(0));
    header.set_size(bytes);
    header
}

/// So many bytes of a file, and their SHA-256. A file that has become shorter is filled with zeros, as after a crash.
struct HashedFile {
    file: File,
    left: u64,
    hash: Sha256,
}

impl HashedFile {
    fn new(file: File, bytes: u64) -> Self {
        Self {
            file,
            left: bytes,
            hash: Sha256::new(),
        }
    }

    fn digest(self) -> String {
        hex::encode(self.hash.finalize())
    }
}

impl Read for HashedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let Some(buffer) = buffer.get_mut(..most).filter(|buffer| !buffer.is_empty()) else {
            return Ok(0);
        };
        let mut read = self.file.read(buffer)?;
        if read == 0 {
            buffer.fill(0);
            read = most;
        }
        self.hash.update(buffer.get(..read).unwrap_or_default());
        self.left -= read as u64;
        Ok(read)
    }
}

/// `None` for what was removed, or became something else, since it was listed.
fn still_there<T>(done: rustix::io::Result<T>, path: &Path) -> anyhow::Result<Option<T>> {
    match done {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::NXIO) => Ok(None),
        Err(error) => Err(error).with_context(|| said(path)),
    }
}

fn said(path: &Path) -> String {
    format!("cannot copy {}", path.display())
}

/// Secrets are in it: only its user may read it.
fn new_file(path: &Path) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options
        .open(path)
        .with_context(|| format!("cannot make {}", path.display()))
}

/// A file beside the output that is removed in any case.
struct Partial {
    path: PathBuf,
}

impl Partial {
    fn new(output: &Path, what: &str) -> Self {
        let mut name = output.as_os_str().to_owned();
        name.push(format!(".{}-{what}", std::process::id()));
        Self { path: name.into() }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
