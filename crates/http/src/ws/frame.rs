//! Frame headers (RFC 6455 §5.2) and masking, sans-IO.

use super::Close;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

impl Opcode {
    fn parse(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    fn is_control(self) -> bool {
        self as u8 >= 8
    }
}

/// The header of a frame from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) last: bool,
    pub(super) opcode: Opcode,
    pub(super) mask: [u8; 4],
    /// Payload bytes.
    pub(super) length: u64,
}

/// Reads a client's frame header: with its size, or `None` if more bytes are needed. Refuses what the protocol forbids.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Header, usize)>, Close> {
    let Some(&[first, second]) = bytes.first_chunk::<2>() else {
        return Ok(None);
    };
    if first & 0x70 != 0 {
        return Err(Close::protocol("reserved bits are set"));
    }
    let Some(opcode) = Opcode::parse(first & 0x0f) else {
        return Err(Close::protocol("unknown opcode"));
    };
    if second & 0x80 == 0 {
        return Err(Close::protocol("frame is not masked"));
    }
    let last = first & 0x80 != 0;
    let short = second & 0x7f;
    if opcode.is_control() && (!last || short > 125) {
        return Err(Close::protocol("control frame is fragmented or too long"));
    }
    let (length, start) = match short {
        126 => match bytes.get(2..).and_then(|b| b.first_chunk()) {
            Some(length) => (u64::from(u16::from_be_bytes(*length)), 4),
            None => return Ok(None),
        },
        127 => match bytes.get(2..).and_then(|b| b.first_chunk()) {
            Some(length) => (u64::from_be_bytes(*length), 10),
            None => return Ok(None),
        },
        _ => (u64::from(short), 2),
    };
    match bytes.get(start..).and_then(|b| b.first_chunk()) {
        Some(mask) => Ok(Some((
            Header {
                last,
                opcode,
                mask: *mask,
                length,
            },
            start + 4,
        ))),
        None => Ok(None),
    }
}

/// Appends the header of an unfragmented frame of ours, which is never masked.
pub(super) fn write(out: &mut Vec<u8>, opcode: Opcode, length: usize) {
    out.push(0x80 | opcode as u8);
    if let Ok(length) = u8::try_from(length)
        && length < 126
    {
        out.push(length);
    } else if let Ok(length) = u16::try_from(length) {
        out.push(126);
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        out.push(127);
        out.extend_from_slice(&(length as u64).to_be_bytes());
    }
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

    #[test]
    fn forbidden_headers() {
        for (bytes, why) in [
            ([0xc1, 0x80], "reserved bits are set"),
            ([0x83, 0x80], "unknown opcode"),
            ([0x81, 0x00], "frame is not masked"),
            ([0x09, 0x80], "control frame is fragmented or too long"),
            ([0x89, 0xfe], "control frame is fragmented or too long"),
        ] {
            assert_eq!(parse(&bytes), Err(Close::protocol(why)));
        }
    }

    #[test]
    fn every_cut_asks_for_more() {
        for length in [0usize, 125, 126, 65_535, 65_536] {
            let mut bytes = Vec::new();
            write(&mut bytes, Opcode::Binary, length);
            bytes[1] |= 0x80;
            bytes.extend_from_slice(&[1, 2, 3, 4]);
            for cut in 0..bytes.len() {
                assert_eq!(parse(&bytes[..cut]), Ok(None));
            }
            let header = Header {
                last: true,
                opcode: Opcode::Binary,
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
