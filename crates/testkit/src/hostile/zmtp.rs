//! ZMTP 3.0 with the NULL mechanism, as a server ([RFC 23](https://rfc.zeromq.org/spec/23/)). Only what a
//! kernel's side needs; the peer is trusted.

use std::io::{self, Read, Write};

use bytes::Bytes;

/// More frames of the same message follow.
pub(super) const MORE: u8 = 1;
/// The length has eight bytes instead of one.
pub(super) const LONG: u8 = 2;
/// A command instead of a message.
pub(super) const COMMAND: u8 = 4;

/// The first 64 bytes of each side.
pub(super) fn greeting() -> [u8; 64] {
    let mut greeting = [0; 64];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

/// The READY command of a socket of this type.
pub(super) fn ready(socket_type: &str) -> Vec<u8> {
    let mut body = b"\x05READY\x0bSocket-Type".to_vec();
    body.extend_from_slice(&u32::try_from(socket_type.len()).unwrap_or_default().to_be_bytes());
    body.extend_from_slice(socket_type.as_bytes());
    frame(COMMAND, &body)
}

/// One frame with its header.
pub(super) fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 9);
    if let Ok(short) = u8::try_from(body.len()) {
        out.extend_from_slice(&[flags, short]);
    } else {
        out.push(flags | LONG);
        out.extend_from_slice(&(body.len() as u64).to_be_bytes());
    }
    out.extend_from_slice(body);
    out
}

/// A whole message as the bytes of its frames.
pub(super) fn message(frames: &[Bytes]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, body) in frames.iter().enumerate() {
        let flags = if index + 1 < frames.len() { MORE } else { 0 };
        out.extend_from_slice(&frame(flags, body));
    }
    out
}

/// Greets, and reads the peer's greeting and READY.
pub(super) fn handshake(stream: &mut (impl Read + Write + ?Sized), socket_type: &str) -> io::Result<()> {
    stream.write_all(&greeting())?;
    let mut theirs = [0; 64];
    stream.read_exact(&mut theirs)?;
    stream.write_all(&ready(socket_type))?;
    read_frame(stream).map(drop)
}

/// Reads one message; commands in between are skipped.
pub(super) fn read_message(stream: &mut (impl Read + ?Sized)) -> io::Result<Vec<Bytes>> {
    let mut frames = Vec::new();
    loop {
        let (flags, body) = read_frame(stream)?;
        if flags & COMMAND != 0 {
            continue;
        }
        frames.push(body);
        if flags & MORE == 0 {
            return Ok(frames);
        }
    }
}

fn read_frame(stream: &mut (impl Read + ?Sized)) -> io::Result<(u8, Bytes)> {
    let mut flags = [0];
    stream.read_exact(&mut flags)?;
    let length = if flags[0] & LONG == 0 {
        let mut short = [0];
        stream.read_exact(&mut short)?;
        u64::from(short[0])
    } else {
        let mut long = [0; 8];
        stream.read_exact(&mut long)?;
        u64::from_be_bytes(long)
    };
    let mut body = Vec::new();
    if stream.take(length).read_to_end(&mut body)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((flags[0], body.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip() {
        let frames = vec![Bytes::from_static(b""), vec![7; 255].into(), vec![8; 256].into()];
        let bytes = message(&frames);
        assert_eq!(&bytes[..4], &[MORE, 0, MORE, 255]);
        assert_eq!(&bytes[4 + 255..][..9], &[LONG, 0, 0, 0, 0, 0, 0, 1, 0]);
        let with_command = [ready("PUB"), bytes].concat();
        assert_eq!(read_message(&mut with_command.as_slice()).unwrap(), frames);
    }

    #[test]
    fn a_short_frame_is_an_error() {
        assert!(read_message(&mut [0, 5, 1, 2].as_slice()).is_err());
    }
}
