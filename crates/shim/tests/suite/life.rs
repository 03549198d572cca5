//! The life of a kernel: start, interrupt, restart, stop, death, and the end of the shim.
#![allow(clippy::unwrap_used, clippy::large_futures, reason = "a test")]

use crate::support;

use std::time::{Duration, Instant};

use himalia_shim_protocol::{
    Cause, Command, Event, KernelExited, KernelState, KernelStopped, RefusalKind, Stop,
};
use himalia_wire::Channel;
use support::{World, execute, fake_spec, lives, resident, spec};

async fn exited(world: &mut World) -> KernelExited {
    world
        .event("exited", |event| {
            if let Event::Exited(exited) = event {
                Some(exited.clone())
            } else {
                None
            }
        })
        .await
}

async fn stopped(world: &mut World) -> KernelStopped {
    world
        .event("stopped", |event| {
            if let Event::Stopped(stopped) = event {
                Some(stopped.clone())
            } else {
                None
            }
        })
        .await
}

fn pids(text: &str) -> Vec<i32> {
    text.split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

#[tokio::test]
async fn the_kernel_gets_its_environment_and_nothing_of_the_shims() {
    let mut world = World::with_kernel(&[]).await;
    let (_, printed) = world.run("env").await;
    assert_eq!(printed.trim(), "MARK=1");
    assert_eq!(world.run("cwd").await.1, "/\n");
    let pid = pids(&world.run("pid").await.1)[0];
    let score = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
    assert_eq!(score.trim(), "500");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    for line in ["SigBlk:\t0000000000000000", "SigPnd:\t0000000000000000"] {
        assert!(status.contains(line), "{status}");
    }
    assert!(
        resident(world.shim_pid()) < 16 << 20,
        "{}",
        resident(world.shim_pid())
    );
}

/// `/proc/PID/mem` of an ordinary user's process is that user's, and root's once the process is undumpable. Of a process of root it
/// is root's in any case, so the shim is run by another user here.
#[tokio::test]
async fn the_shim_cannot_be_dumped_by_its_own_user() {
    let (mut world, user) = World::spawn_as_ordinary_user();
    world.connect().await;
    let owner = |pid: i32| {
        let memory = std::fs::metadata(format!("/proc/{pid}/mem")).unwrap();
        std::os::unix::fs::MetadataExt::uid(&memory)
    };
    // What a process of this user has that did not say so.
    let mut other = support::as_user(user, "sleep").arg("1000").spawn().unwrap();
    let pid = i32::try_from(other.id()).unwrap();
    let deadline = Instant::now() + support::PATIENCE;
    // `setpriv` is a process of root before it executes the program.
    while owner(pid) != user && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let owners = (owner(pid), owner(world.shim_pid()));
    other.kill().unwrap();
    other.wait().unwrap();
    assert_ne!(user, 0);
    assert_eq!(owners, (user, 0));
}

#[tokio::test]
async fn interrupt_ends_what_runs_and_a_restart_keeps_the_key_and_loses_the_variables() {
    let mut world = World::with_kernel(&[]).await;
    world.run("set a 1").await;
    let connection = world.runtime_dir().join("1/connection.json");
    let before = std::fs::read_to_string(&connection).unwrap();
    let request = execute("hang");
    let id = world.begin(&request).await;
    let begin = Instant::now();
    world.command(Command::Interrupt).await;
    world.until_done(&request, id).await;
    assert!(begin.elapsed() < Duration::from_secs(1));
    assert_eq!(world.reply(id).unwrap()["ename"], "KeyboardInterrupt");

    let request = world.command(Command::Restart(Stop { grace_ms: 2000 })).await;
    let second = world
        .event("started again", |event| match event {
            Event::Started(started) if started.request == request => Some(started.incarnation),
            _ => None,
        })
        .await;
    assert_eq!(second, 2);
    let first = exited(&mut world).await;
    assert_eq!((first.incarnation, first.asked), (1, true));
    assert!(first.usage.is_some());
    world.ready().await;
    assert_eq!(world.run("get a").await.0, "error");
    assert_eq!(std::fs::read_to_string(&connection).unwrap(), before);
}

#[tokio::test]
async fn a_kernel_that_ignores_everything_is_gone_with_its_children_in_time() {
    let mut world = World::with_kernel(&[]).await;
    let mut all = pids(&world.run("pid").await.1);
    all.extend(pids(&world.run("fork 2").await.1));
    all.extend(pids(&world.run("fork 3 own-group").await.1));
    assert_eq!(all.len(), 6);
    world.run("ignore-sigint\nignore-sigterm\nignore-shutdown").await;
    // It floods besides.
    world
        .message(Channel::Shell, &execute("count 100000000 2000"))
        .await;
    let before = world.entries.len();
    world
        .until("the flood", |world| world.entries.len() > before + 1000)
        .await;
    let begin = Instant::now();
    let request = world.stop(1000).await;
    let stopped = stopped(&mut world).await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_eq!((stopped.request, stopped.left), (Some(request), 0));
    assert!(stopped.killed >= 3, "{stopped:?}");
    let exited = exited(&mut world).await;
    assert_eq!((exited.cause, exited.asked), (Cause::Signal { signal: 9 }, true));
    assert!(all.iter().all(|pid| !lives(*pid)), "processes are left");
    // What it had printed is complete up to the link that its end names.
    world
        .until("the last data", |world| {
            world.link.position(himalia_shim_protocol::Lane::Data) >= exited.last_data
        })
        .await;
    assert_eq!(world.gaps().count(), 0);
}

#[tokio::test]
async fn an_obedient_kernel_stops_at_once_and_a_shorter_grace_hastens_another() {
    let mut world = World::with_kernel(&[]).await;
    let begin = Instant::now();
    world.stop(20_000).await;
    stopped(&mut world).await;
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert!(exited(&mut world).await.asked);

    let mut world = World::with_kernel(&[]).await;
    world.run("ignore-sigint\nignore-sigterm\nignore-shutdown").await;
    let begin = Instant::now();
    world.stop(60_000).await;
    let last = world.stop(0).await;
    world
        .until("both are answered", |world| {
            let answered =
                |event: &Event| matches!(event, Event::Stopped(stopped) if stopped.request == Some(last));
            world.events().any(answered)
        })
        .await;
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn every_death_has_its_cause_and_the_last_words() {
    for (code, cause) in [
        ("raw-stderr goodbye\nexit 7", Cause::Exit { code: 7 }),
        (
            "raw-stderr goodbye\nprint last\nkill KILL",
            Cause::Signal { signal: 9 },
        ),
        ("raw-stderr goodbye\nkill ABRT", Cause::Signal { signal: 6 }),
    ] {
        let mut world = World::with_kernel(&[]).await;
        let id = world.message(Channel::Shell, &execute(code)).await;
        let exited = exited(&mut world).await;
        assert_eq!(
            (exited.cause, exited.asked, exited.incarnation),
            (cause, false, 1),
            "{code}"
        );
        assert!(exited.stderr_tail.contains("goodbye"), "{}", exited.stderr_tail);
        assert!(world.reply(id).is_none());
        let refused = world.message(Channel::Shell, &execute("print x")).await;
        let kind = world
            .event("refused", |event| match event {
                Event::Refused(event) if event.request == refused => Some(event.kind),
                _ => None,
            })
            .await;
        assert_eq!(kind, RefusalKind::NotRunning);
        // A start after a death is the next incarnation.
        world.start(fake_spec(&[])).await;
        world.ready().await;
        let started = world.events().filter_map(|event| match event {
            Event::Started(started) => Some(started.incarnation),
            _ => None,
        });
        assert_eq!(started.last(), Some(2));
    }
}

#[tokio::test]
async fn words_of_earlier_code_explain_no_death() {
    let mut world = World::with_kernel(&[]).await;
    assert_eq!(world.run("raw-stderr an old warning").await.0, "ok");
    world
        .message(Channel::Shell, &execute("raw-stderr goodbye\nexit 7"))
        .await;
    assert_eq!(exited(&mut world).await.stderr_tail, "goodbye\n");
}

#[tokio::test]
async fn a_start_that_fails_says_why_and_leaves_nothing() {
    let mut world = World::connected(&[]).await;
    for (spec, expected) in [
        (spec(vec!["/nonexistent/kernel".into()]), "/nonexistent/kernel"),
        (spec(vec![]), "argv"),
        (
            himalia_shim_protocol::KernelSpec {
                cwd: "/nonexistent".into(),
                ..fake_spec(&[])
            },
            "working directory",
        ),
    ] {
        let request = world.start(spec).await;
        let failed = world
            .event("start failed", |event| match event {
                Event::StartFailed(failed) if failed.request == request => Some(failed.clone()),
                _ => None,
            })
            .await;
        assert!(failed.reason.contains(expected), "{}", failed.reason);
    }
    // It begins, and ends at once: that is a death, with what it said.
    world.start(fake_spec(&["--exit-at-start", "3"])).await;
    let death = exited(&mut world).await;
    assert_eq!(death.cause, Cause::Exit { code: 3 });
    assert!(death.stderr_tail.contains("told to fail"));
}

#[tokio::test]
async fn a_kernel_without_sockets_is_given_up() {
    let mut world = World::connected(&[]).await;
    let mut spec = spec(vec!["sleep".into(), "1000".into()]);
    spec.env.insert("PATH".into(), "/usr/bin:/bin".into());
    spec.connect_ms = 300;
    world.start(spec).await;
    world
        .event("started", |event| {
            matches!(event, Event::Started(_)).then_some(())
        })
        .await;
    let waiting = world.message(Channel::Shell, &execute("print x")).await;
    let death = exited(&mut world).await;
    assert_eq!(death.cause, Cause::ProtocolAbort);
    assert!(death.detail.contains("300 ms"), "{}", death.detail);
    assert!(!lives(death.pid));
    world
        .event("refused", |event| {
            matches!(event, Event::Refused(refused) if refused.request == waiting).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_shim_without_a_gateway_ends_itself_and_leaves_nothing() {
    let mut world = World::with_kernel(&["--orphan-ttl", "1", "--stop-grace-ms", "500"]).await;
    let pid = pids(&world.run("pid").await.1)[0];
    let child = pids(&world.run("fork 1 own-group").await.1)[0];
    world.crash();
    // Nothing listens: dials fail or hang without a welcome.
    std::fs::remove_file(world.root.path().join("g/gw.sock")).unwrap();
    assert_eq!(world.shim_ends().await, 0);
    assert!(!lives(pid) && !lives(child));
    assert!(!support::exists(&world.runtime_dir()));
}

#[tokio::test]
async fn sigterm_and_shutdown_stop_kernels_and_tell_the_gateway() {
    for by_signal in [true, false] {
        let mut world = World::with_kernel(&[]).await;
        let pid = pids(&world.run("pid").await.1)[0];
        if by_signal {
            let shim = rustix::process::Pid::from_raw(world.shim_pid()).unwrap();
            rustix::process::kill_process(shim, rustix::process::Signal::TERM).unwrap();
        } else {
            // Kernel 0 is the shim.
            let command = himalia_shim_protocol::ToShim::Command {
                kernel: 0,
                number: 1,
                command: Command::Shutdown(Stop { grace_ms: 2000 }),
            };
            world.lanes.now.as_mut().unwrap().send(&command).await;
        }
        assert!(exited(&mut world).await.asked);
        assert_eq!(world.shim_ends().await, 0);
        assert!(!lives(pid));
        assert!(!support::exists(&world.runtime_dir()));
    }
}

#[tokio::test]
async fn a_hello_shows_the_state_of_the_kernel() {
    let mut world = World::with_kernel(&[]).await;
    let pid = pids(&world.run("pid").await.1)[0];
    world.crash();
    world.connect().await;
    let entry = world
        .hello
        .as_ref()
        .unwrap()
        .kernel(support::KERNEL)
        .unwrap()
        .clone();
    assert_eq!(
        (entry.incarnation, entry.pid, entry.state),
        (1, Some(pid), KernelState::Running)
    );
    assert!(entry.alive && entry.start_ms > 0);
}
