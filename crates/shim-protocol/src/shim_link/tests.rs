#![allow(
    clippy::cast_possible_truncation,
    clippy::needless_for_each,
    reason = "small numbers of a test"
)]
use std::io;

use bytes::Bytes;

use super::*;
use crate::{Decoder, Gap, GapReason, KernelStarted, Kind, PROTOCOL_MIN, Resume, ToGateway};

/// A spill file in memory; `fail` makes writes fail.
#[derive(Debug, Default)]
struct Memory {
    bytes: Vec<u8>,
    fail: bool,
}

impl SpillStore for Memory {
    fn write(&mut self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        if self.fail {
            return Err(io::Error::other("full"));
        }
        self.bytes.truncate(offset as usize);
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        Ok(())
    }
    fn read(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let at = offset as usize;
        let found = self
            .bytes
            .get(at..at + into.len())
            .ok_or_else(|| io::Error::other("short"))?;
        into.copy_from_slice(found);
        Ok(())
    }
    fn discard(&mut self, _: u64) {}
    fn clear(&mut self) {
        self.bytes.clear();
    }
}

const SMALL: WindowLimits = WindowLimits {
    memory: 4 * 1024,
    spill: 16 * 1024,
};

fn link() -> ShimLink<Memory> {
    let mut link = ShimLink::new(VersionRange::OURS, PerLane::default());
    link.add_kernel(
        1,
        PerLane::default(),
        PerLane {
            now: SMALL,
            data: SMALL,
        },
    )
    .unwrap();
    link
}

fn connect(link: &mut ShimLink<Memory>, epoch: u64, after: u64) -> Result<bool, ProtocolError> {
    link.hello(Lane::Data, "key", "test", 1);
    let resume = vec![Resume { kernel: 1, after }];
    link.welcome(
        Lane::Data,
        &Welcome {
            protocol: 1,
            epoch,
            resume,
        },
    )
}

fn push(link: &mut ShimLink<Memory>, bytes: usize, droppable: bool) -> Placement {
    let origin = Origin {
        incarnation: 1,
        answers: None,
    };
    link.push_message(1, Lane::Data, origin, Bytes::from(vec![7; bytes]), droppable)
        .unwrap()
}

/// What would be written, parsed as the gateway does.
fn drain(link: &mut ShimLink<Memory>) -> Vec<ToGateway> {
    let mut decoder = Decoder::new();
    let mut all = Vec::new();
    while let Some(item) = link.next_item(Lane::Data) {
        decoder.buffer().extend_from_slice(item.prefix());
        decoder.buffer().extend(item.body().pieces().flatten());
        while let Some(frame) = decoder.next().unwrap() {
            all.push(ToGateway::parse(frame).unwrap());
        }
    }
    all
}

fn spans(frames: &[ToGateway]) -> Vec<(u64, u64)> {
    let span = |frame: &ToGateway| match frame {
        ToGateway::Message { link, .. } => (*link, *link),
        ToGateway::Gap { gap, .. } => (gap.from, gap.to),
        other => panic!("{other:?}"),
    };
    frames.iter().map(span).collect()
}

#[test]
fn nothing_is_sent_without_a_welcome_and_everything_again_after_one() {
    let mut link = link();
    push(&mut link, 10, true);
    push(&mut link, 10, true);
    assert!(link.next_item(Lane::Data).is_none());
    connect(&mut link, 1, 0).unwrap();
    assert_eq!(spans(&drain(&mut link)), [(1, 1), (2, 2)]);
    connect(&mut link, 1, 1).unwrap();
    assert_eq!(spans(&drain(&mut link)), [(2, 2)]);
    link.acknowledge(1, Lane::Data, 2).unwrap();
    assert!(link.is_drained());
}

