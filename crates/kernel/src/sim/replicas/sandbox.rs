//! Sandboxes, and the connections between their shims and the processes.
//!
//! A shim dials the socket at its path, which belongs to the process that bound it last; or it takes a call of any process that has its
//! kernel. It has one connection for each lane, and does not know that the process at its other end is paused.

use himalia_shim_protocol::shim_link::WindowLimits;
use himalia_shim_protocol::{Kind, Lane, PerLane, ProtocolError, ToGateway};

use super::super::check::key_of;
use super::super::rng::Rng;
use super::super::shim::{KERNEL, SimShim};
use super::super::wire::{Down, Wire, bytes_of, encoded};
use super::world::World;

/// How long a shim waits for a welcome.
const WELCOME: u64 = 10_000_000;
/// How late something may arrive.
const HOLD: u64 = 15_000_000;

/// How a shim and a process meet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Transport {
    /// The shim dials the process that bound the socket last.
    Unix(Option<u64>),
    /// Processes call the shim.
    Tls,
}

#[derive(Debug)]
pub(super) struct Sandbox {
    pub(super) shim: SimShim,
    lanes: PerLane<Option<usize>>,
    pub(super) transport: Transport,
}

/// A connection between a shim and a process.
#[derive(Debug)]
pub(super) struct Cable {
    pub(super) wire: Wire,
    pub(super) lane: Lane,
    pub(super) process: u64,
    welcomed: bool,
    since: u64,
    /// What the process wrote does not arrive before.
    held_until: u64,
}

impl Sandbox {
    pub(super) fn new(rng: &mut Rng) -> Self {
        Self {
            shim: SimShim::with_room(WindowLimits::PER_LANE, rng),
            lanes: PerLane::default(),
            transport: if rng.percent(50) {
                Transport::Unix(None)
            } else {
                Transport::Tls
            },
        }
    }
}

impl World {
    /// The shim connects a lane that has no connection, or notices that its connection has ended.
    pub(super) fn dial(&mut self, kernel: usize, lane: Lane) -> bool {
        if let Some(id) = self.sandboxes[kernel].lanes[lane] {
            let cable = &self.cables[id];
            if !cable.welcomed && self.now > cable.since + WELCOME {
                self.shim_closes(kernel, lane);
                return true;
            }
            return false;
        }
        let process = match self.sandboxes[kernel].transport {
            Transport::Unix(bound) => bound.filter(|process| self.listens(*process, kernel)),
            Transport::Tls => {
                let all: Vec<u64> = self.processes.keys().copied().collect();
                let calling: Vec<u64> = all
                    .into_iter()
                    .filter(|process| self.listens(*process, kernel))
                    .collect();
                (!calling.is_empty()).then(|| calling[self.rng.index(calling.len())])
            }
        };
        let Some(process) = process else { return false };
        let hello = self.sandboxes[kernel].shim.link.hello(lane, "key", "sim", 1);
        let mut wire = Wire {
            gateway: true,
            shim: true,
            ..Wire::default()
        };
        wire.to_gateway
            .push_back(encoded(&ToGateway::Hello(Box::new(hello))));
        let id = self.cables.len();
        self.cables.push(Cable {
            wire,
            lane,
            process,
            welcomed: false,
            since: self.now,
            held_until: 0,
        });
        self.sandboxes[kernel].lanes[lane] = Some(id);
        if let Some(actor) = self.actor(process, kernel) {
            actor.arrivals.push(id);
        }
        self.note(|| format!("kernel {kernel} {lane} dials process {process}"));
        true
    }

    /// The shim's end closes: what was on its way to it is lost, what it wrote may still arrive.
    pub(super) fn shim_closes(&mut self, kernel: usize, lane: Lane) {
        let Some(id) = self.sandboxes[kernel].lanes[lane].take() else {
            return;
        };
        let wire = &mut self.cables[id].wire;
        wire.shim = false;
        wire.to_shim.clear();
        let keep = self.rng.index(wire.to_gateway.len() + 1);
        wire.to_gateway.truncate(keep);
        self.sandboxes[kernel].shim.link.disconnected(lane);
        self.note(|| format!("kernel {kernel} {lane} breaks"));
    }

