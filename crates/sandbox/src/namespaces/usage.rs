//! What a sandbox is and uses, seen from outside.

use super::record::Record;
use crate::host::proc::{Process, ProcessId, family};
use crate::{Isolation, SandboxInfo, Usage};

pub(super) fn info(record: &Record) -> SandboxInfo {
    SandboxInfo {
        id: record.id,
        alive: record.living_shim().is_some(),
        pid: record.shim.and_then(|init| u32::try_from(init.pid).ok()),
        created: record.created(),
        labels: record.labels.clone(),
        isolation: Isolation::Namespaces,
        usage: None,
    }
}

/// Its resource use; the memory is the control group's number where there is one.
pub(super) fn usage(record: &Record, init: ProcessId) -> Usage {
    let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
    let family = family(&Process::all().unwrap_or_default(), init);
    let sum = family.iter().fold(Usage::default(), |sum, process| Usage {
        processes: sum.processes + 1,
        rss_bytes: sum.rss_bytes.saturating_add(process.rss_bytes()),
        cpu_millis: sum
            .cpu_millis
            .saturating_add(process.cpu_ticks.saturating_mul(1000) / ticks_per_second),
    });
    Usage {
        rss_bytes: record.details.groups.memory_bytes().unwrap_or(sum.rss_bytes),
        ..sum
    }
}
