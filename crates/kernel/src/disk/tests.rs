//! Files that take more space than they may: what is interrupted, refused, let through and ended.

use himalia_model::DiskUse;
use himalia_shim_protocol::Kind;
use himalia_wire::{Channel, Limits, header, v1};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::event::Event;
use crate::life::Phase;
use crate::meta::{RecordKind, RecordMeta};
use crate::rules::Rules;
use crate::time_limit::tests::{kinds, status};

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 100 * MIB;
const FREES: &str = r##"{"code":"# himalia: free space\nrm()"}"##;

fn watched() -> Bench {
    let mut bench = Bench::running();
    bench.core.set_rules(Rules {
        restart_limit: 0,
        revive: true,
        watch_disk: true,
        ..Rules::default()
    });
    bench.orders.clear();
    bench
}

/// Lets `micros` pass, at whose end so much is there, if that is looked at.
fn find(bench: &mut Bench, micros: u64, used_bytes: u64) {
    let before = bench.measured;
    bench.now.mono += micros;
    bench.step(Event::Tick);
    assert_eq!(bench.measured, before + 1, "it was time to measure");
    bench.step(Event::DiskMeasured(Some(DiskUse {
        used_bytes,
        limit_bytes: LIMIT,
        uncounted: false,
    })));
}

/// The kernel answers a request.
fn reply(bench: &mut Bench, link: u64, msg_id: &str, number: u64) {
    let kind = (Channel::Shell, "execute_reply");
    bench.says(link, kind, msg_id, Some(number), &json!({"status": "ok"}));
}

/// What the gateway said in the kernel's name: parent, type, content; with the owner of replies.
fn said(bench: &Bench) -> Vec<(String, String, Value, u64)> {
    let records = bench
        .disk
        .iter()
        .filter(|record| record.kind == RecordKind::Message as u8);
    let ours = records.filter(|record| RecordMeta::decode(&record.meta).synthetic);
    ours.map(|record| {
        let (_, parts) = v1::decode(&record.body, &Limits::KERNEL).unwrap();
        let parent = header::peek_parent(&parts.parent_header).unwrap();
        (
            parent.map_or(String::new(), |parent| parent.msg_id.into_owned()),
            header::peek(&parts.header).unwrap().msg_type.into_owned(),
            serde_json::from_slice(&parts.content).unwrap(),
            RecordMeta::decode(&record.meta).owner,
        )
    })
    .collect()
}

#[test]
fn what_runs_is_interrupted_and_told_why() {
    let mut bench = watched();
    find(&mut bench, 0, LIMIT);
    bench.ask("a");
    status(&mut bench, 1, "a", "busy");
    find(&mut bench, 10_000_000, LIMIT + 1);
    assert_eq!(kinds(&mut bench), [Kind::Interrupt]);
    let (parent, kind, content, _) = said(&bench).pop().unwrap();
    assert_eq!((parent.as_str(), kind.as_str()), ("a", "stream"));
    let text = content["text"].as_str().unwrap();
    assert!(
        text.contains("take 100.1 MiB, the limit is 100.0 MiB") && text.contains("himalia: free space"),
        "{text}"
    );
    // It does not grow any more: that is enough.
    find(&mut bench, 2_000_000, LIMIT + 1);
    assert!(kinds(&mut bench).is_empty());
}

#[test]
fn executions_are_refused_with_a_reply_until_there_is_room() {
    let mut bench = watched();
    find(&mut bench, 0, 2 * LIMIT);
    bench.take_sent();
    bench.ask("a");
    assert!(bench.sent_names().is_empty());
    let said = said(&bench);
    let of = |kind: &str| {
        let found = said.iter().filter(|(parent, it, ..)| parent == "a" && it == kind);
        found
            .map(|(_, _, content, owner)| (content.clone(), *owner))
            .collect::<Vec<_>>()
    };
    let (content, owner) = of("execute_reply").pop().unwrap();
    assert_eq!(owner, 7, "for the one that asked");
    assert_eq!(
        (&content["status"], &content["ename"]),
        (&json!("error"), &json!("disk_quota_exceeded"))
    );
    assert!(
        content["evalue"].as_str().unwrap().contains("200.0 MiB"),
        "{content}"
    );
    assert_eq!(of("error").len(), 1);
    let states: Vec<_> = of("status")
        .into_iter()
        .map(|(content, _)| content["execution_state"].clone())
        .collect();
    assert_eq!(states, ["busy", "idle"]);

    find(&mut bench, 2_000_000, LIMIT);
    bench.ask("b");
    assert_eq!(bench.sent_names(), ["b"]);
}

