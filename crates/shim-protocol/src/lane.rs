use std::fmt;
use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

/// One of the two connections between a shim and its gateway.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    /// Commands, lifecycle and the control channel: never behind output.
    Now,
    /// Shell, stdin and iopub.
    Data,
}

impl Lane {
    /// The two lanes.
    pub const ALL: [Self; 2] = [Self::Now, Self::Data];

    /// `now` or `data`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Data => "data",
        }
    }

    /// The byte in an `ack`.
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::Now => 0,
            Self::Data => 1,
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Now),
            1 => Some(Self::Data),
            _ => None,
        }
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One value for each lane; index it with a [`Lane`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct PerLane<T> {
    /// The value of the now lane.
    pub now: T,
    /// The value of the data lane.
    pub data: T,
}

impl<T> Index<Lane> for PerLane<T> {
    type Output = T;
    fn index(&self, lane: Lane) -> &T {
        match lane {
            Lane::Now => &self.now,
            Lane::Data => &self.data,
        }
    }
}

impl<T> IndexMut<Lane> for PerLane<T> {
    fn index_mut(&mut self, lane: Lane) -> &mut T {
        match lane {
            Lane::Now => &mut self.now,
            Lane::Data => &mut self.data,
        }
    }
}
