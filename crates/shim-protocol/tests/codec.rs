//! The decoder against cut, oversized and unknown frames.
#![allow(
    clippy::cast_possible_truncation,
    clippy::needless_for_each,
    clippy::unwrap_used,
    reason = "a test"
)]

use bytes::{BufMut, Bytes, BytesMut};
use himalia_shim_protocol::shim_link::UNFINISHED_MAX;
use himalia_shim_protocol::{
    AddLink, Bind, Bound, BranchFiles, Cause, Command, Decoder, Event, Fork, ForkFailed, ForkFailure,
    ForkPolicy, ForkTimes, Frame, HEAD_BYTES, HELLO_BYTES, Hazard, Hello, InterruptMode, KernelEntry,
    KernelExited, KernelForked, KernelSpec, KernelStarted, KernelState, Kind, Lane, LinkAdded, Origin,
    PerLane, ProtocolError, RequestId, RequestMarks, ResourceLimits, Severity, Start, StartPath, Stop,
    ToGateway, ToShim, VersionRange, encode_frame,
};
use proptest::prelude::*;

fn decode_all(decoder: &mut Decoder) -> Vec<Frame> {
    std::iter::from_fn(|| decoder.next().unwrap()).collect()
}

proptest! {
    #[test]
    fn any_cut_of_the_stream_gives_the_same_frames(
        frames in prop::collection::vec((0..Kind::ALL.len(), any::<u16>(), any::<u64>(), 0..3000_usize), 0..20),
        cuts in prop::collection::vec(1..2000_usize, 1..50),
    ) {
        let mut stream = BytesMut::new();
        let mut sent = Vec::new();
        for (kind, kernel, number, bytes) in frames {
            let body = Bytes::from(vec![number as u8; bytes]);
            encode_frame(&mut stream, Kind::ALL[kind], kernel, number, &body).unwrap();
            sent.push(Frame { kind: Kind::ALL[kind], kernel, number, body });
        }
        let mut decoder = Decoder::new();
        let mut received = Vec::new();
        let mut cuts = cuts.into_iter().cycle();
        while !stream.is_empty() {
            let cut = cuts.next().unwrap().min(stream.len());
            decoder.buffer().extend_from_slice(&stream.split_to(cut));
            received.extend(decode_all(&mut decoder));
        }
        prop_assert_eq!(received, sent);
        prop_assert_eq!(decoder.buffered(), 0);
    }

    #[test]
    fn noise_never_panics(noise in prop::collection::vec(any::<u8>(), 0..4000)) {
        let mut decoder = Decoder::new();
        decoder.buffer().extend_from_slice(&noise);
        while let Ok(Some(frame)) = decoder.next() {
            let _ = ToGateway::parse(frame.clone());
            let _ = ToShim::parse(frame);
        }
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "\\PC{0,40}", Just("\u{0}\"\\\n".to_owned())]
}

fn env() -> impl Strategy<Value = std::collections::BTreeMap<String, String>> {
    prop::collection::btree_map(text(), text(), 0..5)
}

fn command() -> impl Strategy<Value = Command> {
    let bind = (
        env(),
        prop::collection::vec(text(), 0..5),
        any::<Option<bool>>(),
        text(),
    );
    let bind = bind.prop_map(|(env, unset, which, word)| {
        let (cwd, kernel_id) = ((which == Some(true)).then(|| word.clone()), which.map(|_| word));
        Command::Bind(Box::new(Bind {
            env,
            unset,
            cwd,
            kernel_id,
        }))
    });
    let fork = (text(), env(), any::<(bool, bool)>(), any::<(u64, u64, u64)>());
    let fork = fork.prop_map(
        |(socket, env, (copy, strict), (max_copy_bytes, wait_ms, probe_ms))| {
            Command::Fork(Box::new(Fork {
                cwd: copy.then(|| socket.clone()),
                socket,
                files: if copy {
                    BranchFiles::Copy
                } else {
                    BranchFiles::Share
                },
                max_copy_bytes,
                env,
                policy: if strict {
                    ForkPolicy::Strict
                } else {
                    ForkPolicy::Report
                },
                wait_ms,
                probe_ms,
            }))
        },
    );
    let close = any::<u64>().prop_map(|grace_ms| Command::Close(Stop { grace_ms }));
    let add = text().prop_map(|socket| Command::AddLink(AddLink { socket }));
    prop_oneof![bind, fork, close, add]
}

