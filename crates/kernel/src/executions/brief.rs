//! An execution as a list shows it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::records::{End, Language};

/// Characters of code in a list.
const TITLE_CHARS: usize = 120;

/// One of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brief {
    /// Number of its first record.
    pub seq: u64,
    /// When it was taken, microseconds since 1970.
    pub at_micros: u64,
    /// `None` until it has ended.
    pub end: Option<End>,
    /// The kernel works on it.
    pub running: bool,
    /// The beginning of its code.
    pub title: String,
    /// Language of the code.
    pub language: Language,
    /// The process that it ran in; 0 before that.
    pub incarnation: u32,
    /// The principal's name.
    pub caller: String,
    /// Name of the client, not verified.
    pub client: Option<String>,
    /// It ran and did not come to its end, by whatever but an interrupt.
    pub(super) failed: bool,
    pub(super) code: u64,
    pub(super) key: Option<(String, u64)>,
    /// Data of the caller.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// The beginning of the first line of code that says something.
pub fn title(code: &str) -> String {
    let line = code.lines().find(|line| !line.trim().is_empty());
    line.unwrap_or_default().chars().take(TITLE_CHARS).collect()
}
