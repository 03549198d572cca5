use bytes::BytesMut;

use super::*;
use crate::zmtp::{opening, pong, property, put};

const LIMITS: Limits = Limits {
    message_bytes: 100_000,
    header_bytes: 100,
    buffers: 4,
};

fn server(socket: &[u8]) -> Vec<u8> {
    let mut out = opening(SocketType::Req, b"")[..GREETING_BYTES].to_vec();
    // As libzmq.
    out[8] = 1;
    out[11] = 1;
    let mut ready = b"\x05READY".to_vec();
    property(&mut ready, b"Identity", b"");
    property(&mut ready, b"socket-type", socket);
    let mut frame = BytesMut::new();
    put(&mut frame, COMMAND, &ready);
    out.extend_from_slice(&frame);
    out
}

fn message(frames: &[&[u8]]) -> Vec<u8> {
    let mut out = BytesMut::new();
    for (at, frame) in frames.iter().enumerate() {
        put(&mut out, if at + 1 < frames.len() { MORE } else { 0 }, frame);
    }
    out.to_vec()
}

/// Gives the bytes in pieces.
fn decode(socket: SocketType, bytes: &[u8], piece: usize) -> Result<Vec<Item>> {
    let mut decoder = Decoder::new(socket, &LIMITS);
    let mut out = Vec::new();
    for piece in bytes.chunks(piece) {
        let mut rest = piece;
        while !rest.is_empty() {
            let buffer = decoder.buffer();
            let room = (buffer.capacity() - buffer.len()).min(rest.len());
            assert!(room > 0);
            buffer.extend_from_slice(&rest[..room]);
            rest = &rest[room..];
            while let Some(item) = decoder.next()? {
                out.push(item);
            }
        }
        assert!(decoder.buffer.capacity() < 500_000);
    }
    Ok(out)
}

#[test]
fn what_a_client_says_first() {
    let bytes = opening(SocketType::Sub, b"");
    assert_eq!(&bytes[..12], [0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0]);
    assert_eq!(&bytes[12..64], [&NULL[..], &[0; 32]].concat());
    assert_eq!(&bytes[64..], b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB");
    let bytes = opening(SocketType::Dealer, b"me");
    assert!(bytes.ends_with(b"\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0\x02me"));
}

#[test]
fn messages_in_any_pieces() {
    let long = vec![7; 70_000];
    let mut bytes = server(b"ROUTER");
    bytes.extend(message(&[b"", b"two", &[1; 255], &[2; 256]]));
    let mut ping = BytesMut::new();
    put(&mut ping, COMMAND, b"\x04PING\0\x0acontext");
    bytes.extend_from_slice(&ping);
    put(&mut ping, COMMAND, b"\x07HIMALIAxyz");
    bytes.extend_from_slice(&ping[ping.len() - 13..]);
    bytes.extend(message(&[&long]));
    let frames: Vec<Bytes> = [&b""[..], b"two", &[1; 255], &[2; 256]]
        .into_iter()
        .map(Bytes::copy_from_slice)
        .collect();
    let wanted = [
        Item::Ready,
        Item::Message(frames),
        Item::Ping(Bytes::from_static(b"context")),
        Item::Message(vec![long.into()]),
    ];
    for piece in [1, 2, 7, 64, 1000, 65_536, 1 << 20] {
        assert_eq!(
            decode(SocketType::Dealer, &bytes, piece).unwrap(),
            wanted,
            "{piece}"
        );
    }
    assert_eq!(&pong(b"c")[..], b"\x04\x06\x04PONGc");
}

#[test]
fn what_is_too_large_is_passed_over() {
    let mut bytes = server(b"XPUB");
    let big = vec![0; 60_000];
    bytes.extend(message(&[&big, b"x", &big, b"end"]));
    bytes.extend(message(&vec![&b""[..]; 1000]));
    bytes.extend(message(&[b"next"]));
    for piece in [1000, 1 << 20] {
        let items = decode(SocketType::Sub, &bytes, piece).unwrap();
        let next = Item::Message(vec![Bytes::from_static(b"next")]);
        assert_eq!(
            items,
            [Item::Ready, Item::TooLarge(120_004), Item::TooLarge(0), next]
        );
    }
}

#[test]
fn lies_and_strangers() {
    let after = |bytes: &[u8]| decode(SocketType::Sub, &[&server(b"XPUB"), bytes].concat(), 10);
    assert!(
        after(&[LONG, 0, 4, 0, 0, 0, 0, 0, 0, 1])
            .unwrap_err()
            .is_too_large()
    );
    let command = [COMMAND | LONG, 0, 0, 0, 0, 0, 1, 0, 0, 1];
    assert!(after(&command).unwrap_err().is_too_large());
    assert_eq!(after(b"garbage"), Err(BROKEN));
    assert_eq!(after(&[COMMAND, 0]), Err(BROKEN));
    assert_eq!(after(&[COMMAND, 1, 9]), Err(BROKEN));
    assert!(decode(SocketType::Sub, &server(b"ROUTER"), 100).is_err());
    assert!(decode(SocketType::Sub, &[b'x'; 64], 100).is_err());
    let mut old = server(b"XPUB");
    old[10] = 2;
    assert!(decode(SocketType::Sub, &old, 100).is_err());
    let mut plain = server(b"XPUB");
    plain[12] = b'P';
    assert!(decode(SocketType::Sub, &plain, 100).is_err());
    let mut early = server(b"XPUB")[..64].to_vec();
    early.extend(message(&[b"early"]));
    assert_eq!(decode(SocketType::Sub, &early, 100), Err(BROKEN));
}

/// Otherwise what is kept of a few bytes would keep the tens of megabytes before them.
#[test]
fn a_large_frame_has_its_memory_for_itself() {
    let mut bytes = BytesMut::from(&server(b"ROUTER")[..]);
    bytes.extend_from_slice(&message(&[b"first", &vec![7; 5_000_000]]));
    bytes.extend_from_slice(&message(&[b"small"]));
    let mut decoder = Decoder::new(SocketType::Dealer, &Limits::KERNEL);
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let buffer = decoder.buffer();
        let piece = (buffer.capacity() - buffer.len()).min(60_000).min(bytes.len());
        buffer.extend_from_slice(&bytes.split_to(piece));
        while let Some(item) = decoder.next().unwrap() {
            if let Item::Message(frames) = item {
                messages.push(frames);
            }
        }
    }
    let lengths: Vec<Vec<usize>> = messages
        .iter()
        .map(|frames| frames.iter().map(Bytes::len).collect())
        .collect();
    assert_eq!(lengths, [vec![5, 5_000_000], vec![5]]);
    let large = messages.swap_remove(0).swap_remove(1);
    assert!(large.try_into_mut().is_ok(), "shared with what came behind it");
}
