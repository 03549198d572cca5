//! Limits hold, with control groups and without.

use std::fs;
use std::time::Duration;

use himalia_provisioner::{Enforcement, ExitCause, Limits, Provisioner as _, SandboxHandle};
use himalia_sandbox::{CgroupRoot, NamespacesProvisioner};

use crate::fixture::{FILL, Fixture, eventually, groups, spec, start};

/// PID 1 with a child that takes 8 MiB at a time until it is killed.
const BOMB_BELOW: &str = "
import os, signal, time
child = os.fork()
if child == 0:
    held = []
    while True:
        held.append(b'x' * (8 << 20))
        time.sleep(0.01)
_, status = os.waitpid(child, 0)
print('child', os.WTERMSIG(status))
signal.pause()";

fn memory(bytes: u64) -> Limits {
    Limits {
        memory_bytes: Some(bytes),
        // So that little of the limit stands for files.
        disk_bytes: Some(16 << 20),
        tmp_bytes: Some(1 << 20),
        shm_bytes: Some(1 << 20),
        ..Limits::default()
    }
}

async fn started(provisioner: &NamespacesProvisioner, limits: Limits) -> SandboxHandle {
    let mut wanted = spec();
    wanted.limits = limits;
    start(provisioner, wanted).await
}

async fn a_bomb_is_killed_and_counted(fixture: Fixture) {
    let provisioner = fixture.provisioner();
    let handle = started(&provisioner, memory(200 << 20)).await;
    let has_groups = fixture.config.cgroups != CgroupRoot::default();
    let expected = if has_groups {
        Enforcement::Cgroup
    } else {
        Enforcement::Watched
    };
    assert_eq!(handle.limits.memory, expected);
    fixture.printed(&handle, "child 9").await;
    assert!(provisioner.oom_kills(handle.id).await.unwrap() >= 1);
    let exit = provisioner.stop(handle.id, Duration::ZERO).await.unwrap();
    // This end was wanted, and the kill before is not its cause.
    assert_eq!(exit.cause, ExitCause::Signaled(9));
    assert!(fixture.left().is_empty());
}

#[tokio::test]
async fn a_memory_bomb_dies_and_the_sandbox_lives() {
    a_bomb_is_killed_and_counted(Fixture::python(BOMB_BELOW)).await;
}

#[tokio::test]
async fn a_memory_bomb_dies_under_the_watch_too() {
    a_bomb_is_killed_and_counted(Fixture::python_without_groups(BOMB_BELOW)).await;
}

#[tokio::test]
async fn a_first_process_without_memory_is_out_of_memory() {
    let code = "
import time
held = []
while True:
    held.append(b'x' * (8 << 20))
    time.sleep(0.01)";
    for fixture in [Fixture::python(code), Fixture::python_without_groups(code)] {
        let provisioner = fixture.provisioner();
        let handle = started(&provisioner, memory(200 << 20)).await;
        assert_eq!(handle.ended().await.unwrap().cause, ExitCause::OutOfMemory);
        assert!(fixture.left().is_empty());
    }
}

#[tokio::test]
async fn a_fork_bomb_hits_its_limit() {
    let code = "
import os, signal
children = 0
try:
    while children < 500:
        if os.fork() == 0:
            signal.pause()
        children += 1
except OSError as error:
    print('stopped', error.errno)
signal.pause()";
    for fixture in [Fixture::python(code), Fixture::python_without_groups(code)] {
        let provisioner = fixture.provisioner();
        let limits = Limits {
            pids: Some(40),
            ..Limits::default()
        };
        let handle = started(&provisioner, limits).await;
        let has_groups = fixture.config.cgroups != CgroupRoot::default();
        let expected = if has_groups {
            Enforcement::Cgroup
        } else {
            Enforcement::Rlimit
        };
        assert_eq!(handle.limits.pids, expected);
        // EAGAIN
        fixture.printed(&handle, "stopped 11").await;
        let usage = provisioner.inspect(handle.id).await.unwrap().usage.unwrap();
        assert!((30..=40).contains(&usage.processes), "{usage:?}");
        provisioner.stop(handle.id, Duration::ZERO).await.unwrap();
    }
}

#[tokio::test]
async fn a_full_disk_is_no_want_of_memory() {
    let fixture = Fixture::python(&format!(
        "
import signal
for path in ['/session', '/tmp', '/dev/shm', '/himalia/run']:{FILL}
print('done')
signal.pause()",
    ));
    let provisioner = fixture.provisioner();
    let limits = Limits {
        memory_bytes: Some(64 << 20),
        disk_bytes: Some(48 << 20),
        tmp_bytes: Some(40 << 20),
        shm_bytes: Some(32 << 20),
        ..Limits::default()
    };
    let handle = started(&provisioner, limits).await;
    assert_eq!(handle.limits.disk, Enforcement::Hard);
    fixture.printed(&handle, "done").await;
    let log = fixture.log(&handle);
    // ENOSPC each time, at the size that was given.
    for line in [
        "/session 28 48",
        "/tmp 28 40",
        "/dev/shm 28 32",
        "/himalia/run 28 4",
    ] {
        assert!(log.contains(line), "{log}");
    }
    assert_eq!(provisioner.oom_kills(handle.id).await.unwrap(), 0);
    assert_eq!(provisioner.disk_use(handle.id).await.unwrap(), None);
    provisioner.stop(handle.id, Duration::ZERO).await.unwrap();
}

/// In how many periods the kernel let the process's groups wait, since they had used up their processor time.
fn throttled(pid: u32) -> u64 {
    let stat = groups(pid)
        .into_iter()
        .find_map(|dir| fs::read_to_string(dir.join("cpu.stat")).ok())
        .unwrap();
    let count = stat.lines().find_map(|line| line.strip_prefix("nr_throttled "));
    count.unwrap().parse().unwrap()
}

#[tokio::test]
async fn open_files_and_processor_time_are_limited() {
    let fixture = Fixture::python(
        "
import os, resource, signal, time
print('files', *resource.getrlimit(resource.RLIMIT_NOFILE))
begin, worked = time.monotonic(), time.process_time()
while time.process_time() - worked < 0.5:
    pass
print('slow' if time.monotonic() - begin > 1.5 else 'fast')
signal.pause()",
    );
    let provisioner = fixture.provisioner();
    let limits = Limits {
        open_files: Some(100),
        cpu_millis: Some(200),
        ..Limits::default()
    };
    let handle = started(&provisioner, limits).await;
    fixture.printed(&handle, "files 100 100").await;
    if handle.limits.cpu == Enforcement::Cgroup {
        // Half a second of work at a fifth of a processor. The first period may be free.
        fixture.printed(&handle, "slow").await;
        // A machine that is busy is slow as well.
        let pid = provisioner.inspect(handle.id).await.unwrap().pid.unwrap();
        assert!(throttled(pid) > 5, "{}", throttled(pid));
    } else {
        assert_eq!(handle.limits.cpu, Enforcement::None);
        eventually("its work", || fixture.log(&handle).lines().nth(1).map(drop)).await;
    }
    provisioner.stop(handle.id, Duration::ZERO).await.unwrap();
}
