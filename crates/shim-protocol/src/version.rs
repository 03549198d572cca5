use serde::{Deserialize, Serialize};

use crate::ProtocolError;

/// Lowest version that this crate speaks.
pub const PROTOCOL_MIN: u16 = 1;
/// Highest version that this crate speaks.
pub const PROTOCOL_MAX: u16 = 1;
/// Versions that one side speaks, both ends included.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct VersionRange {
    /// Lowest.
    pub min: u16,
    /// Highest.
    pub max: u16,
}

impl VersionRange {
    /// Versions that this build supports.
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

    /// Sides that do not exist: of a later version, which still speaks ours, of one that does not any more, and of an earlier one.
    #[test]
    fn the_highest_common_version_is_chosen() {
        let next = VersionRange {
            min: PROTOCOL_MIN,
            max: PROTOCOL_MAX + 1,
        };
        let after_next = VersionRange {
            min: PROTOCOL_MAX + 1,
            max: PROTOCOL_MAX + 2,
        };
        let earlier = VersionRange {
            min: PROTOCOL_MIN - 1,
            max: PROTOCOL_MIN - 1,
        };
        assert_eq!(VersionRange::OURS.negotiate(next).unwrap(), PROTOCOL_MAX);
        assert_eq!(next.negotiate(VersionRange::OURS).unwrap(), PROTOCOL_MAX);
        assert_eq!(next.negotiate(after_next).unwrap(), PROTOCOL_MAX + 1);
        for other in [after_next, earlier] {
            let error = VersionRange::OURS.negotiate(other).unwrap_err().to_string();
            assert!(other.negotiate(VersionRange::OURS).is_err());
            assert!(
                error.contains(&format!("{}..={}", other.min, other.max)) && error.contains("1..=1"),
                "{error}"
            );
        }
    }
}
