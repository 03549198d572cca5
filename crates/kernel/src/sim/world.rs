//! Everything there is, and what can happen to it.

use std::collections::{BTreeMap, BTreeSet};

use himalia_journal::NewRecord;
use himalia_shim_protocol::{KernelSpec, Lane, PROTOCOL_MAX, PerLane, Welcome};

use super::disk::Disk;
use super::rng::Rng;
use super::sandboxes::Gone;
use super::shim::{KERNEL, SimShim};
use super::wire::{Down, Wire};
use crate::core::{Core, Settings};
use crate::event::{Command, Effect, Event, Timestamp};

/// Things that happen before the faults end: this many, and up to as many again twice over.
const STEPS: u64 = 150;
/// Rounds of the quiet end; more is a livelock.
const QUIET: u32 = 20_000;

/// A request as its client remembers it.
#[derive(Clone, Debug)]
pub(super) struct InputQuestion {
    pub(super) owner: u64,
    /// Number of the gateway that took it.
    pub(super) epoch: u64,
    /// Whether the kernel replies to it.
    pub(super) replies: bool,
}

#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) core: Core,
    pub(super) at_disk: Option<Vec<NewRecord>>,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) now: Timestamp,
    pub(super) shim: SimShim,
    pub(super) gateway: Option<Gateway>,
    pub(super) disk: Disk,
    pub(super) epoch: u64,
    pub(super) wires: PerLane<Option<Wire>>,
    pub(super) asked: BTreeMap<String, InputQuestion>,
    /// What a reader that names its position has seen.
    pub(super) read: Vec<u64>,
    pub(super) ended: Option<bool>,
    pub(super) next_id: [u64; 3],
    pub(super) crashes_left: u32,
    pub(super) deaths_left: u32,
    pub(super) breaks_left: u32,
    pub(super) orders_left: u32,
    pub(super) disk_faults_left: u32,
    pub(super) losses_left: u32,
    pub(super) sandbox_lives: bool,
    /// A gateway that starts finds the sandbox.
    pub(super) row_names_it: bool,
    /// A move is being written.
    pub(super) ordered_move: bool,
    /// Sandboxes that are gone, by how many moves were in the log before.
    pub(super) gone: BTreeMap<usize, Gone>,
    pub(super) next_waiter: u64,
    /// It is being found out whether memory was the cause of a death.
    pub(super) memory_asked: bool,
    /// Callers whose orders are not answered.
    pub(super) waiters: BTreeSet<u64>,
    trace: Option<Vec<String>>,
}

