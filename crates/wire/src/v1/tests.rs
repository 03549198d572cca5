use super::frame::word;
use super::*;
use crate::Error;

fn parts(buffers: &[&'static [u8]]) -> Parts {
    Parts {
        header: Bytes::from_static(b"{\"msg_id\":\"i\"}"),
        parent_header: Bytes::from_static(b"{}"),
        metadata: Bytes::new(),
        content: Bytes::from_static(b"{\"x\":1}"),
        buffers: buffers.iter().map(|b| Bytes::from_static(b)).collect(),
    }
}

#[test]
fn a_frame_has_the_parts_that_it_was_made_of() {
    let cases: [&[&'static [u8]]; 3] = [&[], &[b"", b"abc"], &[b"x"]];
    for buffers in cases {
        let parts = parts(buffers);
        let bytes = encode(Channel::Iopub, &parts);
        let frame = Frame::parse(bytes.clone(), &Limits::CLIENT).unwrap();
        assert_eq!(frame.channel(), Channel::Iopub);
        assert_eq!(
            [
                frame.header(),
                frame.parent_header(),
                frame.metadata(),
                frame.content()
            ],
            parts.signed().map(|part| &part[..])
        );
        assert!(frame.buffers().eq(parts.buffers.iter()));
        assert_eq!(frame.to_parts(), parts);
        assert_eq!(frame.peek_parent(), Ok(None));
        assert_eq!(frame.bytes().as_ptr(), bytes.as_ptr());
        let longer = [&bytes[..], b"x"].concat();
        assert!(Frame::parse(longer.into(), &Limits::CLIENT).is_err());
    }
}

fn with_word(frame: &Bytes, index: usize, value: u64) -> Bytes {
    let mut bytes = frame.to_vec();
    bytes[index * 8..index * 8 + 8].copy_from_slice(&value.to_le_bytes());
    bytes.into()
}

#[test]
fn layout_without_buffers() {
    let frame = encode(Channel::Shell, &parts(&[]));
    assert_eq!(word(&frame, 0), Ok(6));
    assert_eq!(word(&frame, 1), Ok(56));
    assert_eq!(word(&frame, 6), Ok(frame.len() as u64));
    assert_eq!(&frame[56..61], b"shell");
    assert_eq!(decode(&frame, &Limits::CLIENT), Ok((Channel::Shell, parts(&[]))));
}

#[test]
fn round_trip_with_buffers_and_without_copies() {
    let frame = encode(Channel::Iopub, &parts(&[b"", b"\x00\xff", b"abc"]));
    let (channel, decoded) = decode(&frame, &Limits::CLIENT).unwrap();
    assert_eq!(
        (channel, &decoded),
        (Channel::Iopub, &parts(&[b"", b"\x00\xff", b"abc"]))
    );
    let inside = frame.as_ptr_range();
    assert!(
        decoded
            .signed()
            .into_iter()
            .filter(|part| !part.is_empty())
            .all(|part| inside.contains(&part.as_ptr()))
    );
}

#[test]
fn pieces_are_the_same_frame_and_share_what_is_large() {
    let cases: [&[&'static [u8]]; 3] = [&[], &[b"", b"abc"], &[b"xyz"]];
    for parts in cases.map(parts) {
        let pieces = encode_shared(Channel::Iopub, &parts);
        assert_eq!(pieces.concat(), encode(Channel::Iopub, &parts));
        assert_eq!(pieces[1].as_ptr(), parts.content.as_ptr());
    }
    let empty = Parts::default();
    assert_eq!(
        encode_shared(Channel::Shell, &empty),
        [encode(Channel::Shell, &empty)]
    );
}

#[test]
fn encode_allocates_exactly_what_it_needs() {
    let frame = encode(Channel::Control, &parts(&[b"xyz"]));
    let start = 8 * (1 + 7);
    assert_eq!(frame.len(), start + "control".len() + parts(&[b"xyz"]).byte_len());
}

#[test]
fn offsets_are_strict() {
    let frame = encode(Channel::Shell, &parts(&[b"abc"]));
    let len = frame.len() as u64;
    for index in 0..7 {
        for value in [0, 1, 55, len + 1, u64::MAX, 1 << 63] {
            assert!(
                decode(&with_word(&frame, index, value), &Limits::CLIENT).is_err(),
                "{index} {value}"
            );
        }
    }
    // The last offset must be the end of the frame.
    assert!(decode(&with_word(&frame, 7, len - 1), &Limits::CLIENT).is_err());
    let mut longer = frame.to_vec();
    longer.push(0);
    assert!(decode(&longer.into(), &Limits::CLIENT).is_err());
    for cut in 0..frame.len() {
        assert!(
            decode(&frame.slice(..cut), &Limits::CLIENT).is_err(),
            "cut at {cut}"
        );
    }
}

#[test]
fn unknown_channels_are_refused() {
    let mut frame = encode(Channel::Shell, &parts(&[])).to_vec();
    frame[56] = b'S';
    assert_eq!(decode(&frame.into(), &Limits::CLIENT), Err(Error::UnknownChannel));
}

#[test]
fn at_the_limit_passes_one_more_fails() {
    let frame = encode(Channel::Shell, &parts(&[b"a", b"b"]));
    let exact = Limits {
        message_bytes: parts(&[b"a", b"b"]).byte_len(),
        header_bytes: 14,
        buffers: 2,
    };
    assert!(decode(&frame, &exact).is_ok());
    for (limits, name) in [
        (
            Limits {
                message_bytes: exact.message_bytes - 1,
                ..exact
            },
            "message",
        ),
        (
            Limits {
                header_bytes: 13,
                ..exact
            },
            "header",
        ),
        (Limits { buffers: 1, ..exact }, "buffers"),
    ] {
        match decode(&frame, &limits) {
            Err(Error::TooLarge { field, got, limit }) => assert_eq!((field, got), (name, limit + 1)),
            other => panic!("{name}: {other:?}"),
        }
    }
}
