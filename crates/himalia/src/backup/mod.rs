//! `himalia backup` and `himalia restore`: a data directory as one tar file.
//!
//! The file has the copy of the database, then all other files of the data directory, then `manifest.json`, which names each file with
//! its length and its SHA-256. `restore` reads all of it and compares before it writes anything.

mod manifest;
mod pack;
mod unpack;

pub(crate) use pack::backup;
pub(crate) use unpack::restore;

/// The database, in the data directory and in a backup.
pub(crate) const DATABASE: &str = "himalia.db";
/// The last entry of a backup.
const MANIFEST: &str = "manifest.json";
