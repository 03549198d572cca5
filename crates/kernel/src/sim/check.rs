//! The promises, checked after a schedule has come to rest.

use std::collections::{BTreeMap, BTreeSet};

use himalia_model::ExecutionState;
use himalia_shim_protocol::{Lane, PerLane};
use himalia_wire::{Channel, Limits, header, v1};
use serde::Deserialize;

use super::process::STRAY;
use super::sandboxes::is_move;
use super::world::{World, fingerprint};
use crate::life::Phase;
use crate::life::records::LifecycleRecord;
use crate::messages::word;
use crate::meta::{RecordKind, RecordMeta};
use crate::synthetic::ENGINE_SESSION;

pub(super) fn check(world: &World) -> Result<(), String> {
    let journaled = journal(world)?;
    once(world, &journaled)?;
    if world.ended.is_none() {
        ended(world)?;
    }
    reader(world)?;
    if world.ended.is_none() {
        rest(world)?;
    }
    Ok(())
}

/// Every message is in the journal once, in order per lane, or covered by a gap that its sender marked.
fn journal(world: &World) -> Result<BTreeSet<String>, String> {
    #[derive(Deserialize)]
    struct Gap {
        from: u64,
        to: u64,
    }
    let mut last = PerLane {
        now: 0_u64,
        data: 0_u64,
    };
    let mut requests = BTreeSet::new();
    let mut moves = 0;
    for record in &world.disk.records {
        let (meta, seq) = (RecordMeta::decode(&record.meta), record.seq);
        if is_move(record) {
            // Another sandbox has the word.
            (moves, last) = (moves + 1, PerLane::default());
            continue;
        }
        let gone = world.gone.get(&moves);
        let kind = RecordKind::from_byte(record.kind).ok_or("a record of no kind")?;
        if kind == RecordKind::Request {
            requests.insert(key_of(&record.body));
            continue;
        }
        let Some(lane) = meta.lane else { continue };
        let sent = gone.map_or(&world.shim.sent[lane], |gone| &gone.sent[lane]);
        let dropped = gone.map_or(&world.shim.dropped, |gone| &gone.dropped);
        if kind == RecordKind::Gap {
            let gap: Gap = serde_json::from_slice(&record.body).map_err(|error| error.to_string())?;
            if gap.from != last[lane] + 1 || gap.to != meta.link {
                return Err(format!(
                    "record {seq}: a gap {}..={} after {}",
                    gap.from, gap.to, last[lane]
                ));
            }
            if let Some(kept) = (gap.from..=gap.to).find(|link| !dropped.contains(link)) {
                return Err(format!("record {seq}: a gap over {kept}, which was not dropped"));
            }
            last[lane] = gap.to;
            continue;
        }
        if meta.link != last[lane] + 1 {
            return Err(format!(
                "record {seq}: link {} of {lane} after {}",
                meta.link, last[lane]
            ));
        }
        last[lane] = meta.link;
        let expected = sent
            .get(usize::try_from(meta.link - 1).unwrap())
            .ok_or("a link that was never sent")?;
        match (kind, expected) {
            (RecordKind::Message, Some(frame)) if *frame == record.body => {
                owner(world, &meta, seq, &record.body)?;
            }
            (RecordKind::Lifecycle, None) => {}
            _ => {
                return Err(format!(
                    "record {seq}: not what was sent under link {} of {lane}",
                    meta.link
                ));
            }
        }
    }
    for lane in Lane::ALL {
        if world.ended.is_none() && last[lane] != world.shim.sent[lane].len() as u64 {
            return Err(format!(
                "{lane}: {} sent, {} stored",
                world.shim.sent[lane].len(),
                last[lane]
            ));
        }
    }
    Ok(requests)
}

pub(super) fn key_of(frame: &bytes::Bytes) -> String {
    let (_, parts) = v1::decode(frame, &Limits::KERNEL).unwrap();
    let header = header::peek(&parts.header).unwrap();
    format!("{}/{}", header.session, header.msg_id)
}

/// A reply goes to the client that asked, whichever gateway took the question.
fn owner(world: &World, meta: &RecordMeta, seq: u64, frame: &bytes::Bytes) -> Result<(), String> {
    if meta.channel == Some(Channel::Iopub) {
        return Ok(());
    }
    let (_, parts) = v1::decode(frame, &Limits::KERNEL).unwrap();
    if parts.content == STRAY {
        return match meta.word & (word::REPLY | word::DONE) {
            0 if meta.owner == 0 => Ok(()),
            // It may stand in for the reply that was dropped.
            _ if world.shim.dropped_all_kinds => Ok(()),
            _ => Err(format!("record {seq}: a stray reply was taken for one")),
        };
    }
    let parent = header::peek_parent(&parts.parent_header).unwrap().unwrap();
    let expected = if parent.session == ENGINE_SESSION {
        0
    } else {
        world.asked[&format!("{}/{}", parent.session, parent.msg_id)].owner
    };
    // After a death that had waited too long for the last output, no client is known to wait for late replies.
    if meta.owner == expected || (meta.owner == 0 && world.shim.deaths > 0) {
        return Ok(());
    }
    Err(format!(
        "record {seq}: a reply for {} went to {}",
        expected, meta.owner
    ))
}

