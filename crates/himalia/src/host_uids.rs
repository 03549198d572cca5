//! Ranges of the host's user ids, each reserved for one gateway: no two gateways that run as root have the same ids.
//!
//! While a gateway runs, it locks a note in `/run/himalia/uids` for each of its ranges, named by the range. The note names the data
//! directory, and stays while kept files or sandboxes of that directory have ids of the range.

mod system;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use himalia_sandbox::{DEFAULT_HOST_UIDS, LOW_HOST_UIDS, host_uid_parts, host_uids_in_use};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use crate::rundir;
use crate::sandboxes::NAMESPACES_DIR;
use system::System;

/// Directory of notes that all gateways which run as root read.
const NOTES: &str = "/run/himalia/uids";
/// Longest wait for another gateway that reads the notes.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

type Range = RangeInclusive<u32>;

/// Ids for sandboxes.
#[derive(Debug)]
pub(crate) struct HostUids {
    pub(crate) ranges: Vec<Range>,
    /// Ranges that kept files have ids of, and of which none is given any more: those that the system gave to users since.
    pub(crate) of_files: Vec<Range>,
    /// Ids of kept files and earlier sandboxes of this gateway.
    pub(crate) in_use: BTreeSet<u32>,
    notes: Vec<Note>,
}

/// The lock of a note, held until it is dropped.
#[derive(Debug)]
struct Note {
    path: PathBuf,
    range: Range,
    _lock: File,
}

/// A gateway, by its directories.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    pub(crate) data_dir: &'a Path,
    pub(crate) run_dir: &'a Path,
}

impl Owner<'_> {
    fn in_use(self) -> BTreeSet<u32> {
        host_uids_in_use(&self.run_dir.join(NAMESPACES_DIR), self.data_dir)
    }
}

impl HostUids {
    /// Ids of the settings, or all ids. For containers only, whose engine knows which ids are in use. Blocks.
    pub(crate) fn shared(said: Option<&Range>) -> Self {
        let ranges = said.map_or_else(
            || {
                let system = System::look();
                let free = system.free_parts();
                if free.is_empty() {
                    host_uid_parts(&system.range)
                } else {
                    free
                }
            },
            |range| vec![range.clone()],
        );
        Self {
            ranges,
            of_files: Vec::new(),
            in_use: BTreeSet::new(),
            notes: Vec::new(),
        }
    }

    /// Reserves ids that no other gateway on this host has, for at least this number of sandboxes. Only root can give ids to sandboxes, so
    /// for other users this is [`Self::shared`]. Blocks.
    pub(crate) fn reserve(said: Option<&Range>, owner: Owner<'_>, sandboxes: u32) -> anyhow::Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::shared(said));
        }
        let (dir, system) = (Path::new(NOTES), System::look());
        if let Err(error) = make(dir) {
            // As in a container with a root that is read-only.
            tracing::warn!(%error, "nothing keeps another gateway on this host from the same user ids");
            return reserve_among(&system, &[], None, said, owner, sandboxes);
        }
        reserve(&system, dir, said, owner, sandboxes)
    }

    /// Removes the notes of ranges that nothing has an id of any more. Blocks.
    pub(crate) fn give_back(self, owner: Owner<'_>) {
        let Some(dir) = self.notes.first().and_then(|note| note.path.parent()) else {
            return;
        };
        let dir = dir.to_owned();
        let Ok(_turn) = turn(&dir) else { return };
        let in_use = owner.in_use();
        for note in &self.notes {
            if !in_use.iter().any(|uid| note.range.contains(uid)) {
                let _ = fs::remove_file(&note.path);
            }
        }
        // It stays while other gateways have notes.
        let _ = fs::remove_dir(&dir);
    }
}

/// Problem of the range in the settings, if there is one. Blocks.
pub(crate) fn warning(said: &Range) -> Option<String> {
    System::look().warning(said)
}

fn reserve(
    system: &System,
    dir: &Path,
    said: Option<&Range>,
    owner: Owner<'_>,
    sandboxes: u32,
) -> anyhow::Result<HostUids> {
    let _turn = turn(dir)?;
    let others = others(dir, owner.data_dir)?;
    reserve_among(system, &others, Some(dir), said, owner, sandboxes)
}

/// Takes ranges that no other gateway has. Without a directory for notes, other gateways do not learn of them.
fn reserve_among(
    system: &System,
    others: &[OtherRange],
    dir: Option<&Path>,
    said: Option<&Range>,
    owner: Owner<'_>,
    sandboxes: u32,
) -> anyhow::Result<HostUids> {
    let in_use = owner.in_use();
    let (ranges, of_files) = match said {
        // The operator's word, also against what gateways that do not run have left.
        Some(range) => (vec![range.clone()], Vec::new()),
        None => (
            choose(system, others, &in_use, owner.data_dir, sandboxes)?,
            of_files(system, &in_use),
        ),
    };
    let mut notes = Vec::new();
    for range in ranges.iter().chain(&of_files) {
        if let Some(other) = others
            .iter()
            .find(|other| other.runs && overlap(&other.range, range))
        {
            bail!(
                "host_uids: {} is wanted, and the gateway of {} has {}; {}",
                shown(range),
                other.data_dir.display(),
                shown(&other.range),
                if said.is_some() {
                    "give each gateway a range of its own"
                } else {
                    "kept files or sandboxes of this one have such ids: start it before the other"
                }
            );
        }
        if let Some(dir) = dir {
            notes.push(take(dir, range, owner.data_dir)?);
        }
    }
    Ok(HostUids {
        ranges,
        of_files,
        in_use,
        notes,
    })
}

