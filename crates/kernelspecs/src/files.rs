//! Files beside a `kernel.json`: which there are, and reading one safely.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::{fs, io};

use bytes::Bytes;
use himalia_model::SpecFile;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Bytes of a file that is served.
pub(super) const MAX_FILE_BYTES: u64 = 8 << 20;

/// Bytes of a file's name.
const MAX_NAME_BYTES: usize = 255;

/// Names of a directory that are looked at for logos.
const MAX_ENTRIES: usize = 1000;

/// The files that a client may want to know of, as `jupyter_server`'s `kernelspec_model` finds them: `kernel.js`,
/// `kernel.css` under their names, `logo-*` under their names without the extension.
pub(super) fn resources(dir: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let Ok(entries) = fs::read_dir(dir) else {
        return found;
    };
    let names = entries
        .take(MAX_ENTRIES)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    for name in names {
        let key = match Path::new(&name).file_stem().and_then(|stem| stem.to_str()) {
            _ if name == "kernel.js" || name == "kernel.css" => name.clone(),
            Some(stem) if name.starts_with("logo-") => stem.to_owned(),
            _ => continue,
        };
        found.entry(key).or_insert(name);
    }
    found
}

/// Reasons why a file is not served. Callers see only that there is none.
#[derive(Debug)]
pub(super) enum Refusal {
    /// No such file, or none that may be served.
    Missing,
    /// More than [`MAX_FILE_BYTES`].
    TooLong,
    /// The disk failed.
    Io(io::Error),
}

/// Reads a regular file directly in `dir`. Names that lead elsewhere, by `/` or by a symbolic link out of the
/// directory, are missing. Blocks.
pub(super) fn read(dir: &Path, name: &str) -> Result<SpecFile, Refusal> {
    if !is_plain(name) {
        return Err(Refusal::Missing);
    }
    let file = File::from(open_beneath(dir, name).map_err(refusal)?);
    let meta = file.metadata().map_err(Refusal::Io)?;
    if !meta.is_file() {
        return Err(Refusal::Missing);
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(Refusal::Io)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(Refusal::TooLong);
    }
    Ok(SpecFile {
        name: name.to_owned(),
        bytes: Bytes::from(bytes),
    })
}

fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && name != "."
        && name != ".."
        && !name.contains(['/', '\\', '\0'])
}

/// Non-blocking, since a FIFO would hold up the caller for ever.
const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

fn open_beneath(dir: &Path, name: &str) -> Result<OwnedFd, Errno> {
    let dir = rustix::fs::openat(
        CWD,
        dir,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(&dir, name, FLAGS, Mode::empty(), beneath) {
        // gVisor and kernels before 5.6 have no openat2, some filters forbid it.
        Err(Errno::NOSYS | Errno::PERM) => open_without_links(&dir, name),
        other => other,
    }
}

/// The name is one component, so refusing a link there is enough. Links within the directory are refused too.
fn open_without_links(dir: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(dir, name, FLAGS | OFlags::NOFOLLOW, Mode::empty())
}

fn refusal(error: Errno) -> Refusal {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP | Errno::ACCESS | Errno::NXIO => {
            Refusal::Missing
        }
        other => Refusal::Io(other.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn resources_are_those_of_jupyter_server() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "logo-32x32.png",
            "logo-svg.svg",
            "logo.png",
            "kernel.js",
            "kernel.json",
            "x.css",
        ] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let found: Vec<_> = resources(dir.path()).into_iter().collect();
        let expected = [
            ("kernel.js", "kernel.js"),
            ("logo-32x32", "logo-32x32.png"),
            ("logo-svg", "logo-svg.svg"),
        ];
        assert_eq!(
            found,
            expected.map(|(key, name)| (key.to_owned(), name.to_owned()))
        );
        assert!(resources(Path::new("/nonexistent")).is_empty());
    }

    #[test]
    fn only_files_of_the_directory_are_read() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("spec");
        fs::create_dir_all(dir.join("sub")).unwrap();
        fs::write(root.path().join("secret"), "secret").unwrap();
        fs::write(dir.join("logo-64x64.png"), "png").unwrap();
        fs::write(
            dir.join("big"),
            vec![0; usize::try_from(MAX_FILE_BYTES).unwrap() + 1],
        )
        .unwrap();
        symlink(root.path().join("secret"), dir.join("absolute")).unwrap();
        symlink("../secret", dir.join("relative")).unwrap();
        symlink("logo-64x64.png", dir.join("inside")).unwrap();
        symlink("loop", dir.join("loop")).unwrap();
        rustix::fs::mknodat(CWD, dir.join("fifo"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();

        assert_eq!(&read(&dir, "logo-64x64.png").unwrap().bytes[..], b"png");
        assert_eq!(&read(&dir, "inside").unwrap().bytes[..], b"png");
        let long = "n".repeat(300);
        for name in [
            "",
            ".",
            "..",
            "../secret",
            "sub/../logo-64x64.png",
            "sub",
            "absolute",
            "relative",
            "loop",
            "fifo",
            "missing",
            "/etc/passwd",
            "a\\b",
            "a\0b",
            &long,
        ] {
            assert!(matches!(read(&dir, name), Err(Refusal::Missing)), "{name:?}");
        }
        assert!(matches!(read(&dir, "big"), Err(Refusal::TooLong)));

        let fd = File::open(&dir).unwrap().into();
        assert!(open_without_links(&fd, "logo-64x64.png").is_ok());
        for name in ["absolute", "relative", "inside"] {
            assert_eq!(open_without_links(&fd, name).unwrap_err(), Errno::LOOP, "{name}");
        }
    }
}
