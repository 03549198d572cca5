//! Kernels that the sandbox's zygote forks.
#![allow(clippy::unwrap_used, clippy::large_futures, reason = "a test")]

use crate::support;

use himalia_shim_protocol::{
    Cause, Command, Event, KernelExited, KernelSpec, KernelStarted, RequestId, ResourceLimits, StartPath,
    Stop,
};
use himalia_wire::Channel;
use support::{World, execute, fake_spec, lives};

fn spec() -> KernelSpec {
    KernelSpec {
        via_zygote: true,
        limits: ResourceLimits {
            open_files: Some(200),
            ..ResourceLimits::default()
        },
        ..fake_spec(&[])
    }
}

async fn connected(mode: &str) -> World {
    let mut world = World::spawn_with_zygote(mode, &[]);
    world.connect().await;
    world
}

async fn started(world: &mut World, request: RequestId) -> KernelStarted {
    world
        .event("started", |event| match event {
            Event::Started(started) if started.request == request => Some(started.clone()),
            _ => None,
        })
        .await
}

async fn exited(world: &mut World, incarnation: u32) -> KernelExited {
    world
        .event("exited", |event| match event {
            Event::Exited(exited) if exited.incarnation == incarnation => Some(exited.clone()),
            _ => None,
        })
        .await
}

#[tokio::test]
async fn every_process_of_a_kernel_comes_from_the_zygote_and_has_its_cause_of_death() {
    let mut world = connected("ok").await;
    let request = world.start(spec()).await;
    let first = started(&mut world, request).await;
    assert_eq!((first.path, first.incarnation), (StartPath::Zygote, 1));
    world.ready().await;
    let env = world.run("env").await.1;
    assert_eq!(env, "FROM_ZYGOTE={\"RLIMIT_NOFILE\":[200,200]}\nMARK=1\n");
    assert_eq!(world.run("cwd").await.1, "/\n");
    assert_eq!(world.run("pid").await.1, format!("{}\n", first.pid));
    // A process of its own, which can be interrupted and has children.
    let children = world.run("fork 2").await.1;
    let hang = execute("hang");
    let hanging = world.begin(&hang).await;
    world.command(Command::Interrupt).await;
    world.until_done(&hang, hanging).await;
    assert_eq!(world.reply(hanging).unwrap()["ename"], "KeyboardInterrupt");

    let request = world.command(Command::Restart(Stop { grace_ms: 10_000 })).await;
    let second = started(&mut world, request).await;
    assert_eq!((second.path, second.incarnation), (StartPath::Zygote, 2));
    world.ready().await;
    for child in children.split_whitespace() {
        assert!(!lives(child.parse().unwrap()), "a child of the first is left");
    }
    world
        .message(Channel::Shell, &execute("raw-stderr goodbye\nexit 7"))
        .await;
    let end = exited(&mut world, 2).await;
    assert_eq!(
        (end.cause, end.asked, end.pid),
        (Cause::Exit { code: 7 }, false, second.pid)
    );
    assert!(end.stderr_tail.contains("goodbye"), "{}", end.stderr_tail);

    // A stop leaves the zygote alone.
    world.stop(0).await;
    let request = world.start(spec()).await;
    assert_eq!(started(&mut world, request).await.path, StartPath::Zygote);
    world.ready().await;
    world
        .command_to_shim(Command::Shutdown(Stop { grace_ms: 5000 }))
        .await;
    assert_eq!(world.shim_ends().await, 0);
}

#[tokio::test]
async fn without_a_zygote_that_works_the_program_is_executed() {
    for mode in ["fail", "die"] {
        let mut world = connected(mode).await;
        for _ in 0..2 {
            let request = world.start(spec()).await;
            assert_eq!(started(&mut world, request).await.path, StartPath::Cold, "{mode}");
            world.ready().await;
            assert_eq!(world.run("env").await.1, "MARK=1\n");
            world.stop(0).await;
        }
    }
    // Not asked for, and not there.
    let mut world = connected("ok").await;
    let request = world.start(fake_spec(&[])).await;
    assert_eq!(started(&mut world, request).await.path, StartPath::Cold);
    let mut world = World::connected(&[]).await;
    let request = world.start(spec()).await;
    assert_eq!(started(&mut world, request).await.path, StartPath::Cold);
}

#[tokio::test]
async fn one_that_ended_before_the_zygote_answered_is_not_lost() {
    let mut world = connected("stillborn").await;
    world.start(spec()).await;
    let end = exited(&mut world, 1).await;
    assert_eq!(end.cause, Cause::Exit { code: 5 });
    assert!(end.stderr_tail.contains("told to fail"), "{}", end.stderr_tail);
}
