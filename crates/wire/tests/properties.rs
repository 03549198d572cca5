//! Round trips for any message, and no panic for any bytes.

use bytes::Bytes;
use himalia_wire::{Channel, DuplicateGuard, Limits, Parts, Signer, header, legacy, v1, zmq, zmtp};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn raw(max: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..max).prop_map(Bytes::from)
}

fn channel() -> impl Strategy<Value = Channel> {
    proptest::sample::select(Channel::ALL.to_vec())
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((any::<String>(), inner), 0..4).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Bytes> {
    vec((any::<String>(), json_value()), 0..4)
        .prop_map(|pairs| Bytes::from(Value::Object(pairs.into_iter().collect::<Map<_, _>>()).to_string()))
}

fn any_parts() -> impl Strategy<Value = Parts> {
    (raw(64), raw(64), raw(64), raw(256), vec(raw(64), 0..5)).prop_map(
        |(header, parent_header, metadata, content, buffers)| Parts {
            header,
            parent_header,
            metadata,
            content,
            buffers,
        },
    )
}

fn json_parts() -> impl Strategy<Value = Parts> {
    (
        any::<String>(),
        any::<String>(),
        object(),
        object(),
        object(),
        vec(raw(64), 0..5),
    )
        .prop_map(
            |(msg_id, msg_type, parent_header, metadata, content, buffers)| Parts {
                header: Bytes::from(json!({ "msg_id": msg_id, "msg_type": msg_type }).to_string()),
                parent_header,
                metadata,
                content,
                buffers,
            },
        )
}

/// What a DEALER's stream holds when it comes in pieces; a DEALER may talk to a DEALER.
fn zmtp_items(stream: &[u8], piece: usize) -> himalia_wire::Result<Vec<zmtp::Item>> {
    let mut decoder = zmtp::Decoder::new(zmtp::SocketType::Dealer, &Limits::KERNEL);
    let mut items = Vec::new();
    for piece in stream.chunks(piece) {
        decoder.buffer().extend_from_slice(piece);
        while let Some(item) = decoder.next()? {
            items.push(item);
        }
    }
    Ok(items)
}

proptest! {
    #[test]
    fn v1_round_trip(channel in channel(), parts in any_parts()) {
        let frame = v1::encode(channel, &parts);
        let (back, decoded) = v1::decode(&frame, &Limits::CLIENT).unwrap();
        prop_assert_eq!(back, channel);
        prop_assert_eq!(&decoded, &parts);
        prop_assert_eq!(v1::encode(back, &decoded), frame.clone());
        let frame = v1::Frame::parse(frame, &Limits::CLIENT).unwrap();
        prop_assert_eq!(&v1::Frame::new(channel, &parts), &frame);
        let [header, parent_header, metadata, content] = parts.signed().map(|part| &part[..]);
        prop_assert_eq!((frame.header(), frame.parent_header()), (header, parent_header));
        prop_assert_eq!((frame.metadata(), frame.content()), (metadata, content));
        prop_assert!(frame.buffers().eq(parts.buffers.iter()));
    }

    #[test]
    fn v1_accepts_nothing_but_what_it_writes(frame in mutated_v1()) {
        if let Ok((channel, parts)) = v1::decode(&frame, &Limits::CLIENT) {
            prop_assert_eq!(v1::encode(channel, &parts), frame);
        }
    }

    #[test]
    fn zmq_round_trip(ids in vec(raw(32), 0..4), parts in any_parts(), key in vec(any::<u8>(), 0..8)) {
        prop_assume!(ids.iter().all(|id| id != zmq::DELIMITER));
        let signer = Signer::new("hmac-sha256", &key).unwrap();
        let incoming = zmq::decode(zmq::encode(&ids, &parts, &signer), &signer, &Limits::KERNEL).unwrap();
        prop_assert_eq!(incoming.identities, ids);
        prop_assert_eq!(incoming.parts, parts);
    }

    #[test]
    fn zmtp_round_trip(messages in vec(vec(raw(600), 1..5), 0..5), piece in 1..700_usize) {
        let mut stream = zmtp::opening(zmtp::SocketType::Dealer, b"peer").to_vec();
        for frames in &messages {
            for (at, frame) in frames.iter().enumerate() {
                let (head, length) = zmtp::frame_head(at + 1 < frames.len(), frame.len());
                stream.extend_from_slice(&head[..length]);
                stream.extend_from_slice(frame);
            }
        }
        let items = zmtp_items(&stream, piece).unwrap();
        let wanted = messages.into_iter().map(zmtp::Item::Message);
        prop_assert_eq!(items, std::iter::once(zmtp::Item::Ready).chain(wanted).collect::<Vec<_>>());
    }

    #[test]
    fn zmtp_takes_any_bytes(bytes in vec(prop_oneof![0..12_u8, any::<u8>()], 0..600), piece in 1..700_usize) {
        let opening = zmtp::opening(zmtp::SocketType::Dealer, b"");
        let _ = zmtp_items(&[&opening[..], &bytes].concat(), piece);
        let _ = zmtp_items(&bytes, piece);
    }

    #[test]
    fn legacy_round_trip(channel in channel(), parts in json_parts()) {
        let (back, decoded) = match legacy::encode(channel, &parts).unwrap() {
            legacy::Frame::Text(text) => legacy::decode_text(&text, &Limits::CLIENT).unwrap(),
            legacy::Frame::Binary(frame) => legacy::decode_binary(&frame, &Limits::CLIENT).unwrap(),
        };
        prop_assert_eq!(back, Some(channel));
        prop_assert_eq!(decoded, parts);
    }

    #[test]
    fn legacy_text_of_any_parts_is_one_message(channel in channel(), parts in any_parts()) {
        if let Ok(text) = legacy::encode_text(channel, &parts) {
            let value: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(value.as_object().unwrap().len(), 8);
            prop_assert_eq!(&value["channel"], channel.as_str());
        }
    }

    #[test]
    fn header_peek_agrees_with_a_full_parse(msg_id: String, msg_type: String, session: String, more in object()) {
        let mut header: Map<String, Value> = serde_json::from_slice(&more).unwrap();
        header.insert("msg_id".into(), json!(msg_id));
        header.insert("msg_type".into(), json!(msg_type));
        header.insert("session".into(), json!(session));
        let text = Value::Object(header).to_string();
        let peek = header::peek(text.as_bytes()).unwrap();
        prop_assert_eq!(peek.msg_id, msg_id);
        prop_assert_eq!(peek.msg_type, msg_type);
        prop_assert_eq!(peek.session, session);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in raw(512), frames in vec(raw(24), 0..12)) {
        let _ = v1::decode(&bytes, &Limits::CLIENT);
        let _ = legacy::decode_binary(&bytes, &Limits::CLIENT);
        let _ = legacy::decode_text(&bytes, &Limits::CLIENT);
        let _ = header::peek(&bytes);
        let _ = header::peek_parent(&bytes);
        let _ = header::execution_state(&bytes);
        let _ = himalia_wire::ConnectionFile::parse(&bytes);
        DuplicateGuard::new().check(&bytes);
        let signer = Signer::new("hmac-sha512", b"k").unwrap();
        let _ = zmq::decode(frames, &signer, &Limits::KERNEL);
    }

    #[test]
    fn almost_frames_never_panic(v1_frame in mutated_v1(), legacy_frame in mutated_legacy()) {
        let _ = v1::decode(&v1_frame, &Limits::CLIENT);
        let _ = legacy::decode_binary(&legacy_frame, &Limits::CLIENT);
        let _ = legacy::decode_text(&legacy_frame, &Limits::CLIENT);
    }
}

/// A proper frame with a few bytes changed and perhaps cut or lengthened.
fn mutate(frame: &[u8], edits: &[(usize, u8)], len: usize) -> Bytes {
    let mut bytes = frame.to_vec();
    for (place, value) in edits {
        let len = bytes.len();
        bytes[place % len] = *value;
    }
    bytes.resize(bytes.len().saturating_sub(8) + len, 0);
    Bytes::from(bytes)
}

fn mutated_v1() -> impl Strategy<Value = Bytes> {
    (
        channel(),
        any_parts(),
        vec((any::<usize>(), any::<u8>()), 0..4),
        0..16_usize,
    )
        .prop_map(|(channel, parts, edits, len)| mutate(&v1::encode(channel, &parts), &edits, len))
}

fn mutated_legacy() -> impl Strategy<Value = Bytes> {
    (
        channel(),
        json_parts(),
        vec((any::<usize>(), any::<u8>()), 0..4),
        0..16_usize,
    )
        .prop_filter_map("encodable", |(channel, parts, edits, len)| {
            let frame = legacy::encode_binary(channel, &parts).ok()?;
            Some(mutate(&frame, &edits, len))
        })
}