/// No request is begun twice; one in the journal is begun, or was lost with a process.
fn once(world: &World, journaled: &BTreeSet<String>) -> Result<(), String> {
    let (sent_before, answered) = (world.sent_before(), answered(world));
    for (key, asked) in &world.asked {
        let begun = world.shim.begun.get(key).copied().unwrap_or(0);
        let lost = world.shim.lost.contains(key) || sent_before.contains(key) || answered.contains(key);
        let known = journaled.contains(key);
        if begun > 1 {
            return Err(format!("{key} ran {begun} times"));
        }
        if begun == 1 && !known {
            return Err(format!("{key} ran before it was in the journal"));
        }
        if world.ended.is_some() {
            continue;
        }
        let refused = world.shim.refused.contains(key);
        if begun > 0 && refused {
            return Err(format!("{key} ran although it was refused permanently"));
        }
        if known && begun == 0 && !lost && !refused {
            return Err(format!("{key} is in the journal and neither ran nor was lost"));
        }
        if !known && asked.epoch == world.epoch {
            return Err(format!(
                "{key} was taken by the gateway that is still there, and never sent"
            ));
        }
    }
    Ok(())
}

/// Requests that have a reply in the name of a process that ended.
fn answered(world: &World) -> BTreeSet<String> {
    let messages = world.disk.records.iter().filter(|record| {
        let meta = RecordMeta::decode(&record.meta);
        let is_reply = meta.channel.is_some_and(|channel| channel != Channel::Iopub);
        record.kind == RecordKind::Message as u8 && meta.synthetic && is_reply
    });
    let parents = messages.map(|record| {
        let (_, parts) = v1::decode(&record.body, &Limits::KERNEL).unwrap();
        let parent = header::peek_parent(&parts.parent_header).unwrap().unwrap();
        format!("{}/{}", parent.session, parent.msg_id)
    });
    parents.collect()
}

/// Every request that is in the journal has its reply there, or a process that had it is known to have ended, or it is
/// said to be refused. The record of the last time that it was sent decides.
fn ended(world: &World) -> Result<(), String> {
    let (mut open, mut refused, mut replied) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    for record in &world.disk.records {
        let meta = RecordMeta::decode(&record.meta);
        match RecordKind::from_byte(record.kind) {
            Some(RecordKind::Request) if meta.owner != 0 => {
                let key = key_of(&record.body);
                let before = open.insert(key.clone(), record.seq);
                if before.is_some_and(|before| before != meta.link) {
                    return Err(format!(
                        "{key} has the records {before:?} and {}, unlinked",
                        record.seq
                    ));
                }
            }
            Some(RecordKind::Message) if meta.channel != Some(Channel::Iopub) => {
                let (_, parts) = v1::decode(&record.body, &Limits::KERNEL).unwrap();
                if parts.content == STRAY {
                    continue;
                }
                let parent = header::peek_parent(&parts.parent_header).unwrap().unwrap();
                replied.insert(format!("{}/{}", parent.session, parent.msg_id));
            }
            Some(RecordKind::Lifecycle) => {
                if let Ok(LifecycleRecord::Refused {
                    record, again: false, ..
                }) = serde_json::from_slice(&record.body)
                {
                    refused.insert(record);
                }
            }
            _ => {}
        }
    }
    let sent_before = world.sent_before();
    for (key, record) in open {
        let end = replied.contains(&key) || refused.contains(&record);
        let lost =
            world.shim.lost.contains(&key) || sent_before.contains(&key) || world.shim.dropped_all_kinds;
        if world.asked[&key].replies && !end && !lost {
            return Err(format!("{key}, last sent with record {record}, has no end"));
        }
    }
    Ok(())
}

/// What a reader has seen is what is in the journal.
fn reader(world: &World) -> Result<(), String> {
    let now = world.disk.records.iter().map(|record| fingerprint(record));
    if world.read.iter().copied().zip(now).any(|(seen, now)| seen != now) {
        return Err("a record was seen that is not there any more".to_owned());
    }
    Ok(())
}

/// Nothing is left half done.
fn rest(world: &World) -> Result<(), String> {
    let core = &world.gateway.as_ref().ok_or("no gateway")?.core;
    let snapshot = core.snapshot();
    if snapshot.phase != Phase::Running {
        return Err(format!("the kernel is {:?}", snapshot.phase));
    }
    let before = core.life.processes_before();
    let incarnation = world
        .shim
        .process
        .as_ref()
        .map(|process| process.incarnation + before);
    if incarnation != Some(snapshot.incarnation) {
        return Err(format!(
            "incarnation {} is seen, {incarnation:?} runs",
            snapshot.incarnation
        ));
    }
    let told_all = !world.shim.dropped_all_kinds;
    if told_all && (snapshot.state != ExecutionState::Idle || !snapshot.ready) {
        return Err(format!(
            "it rests and is {}, ready: {}",
            snapshot.state, snapshot.ready
        ));
    }
    if told_all && !world.waiters.is_empty() {
        return Err(format!("orders {:?} are not answered", world.waiters));
    }
    if !world.shim.link.is_drained() {
        return Err("something is not acknowledged".to_owned());
    }
    if !core.is_written() {
        return Err("something is not written".to_owned());
    }
    let open = core.requests.count_open();
    if open > 0 && world.shim.deaths == 0 && told_all {
        return Err(format!("{open} requests seem to be open"));
    }
    Ok(())
}
