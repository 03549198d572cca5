//! The link: what survives a gateway, what is done once, who is refused.
#![allow(clippy::unwrap_used, clippy::large_futures, reason = "a test")]

use crate::support;

use himalia_shim_protocol::{
    Event, Lane, PROTOCOL_MAX, PROTOCOL_MIN, RefusalKind, RequestRefused, ToShim, VersionRange, Welcome,
};
use himalia_wire::{Channel, build};
use support::{Entry, World, execute, fake_spec};

#[tokio::test]
async fn replies_carry_the_request_that_they_answer() {
    let mut world = World::with_kernel(&[]).await;
    let (status, printed) = world.run("print hello").await;
    assert_eq!((&status[..], &printed[..]), ("ok", "hello\n"));
    let info = world
        .message(Channel::Control, &build::kernel_info_request("test"))
        .await;
    world.until_reply(info).await;
    let request = execute("input name?");
    let id = world.message(Channel::Shell, &request).await;
    world
        .until("an input request", |world| {
            world
                .messages()
                .any(|(msg_type, answers, _)| msg_type == "input_request" && answers == Some(id))
        })
        .await;
    let answer = build::message(
        "test",
        "input_reply",
        None,
        &serde_json::json!({"value": "Io", "status": "ok"}),
    );
    world.message(Channel::Stdin, &answer).await;
    world.until_done(&request, id).await;
    assert!(world.printed(0).contains("input: Io"));
    world
        .until("all requests are accepted", |world| {
            world.link.pending(Lane::Data).count() == 0
        })
        .await;
}

#[tokio::test]
async fn every_line_arrives_once_and_in_order_whatever_breaks() {
    let mut world = World::with_kernel(&[]).await;
    let from = world.entries.len();
    let request = execute("count 20000 100\nprint end");
    let id = world.message(Channel::Shell, &request).await;
    world
        .until("it is accepted", |world| {
            world.link.pending(Lane::Data).count() == 0
        })
        .await;
    for round in 0..6 {
        let before = world.entries.len();
        world
            .until("some output", |world| world.entries.len() > before + 300)
            .await;
        if round % 2 == 0 {
            world.crash();
        } else {
            world.lanes.data = None;
        }
        world.connect().await;
    }
    let msg_id = himalia_wire::header::peek(&request.header)
        .unwrap()
        .msg_id
        .into_owned();
    world
        .until("reply and idle", |world| {
            world.reply(id).is_some() && world.idle(&msg_id)
        })
        .await;
    assert_eq!(world.gaps().count(), 0);
    let printed = world.printed(from);
    let numbers = printed
        .lines()
        .filter_map(|line| line.split('x').next()?.parse::<u32>().ok());
    assert!(numbers.eq(0..20_000), "lines are lost, doubled or out of order");
    assert!(printed.ends_with("end\n"));
}

#[tokio::test]
async fn a_request_is_done_once_however_often_it_is_sent() {
    let mut world = World::with_kernel(&[]).await;
    let file = world.root.path().join("done");
    let request = execute(&format!("append {} x", file.display()));
    // Not delivered at first: the lane is gone before it is written.
    world.lanes.data = None;
    let id = world.message(Channel::Shell, &request).await;
    world.connect().await;
    // Again over the same connection, and again after each reconnect, since nothing is taken as accepted.
    let frame = himalia_wire::v1::encode(Channel::Shell, &request);
    let again = ToShim::Message {
        kernel: support::KERNEL,
        number: id.number,
        frame,
    };
    world.lanes.data.as_mut().unwrap().send(&again).await;
    world.until_done(&request, id).await;
    for _ in 0..3 {
        world.lanes.data = None;
        world.connect().await;
        world.lanes.data.as_mut().unwrap().send(&again).await;
    }
    world.run("print later").await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x\n");
}

#[tokio::test]
async fn after_a_crash_the_marks_tell_what_was_accepted() {
    let mut world = World::with_kernel(&[]).await;
    let id = world.begin(&execute("hang")).await;
    world
        .until("it is accepted", |world| {
            world.link.pending(Lane::Data).count() == 0
        })
        .await;
    world.crash();
    world.connect().await;
    let marks = world
        .hello
        .as_ref()
        .unwrap()
        .kernel(support::KERNEL)
        .unwrap()
        .requests
        .clone();
    assert_eq!(
        (marks.epoch, marks.high.data, &marks.unfinished[..]),
        (1, id.number, &[id][..])
    );
    assert_eq!(marks.accepted(Lane::Data, id), Some(true));
    world.command(himalia_shim_protocol::Command::Interrupt).await;
    world.until_reply(id).await;
    assert_eq!(world.reply(id).unwrap()["status"], "error");
}

