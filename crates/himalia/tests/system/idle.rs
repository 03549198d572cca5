//! What a gateway costs that has nothing to do.

use std::time::{Duration, Instant};

use himalia_testkit::assert_eventually;
use himalia_testkit::gateway::Gateway;
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::JoinSet;

use crate::common::gateway;

const IDLE: usize = 100;
const LOST: usize = 10;
/// Starts at once.
const AT_ONCE: usize = 10;
/// How long it is looked at: a hundred turns of the timer that flushes logs.
const LOOK: Duration = Duration::from_secs(10);

/// How many kernels are in a state.
async fn count(gateway: &Gateway, state: &str) -> usize {
    let reply = gateway.http().get("/api/kernels").await.unwrap();
    let kernels = reply.expect(200).unwrap().json().unwrap();
    let kernels = kernels.as_array().unwrap().iter();
    kernels.filter(|model| model["execution_state"] == state).count()
}

/// The time that a process has used of all cores.
fn used(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // utime and stime, see proc_pid_stat(5).
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

fn shims(gateway: &Gateway) -> Vec<Pid> {
    let is_shim = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let program = line.split(|byte| *byte == 0).next().unwrap_or_default();
        program.ends_with(b"himalia-shim")
    };
    let pids = gateway.processes().into_iter().filter(is_shim);
    pids.filter_map(|pid| Pid::from_raw(i32::try_from(pid).unwrap()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_and_lost_kernels_cost_nothing() {
    let mut gateway = gateway(&["--max-kernels", "200"]).await;
    for _ in 0..(IDLE + LOST) / AT_ONCE {
        let mut starts = JoinSet::new();
        for _ in 0..AT_ONCE {
            let http = gateway.http();
            starts.spawn(async move {
                http.post("/api/kernels", None)
                    .await
                    .unwrap()
                    .expect(201)
                    .unwrap()
            });
        }
        starts.join_all().await;
    }
    let shims = shims(&gateway);
    assert_eq!(shims.len(), IDLE + LOST);
    gateway.kill().await.unwrap();
    for shim in &shims[..LOST] {
        kill_process(*shim, Signal::KILL).unwrap();
    }
    gateway.start().await.unwrap();
    assert_eventually!(count(&gateway, "dead").await == LOST);
    assert_eventually!(count(&gateway, "idle").await == IDLE);
    let pid = gateway.pid().unwrap();
    // The work after an adoption is not idleness: it has ended when one second costs as little as any other.
    let second = Duration::from_secs(1);
    let (mut at, mut before) = (Instant::now(), used(pid));
    assert_eventually!({
        let quiet = at.elapsed() >= second && used(pid).saturating_sub(before) <= second / 50;
        if at.elapsed() >= second {
            (at, before) = (Instant::now(), used(pid));
        }
        quiet
    });
    let before = used(pid);
    tokio::time::sleep(LOOK).await;
    let cost = used(pid).saturating_sub(before);
    assert!(cost < LOOK / 100, "{cost:?} in {LOOK:?}");
}
