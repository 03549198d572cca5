use bytes::Bytes;
use serde_json::{Value, json};

use super::*;
use crate::{Channel, Error, Limits, Parts};

fn parts(content: &'static str, buffers: &[&'static [u8]]) -> Parts {
    Parts {
        header: Bytes::from_static(br#"{"msg_id":"i\"","msg_type":"stream","big":12345678901234567890123}"#),
        parent_header: Bytes::from_static(b"{}"),
        metadata: Bytes::from_static(b"{ }"),
        content: Bytes::copy_from_slice(content.as_bytes()),
        buffers: buffers.iter().map(|buffer| Bytes::from_static(buffer)).collect(),
    }
}

#[test]
fn text_has_the_top_level_fields() {
    let Frame::Text(text) = encode(Channel::Iopub, &parts(r#"{"a":1.0}"#, &[])).unwrap() else {
        panic!()
    };
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["msg_id"], "i\"");
    assert_eq!(value["msg_type"], "stream");
    assert_eq!(value["buffers"], json!([]));
    assert_eq!(value["channel"], "iopub");
    assert!(
        text.contains(r#""big":12345678901234567890123"#),
        "numbers keep their text"
    );
    assert_eq!(
        decode_text(&text, &Limits::CLIENT),
        Ok((Some(Channel::Iopub), parts(r#"{"a":1.0}"#, &[])))
    );
}

#[test]
fn a_kernel_cannot_inject_structure() {
    for evil in [
        r#"{},"channel":"control","x":{}"#,
        "{}}{",
        r#"{"a":1"#,
        "{} //",
        "[]",
        "1",
        "",
        "null",
        "{\"a\":\"\n\"}",
        "{\"a\":NaN}",
    ] {
        let error = encode(Channel::Iopub, &parts(evil, &[])).unwrap_err();
        assert!(
            matches!(error, Error::Json { field: "content", .. }),
            "{evil}: {error}"
        );
    }
}

#[test]
fn a_message_id_cannot_leave_its_string() {
    let header = br#"{"msg_id":"\",\"channel\":\"control","msg_type":"t"}"#;
    let parts = Parts {
        header: Bytes::from_static(header),
        ..parts("{}", &[])
    };
    let value: Value = serde_json::from_str(&encode_text(Channel::Iopub, &parts).unwrap()).unwrap();
    assert_eq!(value["channel"], "iopub");
    assert_eq!(value["msg_id"], r#"","channel":"control"#);
}

#[test]
fn surrogates_stay_and_bad_utf8_is_replaced() {
    let lone = parts(r#"{"a":"\ud800"}"#, &[]);
    assert!(
        encode_text(Channel::Iopub, &lone)
            .unwrap()
            .contains(r#"{"a":"\ud800"}"#)
    );
    let bad = Parts {
        content: Bytes::from_static(b"{\"a\":\"\xff\"}"),
        ..parts("{}", &[])
    };
    assert!(
        encode_text(Channel::Iopub, &bad)
            .unwrap()
            .contains("{\"a\":\"\u{fffd}\"}")
    );
}

#[test]
fn binary_layout_and_round_trip() {
    let message = parts("{}", &[b"abc", b"", b"\xff"]);
    let Frame::Binary(frame) = encode(Channel::Shell, &message).unwrap() else {
        panic!()
    };
    assert_eq!(&frame[..8], &[0, 0, 0, 4, 0, 0, 0, 20]);
    assert_eq!(frame[20], b'{');
    let json_end = u32::from_be_bytes(frame[8..12].try_into().unwrap()) as usize;
    let value: Value = serde_json::from_slice(&frame[20..json_end]).unwrap();
    assert!(value.get("buffers").is_none());
    assert_eq!(&frame[json_end..], b"abc\xff");
    assert_eq!(
        decode_binary(&frame, &Limits::CLIENT),
        Ok((Some(Channel::Shell), message))
    );
}

#[test]
fn text_for_clients_that_cannot_read_binary() {
    let text = encode_text(Channel::Iopub, &parts("{}", &[b"abc"])).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap()["buffers"],
        json!([])
    );
}

#[test]
fn decoding_is_tolerant_of_what_clients_leave_out() {
    for frame in [
        r#"{"header":{"msg_id":"i"}}"#,
        r#"{"header":{"msg_id":"i"},"parent_header":null,"metadata":null,"content":null,"channel":null}"#,
        r#" {"buffers":[],"msg_id":7,"header":{"msg_id":"i"},"unknown":{"x":[]}} "#,
    ] {
        let (channel, parts) = decode_text(frame, &Limits::CLIENT).unwrap();
        assert_eq!(channel, None);
        assert_eq!(parts.header, r#"{"msg_id":"i"}"#);
        for part in [&parts.parent_header, &parts.metadata, &parts.content] {
            assert_eq!(part, "{}");
        }
    }
}

#[test]
fn decoding_keeps_the_bytes_of_the_parts() {
    let frame = r#"{"content":{"z": 1.50, "a":"\ud800","n":1e400 },"header":{ "msg_id" : "i" },"channel":"\u0073hell"}"#;
    let (channel, parts) = decode_text(frame, &Limits::CLIENT).unwrap();
    assert_eq!(channel, Some(Channel::Shell));
    assert_eq!(parts.content, r#"{"z": 1.50, "a":"\ud800","n":1e400 }"#);
    assert_eq!(parts.header, r#"{ "msg_id" : "i" }"#);
}

#[test]
fn what_is_refused_names_the_field() {
    for (frame, field) in [
        ("{}", "header"),
        (r#"{"header":null}"#, "header"),
        (r#"{"header":[]}"#, "header"),
        (r#"{"header":{},"content":"x"}"#, "content"),
        (r#"{"header":{},"header":{}}"#, "duplicate field `header`"),
        (r#"{"header":{},"channel":"hb"}"#, "channel"),
        (r#"{"header":{},"channel":1}"#, "message"),
        ("[]", "message"),
        ("", "message"),
    ] {
        let error = decode_text(frame, &Limits::CLIENT).unwrap_err().to_string();
        assert!(error.contains(field), "{frame}: {error}");
    }
}

#[test]
fn limits_at_the_edge() {
    let frame = r#"{"header":{"a":1},"parent_header":{},"metadata":{},"content":{"b":2}}"#;
    let exact = Limits {
        message_bytes: 18,
        header_bytes: 7,
        buffers: 0,
    };
    assert!(decode_text(frame, &exact).is_ok());
    let over = |limits| decode_text(frame, &limits).unwrap_err();
    let tight = over(Limits {
        message_bytes: 17,
        ..exact
    });
    assert_eq!(
        tight,
        Error::TooLarge {
            field: "message",
            got: 18,
            limit: 17
        }
    );
    let tight = over(Limits {
        header_bytes: 6,
        ..exact
    });
    assert_eq!(
        tight,
        Error::TooLarge {
            field: "header",
            got: 7,
            limit: 6
        }
    );

    let frame = encode_binary(Channel::Shell, &parts("{}", &[b"a", b"b"])).unwrap();
    let two = Limits {
        buffers: 2,
        ..Limits::CLIENT
    };
    assert!(decode_binary(&frame, &two).is_ok());
    let one = decode_binary(&frame, &Limits { buffers: 1, ..two });
    assert_eq!(
        one,
        Err(Error::TooLarge {
            field: "buffers",
            got: 2,
            limit: 1
        })
    );
}

#[test]
fn binary_offsets_are_strict() {
    let frame = encode_binary(Channel::Shell, &parts("{}", &[b"abc"])).unwrap();
    for index in 0..3 {
        for value in [0_u32, 1, 3, u32::MAX] {
            let mut bytes = frame.to_vec();
            bytes[index * 4..index * 4 + 4].copy_from_slice(&value.to_be_bytes());
            assert!(
                decode_binary(&bytes.into(), &Limits::CLIENT).is_err(),
                "{index} {value}"
            );
        }
    }
    let json_end = frame.len() - 3;
    for cut in 0..json_end {
        assert!(
            decode_binary(&frame.slice(..cut), &Limits::CLIENT).is_err(),
            "cut at {cut}"
        );
    }
}

#[test]
fn depth_does_not_recurse() {
    let deep = format!(r#"{{"x":{}{}}}"#, "[".repeat(1 << 20), "]".repeat(1 << 20));
    let deep = Parts {
        content: Bytes::from(deep),
        ..parts("{}", &[])
    };
    let text = encode_text(Channel::Iopub, &deep).unwrap();
    assert_eq!(
        decode_text(&text, &Limits::CLIENT),
        Ok((Some(Channel::Iopub), deep))
    );
}
