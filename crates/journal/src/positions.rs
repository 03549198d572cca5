//! Positions of readers: a small file of numbered slots that survives `kill -9`.
//!
//! [`MAX_POSITIONS`] slots of 32 bytes, each `u64 owner · u64 seq · u64 stamp · u32 CRC32C of these 24 bytes · u32 zero`
//! (little-endian); stamp 0 is an empty slot, and the largest stamp was set last. A slot is written with one `pwrite` and
//! lies within one page. A damaged slot is an empty one.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::error::JournalError;

/// The most owners whose position is kept.
pub const MAX_POSITIONS: usize = 1024;

const SLOT: usize = 32;

/// The positions kept beside a journal. Owners are numbers that the caller gives out.
#[derive(Debug)]
pub struct Positions {
    path: PathBuf,
    file: File,
    dirty: AtomicBool,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    by_owner: HashMap<u64, Slot>,
    free: Vec<usize>,
    stamp: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    at: usize,
    seq: u64,
    stamp: u64,
}

impl Positions {
    /// Opens or creates the file. Positions beyond `head` (the log lost its end in a power failure) are moved back to it.
    pub(crate) fn open(dir: &Path, head: u64) -> Result<Self, JournalError> {
        let path = dir.join("positions");
        let load = || {
            let mut options = OpenOptions::new();
            let file = options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)?;
            let mut bytes = vec![0; MAX_POSITIONS * SLOT];
            read_prefix(&file, &mut bytes)?;
            Ok((file, bytes))
        };
        let (file, bytes) = load().map_err(|error| JournalError::io("read", &path, error))?;
        let slots = Mutex::new(Slots::load(&bytes, head));
        Ok(Self {
            path,
            file,
            dirty: AtomicBool::new(false),
            slots,
        })
    }

    /// The position of `owner`, if one is kept.
    pub fn get(&self, owner: u64) -> Option<u64> {
        self.slots.lock().by_owner.get(&owner).map(|slot| slot.seq)
    }

    /// Sets the position of `owner`. Positions only grow: a lower one than is kept changes nothing. With
    /// [`MAX_POSITIONS`] other owners the least recently set one is forgotten.
    pub fn set(&self, owner: u64, seq: u64) -> Result<(), JournalError> {
        let mut slots = self.slots.lock();
        if slots.by_owner.get(&owner).is_some_and(|slot| slot.seq >= seq) {
            return Ok(());
        }
        let (slot, evicted) = slots.place(owner, seq);
        self.write(slot.at, &encode(owner, seq, slot.stamp))?;
        if let Some(evicted) = evicted {
            slots.by_owner.remove(&evicted);
        }
        slots.free.retain(|&at| at != slot.at);
        slots.stamp = slot.stamp;
        slots.by_owner.insert(owner, slot);
        Ok(())
    }

    /// Forgets `owner`.
    pub fn remove(&self, owner: u64) -> Result<(), JournalError> {
        let mut slots = self.slots.lock();
        if let Some(&slot) = slots.by_owner.get(&owner) {
            self.write(slot.at, &[0; SLOT])?;
            slots.by_owner.remove(&owner);
            slots.free.push(slot.at);
        }
        Ok(())
    }

    /// Takes over those of another copy of the file that are further. Positions beyond `head` are moved back to it.
    pub(crate) fn merge(&self, copy: &[u8], head: u64) -> Result<(), JournalError> {
        for (owner, seq, _) in copy.chunks_exact(SLOT).filter_map(decode) {
            self.set(owner, seq.min(head))?;
        }
        Ok(())
    }

    /// Flushes changes to the disk.
    pub(crate) fn sync(&self) -> Result<(), JournalError> {
        if !self.take_changed() {
            return Ok(());
        }
        self.file.sync_data().map_err(|error| {
            self.dirty.store(true, Ordering::Release);
            JournalError::io("flush", &self.path, error)
        })
    }

    /// True if there were changes since the last call.
    pub(crate) fn take_changed(&self) -> bool {
        self.dirty.swap(false, Ordering::AcqRel)
    }

    /// All of the file up to its last slot that is used.
    pub(crate) fn bytes(&self) -> Result<Bytes, JournalError> {
        let slots = self.slots.lock();
        let used = slots.by_owner.values().map(|slot| slot.at + 1).max().unwrap_or(0);
        let mut bytes = vec![0; used * SLOT];
        read_prefix(&self.file, &mut bytes).map_err(|error| JournalError::io("read", &self.path, error))?;
        Ok(bytes.into())
    }

    fn write(&self, at: usize, slot: &[u8; SLOT]) -> Result<(), JournalError> {
        let offset = (at * SLOT) as u64;
        let written = self.file.write_all_at(slot, offset);
        self.dirty.store(true, Ordering::Release);
        written.map_err(|error| JournalError::io("write", &self.path, error))
    }
}