    /// The gateway's end closes: what it wrote may still arrive.
    pub(super) fn gateway_closes(&mut self, id: usize) {
        let wire = &mut self.cables[id].wire;
        if wire.gateway {
            wire.gateway = false;
            wire.to_gateway.clear();
            let keep = self.rng.index(wire.to_shim.len() + 1);
            wire.to_shim.truncate(keep);
        }
    }

    /// What the process wrote arrives later.
    pub(super) fn hold(&mut self, id: usize) {
        self.cables[id].held_until = self.now + self.rng.below(HOLD);
    }

    /// The shim writes one frame.
    pub(super) fn pump(&mut self, kernel: usize, lane: Lane) -> bool {
        let Some(id) = self.sandboxes[kernel].lanes[lane] else {
            return false;
        };
        let (link, wire) = (&mut self.sandboxes[kernel].shim.link, &mut self.cables[id].wire);
        if let Some((number, accepted)) = link.take_accepted(lane) {
            wire.to_gateway.push_back(encoded(&ToGateway::Accepted {
                kernel: number,
                number: accepted,
            }));
            return true;
        }
        let Some(item) = link.next_item(lane) else {
            return false;
        };
        wire.to_gateway.push_back(bytes_of(&item));
        true
    }

    /// The shim takes one frame, or notices that the other end is gone.
    pub(super) fn shim_takes(&mut self, kernel: usize, lane: Lane) -> Result<bool, String> {
        let Some(id) = self.sandboxes[kernel].lanes[lane] else {
            return Ok(false);
        };
        let cable = &mut self.cables[id];
        if !self.is_quiet && self.now < cable.held_until {
            return Ok(false);
        }
        let Some(down) = cable.wire.to_shim.pop_front() else {
            if cable.wire.gateway {
                return Ok(false);
            }
            self.shim_closes(kernel, lane);
            return Ok(true);
        };
        let process = cable.process;
        self.note(|| {
            format!(
                "kernel {kernel} {lane} takes {} of process {process}",
                brief(&down)
            )
        });
        match down {
            Down::Welcome(mut welcome) => {
                let link = &mut self.sandboxes[kernel].shim.link;
                if !self.defences.shim_epoch {
                    welcome.epoch = welcome.epoch.max(link.epoch_seen());
                }
                let stored = self.database.stored(kernel)[lane];
                if let Some(resume) = welcome.resume.iter().find(|resume| resume.after > stored) {
                    return Err(format!(
                        "kernel {kernel}: a welcome acknowledges {lane} {}, and the log has {stored}",
                        resume.after
                    ));
                }
                match link.welcome(lane, &welcome) {
                    Ok(stale) => {
                        self.cables[id].welcomed = true;
                        if stale {
                            let other = if lane == Lane::Now { Lane::Data } else { Lane::Now };
                            self.shim_closes(kernel, other);
                        }
                    }
                    // Of a process that is gone, or has been replaced.
                    Err(ProtocolError::Epoch { .. }) => self.shim_closes(kernel, lane),
                    Err(error) => {
                        return Err(format!("kernel {kernel}: the shim refuses a welcome: {error}"));
                    }
                }
            }
            Down::Request(pending) => {
                let key = (pending.kind == Kind::Message).then(|| key_of(&pending.body));
                if let Some(key) = key.as_ref().filter(|key| !self.database.has_request(kernel, key)) {
                    return Err(format!("kernel {kernel}: {key} is sent and not in the log"));
                }
                self.sandboxes[kernel].shim.request(lane, &pending)?;
            }
            Down::Ack(of, link) => {
                let stored = self.database.stored(kernel)[of];
                if link > stored {
                    return Err(format!(
                        "kernel {kernel}: {of} {link} is acknowledged, and the log has {stored}"
                    ));
                }
                let sandbox = &mut self.sandboxes[kernel];
                let done = sandbox.shim.link.acknowledge(KERNEL, of, link);
                done.map_err(|error| format!("kernel {kernel}: {error}"))?;
            }
        }
        Ok(true)
    }
}

fn brief(down: &Down) -> String {
    match down {
        Down::Welcome(welcome) => format!("welcome of epoch {}", welcome.epoch),
        Down::Request(pending) if pending.kind == Kind::Message => {
            format!("request {} {}", pending.number, key_of(&pending.body))
        }
        Down::Request(pending) => format!("request {} {}", pending.number, pending.kind.as_str()),
        Down::Ack(lane, link) => format!("ack of {lane} {link}"),
    }
}
