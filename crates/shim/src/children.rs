use std::collections::HashSet;

use crate::memory::OomKills;
use crate::reaper::Reaper;
use crate::zygote::Zygote;

/// Origin of kernel processes that are not executed directly, and the reports of their ends.
#[derive(Debug, Default)]
pub(crate) struct Children {
    /// Waits for all of them.
    pub(crate) reaper: Reaper,
    /// Forks kernels, where the sandbox has one.
    pub(crate) zygote: Option<Zygote>,
    /// Tells whether memory ran out, where the gateway cannot.
    pub(crate) oom_kills: OomKills,
}

impl Children {
    /// Children that are not a kernel's and must outlive it.
    pub(crate) fn spared(&self) -> HashSet<i32> {
        self.zygote.as_ref().map(Zygote::processes).unwrap_or_default()
    }
}
