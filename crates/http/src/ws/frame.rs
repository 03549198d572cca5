//! Frame headers by the codec of `tungstenite`, with what a server has to refuse (RFC 6455 §5.1, §5.2 and §5.5) on top; masking.
//! Sans-IO.

use std::io::Cursor;

use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::OpCode;

use super::Close;

/// The header of a frame from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) last: bool,
    pub(super) opcode: OpCode,
    pub(super) mask: [u8; 4],
    /// Payload bytes.
    pub(super) length: u64,
}

/// Reads a client's frame header: with its size, or `None` if more bytes are needed. Refuses what the protocol forbids.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Header, usize)>, Close> {
    let mut cursor = Cursor::new(bytes);
    let Some((header, length)) =
        FrameHeader::parse(&mut cursor).map_err(|_| Close::protocol("unknown opcode"))?
    else {
        return Ok(None);
    };
    if header.rsv1 || header.rsv2 || header.rsv3 {
        return Err(Close::protocol("reserved bits are set"));
    }
    let Some(mask) = header.mask else {
        return Err(Close::protocol("frame is not masked"));
    };
    let is_control = matches!(header.opcode, OpCode::Control(_));
    if is_control && (!header.is_final || length > 125) {
        return Err(Close::protocol("control frame is fragmented or too long"));
    }
    let header = Header {
        last: header.is_final,
        opcode: header.opcode,
        mask,
        length,
    };
    let size = usize::try_from(cursor.position()).unwrap_or(usize::MAX);
    Ok(Some((header, size)))
}

/// Appends the header of an unfragmented frame of ours, which is never masked: 2, 4 or 10 bytes.
pub(super) fn write(out: &mut Vec<u8>, opcode: OpCode, length: usize) {
    let header = FrameHeader {
        opcode,
        ..FrameHeader::default()
    };
    let written = header.format(length as u64, out);
    debug_assert!(written.is_ok(), "a Vec takes all that is written to it");
}

/// Takes the mask off, in place.
pub(super) fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let mut words = payload.chunks_exact_mut(8);
    for word in &mut words {
        if let Some(bytes) = word.first_chunk_mut::<8>() {
            *bytes = (u64::from_ne_bytes(*bytes) ^ wide).to_ne_bytes();
        }
    }
    for (byte, key) in words.into_remainder().iter_mut().zip(mask.into_iter().cycle()) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::Data;

    #[test]
    fn forbidden_headers() {
        for (first, second, why) in [
            (0xc1, 0x80, "reserved bits are set"),
            (0x83, 0x80, "unknown opcode"),
            (0x8b, 0x80, "unknown opcode"),
            (0x81, 0x00, "frame is not masked"),
            (0x09, 0x80, "control frame is fragmented or too long"),
            (0x89, 0xfe, "control frame is fragmented or too long"),
        ] {
            let bytes = [first, second, 0, 126, 1, 2, 3, 4];
            assert_eq!(parse(&bytes), Err(Close::protocol(why)));
        }
    }

    #[test]
    fn every_cut_asks_for_more() {
        for length in [0usize, 125, 126, 65_535, 65_536] {
            let mut bytes = Vec::new();
            write(&mut bytes, OpCode::Data(Data::Binary), length);
            bytes[1] |= 0x80;
            bytes.extend_from_slice(&[1, 2, 3, 4]);
            for cut in 0..bytes.len() {
                assert_eq!(parse(&bytes[..cut]), Ok(None));
            }
            let header = Header {
                last: true,
                opcode: OpCode::Data(Data::Binary),
                mask: [1, 2, 3, 4],
                length: length as u64,
            };
            assert_eq!(parse(&bytes), Ok(Some((header, bytes.len()))));
        }
    }

    proptest! {
        #[test]
        fn unmasking_is_bytewise_xor(mut data: Vec<u8>, mask: [u8; 4]) {
            let wanted: Vec<u8> = data.iter().enumerate().map(|(i, b)| b ^ mask[i % 4]).collect();
            unmask(&mut data, mask);
            prop_assert_eq!(data, wanted);
        }

        #[test]
        fn no_bytes_panic(data: Vec<u8>) {
            let _ = parse(&data);
        }
    }
}
