#![no_main]
//! A v1 frame that is accepted is exactly the frame that we would write.

use bytes::Bytes;
use himalia_wire::{Limits, header, legacy, v1};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let frame = Bytes::copy_from_slice(data);
    if let Ok((channel, parts)) = v1::decode(&frame, &Limits::CLIENT) {
        assert_eq!(v1::encode(channel, &parts), frame);
        let _ = header::peek(&parts.header);
        let _ = header::peek_parent(&parts.parent_header);
        let _ = legacy::encode(channel, &parts);
    }
});
