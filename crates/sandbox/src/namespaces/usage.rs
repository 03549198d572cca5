//! What a sandbox is and uses, seen from outside.

use std::collections::HashMap;

use super::record::Record;
use crate::host::proc::{Process, ProcessId, family, resident};
use crate::{Isolation, SandboxId, SandboxInfo, Usage};

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

/// The memory in use by each of these that lives. `/proc` is read at most once, for those without a control group.
pub(super) fn memory(records: impl Iterator<Item = Record>) -> HashMap<SandboxId, u64> {
    let mut processes = None;
    let living = records.filter_map(|record| record.living_shim().map(|shim| (record, shim.id)));
    living
        .map(|(record, init)| {
            let used = record.details.groups.memory_bytes().unwrap_or_else(|| {
                let all = processes.get_or_insert_with(|| Process::all().unwrap_or_default());
                resident(&family(all, init))
            });
            (record.id, used)
        })
        .collect()
}
