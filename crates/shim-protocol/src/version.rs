use serde::{Deserialize, Serialize};

use crate::ProtocolError;

/// Lowest version that this crate speaks.
pub const PROTOCOL_MIN: u16 = 1;
/// Highest version that this crate speaks.
pub const PROTOCOL_MAX: u16 = 6;
/// First version with the kind `stats`.
pub const STATS_SINCE: u16 = 2;
/// First version with the kinds `bind` and `bound`.
pub const BIND_SINCE: u16 = 3;
/// First version with the kinds `fork`, `forked`, `fork_failed` and `close`.
pub const FORK_SINCE: u16 = 3;
/// First version with the kind `open` and the kinds of streams.
pub const STREAM_SINCE: u16 = 4;
/// First version with the kinds `add_link` and `link_added`.
pub const ADD_LINK_SINCE: u16 = 5;
/// First version with streams for commands, and with the tasks `stat`, `make_dir` and `move`.
pub const PROCESS_SINCE: u16 = 6;

/// Versions that one side speaks, both ends included.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct VersionRange {
    /// Lowest.
    pub min: u16,
    /// Highest.
    pub max: u16,
}

impl VersionRange {
    /// What this build speaks.
    pub const OURS: Self = Self {
        min: PROTOCOL_MIN,
        max: PROTOCOL_MAX,
    };

    /// The highest version that both ranges hold.
    ///
    /// # Errors
    /// [`ProtocolError::Version`] when there is none.
    pub fn negotiate(self, theirs: Self) -> Result<u16, ProtocolError> {
        let highest = self.max.min(theirs.max);
        if highest >= self.min && highest >= theirs.min {
            return Ok(highest);
        }
        Err(ProtocolError::Version {
            theirs_min: theirs.min,
            theirs_max: theirs.max,
            ours_min: self.min,
            ours_max: self.max,
        })
    }

    /// Is `version` in the range?
    pub fn holds(self, version: u16) -> bool {
        (self.min..=self.max).contains(&version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_version_is_chosen() {
        let old = VersionRange { min: 1, max: 1 };
        let next = VersionRange { min: 2, max: 9 };
        assert_eq!(VersionRange::OURS.negotiate(old).unwrap(), 1);
        assert_eq!(VersionRange::OURS.negotiate(next).unwrap(), PROTOCOL_MAX);
        assert!(old.negotiate(next).is_err());
        assert!(next.negotiate(old).is_err());
    }
}
