#![no_main]
//! A text message that is accepted and can be sent on keeps its parts.

use himalia_wire::{Channel, Limits, legacy};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok((channel, parts)) = legacy::decode_text(data, &Limits::CLIENT) {
        let channel = channel.unwrap_or(Channel::Shell);
        if let Ok(text) = legacy::encode_text(channel, &parts) {
            assert_eq!(
                legacy::decode_text(&text, &Limits::CLIENT),
                Ok((Some(channel), parts))
            );
        }
    }
});
