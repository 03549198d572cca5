use himalia_provisioner::{ExitCause, LimitChange, Limits, Provisioner as _};

use crate::fixture::{Fixture, MIB, spec, until};

const MEMORY_BOMB: &str = "b = []\nwhile True: b.append(bytearray(4 << 20))";

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn a_memory_bomb_ends_alone_and_is_counted() {
    let mut fixture = Fixture::new();
    let handle = fixture.start(spec()).await;
    assert_eq!(fixture.provisioner.oom_kills(handle.id).await.unwrap(), 0);
    let (status, text) = fixture.python(handle.id, MEMORY_BOMB).await;
    assert_eq!(status, 137, "{text}");
    let kills = async || {
        let kills = fixture.provisioner.oom_kills(handle.id).await.unwrap();
        (kills > 0).then_some(())
    };
    until("the count", kills).await;
    assert!(handle.exit.borrow().is_none(), "the shim lives");
    let (status, text) = fixture.python(handle.id, "print(6 * 7)").await;
    assert_eq!((status, text.trim()), (0, "42"));

    fixture.again();
    let adopted = fixture.provisioner.adopt(handle.id).await.unwrap();
    assert!(
        fixture.provisioner.oom_kills(adopted.id).await.unwrap() > 0,
        "the engine remembers"
    );
    // An end that has nothing to do with it is not blamed on memory, although the engine's flag stays.
    let container = fixture.container(handle.id).await;
    fixture.signal(&container, "SIGKILL").await;
    assert_eq!(adopted.ended().await.unwrap().cause, ExitCause::Signaled(9));
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn a_first_process_without_memory_ends_as_such() {
    let script = format!("#!/usr/bin/env python3\n{MEMORY_BOMB}\n");
    let fixture = Fixture::with_shim(&script);
    let handle = fixture.start(spec()).await;
    assert_eq!(handle.ended().await.unwrap().cause, ExitCause::OutOfMemory);
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn limits_change_while_a_container_runs() {
    let fixture = Fixture::new();
    let wanted = spec();
    let from = wanted.limits.clone();
    let handle = fixture.start(wanted).await;
    let to = Limits {
        memory_bytes: Some(48 * MIB),
        pids: Some(40),
        cpu_millis: Some(500),
        ..from.clone()
    };
    let change = |to: &Limits| LimitChange {
        from: from.clone(),
        to: to.clone(),
        runtime: None,
    };
    assert_eq!(fixture.provisioner.fixed_limit(&change(&to)), None);
    let changed = fixture.provisioner.change_limits(handle.id, change(&to)).await;
    assert_eq!(changed.unwrap(), handle.limits);
    let host = fixture.inspect(handle.id).await.host_config.unwrap();
    // With what `/session`, `/tmp`, `/dev/shm` and the shim's own file system may hold.
    assert_eq!(host.memory, Some(88 << 20));
    assert_eq!(
        (host.memory_swap, host.pids_limit, host.nano_cpus),
        (host.memory, Some(40), Some(500_000_000))
    );
    // It would have had 136 MiB.
    let (status, text) = fixture
        .python(handle.id, "b = bytearray(b'x') * (110 << 20)")
        .await;
    assert_eq!(status, 137, "{text}");
    let larger = Limits {
        disk_bytes: Some(16 * MIB),
        ..to
    };
    let refused = fixture
        .provisioner
        .change_limits(handle.id, change(&larger))
        .await;
    assert_eq!(
        refused.unwrap_err().to_string(),
        "disk_bytes is set when a container starts"
    );
    fixture.stop(handle.id).await;
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn processes_are_bounded() {
    let fixture = Fixture::new();
    let handle = fixture.start(spec()).await;
    let code = "
import os, time
n = 0
try:
    while n < 1000:
        if os.fork() == 0:
            time.sleep(100)
            os._exit(0)
        n += 1
except OSError as error:
    print(error.errno)
print(n)
os.kill(-1, 9)";
    let (_, text) = fixture.python(handle.id, code).await;
    let lines: Vec<i32> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(lines[0], 11, "{text}");
    assert!((30..64).contains(&lines[1]), "{text}");
    // The bomb's own processes are gone with `kill -1`; the sandbox is usable.
    let (status, _) = fixture.run(handle.id, &["true"]).await;
    assert_eq!(status, 0);
    fixture.stop(handle.id).await;
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn a_full_disk_is_a_full_disk() {
    let fixture = Fixture::new();
    let handle = fixture.start(spec()).await;
    // All at once, and more than the memory alone would hold.
    let code = "
import os
for place in ('/session', '/tmp', '/dev/shm'):
    written = 0
    try:
        with open(place + '/fill', 'wb', buffering=0) as file:
            while written < 64 << 20:
                written += file.write(bytes(1 << 20))
    except OSError as error:
        print(place, error.errno, written >> 20)";
    let (status, text) = fixture.python(handle.id, code).await;
    assert_eq!(
        (status, text.as_str()),
        (0, "/session 28 8\n/tmp 28 8\n/dev/shm 28 8\n")
    );
    let (status, text) = fixture.python(handle.id, "print(len(bytearray(70 << 20)))").await;
    assert_eq!(
        (status, text.trim()),
        (0, "73400320"),
        "the memory is there beside the files"
    );
    assert_eq!(fixture.provisioner.oom_kills(handle.id).await.unwrap(), 0);
    fixture.stop(handle.id).await;
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn the_log_is_bounded() {
    let fixture = Fixture::with_shim(
        "#!/bin/sh\nyes 0123456789012345678901234567890123456789 | head -n 100000 >&2\necho end >&2\nexec sleep 1000\n",
    );
    let handle = fixture.start(spec()).await;
    let path = fixture.inspect(handle.id).await.log_path.unwrap();
    let size = |suffix: &str| std::fs::metadata(format!("{path}{suffix}")).map_or(0, |meta| meta.len());
    until("the older half of the log", async || {
        (size(".1") > 0).then_some(())
    })
    .await;
    let container = fixture.container(handle.id).await;
    until("the end of the log", async || {
        let options = bollard::query_parameters::LogsOptionsBuilder::new()
            .stderr(true)
            .tail("1")
            .build();
        let mut lines = fixture.docker.logs(&container, Some(options));
        let line = futures_util::StreamExt::next(&mut lines).await?.ok()?;
        (line.to_string() == "end\n").then_some(())
    })
    .await;
    assert!(size("") + size(".1") < MIB, "{} {}", size(""), size(".1"));
    let exit = fixture.stop(handle.id).await;
    assert!(exit.log_tail.len() <= himalia_provisioner::LOG_TAIL_BYTES);
    assert!(exit.log_tail.ends_with("6789\nend\n"), "{}", exit.log_tail);
    fixture.nothing_left().await;
}
