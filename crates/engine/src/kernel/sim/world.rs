//! Everything there is, and what can happen to it.

use std::collections::BTreeMap;

use bytes::Bytes;
use himalia_journal::NewRecord;
use himalia_shim_protocol::{Cause, KernelSpec, Lane, PerLane, ProtocolError, ToGateway, Welcome};
use himalia_wire::{Channel, Parts, v1};

use super::disk::Disk;
use super::rng::Rng;
use super::shim::{KERNEL, SimShim};
use super::wire::{Down, Wire, bytes_of, encoded, parsed};
use crate::kernel::core::{Core, Settings};
use crate::kernel::event::{Command, Effect, Event, Now, Request};
use crate::kernel::ledger::{RequestKind, parent_key};

/// Things that happen before the faults end.
const STEPS: u64 = 220;
/// Rounds of the quiet end; more is a livelock.
const QUIET: u32 = 20_000;

/// A request as its client remembers it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) owner: u64,
    /// Number of the gateway that took it.
    pub(super) epoch: u64,
}

#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) core: Core,
    at_disk: Option<Vec<NewRecord>>,
}

#[derive(Debug)]
pub(super) struct World {
    rng: Rng,
    now: Now,
    pub(super) shim: SimShim,
    pub(super) gateway: Option<Gateway>,
    pub(super) disk: Disk,
    pub(super) epoch: u64,
    wires: PerLane<Option<Wire>>,
    pub(super) asked: BTreeMap<String, Asked>,
    /// What a reader that names its position has seen.
    pub(super) read: Vec<u64>,
    pub(super) over: Option<bool>,
    next_id: [u64; 3],
    crashes_left: u32,
    deaths_left: u32,
    breaks_left: u32,
    orders_left: u32,
    disk_faults_left: u32,
    next_waiter: u64,
    trace: Option<Vec<String>>,
}

