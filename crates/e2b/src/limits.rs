//! Bounds of the facade, all in one place; `docs/reference/limits.md` has them for people.

use std::time::Duration;

/// Bytes of a message: JSON of any route.
pub(crate) const MESSAGE_BYTES: usize = 8 << 20;
/// Lifetime of a sandbox whose client does not say one, seconds.
pub(crate) const TIMEOUT_S: u64 = 300;
/// Longest lifetime, seconds.
pub(crate) const TIMEOUT_MOST_S: u64 = 10 * 366 * 86_400;
/// Environment variables of one request, and bytes of name and value of one.
pub(crate) const VARIABLES: usize = 1000;
pub(crate) const VARIABLE_BYTES: usize = 128 << 10;
/// Bytes of a key by which a start is repeated.
pub(crate) const KEY_BYTES: usize = 256;
/// Sandboxes in a page of a list: if the client does not say, and at most.
pub(crate) const LISTED: usize = 100;
pub(crate) const LISTED_MOST: usize = 1000;
/// Longest silence of a stream.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);
/// Interval of looks at a watched directory.
pub(crate) const LOOK: Duration = Duration::from_millis(500);
/// Directories below one that is watched with all below it.
pub(crate) const WATCH_DEPTH: u32 = 64;
/// Watched directories that clients ask about: of one sandbox, and of one owner.
pub(crate) const WATCHERS_PER_SANDBOX: usize = 8;
pub(crate) const WATCHERS_PER_OWNER: usize = 64;
/// Time for which an unused watch is kept.
pub(crate) const WATCH_UNUSED: Duration = Duration::from_mins(10);
/// Bytes of one image or other large value of a result.
pub(crate) const VALUE_BYTES: usize = 64 << 20;
/// Files in one form.
pub(crate) const FILES_PER_REQUEST: usize = 1000;
/// Bytes of the name of one metadata of a file, and of all names and values of a file.
pub(crate) const METADATA_NAME_BYTES: usize = 246;
pub(crate) const METADATA_BYTES: usize = 4 << 10;
/// Bytes of a refused upload that are still read before it is answered, and the time for them.
pub(crate) const REST_BYTES: usize = 64 << 20;
pub(crate) const REST_TIME: Duration = Duration::from_secs(10);
/// Bytes that a part of a compressed body may become.
pub(crate) const UNPACKED_BYTES: usize = 4 << 20;
