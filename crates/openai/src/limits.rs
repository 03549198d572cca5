//! Bounds of the facade, all in one place; `docs/reference/limits.md` has them for people.

pub(crate) const MESSAGE_BYTES: usize = 1 << 20;
/// Idle time of a container whose client does not say one, and the longest, in minutes.
pub(crate) const MINUTES: u64 = 20;
pub(crate) const MINUTES_MOST: u64 = 30 * 24 * 60;
/// Characters of a name.
pub(crate) const NAME_CHARS: usize = 256;
/// Elements of a page: if the client does not say, and at most.
pub(crate) const LISTED: usize = 20;
pub(crate) const LISTED_MOST: usize = 100;
/// Directories below the work directory in which files are listed.
pub(crate) const DEPTH: u32 = 16;