impl World {
    pub(super) fn new(seed: u64, trace: bool) -> Self {
        let mut rng = Rng::new(seed);
        let shim = SimShim::new(&mut rng);
        let mut world = Self {
            shim,
            now: Timestamp { mono: 1, wall: 1 },
            gateway: None,
            disk: Disk::default(),
            epoch: 0,
            wires: PerLane {
                now: None,
                data: None,
            },
            asked: BTreeMap::new(),
            read: Vec::new(),
            ended: None,
            next_id: [0; 3],
            crashes_left: rng.small(6),
            deaths_left: rng.small(4),
            breaks_left: rng.small(6),
            orders_left: rng.small(4),
            disk_faults_left: rng.small(5),
            losses_left: rng.small(3),
            sandbox_lives: true,
            row_names_it: true,
            ordered_move: false,
            gone: BTreeMap::new(),
            next_waiter: 1,
            memory_asked: false,
            waiters: BTreeSet::from([0]),
            trace: trace.then(Vec::new),
            rng,
        };
        world.start_gateway();
        world.step(Event::Command {
            waiter: 0,
            command: Command::Start(Box::new(spec())),
        });
        world
    }

    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let line = format!("{:>9} {}", self.now.mono, text());
            trace.push(line);
        }
    }

    pub(super) fn print(&self) {
        for line in self.trace.iter().flatten() {
            println!("{line}");
        }
    }

    /// A new gateway process, from what is on the disk.
    pub(super) fn start_gateway(&mut self) {
        self.epoch += 1;
        let settings = Settings {
            kernel: KERNEL,
            epoch: self.epoch,
            restart_limit: 5,
            grace_ms: 100,
            message_bytes: himalia_wire::Limits::KERNEL.message_bytes,
        };
        let core = if self.epoch == 1 {
            Core::new(settings, self.now)
        } else {
            let since = &self.disk.records[self.disk.covered..];
            let checkpoint = self.disk.checkpoint.as_deref();
            Core::recover(settings, self.now, checkpoint, since, |seq| self.disk.read(seq)).unwrap()
        };
        let epoch = self.epoch;
        self.note(|| format!("gateway {epoch} starts"));
        self.gateway = Some(Gateway { core, at_disk: None });
        if self.epoch > 1 {
            self.find_sandbox();
        }
    }

    pub(super) fn step(&mut self, event: Event) {
        let Some(gateway) = &mut self.gateway else { return };
        let mut effects = Vec::new();
        gateway.core.step(event, self.now, &mut effects);
        for effect in effects {
            self.carry_out(effect);
        }
        if let Some(gateway) = &mut self.gateway
            && gateway.at_disk.is_none()
        {
            gateway.at_disk = gateway.core.take_batch();
        }
    }

    pub(super) fn carry_out(&mut self, effect: Effect) {
        self.note(|| format!("  effect {effect:?}"));
        let (lane, down) = match effect {
            Effect::Welcome(lane, resume) => (
                lane,
                Down::Welcome(Welcome {
                    protocol: PROTOCOL_MAX,
                    epoch: self.epoch,
                    resume: vec![resume],
                }),
            ),
            Effect::Send(lane, pending) => (lane, Down::Request(pending)),
            Effect::Ack(lane, link) => (Lane::Now, Down::Ack(lane, link)),
            Effect::Ended { forget } => {
                // A lost sandbox is buried, and the kernel continues in another one.
                self.ended = forget.then_some(true);
                return;
            }
            Effect::Fetch(seq) => {
                let record = self.disk.read(seq);
                return self.step(Event::Fetched { seq, record });
            }
            Effect::Done(waiter, _) => {
                assert!(self.waiters.remove(&waiter), "an order is answered once");
                return;
            }
            // No kernel of the simulation has watched files.
            Effect::ProcessStarted(..) | Effect::MeasureDisk | Effect::WantSandbox => return,
            Effect::CheckMemory => {
                self.memory_asked = true;
                return;
            }
        };
        if let Some(wire) = &mut self.wires[lane]
            && wire.gateway
            && wire.greeted
        {
            wire.to_shim.push_back(down);
        }
    }

    /// Everything with its faults.
    pub(super) fn play(&mut self) {
        for _ in 0..STEPS + self.rng.below(2 * STEPS) {
            if self.ended.is_some() {
                return;
            }
            self.now.mono += 1 + self.rng.below(2000);
            self.now.wall = self.now.mono;
            let lane = if self.rng.percent(40) {
                Lane::Now
            } else {
                Lane::Data
            };
            match self.rng.below(100) {
                0..20 => drop(self.gateway_takes(lane)),
                20..36 => drop(self.shim_takes(lane)),
                36..52 => drop(self.pump(lane)),
                52..64 => drop(self.disk_done(true)),
                64..76 => self.shim.kernel_step(&mut self.rng),
                76..83 => self.ask(),
                83..89 => drop(self.dial(lane)),
                89..91 => self.read_on(),
                91..93 => self.roll(),
                93 => self.tick(),
                94 => self.fault(lane),
                95 | 96 => self.crash(),
                97 => self.order(),
                98 => drop(self.go_on()),
                _ => {
                    if self.gateway.is_none() {
                        self.start_gateway();
                    }
                }
            }
        }
    }

    /// No more faults: runs until nothing moves.
    pub(super) fn quiesce(&mut self) -> Result<(), String> {
        self.note(|| "quiet".to_owned());
        if self.gateway.is_none() {
            self.start_gateway();
        }
        let mut waits = 0;
        for _ in 0..QUIET {
            if self.ended.is_some() {
                return Ok(());
            }
            self.now.mono += 10;
            self.now.wall = self.now.mono;
            let mut moved = self.disk_done(false) | self.go_on();
            for lane in Lane::ALL {
                moved |= self.dial(lane) | self.gateway_takes(lane) | self.shim_takes(lane) | self.pump(lane);
            }
            if self
                .shim
                .process
                .as_ref()
                .is_some_and(|process| !process.is_idle())
            {
                self.shim.kernel_step(&mut self.rng);
                moved = true;
            }
            if moved {
                continue;
            }
            let deadline = self.gateway.as_ref().and_then(|gateway| gateway.core.deadline());
            let Some(at) = deadline.filter(|_| waits < 100) else {
                self.read_on();
                return Ok(());
            };
            waits += 1;
            self.now.mono = self.now.mono.max(at);
            self.step(Event::Tick);
        }
        Err("it does not come to rest".to_owned())
    }
}

/// What a shim has to start.
pub(super) fn spec() -> KernelSpec {
    KernelSpec {
        argv: vec!["kernel".into()],
        env: BTreeMap::new(),
        cwd: "/".into(),
        interrupt_mode: himalia_shim_protocol::InterruptMode::Signal,
        kernel_name: "sim".into(),
        limits: himalia_shim_protocol::ResourceLimits::default(),
        connect_ms: 1000,
        via_zygote: false,
    }
}

/// The owner hash of a client.
pub(super) fn owner_of(client: usize) -> u64 {
    1000 + client as u64
}

pub(super) fn fingerprint(record: &himalia_journal::Record) -> u64 {
    u64::from(crc(&record.body)) << 32 | u64::from(crc(&record.meta.0))
}

fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}
