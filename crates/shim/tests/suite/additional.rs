//! Additional kernels of a sandbox: a link beside the first, and whatever program on it.
#![allow(clippy::unwrap_used, clippy::large_futures, reason = "a test")]

use crate::support;

use std::fs;

use himalia_shim_protocol::{
    AddLink, Command, Event, KernelSpec, RefusalKind, RequestId, RequestRefused, Stop,
};
use support::{KERNEL, World, fake_spec};

fn add(socket: &str) -> Command {
    Command::AddLink(AddLink {
        socket: socket.to_owned(),
    })
}

async fn answer(world: &mut World, id: RequestId) -> Result<(), RequestRefused> {
    world
        .event("added or not", |event| match event {
            Event::LinkAdded(added) if added.request == id => Some(Ok(())),
            Event::Refused(refused) if refused.request == id => Some(Err(refused.clone())),
            _ => None,
        })
        .await
}

/// An additional link that both lanes are there of, and no kernel yet.
async fn further(world: &mut World, socket: &str) -> World {
    let mut further = world.branch(socket);
    let id = world.command(add(socket)).await;
    answer(world, id).await.unwrap();
    further.connect().await;
    assert!(further.hello.as_ref().unwrap().kernel(KERNEL).is_none());
    further
}

#[tokio::test]
async fn a_further_kernel_is_started_runs_restarts_and_ends_by_itself() {
    let mut first = World::with_kernel(&[]).await;
    first.run("set a 1").await;
    let mut second = further(&mut first, "k2.sock").await;
    second.start(fake_spec(&[])).await;
    second.ready().await;
    assert_ne!(second.run("get a").await.1, "1\n");
    second.run("set a 2").await;
    assert_eq!(first.run("get a").await.1, "1\n");
    let pid = second.run("pid").await.1;
    assert_ne!(pid, first.run("pid").await.1);

    second.command(Command::Restart(Stop { grace_ms: 100 })).await;
    second
        .until("the second process", |world| {
            let started = world.events().filter(|event| matches!(event, Event::Started(_)));
            started.count() == 2
        })
        .await;
    second.ready().await;
    assert_ne!(second.run("pid").await.1, pid);

    // Its gateway may go, too.
    second.crash();
    second.connect().await;
    second.run("set a 3").await;

    second.command_to_shim(Command::Close(Stop { grace_ms: 0 })).await;
    second.until_closed().await;
    assert_eq!(first.run("get a").await.1, "1\n");
    let dirs = fs::read_dir(first.runtime_dir()).unwrap().count();
    assert_eq!(dirs, 1, "its directory went with it");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_said_on_its_own_link() {
    let mut first = World::with_kernel(&[]).await;
    let mut second = further(&mut first, "k2.sock").await;
    let spec = KernelSpec {
        argv: vec!["/nowhere/kernel".to_owned()],
        ..fake_spec(&[])
    };
    second.start(spec).await;
    let reason = second
        .event("start_failed", |event| match event {
            Event::StartFailed(failed) => Some(failed.reason.clone()),
            _ => None,
        })
        .await;
    assert!(reason.contains("/nowhere/kernel"), "{reason}");
    assert_eq!(first.run("print on").await.0, "ok");
}

#[tokio::test]
async fn names_of_sockets_are_checked_and_taken_once() {
    let mut first = World::with_kernel(&[]).await;
    let _second = further(&mut first, "k2.sock").await;
    for socket in ["k2.sock", "gw.sock", "../k3.sock", ""] {
        let id = first.command(add(socket)).await;
        let refused = answer(&mut first, id).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::Never, "{socket}: {}", refused.reason);
    }
}
