#![no_main]
//! Frames cut from the input, each after one byte of length; half of the runs have no key, so that the
//! fuzzer gets past the signature.

use bytes::Bytes;
use himalia_wire::{DuplicateGuard, Limits, Signer, zmq};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((first, mut rest)) = data.split_first() else {
        return;
    };
    let key: &[u8] = if first & 1 == 0 { b"" } else { b"key" };
    let signer = Signer::new("hmac-sha256", key).unwrap();
    let mut frames = Vec::new();
    while let Some((len, after)) = rest.split_first() {
        // 255 stands for the delimiter, which is hard to guess.
        if *len == 255 {
            frames.push(Bytes::from_static(zmq::DELIMITER));
            rest = after;
            continue;
        }
        let (frame, after) = after.split_at(after.len().min(usize::from(*len)));
        frames.push(Bytes::copy_from_slice(frame));
        rest = after;
    }
    if let Ok(incoming) = zmq::decode(frames, &signer, &Limits::KERNEL) {
        DuplicateGuard::new().check(&incoming.signature);
        let again = zmq::encode(&incoming.identities, &incoming.parts, &signer);
        let again = zmq::decode(again, &signer, &Limits::KERNEL).unwrap();
        assert_eq!(
            (again.identities, again.parts),
            (incoming.identities, incoming.parts)
        );
    }
});