#[test]
fn a_message_in_pieces_is_sent_as_one_from_memory_and_from_the_spill_file() {
    let mut link = link();
    connect(&mut link, 1, 0).unwrap();
    let origin = Origin {
        incarnation: 1,
        answers: None,
    };
    let pieces = [vec![1; 100], vec![], vec![2; 4000], vec![3; 50]].map(Bytes::from);
    let mut push = || {
        link.push_message(1, Lane::Data, origin, pieces.to_vec(), true)
            .unwrap()
    };
    let placed = [push(), push(), push()];
    assert_eq!(
        placed,
        [Placement::Memory, Placement::Spilled, Placement::Spilled]
    );
    for wanted in 1..=3 {
        match &drain(&mut link)[..] {
            [ToGateway::Message { link, frame, .. }] => {
                assert_eq!((*link, &frame[..]), (wanted, &pieces.concat()[..]));
            }
            other => panic!("{other:?}"),
        }
        link.acknowledge(1, Lane::Data, wanted).unwrap();
    }
}

#[test]
fn an_older_epoch_and_unknown_versions_are_refused() {
    let mut link = link();
    connect(&mut link, 5, 0).unwrap();
    assert!(matches!(
        connect(&mut link, 4, 0),
        Err(ProtocolError::Epoch { offered: 4, seen: 5 })
    ));
    assert!(connect(&mut link, 5, 0).is_ok());
    let later = Welcome {
        protocol: 99,
        epoch: 6,
        resume: vec![],
    };
    assert!(matches!(
        link.welcome(Lane::Data, &later),
        Err(ProtocolError::Version { .. })
    ));
    assert_eq!(link.epoch_seen(), 5);
}

#[test]
fn a_welcome_of_a_newer_gateway_closes_the_other_lane() {
    let mut link = link();
    assert!(!connect(&mut link, 1, 0).unwrap());
    let newer = Welcome {
        protocol: 1,
        epoch: 2,
        resume: vec![],
    };
    assert!(link.welcome(Lane::Now, &newer).unwrap());
    assert_eq!(link.protocol(Lane::Data), None);
    assert_eq!(link.protocol(Lane::Now), Some(1));
}

#[test]
fn positions_that_were_never_sent_are_refused() {
    let mut link = link();
    push(&mut link, 10, true);
    assert!(matches!(
        connect(&mut link, 1, 1),
        Err(ProtocolError::Resume { last: 0, .. })
    ));
    connect(&mut link, 1, 0).unwrap();
    assert!(link.acknowledge(1, Lane::Data, 1).is_err());
    drain(&mut link);
    assert!(link.acknowledge(1, Lane::Data, 1).is_ok());
    assert!(link.acknowledge(1, Lane::Data, 2).is_err());
}

#[test]
fn memory_then_spill_then_a_gap_and_all_links_are_covered_in_order() {
    let mut link = link();
    let mut placed = Vec::new();
    for _ in 0..40 {
        placed.push(push(&mut link, 1000, true));
    }
    let kept = push(&mut link, 500, false);
    assert_eq!(kept, Placement::Spilled, "kept kinds have the last eighth");
    assert!(placed.contains(&Placement::Memory) && placed.contains(&Placement::Dropped));
    let (memory, spilled) = link.held(1, Lane::Data);
    assert!(
        memory <= SMALL.memory && spilled <= SMALL.spill,
        "{memory} {spilled}"
    );

    connect(&mut link, 1, 0).unwrap();
    let mut next = 1;
    let mut lost = 0;
    while next <= 41 {
        let frames = drain(&mut link);
        assert!(!frames.is_empty());
        for frame in &frames {
            if let ToGateway::Gap { gap, .. } = frame {
                assert_eq!((gap.reason, gap.bytes), (GapReason::Quota, gap.messages * 1000));
                lost += gap.messages;
            }
        }
        for (from, to) in spans(&frames) {
            assert_eq!(from, next);
            next = to + 1;
        }
        link.acknowledge(1, Lane::Data, next - 1).unwrap();
    }
    let dropped = placed
        .iter()
        .filter(|placed| **placed == Placement::Dropped)
        .count();
    assert_eq!(lost, dropped as u64);
    assert!(link.is_drained());
    assert_eq!(link.held(1, Lane::Data), (0, 0));
    assert_eq!(push(&mut link, 10, true), Placement::Memory);
}

