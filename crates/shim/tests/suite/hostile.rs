//! Kernels that break the rules harm only their own sandbox: the shim continues, or dies alone and takes them along.
#![allow(clippy::unwrap_used, clippy::large_futures, reason = "a test")]

use crate::support;

use std::time::Duration;

use himalia_shim_protocol::Event;
use himalia_wire::{Channel, build};
use support::{World, execute, hostile_spec, lives, resident};

/// How much memory the shim may take.
const LIMIT: u64 = 400 << 20;

/// What may come of an attack.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Outcome {
    /// The shim continues, control answers, the kernel can be stopped.
    Survives,
    /// The shim may be aborted for lack of memory. The kernel dies with it.
    MayAbort,
}

async fn attack(code: &str, expected: Outcome) {
    let mut world = World::connected(&["--memory-limit", &LIMIT.to_string()]).await;
    world.start(hostile_spec()).await;
    world.ready().await;
    let started = |event: &Event| {
        if let Event::Started(started) = event {
            Some(started.pid)
        } else {
            None
        }
    };
    let kernel = world.event("started", started).await;
    world
        .message(Channel::Shell, &execute(&format!("attack {code}")))
        .await;
    // Some attacks say nothing more on any socket: then it is enough that a second has passed.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(1);
    while tokio::time::Instant::now() < deadline && world.shim.as_mut().unwrap().try_wait().unwrap().is_none()
    {
        let _ = tokio::time::timeout(Duration::from_millis(50), world.receive()).await;
    }
    assert!(resident(world.shim_pid()) < LIMIT, "{code}");
    if world.shim.as_mut().unwrap().try_wait().unwrap().is_none() {
        world
            .message(Channel::Control, &build::kernel_info_request("test"))
            .await;
        world.stop(500).await;
    }
    let end = tokio::time::Instant::now() + support::PATIENCE;
    let stopped = |world: &World| world.events().any(|event| matches!(event, Event::Stopped(_)));
    while !stopped(&world) {
        if let Some(status) = world.shim.as_mut().unwrap().try_wait().unwrap() {
            assert_eq!(
                expected,
                Outcome::MayAbort,
                "{code}: the shim ended with {status}"
            );
            break;
        }
        assert!(
            tokio::time::Instant::now() < end,
            "{code}: the kernel cannot be stopped"
        );
        let _ = tokio::time::timeout(Duration::from_millis(50), world.receive()).await;
    }
    while lives(kernel) {
        assert!(
            tokio::time::Instant::now() < end,
            "{code}: the kernel outlives its shim"
        );
        let _ = tokio::time::timeout(Duration::from_millis(10), std::future::pending::<()>()).await;
    }
}

#[tokio::test]
async fn broken_messages_are_dropped() {
    for code in [
        "wrong-hmac 1000",
        "forged-replies 100",
        "forged-status",
        "replay 1000",
        "big-header 1000000",
        "few-parts",
        "invalid-utf8",
        "not-json",
        "depth-bomb 100000",
        "wrong-channel",
        "input-storm 1000",
    ] {
        attack(code, Outcome::Survives).await;
    }
}

#[tokio::test]
async fn broken_streams_end_nothing_else() {
    for code in [
        "garbage 100000",
        "cut",
        "ping-storm 10000",
        "unknown-command",
        "many-parts 100000",
    ] {
        attack(code, Outcome::Survives).await;
    }
}

#[tokio::test]
async fn floods_and_lies_about_lengths_end_at_most_their_own_shim() {
    for code in [
        "long-frame",
        "long-frame shell",
        "long-command",
        "endless-multipart 20000000",
        "flood 100000 10000",
    ] {
        attack(code, Outcome::MayAbort).await;
    }
}

#[tokio::test]
async fn a_replayed_message_counts_once() {
    let mut world = World::connected(&[]).await;
    world.start(hostile_spec()).await;
    world.ready().await;
    let from = world.entries.len();
    world.message(Channel::Shell, &execute("attack replay 50")).await;
    world.message(Channel::Shell, &execute("after")).await;
    world
        .until("what comes after", |world| world.printed(from).contains("after"))
        .await;
    let streams = world.printed(from).lines().count();
    assert!(streams < 10, "{streams} lines: {}", world.printed(from));
}
