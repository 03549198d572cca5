//! Limits that are changed while the sandbox lives.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use himalia_provisioner::{Enforcement, LimitChange, Limits, Provisioner as _, SandboxHandle};
use himalia_sandbox::{CgroupRoot, NamespacesProvisioner};
use rustix::process::{Pid, Signal, kill_process};

use crate::fixture::{FILL, Fixture, eventually, groups, spec, start};

const MIB: u64 = 1 << 20;

/// PID 1 that says it is there, and does its work when it gets a signal.
fn on_signal(work: &str) -> String {
    format!(
        "
import os, signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print('ready')
signal.sigwait([signal.SIGUSR1])
{work}
signal.pause()"
    )
}

/// A child takes 8 MiB at a time until it has so many of them, or is killed.
const BOMB: &str = "
child = os.fork()
if child == 0:
    held = []
    while len(held) < SIZE:
        held.append(b'x' * (8 << 20))
        time.sleep(0.01)
    os._exit(0)
_, status = os.waitpid(child, 0)
print('child', os.WTERMSIG(status))";

fn bomb(size: u32) -> String {
    on_signal(&BOMB.replace("SIZE", &size.to_string()))
}

fn limits(memory_mib: u64) -> Limits {
    Limits {
        memory_bytes: Some(memory_mib * MIB),
        disk_bytes: Some(16 * MIB),
        tmp_bytes: Some(MIB),
        shm_bytes: Some(MIB),
        ..Limits::default()
    }
}

fn change(from: &Limits, to: &Limits) -> LimitChange {
    LimitChange {
        from: from.clone(),
        to: to.clone(),
        runtime: None,
    }
}

async fn started(fixture: &Fixture, provisioner: &NamespacesProvisioner, limits: &Limits) -> SandboxHandle {
    let mut wanted = spec();
    wanted.limits = limits.clone();
    let handle = start(provisioner, wanted).await;
    fixture.printed(&handle, "ready").await;
    handle
}

async fn pid(provisioner: &NamespacesProvisioner, handle: &SandboxHandle) -> u32 {
    provisioner.inspect(handle.id).await.unwrap().pid.unwrap()
}

async fn go(provisioner: &NamespacesProvisioner, handle: &SandboxHandle) {
    let pid = pid(provisioner, handle).await;
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::USR1).unwrap();
}

/// What the first of these files holds that is in one of the process's groups.
fn in_groups(pid: u32, files: &[&str]) -> Option<String> {
    let paths = groups(pid)
        .into_iter()
        .flat_map(|dir| files.iter().map(move |file| dir.join(file)));
    let mut found = paths.filter_map(|path: PathBuf| fs::read_to_string(path).ok());
    found.next().map(|text| text.trim().to_owned())
}

async fn end(fixture: &Fixture, provisioner: &NamespacesProvisioner, handle: &SandboxHandle) {
    provisioner.stop(handle.id, Duration::ZERO).await.unwrap();
    assert!(fixture.left().is_empty(), "{:?}", fixture.left());
}

async fn less_memory_holds(fixture: Fixture) {
    let provisioner = fixture.provisioner();
    let (from, to) = (limits(2048), limits(200));
    let handle = started(&fixture, &provisioner, &from).await;
    let has_groups = fixture.config.cgroups != CgroupRoot::default();
    let report = provisioner
        .change_limits(handle.id, change(&from, &to))
        .await
        .unwrap();
    if has_groups {
        assert_eq!(report.memory, Enforcement::Cgroup);
        let pid = pid(&provisioner, &handle).await;
        // With what its file systems in memory may hold: 16, 1, 1 and 4 MiB of the shim's own.
        let limit = in_groups(pid, &["memory.limit_in_bytes", "memory.max"]).unwrap();
        assert_eq!(limit, (222 * MIB).to_string());
    } else {
        assert_eq!(report.memory, Enforcement::Watched);
    }
    go(&provisioner, &handle).await;
    fixture.printed(&handle, "child 9").await;
    assert!(provisioner.oom_kills(handle.id).await.unwrap() >= 1);
    end(&fixture, &provisioner, &handle).await;
}

#[tokio::test]
async fn a_memory_bomb_dies_of_a_limit_that_came_later() {
    less_memory_holds(Fixture::python(&bomb(1 << 20))).await;
}

#[tokio::test]
async fn the_watch_knows_a_limit_that_came_later() {
    less_memory_holds(Fixture::python_without_groups(&bomb(1 << 20))).await;
}