impl Slots {
    fn load(bytes: &[u8], head: u64) -> Self {
        let mut slots = Self::default();
        for (at, bytes) in bytes.chunks_exact(SLOT).enumerate() {
            let Some((owner, seq, stamp)) = decode(bytes) else {
                slots.free.push(at);
                continue;
            };
            slots.stamp = slots.stamp.max(stamp);
            let slot = Slot {
                at,
                seq: seq.min(head),
                stamp,
            };
            // An owner twice: an eviction was cut short, the younger slot holds.
            match slots.by_owner.insert(owner, slot) {
                Some(other) if other.stamp > stamp => {
                    slots.by_owner.insert(owner, other);
                    slots.free.push(at);
                }
                Some(other) => slots.free.push(other.at),
                None => {}
            }
        }
        slots.free.reverse();
        slots
    }

    /// The slot that `owner` shall have, and the owner that must leave it.
    fn place(&self, owner: u64, seq: u64) -> (Slot, Option<u64>) {
        let stamp = self.stamp + 1;
        if let Some(slot) = self.by_owner.get(&owner) {
            return (
                Slot {
                    at: slot.at,
                    seq,
                    stamp,
                },
                None,
            );
        }
        if let Some(&at) = self.free.last() {
            return (Slot { at, seq, stamp }, None);
        }
        let oldest = self.by_owner.iter().min_by_key(|(_, slot)| slot.stamp);
        let (evicted, at) = oldest.map_or((None, 0), |(&owner, slot)| (Some(owner), slot.at));
        (Slot { at, seq, stamp }, evicted)
    }
}

fn encode(owner: u64, seq: u64, stamp: u64) -> [u8; SLOT] {
    let mut out = [0; SLOT];
    out[..8].copy_from_slice(&owner.to_le_bytes());
    out[8..16].copy_from_slice(&seq.to_le_bytes());
    out[16..24].copy_from_slice(&stamp.to_le_bytes());
    let crc = crc32c::crc32c(&out[..24]);
    out[24..28].copy_from_slice(&crc.to_le_bytes());
    out
}

/// `(owner, seq, stamp)` of a slot that is in use and sound.
fn decode(bytes: &[u8]) -> Option<(u64, u64, u64)> {
    let (fields, check) = bytes.split_at_checked(24)?;
    let number = |at: usize| fields.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let (owner, seq, stamp) = (number(0)?, number(8)?, number(16)?);
    (stamp > 0 && check.get(..4)? == crc32c::crc32c(fields).to_le_bytes()).then_some((owner, seq, stamp))
}

fn read_prefix(file: &File, bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive_and_only_grow() {
        let dir = tempfile::tempdir().unwrap();
        let positions = Positions::open(dir.path(), 100).unwrap();
        positions.set(7, 10).unwrap();
        positions.set(7, 9).unwrap();
        positions.set(0, 50).unwrap();
        positions.set(8, 1).unwrap();
        positions.remove(8).unwrap();
        drop(positions);
        let positions = Positions::open(dir.path(), 20).unwrap();
        assert_eq!(positions.get(7), Some(10));
        assert_eq!(positions.get(8), None);
        assert_eq!(positions.get(0), Some(20), "moved back to the head");
    }

    #[test]
    fn of_two_copies_the_further_position_counts() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = Positions::open(dir.path(), 100).unwrap();
        for (owner, seq) in [(1, 10), (2, 30), (3, 90)] {
            elsewhere.set(owner, seq).unwrap();
        }
        let copy = elsewhere.bytes().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let positions = Positions::open(dir.path(), 50).unwrap();
        positions.set(1, 20).unwrap();
        positions.set(2, 20).unwrap();
        positions.merge(&copy, 50).unwrap();
        let found = [1, 2, 3, 4].map(|owner| positions.get(owner));
        assert_eq!(found, [Some(20), Some(30), Some(50), None]);
    }

    #[test]
    fn the_least_recently_set_gives_way_and_the_file_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let positions = Positions::open(dir.path(), 1).unwrap();
        for owner in 0..MAX_POSITIONS as u64 {
            positions.set(owner, 1).unwrap();
        }
        positions.set(0, 2).unwrap();
        for owner in 5000..5010 {
            positions.set(owner, 1).unwrap();
        }
        drop(positions);
        let positions = Positions::open(dir.path(), 10).unwrap();
        assert_eq!(positions.get(0), Some(2));
        assert!((1..=10).all(|owner| positions.get(owner).is_none()));
        assert!(
            (11..MAX_POSITIONS as u64)
                .chain(5000..5010)
                .all(|owner| positions.get(owner) == Some(1))
        );
        assert_eq!(
            positions.file.metadata().unwrap().len(),
            (MAX_POSITIONS * SLOT) as u64
        );
    }

    #[test]
    fn a_damaged_slot_is_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let positions = Positions::open(dir.path(), 1).unwrap();
        positions.set(1, 1).unwrap();
        positions.set(2, 1).unwrap();
        positions.file.write_all_at(b"x", 3).unwrap();
        drop(positions);
        let positions = Positions::open(dir.path(), 1).unwrap();
        assert_eq!((positions.get(1), positions.get(2)), (None, Some(1)));
    }
}