#[test]
fn an_execution_that_makes_room_is_taken_and_those_behind_it_wait_for_what_it_did() {
    let mut bench = watched();
    find(&mut bench, 0, 2 * LIMIT);
    bench.take_sent();
    bench.ask_with("silent", r#"{"code":"1\n# himalia: free space","silent":true}"#);
    assert!(
        said(&bench).iter().all(|(_, kind, ..)| kind != "error"),
        "silent, and not its first line"
    );
    bench.ask_with("rm", FREES);
    bench.ask("after");
    let sent = bench.take_sent();
    assert_eq!(sent.len(), 1, "{sent:?}");
    status(&mut bench, 1, "rm", "busy");
    reply(&mut bench, 2, "rm", sent[0].1);
    assert!(bench.sent_names().is_empty(), "it is not measured yet");
    status(&mut bench, 3, "rm", "idle");
    find(&mut bench, 0, LIMIT / 2);
    assert_eq!(bench.sent_names(), ["after"]);
    assert!(kinds(&mut bench).is_empty());
}

#[test]
fn a_measurement_that_never_comes_keeps_no_request_waiting_for_ever() {
    let mut bench = watched();
    find(&mut bench, 0, 2 * LIMIT);
    bench.take_sent();
    bench.now.mono += 2_000_000;
    bench.step(Event::Tick);
    bench.ask_with("rm", r#"{"code":"%%bash\n# himalia: free space\nrm *"}"#);
    assert!(bench.sent_names().is_empty());
    bench.now.mono += 30_000_000;
    bench.step(Event::Tick);
    assert_eq!(bench.sent_names(), ["rm"]);
}

#[test]
fn what_grows_in_spite_of_interrupts_is_ended() {
    let mut bench = watched();
    bench.ask("a");
    status(&mut bench, 1, "a", "busy");
    find(&mut bench, 0, 2 * LIMIT);
    find(&mut bench, 2_000_000, 3 * LIMIT);
    assert_eq!(kinds(&mut bench), [Kind::Interrupt, Kind::Interrupt]);
    find(&mut bench, 2_000_000, 4 * LIMIT);
    assert_eq!(kinds(&mut bench), [Kind::Stop]);
    let dead = bench.core.snapshot();
    assert_eq!(
        (dead.phase, dead.reason.as_deref()),
        (Phase::Dead, Some("disk_quota_exceeded"))
    );
    let (_, kind, content, _) = said(&bench)
        .into_iter()
        .rfind(|(_, kind, ..)| kind == "stream")
        .unwrap();
    assert!(
        content["text"].as_str().unwrap().contains("is ended"),
        "{kind} {content}"
    );
}

#[test]
fn what_grows_without_an_execution_is_ended_too() {
    let mut bench = watched();
    for (time, times) in [(0, 2), (2_000_000, 3), (2_000_000, 4)] {
        find(&mut bench, time, times * LIMIT);
        assert!(kinds(&mut bench).is_empty(), "there is nothing to interrupt");
    }
    find(&mut bench, 2_000_000, 5 * LIMIT);
    assert_eq!(kinds(&mut bench), [Kind::Stop]);
}

#[test]
fn it_is_measured_after_executions_but_not_after_each_of_many() {
    let mut bench = watched();
    find(&mut bench, 0, 0);
    for link in 0..10 {
        bench.ask("a");
        status(&mut bench, 2 * link + 1, "a", "busy");
        status(&mut bench, 2 * link + 2, "a", "idle");
        bench.step(Event::Tick);
    }
    assert_eq!(bench.measured, 1);
    find(&mut bench, 1_000_000, 0);
}