impl World {
    pub(super) fn new(seed: u64, trace: bool) -> Self {
        let mut rng = Rng::new(seed);
        let shim = SimShim::new(&mut rng);
        let mut world = Self {
            shim,
            now: Now { mono: 1, wall: 1 },
            gateway: None,
            disk: Disk::default(),
            epoch: 0,
            wires: PerLane {
                now: None,
                data: None,
            },
            asked: BTreeMap::new(),
            read: Vec::new(),
            over: None,
            next_id: [0; 3],
            crashes_left: rng.below(4) as u32,
            deaths_left: rng.below(3) as u32,
            breaks_left: rng.below(5) as u32,
            orders_left: rng.below(3) as u32,
            disk_faults_left: rng.below(4) as u32,
            next_waiter: 1,
            trace: trace.then(Vec::new),
            rng,
        };
        world.start_gateway();
        let spec = KernelSpec {
            argv: vec!["kernel".into()],
            env: BTreeMap::new(),
            cwd: "/".into(),
            interrupt_mode: himalia_shim_protocol::InterruptMode::Signal,
            kernel_name: "sim".into(),
            limits: himalia_shim_protocol::ResourceLimits::default(),
            connect_ms: 1000,
        };
        world.step(Event::Command {
            waiter: 0,
            command: Command::Start(Box::new(spec)),
        });
        world
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
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
    fn start_gateway(&mut self) {
        self.epoch += 1;
        let settings = Settings {
            kernel: KERNEL,
            epoch: self.epoch,
            restart_limit: 5,
            grace_ms: 100,
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
    }

    fn step(&mut self, event: Event) {
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

    fn carry_out(&mut self, effect: Effect) {
        self.note(|| format!("  effect {effect:?}"));
        let (lane, down) = match effect {
            Effect::Welcome(lane, resume) => (
                lane,
                Down::Welcome(Welcome {
                    protocol: 2,
                    epoch: self.epoch,
                    resume: vec![resume],
                }),
            ),
            Effect::Send(lane, pending) => (lane, Down::Request(pending)),
            Effect::Ack(lane, link) => (Lane::Now, Down::Ack(lane, link)),
            Effect::Over { forget } => {
                self.over = Some(forget);
                return;
            }
            Effect::Done(..) | Effect::ProcessStarted(_) => return,
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
        for _ in 0..STEPS {
            if self.over.is_some() {
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
                0..20 => drop(self.to_gateway(lane)),
                20..36 => drop(self.to_shim(lane)),
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
            if self.over.is_some() {
                return Ok(());
            }
            self.now.mono += 10;
            self.now.wall = self.now.mono;
            let mut moved = self.disk_done(false);
            for lane in Lane::ALL {
                moved |= self.dial(lane) | self.to_gateway(lane) | self.to_shim(lane) | self.pump(lane);
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

    /// The gateway takes one frame, or notices that the other end is gone.
    fn to_gateway(&mut self, lane: Lane) -> bool {
        let Some(wire) = self.wires[lane].as_mut().filter(|wire| wire.gateway) else {
            return false;
        };
        if let Some(bytes) = wire.to_gateway.pop_front() {
            let frame = parsed(&bytes);
            wire.greeted = true;
            self.note(|| format!("{lane} gateway takes {}", brief(&frame)));
            self.step(match frame {
                ToGateway::Hello(hello) => Event::Hello(hello),
                frame => Event::Shim(lane, frame),
            });
            return true;
        }
        if !wire.shim {
            self.wires[lane] = None;
            self.note(|| format!("{lane} gateway sees the end"));
            self.step(Event::LaneClosed(lane));
            return true;
        }
        false
    }

    /// The shim takes one frame, or notices that the other end is gone.
    fn to_shim(&mut self, lane: Lane) -> bool {
        let Some(wire) = self.wires[lane].as_mut().filter(|wire| wire.shim) else {
            return false;
        };
        let Some(down) = wire.to_shim.pop_front() else {
            if wire.gateway {
                return false;
            }
            self.wires[lane] = None;
            self.shim.link.disconnected(lane);
            self.note(|| format!("{lane} shim sees the end"));
            return true;
        };
        self.note(|| format!("{lane} shim takes {down:?}"));
        let taken = match down {
            Down::Welcome(welcome) => match self.shim.link.welcome(lane, &welcome) {
                Ok(stale) => {
                    if stale {
                        let other = if lane == Lane::Now { Lane::Data } else { Lane::Now };
                        self.shim_closes(other);
                    }
                    Ok(())
                }
                // Left over from a gateway that is gone.
                Err(ProtocolError::Epoch { .. }) => {
                    self.shim_closes(lane);
                    Ok(())
                }
                Err(error) => Err(error.to_string()),
            },
            Down::Request(pending) => self.shim.request(lane, &pending),
            Down::Ack(of, link) => self
                .shim
                .link
                .acknowledge(KERNEL, of, link)
                .map_err(|error| error.to_string()),
        };
        if let Err(reason) = taken {
            panic!("the shim refuses: {reason}");
        }
        true
    }

    /// The shim writes one frame.
    fn pump(&mut self, lane: Lane) -> bool {
        let Some(wire) = self.wires[lane].as_mut().filter(|wire| wire.shim) else {
            return false;
        };
        if let Some((kernel, number)) = self.shim.link.take_accepted(lane) {
            wire.to_gateway
                .push_back(encoded(&ToGateway::Accepted { kernel, number }));
            return true;
        }
        let Some(item) = self.shim.link.next_item(lane) else {
            return false;
        };
        wire.to_gateway.push_back(bytes_of(&item));
        true
    }

    fn dial(&mut self, lane: Lane) -> bool {
        // A connection whose end the gateway has not noticed yet is replaced.
        let busy = self.wires[lane].as_ref().is_some_and(|wire| wire.shim);
        if busy || self.gateway.is_none() {
            return false;
        }
        let hello = self.shim.link.hello(lane, "key", "sim", 1);
        let mut wire = Wire {
            gateway: true,
            shim: true,
            ..Wire::default()
        };
        wire.to_gateway
            .push_back(encoded(&ToGateway::Hello(Box::new(hello))));
        self.wires[lane] = Some(wire);
        self.note(|| format!("{lane} shim dials"));
        true
    }

    fn disk_done(&mut self, faults: bool) -> bool {
        let Some(gateway) = &mut self.gateway else {
            return false;
        };
        let Some(batch) = gateway.at_disk.take() else {
            gateway.at_disk = gateway.core.take_batch();
            return false;
        };
        if faults && self.disk_faults_left > 0 && self.rng.percent(10) {
            self.disk_faults_left -= 1;
            self.note(|| "disk refuses".to_owned());
            self.step(Event::WriteFailed { batch });
            return true;
        }
        let first_seq = self.disk.append(&batch, self.now.wall);
        self.note(|| format!("disk has {first_seq} and {} more", batch.len() - 1));
        self.step(Event::Written { first_seq, batch });
        true
    }

    fn ask(&mut self) {
        let Some(gateway) = &self.gateway else { return };
        let (channel, msg_type, kind) = match self.rng.below(8) {
            0 => (Channel::Control, "debug_request", RequestKind::Request),
            1 => (Channel::Shell, "comm_msg", RequestKind::Notice),
            2 => (Channel::Shell, "kernel_info_request", RequestKind::Request),
            3 => (Channel::Stdin, "input_reply", RequestKind::Notice),
            _ => (Channel::Shell, "execute_request", RequestKind::Execute),
        };
        if !gateway.core.takes_requests(channel) {
            return;
        }
        let client = self.rng.below(3);
        // Ids are unique per client only.
        let id = &mut self.next_id[client as usize];
        *id += 1;
        let (msg_id, session) = (format!("m{id}"), format!("c{client}"));
        let header = format!(r#"{{"msg_id":"{msg_id}","msg_type":"{msg_type}","session":"{session}"}}"#);
        let parts = Parts {
            header: header.into(),
            parent_header: Bytes::from_static(b"{}"),
            metadata: Bytes::from_static(b"{}"),
            content: Bytes::from_static(b"{}"),
            buffers: Vec::new(),
        };
        let owner = owner_of(client);
        let parent = parent_key(&msg_id, &session);
        self.note(|| format!("client asks {session}/{msg_id} {msg_type}"));
        self.asked.insert(
            format!("{session}/{msg_id}"),
            Asked {
                owner,
                epoch: self.epoch,
            },
        );
        let frame = v1::encode(channel, &parts);
        self.step(Event::Request(Request {
            owner,
            channel,
            kind,
            parent,
            frame,
        }));
    }

    fn order(&mut self) {
        if self.orders_left == 0 {
            return;
        }
        self.orders_left -= 1;
        let command = match self.rng.below(20) {
            0 => Command::Stop("killed_by_user"),
            1..10 => Command::Interrupt,
            _ => Command::Restart,
        };
        let waiter = self.next_waiter;
        self.next_waiter += 1;
        self.note(|| format!("order {command:?}"));
        self.step(Event::Command { waiter, command });
    }

    fn tick(&mut self) {
        if self.rng.percent(20) {
            self.now.mono += self.rng.below(6_000_000);
        }
        self.step(Event::Tick);
    }

    fn roll(&mut self) {
        let Some(gateway) = &self.gateway else { return };
        if gateway.core.settled() {
            self.disk.checkpoint = Some(gateway.core.checkpoint());
            self.disk.covered = self.disk.records.len();
            self.note(|| "roll".to_owned());
        }
    }

    /// A reader that remembers its position reads some of what is new.
    fn read_on(&mut self) {
        let from = self.read.len();
        self.read
            .extend(self.disk.records[from..].iter().map(|record| fingerprint(record)));
    }

    fn fault(&mut self, lane: Lane) {
        if self.rng.percent(40) && self.deaths_left > 0 {
            self.deaths_left -= 1;
            self.note(|| "the kernel dies".to_owned());
            self.shim.end(Cause::Signal { signal: 9 }, false);
        } else if self.breaks_left > 0 {
            self.breaks_left -= 1;
            self.shim_closes(lane);
        }
    }

    /// The shim's end closes: what was on its way to it is lost, what it wrote may still arrive.
    fn shim_closes(&mut self, lane: Lane) {
        let Some(wire) = &mut self.wires[lane] else { return };
        wire.shim = false;
        wire.to_shim.clear();
        let keep = self.rng.below(wire.to_gateway.len() as u64 + 1) as usize;
        wire.to_gateway.truncate(keep);
        self.shim.link.disconnected(lane);
        self.note(|| format!("{lane} breaks"));
    }

    /// kill -9: what the disk had taken is there, what was written to a connection may still arrive in part.
    fn crash(&mut self) {
        if self.crashes_left == 0 || self.gateway.is_none() {
            return;
        }
        self.crashes_left -= 1;
        self.note(|| "gateway is killed".to_owned());
        let gateway = self.gateway.take();
        if let Some(batch) = gateway.and_then(|gateway| gateway.at_disk)
            && self.rng.percent(50)
        {
            self.disk.append(&batch, self.now.wall);
            self.note(|| "… its last write is there".to_owned());
        }
        for lane in Lane::ALL {
            let Some(wire) = &mut self.wires[lane] else {
                continue;
            };
            wire.gateway = false;
            wire.to_gateway.clear();
            let keep = self.rng.below(wire.to_shim.len() as u64 + 1) as usize;
            wire.to_shim.truncate(keep);
            if !wire.shim {
                self.wires[lane] = None;
            }
        }
    }
}

pub(super) fn owner_of(client: u64) -> u64 {
    1000 + client
}

pub(super) fn fingerprint(record: &himalia_journal::Record) -> u64 {
    u64::from(crc(&record.body)) << 32 | u64::from(crc(&record.meta.0))
}

fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

fn brief(frame: &ToGateway) -> String {
    match frame {
        ToGateway::Message {
            link, origin, frame, ..
        } => {
            let (channel, parts) = v1::decode(frame, &himalia_wire::Limits::KERNEL).unwrap();
            let header = String::from_utf8_lossy(&parts.header).into_owned();
            let parent = String::from_utf8_lossy(&parts.parent_header).into_owned();
            format!("link {link} {channel} {header} to {parent} of {origin:?}")
        }
        other => format!("{other:?}"),
    }
}
