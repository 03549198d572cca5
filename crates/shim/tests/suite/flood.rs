//! A gateway that does not read: the kernel continues, memory stays bounded, what is lost is marked.
#![allow(clippy::unwrap_used, clippy::large_futures, reason = "a test")]

use crate::support;

use std::time::{Duration, Instant};

use himalia_shim_protocol::{Command, GapReason, Lane};
use himalia_wire::{Channel, build};
use support::{World, execute, resident};

#[tokio::test]
async fn a_data_lane_that_is_not_read_stalls_nothing() {
    let mut world = World::with_kernel(&["--window", "4000000", "--spill-quota", "32000000"]).await;
    let done = world.root.path().join("done");
    // 200 MB of output, then something that must be kept.
    let code = format!("count 10000 20000\nresult kept\ntouch {}\nhang", done.display());
    let request = execute(&code);
    // The data lane is held open and not read; the now lane continues.
    let id = world.message(Channel::Shell, &request).await;
    let data = world.lanes.data.take();
    let end = Instant::now() + support::PATIENCE;
    while !done.exists() {
        assert!(Instant::now() < end, "the kernel is stalled");
        let info = world
            .message(Channel::Control, &build::kernel_info_request("test"))
            .await;
        let begin = Instant::now();
        world.until_reply(info).await;
        assert!(
            begin.elapsed() < Duration::from_secs(1),
            "control took {:?}",
            begin.elapsed()
        );
    }
    let memory = resident(world.shim_pid());
    assert!(memory < 80 << 20, "{memory} bytes resident");
    world.command(Command::Interrupt).await;
    world.lanes.data = data;
    world.until_done(&request, id).await;
    assert_eq!(world.reply(id).unwrap()["ename"], "KeyboardInterrupt");

    let gaps: Vec<_> = world.gaps().copied().collect();
    assert!(!gaps.is_empty() && gaps.iter().all(|gap| gap.reason == GapReason::Quota));
    let lost: u64 = gaps.iter().map(|gap| gap.messages).sum();
    let streams = world
        .messages()
        .filter(|(msg_type, _, _)| *msg_type == "stream")
        .count() as u64;
    assert_eq!(streams + lost, 10_000);
    assert!(gaps.iter().map(|gap| gap.bytes).sum::<u64>() >= lost * 20_000);
    let kept = |wanted: &str| world.messages().any(|(msg_type, _, _)| msg_type == wanted);
    assert!(kept("execute_result") && kept("execute_input"));
    // Everything is acknowledged: nothing is left in memory or on disk.
    world.run("print again").await;
    assert_eq!(world.link.unacknowledged(Lane::Data), 0);
}
