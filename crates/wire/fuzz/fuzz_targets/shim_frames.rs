#![no_main]
//! Frames between gateway and shim: how the stream is cut into reads makes no difference, and what is understood
//! can be written and is understood again.

use bytes::BytesMut;
use himalia_shim_protocol::{Decoder, Frame, ProtocolError, RequestId, ToGateway, ToShim};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((cut, data)) = data.split_first() else {
        return;
    };
    let cut = usize::from(*cut).min(data.len());
    let whole = frames(&[data]);
    assert_eq!(frames(&[&data[..cut], &data[cut..]]), whole);
    for frame in whole.0 {
        let mut again = BytesMut::new();
        if let Ok(packet) = ToGateway::parse(frame.clone())
            && packet.encode(&mut again).is_ok()
        {
            let second = ToGateway::parse(only(&again)).unwrap();
            assert_eq!(format!("{second:?}"), format!("{packet:?}"));
        }
        again.clear();
        if let Ok(packet) = ToShim::parse(frame.clone())
            && packet.encode(&mut again).is_ok()
        {
            let second = ToShim::parse(only(&again)).unwrap();
            assert_eq!(format!("{second:?}"), format!("{packet:?}"));
        }
    }
    if let Some(id) = RequestId::from_identity(data) {
        assert_eq!(RequestId::from_identity(id.identity().as_bytes()), Some(id));
    }
});

/// All frames, and whether the stream ended in an error.
fn frames(reads: &[&[u8]]) -> (Vec<Frame>, Option<String>) {
    let mut decoder = Decoder::new();
    let mut frames = Vec::new();
    for read in reads {
        decoder.buffer().extend_from_slice(read);
        loop {
            match decoder.next() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(text(&error))),
            }
        }
    }
    (frames, None)
}

fn text(error: &ProtocolError) -> String {
    error.to_string()
}

fn only(bytes: &[u8]) -> Frame {
    let (mut frames, error) = frames(&[bytes]);
    assert!(error.is_none() && frames.len() == 1);
    frames.remove(0)
}
