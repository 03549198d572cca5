//! Bounds of the facade, all in one place; `docs/reference/limits.md` has them for people.

use std::time::Duration;

pub(crate) const MESSAGE_BYTES: usize = 8 << 20;
/// Time for which code may run, as in Azure.
pub(crate) const RUN_TIME: Duration = Duration::from_secs(220);
/// Bytes of each stream, and of the value, in a response.
pub(crate) const TEXT_BYTES: usize = 4 << 20;
/// Bytes of an image in a response.
pub(crate) const IMAGE_BYTES: usize = 64 << 20;
/// Characters of an identifier.
pub(crate) const IDENTIFIER_CHARS: usize = 256;
