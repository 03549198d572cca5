//! Callbacks of runs that a client has started: a trigger of one run each, with that run, which is in progress already.

use crate::{TriggerRecord, TriggerRun};

/// A callback that is to be added.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NewCallback {
    /// Its id is that of the run, its name the id that the run has for its caller.
    pub trigger: TriggerRecord,
    /// The run, which has begun.
    pub run: TriggerRun,
    /// How many its owner may have of this kind.
    pub quota: CallbackQuota,
}

/// How many callbacks an owner may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CallbackQuota {
    /// Whose run continues, or whose delivery has not ended.
    pub open: i64,
    /// That are kept.
    pub kept: i64,
}

/// What came of adding a callback.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CallbackAdded {
    /// It is there.
    Added,
    /// The run has one already.
    Present,
    /// Its owner has as many as it may.
    Full,
}
