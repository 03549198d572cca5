//! Shim and gateway over lanes that break, with gateways that crash, under random schedules.
//!
//! Held throughout: each link is stored once and in order (a gap counts for the links it names); no request is done
//! twice; memory and spill stay within their limits. Held at the end, when all is connected: everything that was pushed
//! is covered, and each request of the last gateway was done exactly once.
#![allow(
    clippy::cast_possible_truncation,
    clippy::needless_for_each,
    clippy::unwrap_used,
    reason = "a test"
)]

use std::collections::{HashMap, VecDeque};
use std::io;

use bytes::{Bytes, BytesMut};
use himalia_shim_protocol::shim_link::{Accept, Placement, SpillStore, WindowLimits};
use himalia_shim_protocol::{
    Decoder, GatewayLink, Hello, Lane, LinkCheck, Origin, PerLane, RequestId, ShimLink, ToGateway, ToShim,
    VersionRange, Welcome,
};
use proptest::prelude::*;

const LIMITS: WindowLimits = WindowLimits {
    memory: 8 * 1024,
    spill: 24 * 1024,
};
const KERNEL: u16 = 1;

#[derive(Debug, Default)]
struct Memory(Vec<u8>);

impl SpillStore for Memory {
    fn write(&mut self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.0.truncate(offset as usize);
        parts.iter().for_each(|part| self.0.extend_from_slice(part));
        Ok(())
    }
    fn read(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let at = offset as usize;
        into.copy_from_slice(
            self.0
                .get(at..at + into.len())
                .ok_or_else(|| io::Error::other("short"))?,
        );
        Ok(())
    }
    fn discard(&mut self, _: u64) {}
    fn clear(&mut self) {
        self.0.clear();
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push {
        lane: Lane,
        bytes: usize,
        droppable: bool,
    },
    Write {
        lane: Lane,
        items: usize,
    },
    Deliver {
        lane: Lane,
        frames: usize,
    },
    Store {
        lane: Lane,
        links: u64,
    },
    Ack {
        lane: Lane,
    },
    Request {
        lane: Lane,
    },
    DeliverRequests {
        lane: Lane,
        frames: usize,
    },
    Cut {
        lane: Lane,
    },
    Connect {
        lane: Lane,
    },
    /// A request that was sent before comes again.
    Again {
        pick: usize,
    },
    Crash,
}

fn lanes() -> impl Strategy<Value = Lane> {
    prop::sample::select(Lane::ALL.to_vec())
}

fn steps() -> impl Strategy<Value = Step> {
    let push = (lanes(), 0..4000_usize, any::<bool>());
    prop_oneof![
        8 => push.prop_map(|(lane, bytes, droppable)| Step::Push { lane, bytes, droppable }),
        4 => (lanes(), 1..20_usize).prop_map(|(lane, items)| Step::Write { lane, items }),
        4 => (lanes(), 1..20_usize).prop_map(|(lane, frames)| Step::Deliver { lane, frames }),
        4 => (lanes(), 1..20_u64).prop_map(|(lane, links)| Step::Store { lane, links }),
        2 => lanes().prop_map(|lane| Step::Ack { lane }),
        4 => lanes().prop_map(|lane| Step::Request { lane }),
        4 => (lanes(), 1..5_usize).prop_map(|(lane, frames)| Step::DeliverRequests { lane, frames }),
        1 => lanes().prop_map(|lane| Step::Cut { lane }),
        4 => lanes().prop_map(|lane| Step::Connect { lane }),
        2 => any::<usize>().prop_map(|pick| Step::Again { pick }),
        1 => Just(Step::Crash),
    ]
}

/// One side's bytes on their way, lost when the lane is cut.
#[derive(Default)]
struct Wire {
    up: Decoder,
    down: VecDeque<ToShim>,
    open: bool,
}

struct World {
    shim: ShimLink<Memory>,
    gateway: GatewayLink,
    wires: PerLane<Wire>,
    /// What was pushed: size per link.
    pushed: PerLane<Vec<usize>>,
    /// Received and not yet stored, as spans.
    inbox: PerLane<VecDeque<(u64, u64)>>,
    /// Highest stored link: the journal.
    journal: PerLane<u64>,
    lost: PerLane<u64>,
    dropped: PerLane<u64>,
    done: HashMap<RequestId, u32>,
    asked: Vec<(Lane, RequestId)>,
}

impl World {
    fn new() -> Self {
        let mut shim = ShimLink::new(VersionRange::OURS, PerLane::default());
        shim.add_kernel(
            KERNEL,
            PerLane::default(),
            PerLane {
                now: LIMITS,
                data: LIMITS,
            },
        )
        .unwrap();
        Self {
            shim,
            gateway: GatewayLink::new(KERNEL, 1, PerLane::default()),
            wires: PerLane::default(),
            pushed: PerLane::default(),
            inbox: PerLane::default(),
            journal: PerLane::default(),
            lost: PerLane::default(),
            dropped: PerLane::default(),
            done: HashMap::new(),
            asked: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Push {
                lane,
                bytes,
                droppable,
            } => self.push(lane, bytes, droppable),
            Step::Write { lane, items } => self.write(lane, items),
            Step::Deliver { lane, frames } => self.deliver(lane, frames),
            Step::Store { lane, links } => self.store(lane, links),
            Step::Ack { lane } => {
                // Acknowledgements of both lanes go down the now lane.
                if let Some(link) = self.gateway.take_ack(lane)
                    && self.wires.now.open
                {
                    self.wires.now.down.push_back(ToShim::Ack {
                        kernel: KERNEL,
                        lane,
                        link,
                    });
                }
            }
            Step::Request { lane } => {
                let id = self.gateway.next_request();
                let taken = self.gateway.message(lane, Bytes::from_static(b"code")).unwrap();
                assert_eq!(taken, id);
                self.gateway.recorded(lane, id.number, id.number);
                self.asked.push((lane, id));
                if self.wires[lane].open {
                    self.send_ready(lane);
                }
            }
            Step::DeliverRequests { lane, frames } => self.deliver_requests(lane, frames),
            Step::Again { pick } => {
                let again = self.asked.get(pick % self.asked.len().max(1)).copied();
                if let Some((lane, id)) = again.filter(|(lane, _)| self.wires[*lane].open) {
                    self.send(lane, id.number);
                }
            }
            Step::Cut { lane } => self.cut(lane),
            Step::Connect { lane } => self.connect(lane),
            Step::Crash => {
                Lane::ALL.into_iter().for_each(|lane| self.cut(lane));
                self.gateway = GatewayLink::new(KERNEL, self.gateway.epoch() + 1, self.journal);
                self.inbox = PerLane::default();
                self.asked.clear();
            }
        }
    }