fn event() -> impl Strategy<Value = Event> {
    let request = any::<(u64, u64)>().prop_map(|(epoch, number)| RequestId { epoch, number });
    let hazard = (text(), text(), text(), any::<bool>()).prop_map(|(kind, name, detail, warn)| Hazard {
        kind,
        name,
        detail,
        severity: if warn { Severity::Warn } else { Severity::Refuse },
    });
    let hazards = prop::collection::vec(hazard, 0..4);
    let codes = prop::sample::select(vec![
        ForkFailure::Busy,
        ForkFailure::Hazard,
        ForkFailure::Unsupported,
        ForkFailure::FilesTooLarge,
        ForkFailure::CopyFailed,
        ForkFailure::ProbeFailed,
        ForkFailure::NotRunning,
        ForkFailure::BadRequest,
        ForkFailure::Failed,
    ]);
    let paths = prop::sample::select(vec![StartPath::Zygote, StartPath::Fork, StartPath::Cold]);
    (
        request,
        text(),
        hazards,
        codes,
        paths,
        any::<(i32, u64, u32, bool)>(),
        0..5,
    )
        .prop_map(
            |(request, text, hazards, code, path, (pid, bytes, skipped, ok), which)| match which {
                0 => Event::Bound(Bound {
                    request,
                    ok,
                    reason: text,
                }),
                1 => Event::ForkFailed(ForkFailed {
                    request,
                    reason: text,
                    code,
                    hazards,
                }),
                3 => Event::LinkAdded(LinkAdded { request }),
                2 => Event::Started(KernelStarted {
                    pid,
                    incarnation: skipped,
                    start_ms: bytes,
                    request,
                    path,
                }),
                _ => {
                    let ms = ForkTimes {
                        copy: bytes,
                        ..ForkTimes::default()
                    };
                    Event::Forked(KernelForked {
                        request,
                        pid,
                        cwd: text,
                        copied_bytes: bytes,
                        skipped,
                        hazards,
                        ms,
                    })
                }
            },
        )
}

proptest! {
    #[test]
    fn every_body_of_a_later_version_survives(command in command(), event in event(), kernel in any::<u16>()) {
        let mut decoder = Decoder::new();
        let packet = ToShim::Command { kernel, number: 7, command };
        packet.encode(decoder.buffer()).unwrap();
        let frame = decoder.next().unwrap().unwrap();
        prop_assert!(ToGateway::parse(frame.clone()).is_err());
        prop_assert_eq!(ToShim::parse(frame).unwrap(), packet);
        let packet = ToGateway::Event { kernel, link: 8, event };
        packet.encode(decoder.buffer()).unwrap();
        let frame = decoder.next().unwrap().unwrap();
        prop_assert!(ToShim::parse(frame.clone()).is_err());
        prop_assert_eq!(ToGateway::parse(frame).unwrap(), packet);
    }

    #[test]
    fn json_of_any_shape_is_refused_or_understood(body in "[\\[\\]{}\":,a-z_0-9 ]{0,120}", kind in 0..Kind::ALL.len()) {
        let kind = Kind::ALL[kind];
        let body = Bytes::from(body);
        if body.len() <= kind.limit() {
            let frame = Frame { kind, kernel: 1, number: 1, body };
            let _ = ToGateway::parse(frame.clone());
            let _ = ToShim::parse(frame);
        }
    }
}

#[test]
fn bytes_of_kinds_are_never_reused() {
    let mut bytes: Vec<u8> = Kind::ALL.iter().map(|kind| *kind as u8).collect();
    bytes.sort_unstable();
    bytes.dedup();
    assert_eq!(bytes.len(), Kind::ALL.len());
    for kind in Kind::ALL {
        assert!(VersionRange::OURS.holds(kind.since()), "{kind:?}");
    }
}

#[test]
fn a_shim_of_a_development_build_is_refused_with_both_versions() {
    let body = br#"{"lane":"now","key":"k","protocol":{"min":1,"max":6},"build":"0.1.0","epoch_seen":0,"pid":1,"kernels":[]}"#;
    let hello = Frame {
        kind: Kind::Hello,
        kernel: 0,
        number: 0,
        body: Bytes::from_static(body),
    };
    let error = ToGateway::parse(hello).unwrap_err();
    assert!(
        matches!(error, ProtocolError::Development { min: 1, max: 6 }),
        "{error}"
    );
    let text = error.to_string();
    assert!(text.contains("1..=6") && text.contains("1..=1"), "{text}");
}

