//! Branches: a running kernel forked, with a link of its own.
#![allow(clippy::unwrap_used, clippy::large_futures, reason = "a test")]

use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use himalia_shim_protocol::{
    BranchFiles, Cause, Command, Event, Fork, ForkFailed, ForkFailure, ForkPolicy, KernelExited,
    KernelForked, KernelSpec, KernelState, Lane, RequestId, Severity, StartPath, Stop,
};
use himalia_wire::Channel;
use support::{KERNEL, PATIENCE, World, execute, fake_spec, lives};

fn order(socket: &str) -> Fork {
    Fork {
        socket: socket.to_owned(),
        cwd: None,
        files: BranchFiles::Share,
        max_copy_bytes: 0,
        env: BTreeMap::new(),
        policy: ForkPolicy::Report,
        wait_ms: 0,
        probe_ms: 20_000,
    }
}

/// A shim with a kernel in a work directory of its own.
async fn world(options: &[&str], kernel: &[&str]) -> World {
    let mut world = World::spawn(options);
    let work = work(&world);
    fs::create_dir(&work).unwrap();
    world.connect().await;
    let spec = KernelSpec {
        cwd: work,
        ..fake_spec(kernel)
    };
    world.start(spec).await;
    world.ready().await;
    world
}

fn work(world: &World) -> String {
    world.root.path().join("work").to_str().unwrap().to_owned()
}

async fn fork(world: &mut World, order: Fork) -> Result<KernelForked, ForkFailed> {
    let id = world.command(Command::Fork(Box::new(order))).await;
    answer(world, id).await
}

async fn answer(world: &mut World, id: RequestId) -> Result<KernelForked, ForkFailed> {
    world
        .event("forked or not", |event| match event {
            Event::Forked(forked) if forked.request == id => Some(Ok(forked.clone())),
            Event::ForkFailed(failed) if failed.request == id => Some(Err(failed.clone())),
            _ => None,
        })
        .await
}

/// Forks, and connects the branch's link.
async fn branch(world: &mut World, order: Fork) -> (World, KernelForked) {
    let mut branch = world.branch(&order.socket);
    let forked = fork(world, order).await.unwrap();
    branch.connect().await;
    (branch, forked)
}

async fn exited(world: &mut World) -> KernelExited {
    world
        .event("exited", |event| match event {
            Event::Exited(exited) => Some(exited.clone()),
            _ => None,
        })
        .await
}

