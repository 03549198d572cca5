//! Schedules of three replicas: their leases, a database, the shared logs of kernels, shims, and clients, driven by one seed.
//!
//! What decides is the code of the product: when a process may act, renews its lease and stops ([`himalia_lease`]), what it takes over
//! ([`himalia_lease::TakeOverPlan`]), the kernels themselves ([`crate::core::Core`]), and their shims
//! ([`himalia_shim_protocol::ShimLink`]). The database is a model that does each statement at once (`database`), as the real one does.
//!
//! Every schedule mixes clients' requests with faults. Processes are killed, started again on the same disk or a new one, paused for longer
//! than a lease, and asked to hand over. Clocks differ in speed by up to 15 %. The database does nothing for a while; a statement is lost
//! before it is done, or its answer is lost, or it is done later, when no process waits for it any more. Connections to shims break with
//! what was under way, or hold it back for a while, and a shim does not notice that the process at the other end is paused.
//!
//! After each step: no process acts on a kernel, or answers for one, that another has; nothing is acknowledged to a shim or sent to it
//! that is not in the log; no record that was shown is lost or replaced. After the faults have ended (`check`): each kernel has one
//! owner, nothing ran twice, nothing is missing, and the order is kept.
//!
//! Not part of it: objects of rolled segments, sandboxes that no other replica reaches, starts and ends of sessions, and two machines that
//! have one name.
//!
//! - `HIMALIA_SIM_SEED=n` runs one schedule and prints what happened in it.
//! - `HIMALIA_SIM_SCHEDULES=n` runs a fiftieth of that many (2,000 otherwise).

mod actor;
mod check;
mod clients;
mod database;
mod faults;
mod process;
mod sandbox;
mod schedule;
mod taking;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{SCHEDULES, in_parallel, number};
use world::World;

/// One schedule of replicas takes as long as so many of one gateway.
const COST: u64 = 50;
/// Schedules among which each defence is needed.
const TRIES: u64 = 20_000;
const REPLICAS: usize = 3;
/// The length of a lease, microseconds.
const LEASE: u64 = 5_000_000;

/// What keeps two processes from acting on one kernel. A test removes each, to show that schedules find it.
#[derive(Clone, Copy, Debug)]
struct Defences {
    /// The log refuses batches of a process that does not write it any more.
    log_epoch: bool,
    /// Shims refuse epochs older than the latest.
    shim_epoch: bool,
    /// A process stops by itself after half of its lease.
    half_lease: bool,
    /// Kernels are taken only of replicas whose lease has ended, and it ends permanently then.
    take_after_end: bool,
}

const ALL: Defences = Defences {
    log_epoch: true,
    shim_epoch: true,
    half_lease: true,
    take_after_end: true,
};

fn run(seed: u64, defences: Defences, trace: bool) -> Result<(), String> {
    let mut world = World::new(seed, defences, trace)?;
    let result = catch_unwind(AssertUnwindSafe(|| {
        world.play()?;
        world.quiesce()?;
        check::check(&world)
    }));
    let result = result.unwrap_or_else(|_| Err("a panic, see above".to_owned()));
    if trace {
        world.print();
    }
    result.map_err(|reason| format!("seed {seed} of replicas: {reason} (HIMALIA_SIM_SEED={seed} shows it)"))
}

#[test]
fn schedules_of_three_replicas_keep_the_promises() {
    if let Some(seed) = number("HIMALIA_SIM_SEED") {
        run(seed, ALL, true).unwrap();
        return;
    }
    let schedules = number("HIMALIA_SIM_SCHEDULES").unwrap_or(SCHEDULES) / COST;
    in_parallel(schedules, |seed| run(seed, ALL, false));
}

/// Without any one of them, a schedule breaks a promise.
#[test]
fn each_defence_is_needed() {
    let without = [
        (
            "log_epoch",
            Defences {
                log_epoch: false,
                ..ALL
            },
        ),
        (
            "shim_epoch",
            Defences {
                shim_epoch: false,
                ..ALL
            },
        ),
        (
            "half_lease",
            Defences {
                half_lease: false,
                ..ALL
            },
        ),
        (
            "take_after_end",
            Defences {
                take_after_end: false,
                ..ALL
            },
        ),
    ];
    let needed = without.map(|(name, defences)| {
        let broken = (0..TRIES).find_map(|seed| run(seed, defences, false).err());
        println!("without {name}: {}", broken.as_deref().unwrap_or("nothing"));
        broken.is_some()
    });
    assert_eq!(needed, [true; 4], "some schedule needs each");
}