#[test]
fn lengths_are_refused_by_the_head_alone() {
    for (length, kind) in [
        (u32::MAX, Kind::Message as u8),
        (10, Kind::Ack as u8),
        (5000, Kind::Ack as u8),
        (u32::MAX, 250),
    ] {
        let mut decoder = Decoder::new();
        decoder.buffer().put_u32_le(length);
        decoder.buffer().put_u8(kind);
        decoder.buffer().put_bytes(0, 10);
        assert!(
            matches!(decoder.next(), Err(ProtocolError::Length { .. })),
            "{length} {kind}"
        );
    }
    let body = vec![0; Kind::Stop.limit() + 1];
    assert!(encode_frame(&mut BytesMut::new(), Kind::Stop, 0, 0, &body).is_err());
}

#[test]
fn unknown_kinds_are_skipped_without_being_kept() {
    let mut decoder = Decoder::new();
    decoder.buffer().put_u32_le(11 + 100_000);
    decoder.buffer().put_u8(24);
    decoder.buffer().put_bytes(0, 10);
    for _ in 0..100 {
        assert_eq!(decoder.next().unwrap(), None);
        assert!(decoder.buffered() < HEAD_BYTES);
        decoder.buffer().put_bytes(9, 1000);
    }
    encode_frame(decoder.buffer(), Kind::Interrupt, 3, 4, b"{}").unwrap();
    let frame = decoder.next().unwrap().unwrap();
    assert_eq!((frame.kind, frame.kernel, frame.number), (Kind::Interrupt, 3, 4));
}

#[test]
fn announcing_much_and_sending_little_costs_little() {
    let mut decoder = Decoder::new();
    decoder.buffer().put_u32_le(200 << 20);
    decoder.buffer().put_u8(Kind::Message as u8);
    decoder.buffer().put_bytes(0, 10);
    for sent in (0..1_000_000).step_by(10_000) {
        assert_eq!(decoder.next().unwrap(), None);
        decoder.buffer().put_bytes(0, 10_000);
        assert!(decoder.buffer().capacity() <= 4 * sent + 400_000, "{sent}");
    }
}

/// A frame's head, with the length of a body that is still to come.
fn announce(kind: Kind, body: usize) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_u32_le((HEAD_BYTES - 4 + body) as u32);
    out.put_u8(kind as u8);
    out.put_bytes(0, 10);
    out
}

#[test]
fn before_the_key_there_is_room_for_a_hello_and_no_more() {
    for kind in Kind::ALL.iter().filter(|kind| **kind != Kind::Hello) {
        let mut decoder = Decoder::unproven();
        assert!(decoder.buffer().capacity() < 1024);
        decoder.buffer().extend_from_slice(&announce(*kind, kind.limit()));
        assert!(decoder.next().is_err(), "{kind:?}");
        assert!(decoder.buffer().capacity() < 1024, "{kind:?}");
    }
    let mut decoder = Decoder::unproven();
    decoder
        .buffer()
        .extend_from_slice(&announce(Kind::Hello, HELLO_BYTES + 1));
    assert!(matches!(decoder.next(), Err(ProtocolError::Length { .. })));
    let mut decoder = Decoder::unproven();
    decoder
        .buffer()
        .extend_from_slice(&announce(Kind::Hello, HELLO_BYTES));
    let mut missing = HELLO_BYTES;
    while missing > 0 {
        assert_eq!(decoder.next().unwrap(), None);
        assert_eq!(decoder.wanted(), HEAD_BYTES + HELLO_BYTES);
        assert!(decoder.buffer().capacity() <= HEAD_BYTES + HELLO_BYTES + 1024);
        let piece = missing.min(1000);
        decoder.buffer().put_bytes(b' ', piece);
        missing -= piece;
    }
    assert_eq!(decoder.next().unwrap().unwrap().kind, Kind::Hello);
    decoder.proven();
    encode_frame(decoder.buffer(), Kind::Interrupt, 3, 4, b"{}").unwrap();
    assert_eq!(decoder.next().unwrap().unwrap().kind, Kind::Interrupt);
}