#[tokio::test]
async fn an_older_gateway_is_refused_and_a_newer_one_taken() {
    let mut world = World::spawn(&[]);
    world.link = himalia_shim_protocol::GatewayLink::new(
        support::KERNEL,
        5,
        himalia_shim_protocol::PerLane::default(),
    );
    world.connect().await;
    world.lanes.now = None;
    let (mut lane, hello) = world.accept().await;
    assert_eq!((hello.lane, hello.epoch_seen), (Lane::Now, 5));
    lane.send(&ToShim::Welcome(Welcome {
        protocol: 1,
        epoch: 4,
        resume: vec![],
    }))
    .await;
    assert!(lane.next().await.is_none(), "an older epoch was taken");
    // A newer one on one lane ends the other lane, which belongs to the older.
    let (mut lane, _) = world.accept().await;
    lane.send(&ToShim::Welcome(Welcome {
        protocol: 1,
        epoch: 6,
        resume: vec![],
    }))
    .await;
    world
        .until("the data lane is closed", |world| world.lanes.data.is_none())
        .await;
    let (_, hello) = world.accept().await;
    assert_eq!((hello.lane, hello.epoch_seen), (Lane::Data, 6));
}

/// As one that is paused does: its connections stay open, and another gateway has taken its place.
#[tokio::test]
async fn a_gateway_that_says_nothing_is_left_for_another_one() {
    let mut world = World::with_kernel(&[]).await;
    let silent = std::mem::take(&mut world.lanes);
    let listener = world.listen_again();
    let before = world.link.epoch();
    world.crash();
    world.connect().await;
    assert_eq!(world.link.epoch(), before + 1);
    assert_eq!(world.run("print still here").await.1, "still here\n");
    drop((silent, listener));
}

#[tokio::test]
async fn the_use_of_a_kernel_is_reported() {
    let mut world = World::with_kernel(&[]).await;
    world.until("stats", |world| !world.stats.is_empty()).await;
    assert!(world.stats[0].rss > 0 && world.stats[0].pids == 1);
}

/// A gateway that does not exist.
#[tokio::test]
async fn a_gateway_of_the_next_version_takes_over_a_shim_of_this_one() {
    let mut world = World::with_kernel(&[]).await;
    assert_eq!(world.run("set x 1").await.0, "ok");
    world.versions = VersionRange {
        min: PROTOCOL_MIN,
        max: PROTOCOL_MAX + 1,
    };
    world.crash();
    world.connect().await;
    assert_eq!(world.link.protocol(), Some(PROTOCOL_MAX));
    assert_eq!(
        world.run("get x").await.1,
        "1
"
    );
}

#[tokio::test]
async fn messages_that_make_no_sense_are_refused_with_a_reason() {
    let mut world = World::connected(&[]).await;
    let spec = fake_spec(&[]);
    world.start(spec.clone()).await;
    world.ready().await;
    let wrong = world.link.next_request();
    let frame = himalia_wire::v1::encode(Channel::Shell, &execute("print x"));
    world
        .lanes
        .now
        .as_mut()
        .unwrap()
        .send(&ToShim::Message {
            kernel: 1,
            number: wrong.number,
            frame,
        })
        .await;
    let RequestRefused { kind, reason, .. } = world
        .event("refused", |event| match event {
            Event::Refused(refused) if refused.request.number == wrong.number => Some(refused.clone()),
            _ => None,
        })
        .await;
    assert!(reason.contains("lane now"), "{reason}");
    assert_eq!(kind, RefusalKind::Never);
    // The number is used up: the link's next one is above it.
    world
        .message(Channel::Control, &build::kernel_info_request("test"))
        .await;
    let second = world.start(spec).await;
    let reason = world
        .event("start failed", |event| match event {
            Event::StartFailed(failed) if failed.request == second => Some(failed.reason.clone()),
            _ => None,
        })
        .await;
    assert!(reason.contains("running"), "{reason}");
}

#[tokio::test]
async fn a_kernel_that_does_not_echo_identities_is_served_without_request_numbers() {
    let mut world = World::connected(&[]).await;
    world.start(fake_spec(&["--no-identity-echo"])).await;
    world
        .event("started", |event| {
            matches!(event, Event::Started(_)).then_some(())
        })
        .await;
    for _ in 0..3 {
        world.message(Channel::Shell, &execute("print x")).await;
    }
    world
        .until("three replies", |world| {
            world
                .messages()
                .filter(|(msg_type, answers, _)| *msg_type == "execute_reply" && answers.is_none())
                .count()
                == 3
        })
        .await;
}

#[tokio::test]
async fn a_hundred_megabytes_pass_and_control_is_not_behind_them() {
    let mut world = World::with_kernel(&[]).await;
    let request = execute("display text/plain 100000000");
    let id = world.message(Channel::Shell, &request).await;
    let info = world
        .message(Channel::Control, &build::kernel_info_request("test"))
        .await;
    world.until_reply(info).await;
    world.until_done(&request, id).await;
    let large = world.entries.iter().find_map(|entry| match entry {
        Entry::Message { msg_type, parts, .. } if msg_type == "display_data" => Some(parts.content.len()),
        _ => None,
    });
    assert!(large.unwrap() > 100_000_000);
}
