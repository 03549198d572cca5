#![no_main]
//! A binary message that is accepted and can be sent on keeps its parts and buffers.

use bytes::Bytes;
use himalia_wire::{Channel, Limits, legacy};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let frame = Bytes::copy_from_slice(data);
    if let Ok((channel, parts)) = legacy::decode_binary(&frame, &Limits::CLIENT) {
        let channel = channel.unwrap_or(Channel::Shell);
        if let Ok(frame) = legacy::encode_binary(channel, &parts) {
            assert_eq!(
                legacy::decode_binary(&frame, &Limits::CLIENT),
                Ok((Some(channel), parts))
            );
        }
    }
});