#[test]
fn the_longest_hello_fits() {
    let request = RequestId {
        epoch: 9_999_999_999,
        number: 9_999_999_999_999_999,
    };
    let entry = KernelEntry {
        kernel: 1,
        incarnation: u32::MAX,
        pid: Some(i32::MIN),
        state: KernelState::Connecting,
        start_ms: u64::MAX,
        alive: false,
        links: PerLane::default(),
        requests: RequestMarks {
            epoch: request.epoch,
            high: PerLane {
                now: u64::MAX,
                data: u64::MAX,
            },
            unfinished: vec![request; UNFINISHED_MAX],
        },
    };
    let shim = KernelEntry {
        kernel: 0,
        requests: RequestMarks::default(),
        ..entry.clone()
    };
    let hello = Hello {
        lane: Lane::Data,
        key: "k".repeat(64),
        versions: VersionRange::OURS,
        build: "b".repeat(100),
        epoch_seen: u64::MAX,
        pid: i32::MIN,
        kernels: vec![shim, entry],
        stream: None,
    };
    let mut out = BytesMut::new();
    ToGateway::Hello(Box::new(hello)).encode(&mut out).unwrap();
    assert!(out.len() > HELLO_BYTES / 2, "the limit is of the right size");
}

#[test]
fn every_body_survives() {
    let request = RequestId { epoch: 2, number: 8 };
    let spec = KernelSpec {
        argv: vec!["python".into(), "{connection_file}".into()],
        env: [("A".to_owned(), "b".to_owned())].into(),
        cwd: "/".into(),
        interrupt_mode: InterruptMode::Message,
        kernel_name: "python3".into(),
        limits: ResourceLimits {
            open_files: Some(9),
            ..ResourceLimits::default()
        },
        connect_ms: 5,
        via_zygote: true,
    };
    let to_shim = [
        ToShim::Command {
            kernel: 1,
            number: 1,
            command: Command::Start(Box::new(Start { spec })),
        },
        ToShim::Command {
            kernel: 1,
            number: 2,
            command: Command::Restart(Stop { grace_ms: 5 }),
        },
        ToShim::Command {
            kernel: 1,
            number: 3,
            command: Command::Interrupt,
        },
        ToShim::Message {
            kernel: 1,
            number: 4,
            frame: Bytes::from_static(b"x"),
        },
        ToShim::Ack {
            kernel: 1,
            lane: Lane::Data,
            link: 7,
        },
    ];
    let exited = KernelExited {
        incarnation: 1,
        pid: 9,
        cause: Cause::Signal { signal: 9 },
        asked: true,
        detail: String::new(),
        stderr_tail: "no\u{0}".into(),
        last_data: 4,
        usage: None,
        out_of_memory: false,
    };
    let hello = Hello {
        lane: Lane::Now,
        key: "k".into(),
        versions: VersionRange::OURS,
        build: "b".into(),
        epoch_seen: 1,
        pid: 2,
        kernels: vec![],
        stream: None,
    };
    let origin = Origin {
        incarnation: 1,
        answers: Some(request),
    };
    let to_gateway = [
        ToGateway::Hello(Box::new(hello)),
        ToGateway::Event {
            kernel: 1,
            link: 5,
            event: Event::Exited(exited),
        },
        ToGateway::Message {
            kernel: 1,
            link: 6,
            origin,
            frame: Bytes::from_static(b"y"),
        },
        ToGateway::Accepted { kernel: 1, number: 3 },
    ];
    let mut decoder = Decoder::new();
    for packet in &to_shim {
        packet.encode(decoder.buffer()).unwrap();
        assert_eq!(&ToShim::parse(decoder.next().unwrap().unwrap()).unwrap(), packet);
    }
    for packet in &to_gateway {
        packet.encode(decoder.buffer()).unwrap();
        let frame = decoder.next().unwrap().unwrap();
        assert!(packet == &ToGateway::parse(frame.clone()).unwrap());
        assert!(matches!(packet, ToGateway::Message { .. }) || ToShim::parse(frame).is_err());
    }
    assert_eq!(
        serde_json::from_str::<Cause>(r#"{"kind":"oom","cgroup":1}"#).unwrap(),
        Cause::Unknown
    );
}