    fn push(&mut self, lane: Lane, bytes: usize, droppable: bool) {
        let body = Bytes::from(vec![(self.pushed[lane].len() + 1) as u8; bytes]);
        let origin = Origin {
            incarnation: 1,
            answers: None,
        };
        let placed = self
            .shim
            .push_message(KERNEL, lane, origin, body, droppable)
            .unwrap();
        self.pushed[lane].push(bytes);
        self.dropped[lane] += u64::from(placed == Placement::Dropped);
        let (memory, spilled) = self.shim.held(KERNEL, lane);
        assert!(memory <= LIMITS.memory + 5000, "{memory} bytes in memory");
        assert!(spilled <= LIMITS.spill + 500, "{spilled} bytes spilled");
    }

    fn write(&mut self, lane: Lane, items: usize) {
        for _ in 0..items {
            let Some(item) = self.shim.next_item(lane) else {
                break;
            };
            assert!(self.wires[lane].open);
            let buffer = self.wires[lane].up.buffer();
            buffer.extend_from_slice(item.prefix());
            buffer.extend(item.body().pieces().flatten());
        }
        if let Some((kernel, number)) = self.shim.take_accepted(lane) {
            ToGateway::Accepted { kernel, number }
                .encode(self.wires[lane].up.buffer())
                .unwrap();
        }
    }

    fn deliver(&mut self, lane: Lane, frames: usize) {
        for _ in 0..frames {
            let Some(frame) = self.wires[lane].up.next().unwrap() else {
                break;
            };
            let (check, span) = match ToGateway::parse(frame).unwrap() {
                ToGateway::Message { link, frame, .. } => {
                    assert_eq!(frame.len(), self.pushed[lane][link as usize - 1]);
                    assert!(frame.iter().all(|byte| *byte == link as u8));
                    (self.gateway.check(lane, link), (link, link))
                }
                ToGateway::Gap { gap, .. } => (self.gateway.check_gap(lane, &gap), (gap.from, gap.to)),
                ToGateway::Accepted { number, .. } => {
                    self.gateway.accepted(lane, number);
                    continue;
                }
                other => panic!("{other:?}"),
            };
            match check {
                LinkCheck::Seen => {}
                LinkCheck::Next => self.inbox[lane].push_back(span),
                LinkCheck::Hole { .. } => panic!("{check:?} in lane {lane}"),
            }
        }
    }