async fn eventually(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Names of the directories of kernels.
fn kernel_dirs(world: &World) -> Vec<String> {
    let entries = fs::read_dir(world.runtime_dir()).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_branch_has_the_parents_variables_and_a_life_of_its_own() {
    let mut parent = world(&[], &[]).await;
    parent.run("set a 1").await;
    let order = Fork {
        env: BTreeMap::from([("BRANCH".to_owned(), "b".to_owned())]),
        ..order("k2.sock")
    };
    let (mut branch, forked) = branch(&mut parent, order).await;
    assert_eq!(forked.cwd, work(&parent));
    assert_eq!(forked.hazards.len(), 1);
    let hazard = &forked.hazards[0];
    assert_eq!(
        (&hazard.detail[..], hazard.severity),
        ("it will not run", Severity::Warn)
    );
    assert_eq!(forked.copied_bytes, 0);

    // It runs from the start, and nothing of its making is to be seen.
    let hello = branch.hello.clone().unwrap();
    let entry = hello.kernel(KERNEL).unwrap();
    assert_eq!(
        (entry.state, entry.incarnation, entry.pid),
        (KernelState::Running, 1, Some(forked.pid))
    );
    assert_eq!((entry.links.now.last, entry.links.data.last), (0, 0));
    assert_eq!(branch.run("get a").await.1, "1\n");
    assert_eq!(branch.run("env BRANCH").await.1, "b\n");
    assert_eq!(branch.run("pid").await.1, format!("{}\n", forked.pid));
    branch.run("set a 2").await;
    assert_eq!(parent.run("get a").await.1, "1\n");

    // An interrupt reaches the one that it is for.
    let (here, there) = (execute("hang"), execute("hang"));
    let in_branch = branch.begin(&here).await;
    let in_parent = parent.begin(&there).await;
    branch.command(Command::Interrupt).await;
    branch.until_done(&here, in_branch).await;
    assert!(parent.reply(in_parent).is_none());
    parent.command(Command::Interrupt).await;
    parent.until_done(&there, in_parent).await;

    // The end of one is not the end of the other, and its output is complete.
    branch
        .message(Channel::Shell, &execute("print last\nraw-stderr goodbye\nexit 9"))
        .await;
    let end = exited(&mut branch).await;
    assert_eq!(
        (end.cause, end.pid, end.asked),
        (Cause::Exit { code: 9 }, forked.pid, false)
    );
    assert!(end.stderr_tail.contains("goodbye"), "{}", end.stderr_tail);
    // The lanes have no order.
    branch
        .until("the last output", |branch| {
            branch.link.position(Lane::Data) >= end.last_data
        })
        .await;
    assert!(branch.printed(0).contains("last"));
    assert_eq!(parent.run("get a").await.1, "1\n");

    // A restart is a new process with the branch's own environment.
    let request = branch.command(Command::Restart(Stop { grace_ms: 5000 })).await;
    let path = branch
        .event("started again", |event| match event {
            Event::Started(started) if started.request == request => {
                Some((started.path, started.incarnation))
            }
            _ => None,
        })
        .await;
    assert_eq!(path, (StartPath::Cold, 2));
    let info = himalia_wire::build::kernel_info_request("test");
    let id = branch.message(Channel::Shell, &info).await;
    branch.until_reply(id).await;
    assert_eq!(branch.run("get a").await.0, "error");
    assert_eq!(branch.run("env BRANCH").await.1, "b\n");
    // A gateway that is started anew finds both.
    branch.crash();
    parent.crash();
    branch.connect().await;
    parent.connect().await;
    assert_eq!(branch.run("print back").await.1, "back\n");
    assert_eq!(parent.run("get a").await.1, "1\n");
}

#[tokio::test]
async fn links_are_closed_one_by_one_and_the_shim_ends_with_the_last() {
    let mut parent = world(&[], &[]).await;
    let (mut first, one) = branch(&mut parent, order("k2.sock")).await;
    let (mut second, two) = branch(&mut parent, order("k3.sock")).await;
    // A branch of a branch.
    let (mut third, three) = branch(&mut first, order("k4.sock")).await;
    assert_eq!(third.run("print three").await.1, "three\n");

    first
        .command_to_shim(Command::Close(Stop { grace_ms: 5000 }))
        .await;
    assert!(exited(&mut first).await.asked);
    first.until_closed().await;
    assert!(!lives(one.pid) && lives(two.pid) && lives(three.pid));
    // The name can be used again: it is not dialled.
    fs::remove_file(first.root.path().join("g/k2.sock")).unwrap();
    let (mut again, _) = branch(&mut parent, order("k2.sock")).await;
    assert_eq!(again.run("print again").await.1, "again\n");

    parent
        .command_to_shim(Command::Close(Stop { grace_ms: 5000 }))
        .await;
    parent.until_closed().await;
    assert_eq!(second.run("print two").await.1, "two\n");
    for link in [&mut second, &mut third, &mut again] {
        link.command_to_shim(Command::Close(Stop { grace_ms: 0 })).await;
        link.until_closed().await;
    }
    assert_eq!(parent.shim_ends().await, 0);
    assert!(!lives(two.pid) && !lives(three.pid));
    assert!(!support::exists(&parent.runtime_dir()));
}

#[tokio::test]
async fn a_shutdown_on_any_link_ends_the_whole_shim() {
    let mut parent = world(&[], &[]).await;
    let (mut branch, forked) = branch(&mut parent, order("k2.sock")).await;
    branch
        .command_to_shim(Command::Shutdown(Stop { grace_ms: 5000 }))
        .await;
    assert!(exited(&mut branch).await.asked);
    assert_eq!(parent.shim_ends().await, 0);
    assert!(exited(&mut parent).await.asked);
    assert!(!lives(forked.pid));
}

#[tokio::test]
async fn a_branch_without_a_gateway_ends_alone() {
    let mut parent = world(&["--orphan-ttl", "1", "--stop-grace-ms", "500"], &[]).await;
    let (mut branch, forked) = branch(&mut parent, order("k2.sock")).await;
    branch.run("set b 1").await;
    branch.crash();
    fs::remove_file(parent.root.path().join("g/k2.sock")).unwrap();
    eventually("the branch ends", || !lives(forked.pid)).await;
    assert_eq!(parent.run("print here").await.1, "here\n");
}

#[tokio::test]
async fn a_copy_of_the_files_belongs_to_the_branch() {
    let mut parent = world(&[], &[]).await;
    let work = work(&parent);
    let at = |name: &str| Path::new(&work).join(name);
    fs::create_dir_all(at("sub/deep")).unwrap();
    fs::write(at("data.txt"), "original").unwrap();
    fs::write(at("sub/deep/run.sh"), vec![b'x'; 600_000]).unwrap();
    fs::set_permissions(at("sub/deep/run.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", at("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("sub/broken")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let order = Fork {
        files: BranchFiles::Copy,
        max_copy_bytes: 600_008,
        ..order("k2.sock")
    };
    let too_small = Fork {
        max_copy_bytes: 600_007,
        ..order.clone()
    };
    let failed = fork(&mut parent, too_small).await.unwrap_err();
    assert_eq!(failed.code, ForkFailure::FilesTooLarge, "{}", failed.reason);
    assert!(!at(".branches").exists());

    let (mut branch, forked) = branch(&mut parent, order.clone()).await;
    assert_eq!((forked.copied_bytes, forked.skipped), (600_008, 1));
    let copy = Path::new(&forked.cwd).to_owned();
    assert!(copy.starts_with(at(".branches")), "{}", copy.display());
    assert_eq!(branch.run("cwd").await.1, format!("{}\n", forked.cwd));
    assert_eq!(fs::read_to_string(copy.join("data.txt")).unwrap(), "original");
    let mode = fs::metadata(copy.join("sub/deep/run.sh"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o750);
    assert_eq!(
        fs::read_link(copy.join("link")).unwrap(),
        Path::new("/etc/passwd")
    );
    assert_eq!(
        fs::read_link(copy.join("sub/broken")).unwrap(),
        Path::new("nowhere")
    );
    assert!(!copy.join("socket").exists());
    branch.run("append data.txt more").await;
    assert_eq!(fs::read_to_string(at("data.txt")).unwrap(), "original");

    // A branch of the branch starts from its files; copies do not hold copies.
    let mut second = branch.branch("k3.sock");
    let deeper = Fork {
        socket: "k3.sock".into(),
        max_copy_bytes: 1 << 20,
        ..order
    };
    let nested = fork(&mut branch, deeper).await.unwrap();
    second.connect().await;
    let nested = Path::new(&nested.cwd).to_owned();
    assert_eq!(nested.parent(), copy.parent());
    assert!(
        fs::read_to_string(nested.join("data.txt"))
            .unwrap()
            .contains("more")
    );
    assert!(!nested.join(".branches").exists());

    branch
        .command_to_shim(Command::Close(Stop { grace_ms: 5000 }))
        .await;
    branch.until_closed().await;
    eventually("the copy is removed", || !copy.exists()).await;
    assert!(nested.join("data.txt").exists() && at("data.txt").exists());
    parent
        .command_to_shim(Command::Shutdown(Stop { grace_ms: 5000 }))
        .await;
    assert_eq!(parent.shim_ends().await, 0);
    assert!(!at(".branches").exists());
}

#[tokio::test]
async fn a_fork_that_fails_leaves_nothing_and_the_parent_unharmed() {
    for (mode, code) in [
        ("busy", ForkFailure::Busy),
        ("hazard", ForkFailure::Hazard),
        ("stranger", ForkFailure::Failed),
        ("stillborn", ForkFailure::ProbeFailed),
        ("mute", ForkFailure::ProbeFailed),
    ] {
        let mut parent = world(&[], &["--fork", mode]).await;
        fs::write(Path::new(&work(&parent)).join("data"), "x").unwrap();
        let order = Fork {
            files: BranchFiles::Copy,
            max_copy_bytes: 100,
            probe_ms: 1500,
            ..order("k2.sock")
        };
        let (messages, dirs) = (parent.messages().count(), kernel_dirs(&parent));
        // The name of the socket is free again after each.
        for _ in 0..2 {
            let failed = fork(&mut parent, order.clone()).await.unwrap_err();
            assert_eq!(failed.code, code, "{mode}: {}", failed.reason);
            assert_eq!(failed.hazards.len(), usize::from(mode == "hazard"));
            assert_eq!(kernel_dirs(&parent), dirs, "{mode}");
            assert!(!Path::new(&work(&parent)).join(".branches").exists(), "{mode}");
            let children = format!("/proc/{0}/task/{0}/children", parent.shim_pid());
            let children = fs::read_to_string(children).unwrap();
            assert_eq!(children.split_whitespace().count(), 1, "{mode}: {children}");
        }
        assert_eq!(
            parent.messages().count(),
            messages,
            "{mode}: the parent's log tells of it"
        );
        assert_eq!(parent.run("print fine").await.1, "fine\n");
    }
}

#[tokio::test]
async fn a_fork_that_answers_too_late_is_ended() {
    let mut parent = world(&[], &["--fork", "late"]).await;
    let failed = fork(&mut parent, order("k2.sock")).await.unwrap_err();
    assert_eq!(failed.code, ForkFailure::Unsupported, "{}", failed.reason);
    // The kernel forks a second later.
    let dir = parent.runtime_dir().join("b2");
    let children = format!("/proc/{0}/task/{0}/children", parent.shim_pid());
    parent.run("print fine").await;
    let count = || fs::read_to_string(&children).unwrap().split_whitespace().count();
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        let _ = tokio::time::timeout(Duration::from_millis(20), parent.receive()).await;
    }
    eventually("the late branch is gone", || count() == 1).await;
    assert!(!dir.exists());
}

#[tokio::test]
async fn wrong_requests_are_told_apart() {
    let mut parent = world(&[], &[]).await;
    let bad = Fork {
        cwd: Some("relative".into()),
        ..order("k2.sock")
    };
    for order in [order("../k2.sock"), order("gw.sock"), bad] {
        let failed = fork(&mut parent, order).await.unwrap_err();
        assert_eq!(failed.code, ForkFailure::BadRequest, "{}", failed.reason);
    }
    // The policy is the kernel's to judge.
    let strict = Fork {
        policy: ForkPolicy::Strict,
        ..order("k2.sock")
    };
    let failed = fork(&mut parent, strict).await.unwrap_err();
    assert_eq!((failed.code, failed.hazards.len()), (ForkFailure::Hazard, 1));
    let (_branch, _) = branch(&mut parent, order("k2.sock")).await;
    let failed = fork(&mut parent, order("k2.sock")).await.unwrap_err();
    assert_eq!(failed.code, ForkFailure::BadRequest, "{}", failed.reason);
    parent.stop(0).await;
    let failed = fork(&mut parent, order("k3.sock")).await.unwrap_err();
    assert_eq!(failed.code, ForkFailure::NotRunning);
}

#[tokio::test]
async fn forks_of_one_kernel_take_turns() {
    let mut parent = world(&[], &[]).await;
    parent.run("set a 5").await;
    let mut branches = Vec::new();
    let mut requests = Vec::new();
    for number in 2..6 {
        let socket = format!("k{number}.sock");
        branches.push(parent.branch(&socket));
        requests.push(parent.command(Command::Fork(Box::new(order(&socket)))).await);
    }
    for request in requests {
        answer(&mut parent, request).await.unwrap();
    }
    for branch in &mut branches {
        branch.connect().await;
        assert_eq!(branch.run("get a").await.1, "5\n");
    }
}
