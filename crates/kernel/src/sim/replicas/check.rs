//! The promises, checked after a schedule has come to rest. What is checked after each step is where it happens.

use std::collections::BTreeMap;

use himalia_model::ExecutionState;
use himalia_shim_protocol::{Lane, PerLane};
use himalia_wire::{Channel, Limits, header, v1};

use super::super::check::key_of;
use super::super::process::STRAY;
use super::world::World;
use crate::life::Phase;
use crate::meta::{RecordKind, RecordMeta};
use crate::requests::kind::lane_of;

pub(super) fn check(world: &World) -> Result<(), String> {
    rest(world)?;
    for kernel in 0..world.sandboxes.len() {
        log(world, kernel).map_err(|reason| format!("kernel {kernel}: {reason}"))?;
    }
    Ok(())
}

/// Each kernel has one owner, which has done all that is to be done.
pub(super) fn rest(world: &World) -> Result<(), String> {
    for (kernel, sandbox) in world.sandboxes.iter().enumerate() {
        let owners: Vec<u64> = world
            .processes
            .keys()
            .copied()
            .filter(|id| world.listens(*id, kernel))
            .collect();
        let [owner] = owners[..] else {
            return Err(format!("kernel {kernel} has the owners {owners:?}"));
        };
        let process = &world.processes[&owner];
        let actor = &process.actors[&kernel];
        if !world.database.has(process.me, actor.fenced) || process.is_taking() {
            return Err(format!("process {owner} has kernel {kernel} by mistake"));
        }
        let snapshot = actor.core.snapshot();
        let rests =
            snapshot.state == ExecutionState::Idle && snapshot.ready && snapshot.phase == Phase::Running;
        if !rests || !actor.core.is_written() || !sandbox.shim.link.is_drained() {
            return Err(format!("kernel {kernel} does not rest: {snapshot:?}"));
        }
        if actor.core.requests.count_open() > 0 {
            return Err(format!("kernel {kernel} has open requests"));
        }
        if world.visible[kernel].len() != world.database.length(kernel) {
            return Err(format!("kernel {kernel} has records that are not shown"));
        }
    }
    Ok(())
}

/// Every message of the shim is in the log once and in order; every request that is in the log ran once, in the order of the log, and has
/// its reply.
fn log(world: &World, kernel: usize) -> Result<(), String> {
    let shim = &world.sandboxes[kernel].shim;
    let mut last = PerLane { now: 0, data: 0 };
    let mut requests: PerLane<Vec<String>> = PerLane::default();
    let mut replies: BTreeMap<String, u32> = BTreeMap::new();
    for record in world.database.records(kernel)? {
        let meta = RecordMeta::decode(&record.meta);
        if RecordKind::from_byte(record.kind) == Some(RecordKind::Request) {
            let Some(lane) = meta.channel.map(lane_of) else {
                continue;
            };
            let key = key_of(&record.body);
            if world.asked[kernel].contains(&key) && !requests[lane].contains(&key) {
                requests[lane].push(key);
            }
            continue;
        }
        let Some(lane) = meta.lane else { continue };
        if meta.link != last[lane] + 1 {
            return Err(format!("link {} of {lane} after {}", meta.link, last[lane]));
        }
        last[lane] = meta.link;
        let sent = shim.sent[lane].get(usize::try_from(meta.link - 1).unwrap());
        let sent = sent.ok_or("a link that was never sent")?;
        if sent.as_ref().is_some_and(|frame| *frame != record.body) {
            return Err(format!("another message under link {} of {lane}", meta.link));
        }
        if sent.is_some() && meta.channel != Some(Channel::Iopub) {
            let (_, parts) = v1::decode(&record.body, &Limits::KERNEL).unwrap();
            if parts.content != STRAY {
                let parent = header::peek_parent(&parts.parent_header).unwrap().unwrap();
                *replies
                    .entry(format!("{}/{}", parent.session, parent.msg_id))
                    .or_default() += 1;
            }
        }
    }
    for lane in Lane::ALL {
        if last[lane] != shim.sent[lane].len() as u64 {
            return Err(format!(
                "{lane}: {} sent, {} stored",
                shim.sent[lane].len(),
                last[lane]
            ));
        }
        let accepted: Vec<&String> = shim
            .accepted
            .iter()
            .filter(|(on, key)| *on == lane && world.asked[kernel].contains(key))
            .map(|(_, key)| key)
            .collect();
        if !accepted.iter().copied().eq(&requests[lane]) {
            return Err(format!(
                "{lane}: {:?} are in the log, and {accepted:?} ran",
                requests[lane]
            ));
        }
    }
    for key in requests.now.iter().chain(&requests.data) {
        let (begun, replied) = (shim.begun.get(key).copied(), replies.get(key).copied());
        if (begun, replied) != (Some(1), Some(1)) {
            return Err(format!("{key} ran {begun:?} times, and has {replied:?} replies"));
        }
    }
    Ok(())
}