    fn store(&mut self, lane: Lane, links: u64) {
        for _ in 0..links {
            let Some((from, to)) = self.inbox[lane].pop_front() else {
                break;
            };
            assert_eq!(from, self.journal[lane] + 1, "stored out of order");
            self.journal[lane] = to;
            self.lost[lane] += to - from;
            self.gateway.stored(lane, to);
        }
    }

    fn send_ready(&mut self, lane: Lane) {
        while let Some(pending) = self.gateway.take_ready(lane) {
            self.send(lane, pending.number);
        }
    }

    fn send(&mut self, lane: Lane, number: u64) {
        let frame = Bytes::from_static(b"code");
        self.wires[lane].down.push_back(ToShim::Message {
            kernel: KERNEL,
            number,
            frame,
        });
    }

    fn deliver_requests(&mut self, lane: Lane, frames: usize) {
        for _ in 0..frames {
            match self.wires[lane].down.pop_front() {
                Some(ToShim::Message { kernel, number, .. }) => {
                    if let Accept::New(id) = self.shim.accept(lane, kernel, number).unwrap() {
                        let times = self.done.entry(id).or_default();
                        *times += 1;
                        assert_eq!(*times, 1, "{id:?} was done twice");
                    }
                }
                Some(ToShim::Ack { kernel, lane, link }) => {
                    self.shim.acknowledge(kernel, lane, link).unwrap();
                }
                Some(other) => panic!("{other:?}"),
                None => break,
            }
        }
    }

    fn cut(&mut self, lane: Lane) {
        self.wires[lane] = Wire::default();
        self.shim.disconnected(lane);
    }

    /// A new connection, which replaces one that is there; the hello crosses the wire as JSON.
    fn connect(&mut self, lane: Lane) {
        self.cut(lane);
        let hello = self.shim.hello(lane, "key", "sim", 1);
        let mut wire = BytesMut::new();
        ToGateway::Hello(Box::new(hello)).encode(&mut wire).unwrap();
        let hello: Hello = serde_json::from_slice(&wire[15..]).unwrap();
        let resumed = self.gateway.hello(lane, hello.kernel(KERNEL));
        assert_eq!((resumed.lost, resumed.rewound), (None, false));
        let protocol = VersionRange::OURS.negotiate(hello.versions).unwrap();
        let welcome = Welcome {
            protocol,
            epoch: self.gateway.epoch(),
            resume: vec![resumed.resume],
        };
        if self.shim.welcome(lane, &welcome).unwrap() {
            let other = if lane == Lane::Now { Lane::Data } else { Lane::Now };
            self.cut(other);
        }
        self.wires[lane].open = true;
        self.send_ready(lane);
    }

    /// Connects everything and lets it run dry.
    fn settle(&mut self) {
        Lane::ALL.into_iter().for_each(|lane| self.connect(lane));
        for _ in 0..10_000 {
            if self.shim.is_drained() && self.wires.data.down.is_empty() && self.wires.now.down.is_empty() {
                break;
            }
            for lane in Lane::ALL {
                self.write(lane, 10);
                self.deliver(lane, 100);
                self.store(lane, 100);
                self.step(&Step::Ack { lane });
                self.deliver_requests(lane, 100);
            }
        }
        for lane in Lane::ALL {
            self.write(lane, 1);
            self.deliver(lane, 10);
            assert_eq!(
                self.journal[lane],
                self.pushed[lane].len() as u64,
                "lane {lane} is not covered"
            );
            assert!(self.lost[lane] <= self.dropped[lane]);
            assert_eq!(self.gateway.pending(lane).count(), 0);
            assert_eq!(self.shim.held(KERNEL, lane), (0, 0));
        }
        for (_, id) in &self.asked {
            assert_eq!(self.done.get(id), Some(&1), "{id:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]
    #[test]
    fn nothing_is_lost_doubled_or_unbounded(steps in prop::collection::vec(steps(), 0..250)) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.settle();
    }
}
