//! Late binding: what a kernel gets as if it had been started with it.
#![allow(clippy::unwrap_used, clippy::large_futures, reason = "a test")]

use crate::support;

use std::collections::BTreeMap;

use himalia_shim_protocol::{Bind, Bound, Command, Event, Lane, Stop};
use support::{World, fake_spec};

fn bind(cwd: Option<&str>) -> Bind {
    Bind {
        env: BTreeMap::from([("SECRET".to_owned(), "xyzzy".to_owned())]),
        unset: vec!["MARK".to_owned()],
        cwd: cwd.map(str::to_owned),
        kernel_id: Some("an-id".to_owned()),
    }
}

async fn bound(world: &mut World, bind: Bind) -> Bound {
    let request = world.command(Command::Bind(Box::new(bind))).await;
    world
        .event("bound", |event| match event {
            Event::Bound(bound) if bound.request == request => Some(bound.clone()),
            _ => None,
        })
        .await
}

async fn restart(world: &mut World) {
    let request = world.command(Command::Restart(Stop { grace_ms: 10_000 })).await;
    world
        .event("started again", |event| {
            matches!(event, Event::Started(started) if started.request == request).then_some(())
        })
        .await;
    world.ready().await;
}

#[tokio::test]
async fn a_bound_kernel_shows_what_it_was_given_and_no_trace_of_it() {
    for mode in ["ok", "noisy"] {
        let mut world = World::connected(&[]).await;
        world.start(fake_spec(&["--bind", mode])).await;
        world.ready().await;
        world.run("print before").await;
        let (messages, links) = (world.messages().count(), world.link.position(Lane::Data));
        let dir = world.root.path().to_str().unwrap().to_owned();
        let answer = bound(&mut world, bind(Some(&dir))).await;
        assert!(answer.ok, "{answer:?}");
        for _ in 0..2 {
            assert_eq!(world.run("env").await.1, "SECRET=xyzzy\n");
            assert_eq!(world.run("cwd").await.1, format!("{dir}\n"));
            // What was said of the binding would stand between.
            let own = world.messages().skip(messages).filter(|(.., parts)| {
                let parent = himalia_wire::header::peek_parent(&parts.parent_header).unwrap();
                parent.is_some_and(|parent| parent.msg_type == "himalia_bind_request")
            });
            assert_eq!(own.count(), 0, "{mode}");
            assert!(world.link.position(Lane::Data) > links);
            // And the same once more after a restart, from the kept specification.
            restart(&mut world).await;
        }
    }
}

#[tokio::test]
async fn a_binding_that_fails_says_why_and_is_not_kept() {
    let mut world = World::connected(&[]).await;
    world.start(fake_spec(&["--bind", "error"])).await;
    world.ready().await;
    let answer = bound(&mut world, bind(None)).await;
    assert_eq!((answer.ok, &answer.reason[..]), (false, "OSError: told to fail"));
    restart(&mut world).await;
    assert_eq!(world.run("env").await.1, "MARK=1\n");
    let answer = bound(&mut world, bind(Some("relative"))).await;
    assert!(!answer.ok && answer.reason.contains("absolute"), "{answer:?}");
    world.stop(0).await;
    world
        .event("stopped", |event| {
            matches!(event, Event::Stopped(_)).then_some(())
        })
        .await;
    let answer = bound(&mut world, bind(None)).await;
    assert!(!answer.ok && answer.reason.contains("not running"), "{answer:?}");
}

#[tokio::test]
async fn a_kernel_that_cannot_be_bound_is_not_waited_for() {
    let mut world = World::connected(&[]).await;
    world.start(fake_spec(&["--bind", "silent"])).await;
    world.ready().await;
    let answer = bound(&mut world, bind(None)).await;
    assert!(!answer.ok && answer.reason.contains("unsupported"), "{answer:?}");
    assert_eq!(world.run("print still here").await.1, "still here\n");
}