#[test]
fn one_frame_is_always_in_flight_whatever_its_size() {
    let mut link = link();
    connect(&mut link, 1, 0).unwrap();
    assert_eq!(push(&mut link, 100_000, true), Placement::Memory);
    assert_eq!(push(&mut link, 15_000, false), Placement::Spilled);
    assert_eq!(spans(&drain(&mut link)), [(1, 1)]);
    link.acknowledge(1, Lane::Data, 1).unwrap();
    assert_eq!(spans(&drain(&mut link)), [(2, 2)]);
}

#[test]
fn a_spill_file_that_fails_or_lies_becomes_a_gap() {
    let mut link = link();
    link.outbox(1, Lane::Data).unwrap().limits.memory = 1;
    push(&mut link, 10, true);
    push(&mut link, 10, true);
    push(&mut link, 10, false);
    link.outbox(1, Lane::Data).unwrap().spill_for_tests().bytes[20] ^= 1;
    connect(&mut link, 1, 0).unwrap();
    assert_eq!(spans(&drain(&mut link)), [(1, 1)]);
    link.acknowledge(1, Lane::Data, 1).unwrap();
    let frames = drain(&mut link);
    assert_eq!(spans(&frames), [(2, 3)]);
    let ToGateway::Gap {
        gap: Gap { reason, .. },
        ..
    } = frames[0]
    else {
        panic!()
    };
    assert_eq!(reason, GapReason::Spill);

    link.outbox(1, Lane::Data).unwrap().spill_for_tests().fail = true;
    assert_eq!(push(&mut link, 10, false), Placement::Dropped);
    link.acknowledge(1, Lane::Data, 3).unwrap();
    assert_eq!(spans(&drain(&mut link)), [(4, 4)]);
}

#[test]
fn a_request_is_accepted_at_most_once_per_lane_and_epoch() {
    let mut link = link();
    connect(&mut link, 3, 0).unwrap();
    let id = |number| RequestId { epoch: 3, number };
    assert_eq!(link.accept(Lane::Data, 1, 2).unwrap(), Accept::New(id(2)));
    assert_eq!(link.accept(Lane::Data, 1, 2).unwrap(), Accept::Duplicate);
    assert_eq!(link.accept(Lane::Data, 1, 1).unwrap(), Accept::Duplicate);
    assert_eq!(link.accept(Lane::Data, 9, 5).unwrap(), Accept::NoKernel(id(5)));
    assert!(link.accept(Lane::Data, 1, 0).is_err());
    assert!(
        link.accept(Lane::Now, 1, 3).is_err(),
        "the now lane has no welcome"
    );
    assert_eq!(link.take_accepted(Lane::Data), Some((1, 2)));
    assert_eq!(link.take_accepted(Lane::Data), None);

    // A gateway that never sends anything does not hide what the one before it had sent.
    link.track(1, id(2));
    connect(&mut link, 4, 0).unwrap();
    let hello = link.hello(Lane::Data, "key", "test", 1);
    let marks = &hello.kernel(1).unwrap().requests;
    assert_eq!(
        (marks.epoch, marks.high.data, &marks.unfinished[..]),
        (3, 2, &[id(2)][..])
    );
    connect(&mut link, 5, 0).unwrap();
    assert_eq!(
        link.accept(Lane::Data, 1, 1).unwrap(),
        Accept::New(RequestId { epoch: 5, number: 1 })
    );
    link.finish(1, id(2));
    assert_eq!(link.unfinished(1), 0);
}

#[test]
fn unfinished_requests_are_bounded_and_end_with_their_incarnation() {
    let mut link = link();
    connect(&mut link, 1, 0).unwrap();
    let latest = UNFINISHED_MAX as u64 + 5;
    for number in 1..=latest {
        let accepted = link.accept(Lane::Data, 1, number).unwrap();
        assert_eq!(accepted, Accept::New(RequestId { epoch: 1, number }));
        link.track(1, RequestId { epoch: 1, number });
    }
    assert_eq!(link.unfinished(1), UNFINISHED_MAX);
    let hello = link.hello(Lane::Now, "key", "test", 1);
    let listed = &hello.kernel(1).unwrap().requests.unfinished;
    assert_eq!((listed[0].number, listed.last().unwrap().number), (6, latest));
    // What is not listed any more is as little done again as the rest.
    for number in [1, 5, 6, latest] {
        assert_eq!(link.accept(Lane::Data, 1, number).unwrap(), Accept::Duplicate);
    }
    link.set_process(
        1,
        ProcessView {
            incarnation: 1,
            ..ProcessView::default()
        },
    );
    assert_eq!(link.unfinished(1), 0);
}

