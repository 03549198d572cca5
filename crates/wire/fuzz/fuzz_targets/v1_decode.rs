#![no_main]
//! A v1 frame that is accepted is exactly the frame that we would write.

use bytes::Bytes;
use himalia_wire::{Limits, legacy, v1};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(frame) = v1::Frame::parse(Bytes::copy_from_slice(data), &Limits::CLIENT) {
        let parts = frame.to_parts();
        assert_eq!(v1::Frame::new(frame.channel(), &parts), frame);
        assert_eq!([frame.header(), frame.content()], [&parts.header[..], &parts.content]);
        let _ = frame.peek();
        let _ = frame.peek_parent();
        let _ = legacy::encode(frame.channel(), &parts);
    }
});
