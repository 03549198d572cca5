//! Bounds of the facade, all in one place; `docs/reference/limits.md` has them for people.

use std::time::Duration;

/// Bytes of one message of a client.
pub(crate) const MESSAGE_BYTES: usize = 8 << 20;
/// Default time that a call waits for an execution.
pub(crate) const WAIT: Duration = Duration::from_secs(50);
/// Longest time that a call may wait, in seconds.
pub(crate) const WAIT_MOST: f64 = 600.0;
/// Bytes of the images in one reply, if the call does not say.
pub(crate) const IMAGE_BYTES: u64 = 256 << 10;
/// Bytes of the images in one reply, at most.
pub(crate) const IMAGE_BYTES_MOST: u64 = 4 << 20;
/// Pixels on the longer side of an image that a reply shows.
pub(crate) const IMAGE_PIXELS: u64 = 2000;
/// Images in one reply.
pub(crate) const IMAGES: usize = 8;
/// Links in one reply.
pub(crate) const LINKS: usize = 64;
/// Bytes of a page of output, if the call does not say.
pub(crate) const PAGE_BYTES: u64 = 8 << 10;
/// Bytes of a page of output, at most.
pub(crate) const PAGE_BYTES_MOST: u64 = 1 << 20;
/// Entries in a list of files: if the call does not say, and at most.
pub(crate) const FILES: u64 = 100;
pub(crate) const FILES_MOST: u64 = 1000;
/// Bytes of an artifact, or of a file, that can be read as a resource; larger ones are for HTTP.
pub(crate) const RESOURCE_BYTES: usize = 8 << 20;
/// Sessions in a list, the latest ones.
pub(crate) const SESSIONS: usize = 200;
/// Templates in a list.
pub(crate) const TEMPLATES: usize = 100;
/// Executions in a list, the latest ones.
pub(crate) const EXECUTIONS: usize = 20;
/// Variables in a list.
pub(crate) const VARIABLES: u64 = 1000;
/// Rows of a variable in one reply: if the call does not say, and at most.
pub(crate) const ROWS: u64 = 20;
pub(crate) const ROWS_MOST: u64 = 200;
/// Least time from one progress notification to the next.
pub(crate) const PROGRESS: Duration = Duration::from_secs(1);
/// Longest silence towards a client that wants progress.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);
/// Characters of the line of output in a progress notification.
pub(crate) const PROGRESS_CHARS: usize = 200;
/// Time for which a client may keep capabilities and templates, which change with the gateway, in milliseconds.
pub(crate) const FRESH_DISCOVERY_MS: u64 = 3_600_000;
/// Time for which a client may keep the list of tools, in milliseconds.
pub(crate) const FRESH_TOOLS_MS: u64 = 60_000;
/// Time for which a client may keep the list of sessions, in milliseconds.
pub(crate) const FRESH_SESSIONS_MS: u64 = 5_000;
/// Time for which a client may keep an artifact, which never changes, in milliseconds.
pub(crate) const FRESH_ARTIFACT_MS: u64 = 86_400_000;
/// Longest wait for the answer to a form, for a client that is asked within its call.
pub(crate) const ANSWER: Duration = Duration::from_mins(10);
/// Longest silence on the stream of such a call.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Events of such a call that wait for its client.
pub(crate) const EVENTS: usize = 16;
/// Time between two looks whether the list of tools has changed, for a client that listens.
pub(crate) const LIST_LOOK: Duration = Duration::from_secs(10);
