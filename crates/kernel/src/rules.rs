//! Rules that depend on the owner of a kernel.

/// Rules for one kernel: what follows a crash, how long one execution may take, whether files are watched. They change once
/// at most: when one that waited in a pool is claimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Automatic restarts in a row after crashes.
    pub restart_limit: u32,
    /// A dead kernel is started again by the next execution.
    pub revive: bool,
    /// Wall time of one execution, microseconds.
    pub execution: Option<u64>,
    /// The space of its files is limited by a watch.
    pub watch_disk: bool,
}