#[test]
fn a_message_that_cannot_be_kept_leaves_a_mark_in_its_place() {
    let mut link = link();
    push(&mut link, 1, true);
    link.push_loss(1, Lane::Data, 1, 1 << 30, GapReason::TooLarge)
        .unwrap();
    push(&mut link, 1, true);
    connect(&mut link, 1, 0).unwrap();
    let frames = drain(&mut link);
    assert_eq!(spans(&frames), [(1, 1), (2, 2), (3, 3)]);
    assert!(matches!(
        frames[1],
        ToGateway::Gap {
            gap: Gap {
                reason: GapReason::TooLarge,
                ..
            },
            ..
        }
    ));
}

#[test]
fn kernels_take_turns() {
    let mut link = link();
    link.add_kernel(
        2,
        PerLane::default(),
        PerLane {
            now: SMALL,
            data: SMALL,
        },
    )
    .unwrap();
    let started = |pid| {
        Event::Started(KernelStarted {
            pid,
            incarnation: 1,
            start_ms: 0,
            request: RequestId { epoch: 1, number: 1 },
            path: crate::StartPath::Cold,
        })
    };
    for pid in 0..3 {
        link.push_event(1, started(pid)).unwrap();
        link.push_event(2, started(pid)).unwrap();
    }
    link.hello(Lane::Now, "key", "test", 1);
    link.welcome(
        Lane::Now,
        &Welcome {
            protocol: 1,
            epoch: 1,
            resume: vec![],
        },
    )
    .unwrap();
    let kernels: Vec<u8> = std::iter::from_fn(|| link.next_item(Lane::Now))
        .map(|item| item.prefix()[5])
        .collect();
    assert_eq!(kernels, [1, 2, 1, 2, 1, 2]);
    assert!(link.push_event(7, started(1)).is_err());
    assert_eq!(Kind::from_byte(200), None);
}

#[test]
fn an_event_that_an_older_gateway_does_not_know_becomes_a_gap_for_it_alone() {
    // As after a change back from a version that has the event to one that does not.
    let protocol = VersionRange {
        min: PROTOCOL_MIN - 1,
        max: PROTOCOL_MIN,
    };
    let mut link = ShimLink::<Memory>::new(protocol, PerLane::default());
    link.add_kernel(1, PerLane::default(), WindowLimits::PER_LANE)
        .unwrap();
    let request = RequestId { epoch: 1, number: 1 };
    let bound = Event::Bound(crate::Bound {
        request,
        ok: true,
        reason: String::new(),
    });
    link.push_event(1, bound.clone()).unwrap();
    for (epoch, protocol) in [(1, PROTOCOL_MIN - 1), (2, PROTOCOL_MIN)] {
        link.hello(Lane::Now, "key", "test", 1);
        let welcome = Welcome {
            protocol,
            epoch,
            resume: vec![],
        };
        link.welcome(Lane::Now, &welcome).unwrap();
        let item = link.next_item(Lane::Now).unwrap();
        assert_eq!((item.link(), link.next_item(Lane::Now).is_none()), (1, true));
        let mut decoder = Decoder::new();
        decoder.buffer().extend_from_slice(item.prefix());
        decoder.buffer().extend(item.body().pieces().flatten());
        let packet = ToGateway::parse(decoder.next().unwrap().unwrap()).unwrap();
        match packet {
            ToGateway::Gap { gap, .. } => assert_eq!((gap.from, gap.to, protocol), (1, 1, PROTOCOL_MIN - 1)),
            ToGateway::Event { event, .. } => assert_eq!((event, protocol), (bound.clone(), PROTOCOL_MIN)),
            other => panic!("{other:?}"),
        }
    }
    link.acknowledge(1, Lane::Now, 1).unwrap();
    assert!(link.is_drained());
}
