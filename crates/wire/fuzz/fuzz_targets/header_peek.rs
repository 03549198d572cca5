#![no_main]
//! Header and content peeks; a header that can be read as a message's own can be read as a parent, too.

use himalia_wire::{ConnectionFile, header};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(own) = header::peek(data) {
        assert_eq!(header::peek_parent(data), Ok(Some(own)));
    }
    let _ = header::execution_state(data);
    let _ = header::reply_status(data);
    let _ = ConnectionFile::parse(data);
});
