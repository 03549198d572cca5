//! Schedules: the shim's state machine, an obedient kernel, the gateway's state machine, a disk and a
//! network, all driven by one seed.
//!
//! Every schedule mixes clients' requests and callers' orders with faults: the gateway is killed (with a batch at the
//! disk that is then there or not), connections break with what was under way, lanes overtake each other, the kernel
//! dies, its sandbox is lost and it gets another one, the disk is slow or full. Then all faults end, everything is let run until nothing moves, and the promises are
//! checked (`check`). A failure names its seed.
//!
//! `replicas` has schedules of several gateways that share a database.
//!
//! - `HIMALIA_SIM_SEED=n` runs one schedule and prints what happened in it.
//! - `HIMALIA_SIM_SCHEDULES=n` runs that many (100,000 otherwise).

#![allow(clippy::cast_possible_truncation, reason = "small numbers of a model")]
#![allow(
    clippy::struct_excessive_bools,
    clippy::wrong_self_convention,
    reason = "the state of a model"
)]

mod callers;
mod check;
mod disk;
mod faults;
mod network;
mod process;
mod replicas;
pub(crate) mod rng;
mod sandboxes;
mod shim;
mod wire;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use world::World;

const SCHEDULES: u64 = 100_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn run(seed: u64, trace: bool) -> Result<(), String> {
    let mut world = World::new(seed, trace);
    let result = catch_unwind(AssertUnwindSafe(|| {
        world.play();
        world.quiesce()?;
        check::check(&world)
    }));
    let result = result.unwrap_or_else(|_| Err("a panic, see above".to_owned()));
    if trace {
        world.print();
    }
    result.map_err(|reason| format!("seed {seed}: {reason} (HIMALIA_SIM_SEED={seed} shows it)"))
}

#[test]
fn a_hundred_thousand_schedules_keep_the_promises() {
    if let Some(seed) = number("HIMALIA_SIM_SEED") {
        run(seed, true).unwrap();
        return;
    }
    let schedules = number("HIMALIA_SIM_SCHEDULES").unwrap_or(SCHEDULES);
    in_parallel(schedules, |seed| run(seed, false));
}

/// Runs all schedules from 0 on, and ends when one has failed.
fn in_parallel(schedules: u64, run: impl Fn(u64) -> Result<(), String> + Sync) {
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= schedules {
                        return;
                    }
                    if let Err(reason) = run(seed) {
                        eprintln!("{reason}");
                        failed.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(
        !failed.into_inner(),
        "a schedule broke a promise, its seed is above"
    );
}