/// The parts that hold ids in use and of which none is given any more.
fn of_files(system: &System, in_use: &BTreeSet<u32>) -> Vec<Range> {
    let free = system.free_parts();
    let parts = [DEFAULT_HOST_UIDS, LOW_HOST_UIDS].map(|range| host_uid_parts(&range));
    let mut parts = parts.concat();
    parts.retain(|part| !free.contains(part) && in_use.iter().any(|uid| part.contains(uid)));
    parts
}

/// Chooses parts of the system's range: those with ids in use, and enough free parts for the sandboxes.
fn choose(
    system: &System,
    others: &[OtherRange],
    in_use: &BTreeSet<u32>,
    data_dir: &Path,
    sandboxes: u32,
) -> anyhow::Result<Vec<Range>> {
    let has_ids = |part: &Range| in_use.iter().any(|uid| part.contains(uid));
    let (mut chosen, mut rest): (Vec<Range>, Vec<Range>) = system.free_parts().into_iter().partition(has_ids);
    // A gateway begins where no other is likely to, and where it began before.
    let hash = Sha256::digest(data_dir.as_os_str().as_bytes());
    if !rest.is_empty() {
        let first = usize::from(hash[0]) % rest.len();
        rest.rotate_left(first);
    }
    // Half of a part is for containers.
    let room = |ranges: &[Range]| -> u32 {
        ranges
            .iter()
            .map(|range| (range.end() - range.start()) / 2 + 1)
            .sum()
    };
    for part in rest {
        if !chosen.is_empty() && room(&chosen) >= sandboxes {
            break;
        }
        if !others.iter().any(|other| overlap(&other.range, &part)) {
            chosen.push(part);
        }
    }
    if chosen.is_empty() {
        let gateways = others
            .iter()
            .map(|other| format!("the gateway of {}", other.data_dir.display()));
        let users = system.users_of(&system.range).map(str::to_owned);
        let names: BTreeSet<_> = gateways.chain(users).collect();
        bail!(
            "host_uids: others have all of {}: {}; set host_uids to an unused range",
            shown(&system.range),
            names.into_iter().collect::<Vec<_>>().join(", ")
        );
    }
    Ok(chosen)
}

/// A range of another gateway that runs, or has left something.
#[derive(Debug)]
struct OtherRange {
    range: Range,
    data_dir: PathBuf,
    runs: bool,
}

/// Reads the notes, and removes those that mean nothing any more.
fn others(dir: &Path, own: &Path) -> anyhow::Result<Vec<OtherRange>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let Some(range) = entry.file_name().to_str().and_then(parse) else {
            continue;
        };
        let Ok(note) = File::open(&path) else { continue };
        let runs = matches!(
            flock(&note, FlockOperation::NonBlockingLockExclusive),
            Err(Errno::WOULDBLOCK)
        );
        let data_dir = said_in(&path);
        let other = Owner {
            data_dir: &data_dir,
            run_dir: &rundir::recall(&data_dir).unwrap_or_default(),
        };
        if runs || data_dir != own && other.in_use().iter().any(|uid| range.contains(uid)) {
            found.push(OtherRange {
                range,
                data_dir,
                runs,
            });
        } else {
            let _ = fs::remove_file(&path);
        }
    }
    Ok(found)
}

fn said_in(note: &Path) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(&fs::read(note).unwrap_or_default()))
}

fn take(dir: &Path, range: &Range, data_dir: &Path) -> anyhow::Result<Note> {
    let path = dir.join(shown(range));
    let cannot = || format!("cannot write {}", path.display());
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut lock = options.open(&path).with_context(cannot)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).with_context(cannot)?;
    lock.write_all(data_dir.as_os_str().as_bytes())
        .with_context(cannot)?;
    Ok(Note {
        path,
        range: range.clone(),
        _lock: lock,
    })
}

/// Makes the directory of notes, and the one that it is in, for this user alone.
fn make(dir: &Path) -> anyhow::Result<()> {
    rundir::private(dir.parent().unwrap_or(dir))?;
    rundir::private(dir)
}

/// The lock of the directory itself, which is made if it is missing: who has it may look and write.
fn turn(dir: &Path) -> anyhow::Result<File> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match try_turn(dir)? {
            Some(turn) => return Ok(turn),
            None if Instant::now() > deadline => bail!("{} is locked by another process", dir.display()),
            None => std::thread::sleep(PAUSE),
        }
    }
}

fn try_turn(dir: &Path) -> anyhow::Result<Option<File>> {
    let opened = make(dir).and_then(|()| Ok(File::open(dir)?));
    let file = match opened {
        Ok(file) => file,
        // Another gateway, which ends, removed it at this moment.
        Err(_) if !dir.exists() => return Ok(None),
        Err(error) => return Err(error),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot lock {}", dir.display())),
    }
    let is_there = |found: &fs::Metadata| file.metadata().is_ok_and(|own| own.ino() == found.ino());
    match fs::metadata(dir) {
        Ok(found) if is_there(&found) => Ok(Some(file)),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
        _ => Ok(None),
    }
}

fn overlap(one: &Range, other: &Range) -> bool {
    one.start() <= other.end() && other.start() <= one.end()
}

/// As in the settings.
fn shown(range: &Range) -> String {
    format!("{}-{}", range.start(), range.end())
}

fn parse(name: &str) -> Option<Range> {
    let (first, last) = name.split_once('-')?;
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[cfg(test)]
mod tests;
