//! Reads a backup: all of it twice, first to check it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufReader, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use himalia_engine::detach_sandboxes;
use sha2::{Digest as _, Sha256};
use tar::{Archive, EntryType};

use super::manifest::{self, Manifest};
use super::{DATABASE, MANIFEST};
use crate::paths;

/// Read at once.
const BLOCK: usize = 256 << 10;

/// Makes a data directory of a backup. It must not exist, or be empty.
pub(crate) fn restore(input: &Path, data_dir: &Path) -> anyhow::Result<ExitCode> {
    let there = fs::read_dir(data_dir).map(|mut entries| entries.next().is_some());
    match there {
        Ok(true) => bail!(
            "{} is not empty: a restore overwrites nothing",
            data_dir.display()
        ),
        Ok(false) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", data_dir.display())),
    }
    let manifest = check(input)?;
    // Beside it, and renamed once it is complete.
    let mut name = data_dir.as_os_str().to_owned();
    name.push(format!(".{}-restore", std::process::id()));
    let fresh = PathBuf::from(name);
    let done = unpack(input, &fresh).and_then(|()| {
        let kernels = detach_sandboxes(&fresh.join(DATABASE))?;
        // An empty directory is replaced.
        fs::rename(&fresh, data_dir).with_context(|| format!("cannot make {}", data_dir.display()))?;
        Ok(kernels)
    });
    if done.is_err() {
        let _ = fs::remove_dir_all(&fresh);
    }
    let kernels = done?;
    writeln!(
        io::stdout(),
        "{}: {} files of {}; {kernels} kernels, whose sandboxes count as lost",
        data_dir.display(),
        manifest.files.len(),
        manifest.created
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Reads all of it, and compares it with its manifest.
fn check(input: &Path) -> anyhow::Result<Manifest> {
    let damaged = |what: String| anyhow::anyhow!("{} is not a complete backup: {what}", input.display());
    let mut archive = open(input)?;
    let mut found = Vec::new();
    let mut manifest = None;
    for entry in archive.entries().map_err(|error| damaged(error.to_string()))? {
        let mut entry = entry.map_err(|error| damaged(error.to_string()))?;
        let path = entry
            .path()
            .map_err(|error| damaged(error.to_string()))?
            .into_owned();
        ensure!(
            manifest.is_none(),
            damaged("there is something after its manifest".to_owned())
        );
        let sound = path.components().all(|part| matches!(part, Component::Normal(_)));
        ensure!(
            sound && path.components().next().is_some(),
            damaged(format!("{} is outside", path.display()))
        );
        match entry.header().entry_type() {
            EntryType::Directory | EntryType::Symlink => continue,
            EntryType::Regular => {}
            other => bail!(damaged(format!("{} is a {other:?}", path.display()))),
        }
        if path.as_os_str() == OsStr::new(MANIFEST) {
            let mut text = Vec::new();
            let read = entry
                .by_ref()
                .take(manifest::MAX_BYTES + 1)
                .read_to_end(&mut text);
            read.map_err(|error| damaged(error.to_string()))?;
            ensure!(
                text.len() as u64 <= manifest::MAX_BYTES,
                damaged("its manifest is too long".to_owned())
            );
            let read: Manifest =
                serde_json::from_slice(&text).map_err(|error| damaged(format!("its manifest: {error}")))?;
            manifest = Some(read);
            continue;
        }
        let (bytes, sha256) = digest(&mut entry).map_err(|error| damaged(error.to_string()))?;
        found.push(manifest::File {
            path: path.to_string_lossy().into_owned(),
            bytes,
            sha256,
        });
    }
    let manifest = manifest.ok_or_else(|| damaged("it has no manifest".to_owned()))?;
    ensure!(
        manifest.is_known(),
        "{} was written by himalia {}, in a form that this version does not know",
        input.display(),
        manifest.himalia
    );
    if let Some((_, file)) = found
        .iter()
        .zip(&manifest.files)
        .find(|(found, listed)| found != listed)
    {
        bail!(damaged(format!("{} is not as it was", file.path)));
    }
    ensure!(
        found.len() == manifest.files.len(),
        damaged(format!(
            "it has {} files of {}",
            found.len(),
            manifest.files.len()
        ))
    );
    ensure!(
        found.first().is_some_and(|file| file.path == DATABASE),
        damaged(format!("it has no {DATABASE}"))
    );
    Ok(manifest)
}

/// The length of a content, and its SHA-256.
fn digest(content: &mut impl io::Read) -> io::Result<(u64, String)> {
    let (mut hash, mut bytes, mut block) = (Sha256::new(), 0, vec![0; BLOCK]);
    loop {
        let read = content.read(&mut block)?;
        if read == 0 {
            return Ok((bytes, hex::encode(hash.finalize())));
        }
        hash.update(block.get(..read).unwrap_or_default());
        bytes += read as u64;
    }
}

/// Writes all of it. No entry gets outside of the directory by a link that came before it.
fn unpack(input: &Path, to: &Path) -> anyhow::Result<()> {
    paths::make_private(to)?;
    let is_root = rustix::process::geteuid().is_root();
    let mut archive = open(input)?;
    archive.set_preserve_permissions(true);
    // Files of sandboxes have users of their own.
    archive.set_preserve_ownerships(is_root);
    // Directories get their modes last: some cannot be written to.
    let mut directories = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        if path.as_os_str() == OsStr::new(MANIFEST) {
            continue;
        }
        let what = || format!("cannot write {}", path.display());
        ensure!(
            is_inside(to, &path),
            "{} is outside of the data directory",
            path.display()
        );
        let target = to.join(&path);
        if entry.header().entry_type() == EntryType::Directory {
            fs::create_dir(&target).with_context(what)?;
            let header = entry.header();
            directories.push((target, header.mode()?, header.uid()?, header.gid()?));
        } else {
            entry.unpack(&target).with_context(what)?;
        }
    }
    for (path, mode, user, group) in directories.into_iter().rev() {
        if is_root {
            lchown(&path, u32::try_from(user).ok(), u32::try_from(group).ok())
                .with_context(|| format!("cannot give {} to its user", path.display()))?;
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))
            .with_context(|| format!("cannot set the mode of {}", path.display()))?;
    }
    Ok(())
}

/// Returns true if all directories above the path are directories and not links.
fn is_inside(to: &Path, path: &Path) -> bool {
    let mut above = path.ancestors().skip(1);
    above.all(|above| fs::symlink_metadata(to.join(above)).is_ok_and(|data| data.is_dir()))
}

fn open(input: &Path) -> anyhow::Result<Archive<BufReader<File>>> {
    let file = File::open(input).with_context(|| format!("cannot read {}", input.display()))?;
    Ok(Archive::new(BufReader::with_capacity(1 << 20, file)))
}
