//! The decoder against cut, oversized and unknown frames.
#![allow(
    clippy::cast_possible_truncation,
    clippy::needless_for_each,
    clippy::unwrap_used,
    reason = "a test"
)]

use bytes::{BufMut, Bytes, BytesMut};
use himalia_shim_protocol::{
    Cause, Command, Decoder, Event, Exited, Frame, HEAD_BYTES, Hello, InterruptMode, KernelSpec, Kind, Lane,
    Origin, ProtocolError, RequestId, ResourceLimits, Start, Stop, ToGateway, ToShim, VersionRange,
    encode_frame,
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
    let exited = Exited {
        incarnation: 1,
        pid: 9,
        cause: Cause::Signal { signal: 9 },
        asked: true,
        detail: String::new(),
        stderr_tail: "no\u{0}".into(),
        last_data: 4,
        usage: None,
    };
    let hello = Hello {
        lane: Lane::Now,
        key: "k".into(),
        protocol: VersionRange::OURS,
        build: "b".into(),
        epoch_seen: 1,
        pid: 2,
        kernels: vec![],
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