#[tokio::test]
async fn more_memory_can_be_used() {
    let fixture = Fixture::python(&bomb(64));
    let provisioner = fixture.provisioner();
    let (from, to) = (limits(200), limits(2048));
    let handle = started(&fixture, &provisioner, &from).await;
    provisioner
        .change_limits(handle.id, change(&from, &to))
        .await
        .unwrap();
    go(&provisioner, &handle).await;
    fixture.printed(&handle, "child 0").await;
    assert_eq!(provisioner.oom_kills(handle.id).await.unwrap(), 0);
    end(&fixture, &provisioner, &handle).await;
}

#[tokio::test]
async fn file_systems_processes_and_processors_follow() {
    let fixture = Fixture::python(&on_signal(&format!(
        "
for path in ['/session', '/tmp', '/dev/shm']:{FILL}
children = 0
try:
    while children < 100:
        if os.fork() == 0:
            signal.pause()
        children += 1
except OSError as error:
    print('stopped', error.errno, children)",
    )));
    let provisioner = fixture.provisioner();
    let from = Limits {
        pids: Some(200),
        ..limits(400)
    };
    let to = Limits {
        pids: Some(30),
        cpu_millis: Some(500),
        disk_bytes: Some(24 * MIB),
        tmp_bytes: Some(2 * MIB),
        shm_bytes: Some(3 * MIB),
        ..limits(400)
    };
    let handle = started(&fixture, &provisioner, &from).await;
    let wanted = change(&from, &to);
    let fixed = provisioner.fixed_limit(&wanted);
    let can = provisioner.limits();
    if can.pids != Enforcement::Cgroup {
        assert_eq!(fixed.unwrap().field, "pids");
        return end(&fixture, &provisioner, &handle).await;
    }
    assert_eq!(fixed, None);
    let report = provisioner.change_limits(handle.id, wanted).await.unwrap();
    assert_eq!((report.pids, report.cpu), (Enforcement::Cgroup, can.cpu));
    let pid = pid(&provisioner, &handle).await;
    assert_eq!(in_groups(pid, &["pids.max"]).unwrap(), "30");
    if can.cpu == Enforcement::Cgroup {
        // It had no such limit, and so no group under version 1.
        let quota = in_groups(pid, &["cpu.cfs_quota_us", "cpu.max"]).unwrap();
        assert!(quota.starts_with("50000"), "{quota}");
    }
    go(&provisioner, &handle).await;
    // Its last line is written in parts.
    let log = eventually("the end of its work", || {
        let log = fixture.log(&handle);
        (log.contains("stopped") && log.ends_with('\n')).then_some(log)
    })
    .await;
    for line in ["/session 28 24", "/tmp 28 2", "/dev/shm 28 3", "stopped 11 29"] {
        assert!(log.lines().any(|has| has == line), "{log}");
    }
    end(&fixture, &provisioner, &handle).await;
}

#[tokio::test]
async fn what_cannot_be_changed_is_told_before() {
    let fixture = Fixture::python(&on_signal(""));
    let provisioner = fixture.provisioner();
    let handle = started(&fixture, &provisioner, &Limits::default()).await;
    let nothing = Limits::default();
    let fixed = |from: &Limits, to: &Limits| {
        let fixed = provisioner.fixed_limit(&change(from, to));
        fixed.map(|fixed| fixed.field)
    };
    let files = Limits {
        open_files: Some(100),
        ..Limits::default()
    };
    assert_eq!(fixed(&nothing, &files), Some("open_files"));
    assert_eq!(fixed(&limits(200), &nothing), Some("memory_bytes"));
    if provisioner.limits().memory == Enforcement::Cgroup {
        assert_eq!(fixed(&nothing, &limits(200)), Some("memory_bytes"));
    }
    let refused = provisioner
        .change_limits(handle.id, change(&nothing, &files))
        .await;
    assert_eq!(
        refused.unwrap_err().to_string(),
        "open_files is set when a process starts"
    );
    end(&fixture, &provisioner, &handle).await;
}

#[tokio::test]
async fn less_than_it_uses_is_refused() {
    let fixture = Fixture::python(&format!("held = b'x' * (100 << 20)\n{}", on_signal("")));
    let provisioner = fixture.provisioner();
    let from = limits(400);
    let handle = started(&fixture, &provisioner, &from).await;
    let less_memory = provisioner
        .change_limits(handle.id, change(&from, &limits(32)))
        .await;
    if provisioner.limits().memory == Enforcement::Cgroup {
        let refused = less_memory.unwrap_err().to_string();
        assert!(refused.contains("the sandbox has"), "{refused}");
        assert_eq!(provisioner.oom_kills(handle.id).await.unwrap(), 0);
    }
    end(&fixture, &provisioner, &handle).await;
}
