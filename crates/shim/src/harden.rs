use anyhow::Context;
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

use crate::options::Options;

/// Makes the shim undumpable (a process of the same user could read its memory, and so the keys, otherwise), the parent
/// of every orphan below it, and bounded in memory if that is asked for.
pub(crate) fn apply(options: &Options) -> anyhow::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("PR_SET_DUMPABLE")?;
    nix::sys::prctl::set_child_subreaper(true).context("PR_SET_CHILD_SUBREAPER")?;
    if let Some(bytes) = options.memory_limit {
        // Only the soft limit: kernels get the old one back.
        let hard = getrlimit(Resource::Data).maximum;
        setrlimit(
            Resource::Data,
            Rlimit {
                current: Some(bytes),
                maximum: hard,
            },
        )
        .context("RLIMIT_DATA")?;
    }
    Ok(())
}
