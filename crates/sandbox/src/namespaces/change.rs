//! Changes to the limits of a running sandbox.

use std::os::fd::AsFd as _;

use himalia_jail::{Resize, TmpfsSize};

use super::inner::Inner;
use super::member::Member;
use super::root::Memory;
use super::start::{report, wanted};
use crate::ChangedLimit;
use crate::host::log::open_log;
use crate::host::proc::{Process, family};
use crate::{FixedLimit, LimitChange, LimitReport, SandboxError};

/// The first limit that cannot be changed here.
pub(super) fn fixed(inner: &Inner, change: &LimitChange) -> Option<FixedLimit> {
    let groups = &inner.config.cgroups;
    change.first_fixed(|changed| match *changed {
        ChangedLimit {
            field: "open_files", ..
        } => Some("is set when a process starts"),
        ChangedLimit {
            field: "memory_bytes",
            is_new: true,
            ..
        } if groups.has_memory() => Some("is counted from the first process on"),
        ChangedLimit { field: "pids", .. } if !groups.has_pids() => Some("is set when a process starts"),
        ChangedLimit {
            field: "memory_bytes" | "pids" | "cpu_millis",
            is_dropped: true,
            ..
        } => Some("cannot be taken away"),
        _ => None,
    })
}

/// Changes the limits. Blocks.
pub(super) fn apply(
    inner: &Inner,
    member: &Member,
    change: &LimitChange,
) -> Result<LimitReport, SandboxError> {
    if let Some(fixed) = fixed(inner, change) {
        return Err(fixed.into_error());
    }
    let mut record = member.record();
    let is_kept = record.details.files.is_some();
    let sizes = |limits| Memory::new(limits, is_kept, inner.config.sizes);
    let (before, after) = (sizes(&change.from), sizes(&change.to));
    let (from, to) = (wanted(&change.from, before), wanted(&change.to, after));
    let had = record.details.groups.clone();
    let planned = inner.config.cgroups.plan(&record.mark, to);
    record.details.groups = had.clone().or(planned);
    record.details.limits = report(&change.to, inner, is_kept);
    record.details.watched_memory = change
        .to
        .memory_bytes
        .filter(|_| !inner.config.cgroups.has_memory());
    record.details.watched_disk = change.to.disk_bytes.filter(|_| is_kept);
    // From here on, its end also removes new groups.
    record.write(&inner.layout.record(member.id))?;
    member.set_record(record.clone());
    let processes = || {
        let all = Process::all().unwrap_or_default();
        let found = family(&all, member.init);
        found.iter().map(|process| process.id.pid).collect()
    };
    record.details.groups.change(&had, (from, to), processes)?;
    resize(
        inner,
        member,
        &record.mark,
        after.unlike(before, record.details.work_dir()),
    )?;
    Ok(record.details.limits)
}

fn resize(
    inner: &Inner,
    member: &Member,
    mark: &str,
    sizes: Vec<(&'static str, u64)>,
) -> Result<(), SandboxError> {
    if sizes.is_empty() {
        return Ok(());
    }
    let log = inner.layout.log(member.id);
    let process = member.pidfd().ok_or(SandboxError::NotFound(member.id))?;
    let process = process
        .as_fd()
        .try_clone_to_owned()
        .map_err(|error| SandboxError::io(&log, error))?;
    let tmpfs = sizes.into_iter().map(|(target, size_bytes)| TmpfsSize {
        target: target.into(),
        size_bytes,
    });
    let plan = Resize {
        tmpfs: tmpfs.collect(),
    };
    inner.jail.resize(&plan, mark, process, open_log(&log)?)
}
