#![no_main]
//! Whatever a kernel sends behind its handshake, and in whatever pieces: no panic, and no more memory than the limits.

use himalia_wire::zmtp::{Decoder, SocketType, opening};
use himalia_wire::Limits;
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits {
    message_bytes: 10_000,
    header_bytes: 100,
    buffers: 4,
};

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, data) = input;
    let mut decoder = Decoder::new(SocketType::Dealer, &LIMITS);
    // A DEALER may talk to a DEALER.
    let stream = [&opening(SocketType::Dealer, b"")[..], data].concat();
    for piece in stream.chunks(usize::from(piece) + 1) {
        let buffer = decoder.buffer();
        assert!(buffer.capacity() - buffer.len() >= piece.len());
        assert!(buffer.capacity() < 1 << 20);
        buffer.extend_from_slice(piece);
        loop {
            match decoder.next() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
});
