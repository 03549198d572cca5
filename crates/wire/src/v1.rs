//! The `v1.kernel.websocket.jupyter.org` framing: little-endian u64 offsets, then the parts as they are.
//!
//! ```text
//! 0        u64 N = 6 + number of buffers
//! 8(i+1)   u64 offset[i], absolute, i in 0..N; offset[0] = 8(1+N), offset[N-1] = length of the frame
//! offset[0] channel · [1] header · [2] parent_header · [3] metadata · [4] content · [5..] buffers
//! ```
//! The same bytes are the form in which a message is kept and passed between Himalia's processes.
//! ([protocol](https://jupyter-server.readthedocs.io/en/latest/developers/websocket-protocols.html))

use bytes::Bytes;

use crate::parts::at_most;
use crate::{Channel, Error, Limits, Parts, Result};

/// Name of the WebSocket subprotocol.
pub const SUBPROTOCOL: &str = "v1.kernel.websocket.jupyter.org";

/// Offsets of a frame without buffers: channel, four parts, end.
const FIXED: usize = 6;
const WORD: usize = 8;
const WHAT: &str = "v1 frame";

/// Writes a frame, with one allocation. Infallible: lengths of memory that exists fit into u64.
pub fn encode(channel: Channel, parts: &Parts) -> Bytes {
    let mut frame = begin(channel, parts, parts.byte_len());
    for part in parts.signed().into_iter().chain(&parts.buffers) {
        frame.extend_from_slice(part);
    }
    Bytes::from(frame)
}

/// As [`encode`], in pieces that follow each other: all up to the content is written, content and buffers are shared.
pub fn encode_shared(channel: Channel, parts: &Parts) -> Vec<Bytes> {
    let [header, parent_header, metadata, content] = parts.signed();
    let headers = [header, parent_header, metadata];
    let mut frame = begin(channel, parts, headers.iter().map(|part| part.len()).sum());
    for part in headers {
        frame.extend_from_slice(part);
    }
    let shared = std::iter::once(content).chain(&parts.buffers);
    std::iter::once(Bytes::from(frame))
        .chain(shared.filter(|part| !part.is_empty()).cloned())
        .collect()
}

/// Offsets and channel of a frame, with room for as many bytes behind them.
fn begin(channel: Channel, parts: &Parts, room: usize) -> Vec<u8> {
    let name = channel.as_str().as_bytes();
    let offsets = FIXED.saturating_add(parts.buffers.len());
    let start = offsets.saturating_add(1).saturating_mul(WORD);
    let mut frame = Vec::with_capacity(start.saturating_add(name.len()).saturating_add(room));
    let put = |frame: &mut Vec<u8>, value: usize| frame.extend_from_slice(&(value as u64).to_le_bytes());
    put(&mut frame, offsets);
    put(&mut frame, start);
    let mut end = start.saturating_add(name.len());
    put(&mut frame, end);
    for length in parts.lengths() {
        end = end.saturating_add(length);
        put(&mut frame, end);
    }
    frame.extend_from_slice(name);
    frame
}

/// The parts of a frame's message, borrowed from it; its buffers were checked and are left out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct View<'a> {
    /// As [`Parts::header`].
    pub header: &'a [u8],
    /// As [`Parts::parent_header`].
    pub parent_header: &'a [u8],
    /// As [`Parts::metadata`].
    pub metadata: &'a [u8],
    /// As [`Parts::content`].
    pub content: &'a [u8],
}

/// Reads a frame without copying: the parts are slices of it.
///
/// Strict where reference implementations trust the sender: the offset table must start right behind itself,
/// ascend, and end at the end of the frame. The parts are not parsed.
pub fn decode(frame: &Bytes, limits: &Limits) -> Result<(Channel, Parts)> {
    let mut buffers = Vec::new();
    let (channel, view) = walk(frame, limits, |buffer| buffers.push(frame.slice_ref(buffer)))?;
    let parts = Parts {
        header: frame.slice_ref(view.header),
        parent_header: frame.slice_ref(view.parent_header),
        metadata: frame.slice_ref(view.metadata),
        content: frame.slice_ref(view.content),
        buffers,
    };
    Ok((channel, parts))
}

/// As [`decode`], for who only looks: no part is shared, which costs several times as much as the look.
pub fn view<'a>(frame: &'a [u8], limits: &Limits) -> Result<(Channel, View<'a>)> {
    walk(frame, limits, |_| {})
}

/// Checks a frame; `buffer` is given each buffer.
fn walk<'a>(
    frame: &'a [u8],
    limits: &Limits,
    mut buffer: impl FnMut(&'a [u8]),
) -> Result<(Channel, View<'a>)> {
    let count = word(frame, 0)?;
    if count < FIXED as u64 {
        return Err(Error::TooFew {
            what: WHAT,
            got: count,
            need: FIXED as u64,
        });
    }
    let buffers = count.saturating_sub(FIXED as u64);
    if buffers > limits.buffers as u64 {
        return Err(Error::TooLarge {
            field: "buffers",
            got: buffers,
            limit: limits.buffers as u64,
        });
    }
    let buffers = usize::try_from(buffers).map_err(|_| Error::Truncated { what: WHAT })?;
    let start = buffers
        .saturating_add(FIXED)
        .saturating_add(1)
        .saturating_mul(WORD);
    // The whole table is there, so the reads below cannot fail.
    if frame.len() < start {
        return Err(Error::Truncated { what: WHAT });
    }
    if word(frame, 1)? != start as u64 {
        return Err(Error::BadOffset { what: WHAT, index: 0 });
    }
    let mut slices = Slices {
        frame,
        index: 0,
        from: start,
    };
    let channel = slices.next()?;
    let (header, parent_header, metadata, content) =
        (slices.next()?, slices.next()?, slices.next()?, slices.next()?);
    at_most("header", header.len(), limits.header_bytes)?;
    at_most("parent_header", parent_header.len(), limits.header_bytes)?;
    at_most(
        "message",
        frame.len().saturating_sub(start).saturating_sub(channel.len()),
        limits.message_bytes,
    )?;
    let channel = Channel::parse(channel).ok_or(Error::UnknownChannel)?;
    for _ in 0..buffers {
        buffer(slices.next()?);
    }
    if slices.from != frame.len() {
        return Err(Error::BadOffset {
            what: WHAT,
            index: slices.index,
        });
    }
    Ok((
        channel,
        View {
            header,
            parent_header,
            metadata,
            content,
        },
    ))
}

/// The word at `8 * index`.
fn word(frame: &[u8], index: usize) -> Result<u64> {
    let start = index.saturating_mul(WORD);
    let bytes = frame.get(start..).and_then(|rest| rest.first_chunk::<WORD>());
    bytes
        .map(|bytes| u64::from_le_bytes(*bytes))
        .ok_or(Error::Truncated { what: WHAT })
}

/// Walks the offset table; each step gives the bytes from the last offset to the next one.
struct Slices<'a> {
    frame: &'a [u8],
    /// Index of the offset that `from` came from.
    index: usize,
    from: usize,
}

impl<'a> Slices<'a> {
    fn next(&mut self) -> Result<&'a [u8]> {
        self.index = self.index.saturating_add(1);
        let bad = Error::BadOffset {
            what: WHAT,
            index: self.index,
        };
        let Ok(to) = usize::try_from(word(self.frame, self.index.saturating_add(1))?) else {
            return Err(bad);
        };
        let slice = self.frame.get(self.from..to).ok_or(bad)?;
        self.from = to;
        Ok(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(buffers: &[&'static [u8]]) -> Parts {
        Parts {
            header: Bytes::from_static(b"{\"msg_id\":\"i\"}"),
            parent_header: Bytes::from_static(b"{}"),
            metadata: Bytes::new(),
            content: Bytes::from_static(b"{\"x\":1}"),
            buffers: buffers.iter().map(|b| Bytes::from_static(b)).collect(),
        }
    }

    #[test]
    fn a_view_is_what_decode_gives() {
        let frame = encode(Channel::Iopub, &parts(&[b"", b"abc"]));
        let (channel, seen) = view(&frame, &Limits::CLIENT).unwrap();
        let (_, decoded) = decode(&frame, &Limits::CLIENT).unwrap();
        assert_eq!(channel, Channel::Iopub);
        assert_eq!(
            [seen.header, seen.parent_header, seen.metadata, seen.content],
            decoded.signed().map(|part| &part[..])
        );
        let longer = [&frame[..], b"x"].concat();
        assert!(view(&longer, &Limits::CLIENT).is_err());
    }

    fn with_word(frame: &Bytes, index: usize, value: u64) -> Bytes {
        let mut bytes = frame.to_vec();
        bytes[index * 8..index * 8 + 8].copy_from_slice(&value.to_le_bytes());
        bytes.into()
    }

    #[test]
    fn layout_without_buffers() {
        let frame = encode(Channel::Shell, &parts(&[]));
        assert_eq!(word(&frame, 0), Ok(6));
        assert_eq!(word(&frame, 1), Ok(56));
        assert_eq!(word(&frame, 6), Ok(frame.len() as u64));
        assert_eq!(&frame[56..61], b"shell");
        assert_eq!(decode(&frame, &Limits::CLIENT), Ok((Channel::Shell, parts(&[]))));
    }

    #[test]
    fn round_trip_with_buffers_and_without_copies() {
        let frame = encode(Channel::Iopub, &parts(&[b"", b"\x00\xff", b"abc"]));
        let (channel, decoded) = decode(&frame, &Limits::CLIENT).unwrap();
        assert_eq!(
            (channel, &decoded),
            (Channel::Iopub, &parts(&[b"", b"\x00\xff", b"abc"]))
        );
        let inside = frame.as_ptr_range();
        assert!(
            decoded
                .signed()
                .into_iter()
                .filter(|part| !part.is_empty())
                .all(|part| inside.contains(&part.as_ptr()))
        );
    }

    #[test]
    fn pieces_are_the_same_frame_and_share_what_is_large() {
        let cases: [&[&'static [u8]]; 3] = [&[], &[b"", b"abc"], &[b"xyz"]];
        for parts in cases.map(parts) {
            let pieces = encode_shared(Channel::Iopub, &parts);
            assert_eq!(pieces.concat(), encode(Channel::Iopub, &parts));
            assert_eq!(pieces[1].as_ptr(), parts.content.as_ptr());
        }
        let empty = Parts::default();
        assert_eq!(
            encode_shared(Channel::Shell, &empty),
            [encode(Channel::Shell, &empty)]
        );
    }

    #[test]
    fn encode_allocates_exactly_what_it_needs() {
        let frame = encode(Channel::Control, &parts(&[b"xyz"]));
        let start = 8 * (1 + 7);
        assert_eq!(frame.len(), start + "control".len() + parts(&[b"xyz"]).byte_len());
    }

    #[test]
    fn offsets_are_strict() {
        let frame = encode(Channel::Shell, &parts(&[b"abc"]));
        let len = frame.len() as u64;
        for index in 0..7 {
            for value in [0, 1, 55, len + 1, u64::MAX, 1 << 63] {
                assert!(
                    decode(&with_word(&frame, index, value), &Limits::CLIENT).is_err(),
                    "{index} {value}"
                );
            }
        }
        // The last offset must be the end of the frame.
        assert!(decode(&with_word(&frame, 7, len - 1), &Limits::CLIENT).is_err());
        let mut longer = frame.to_vec();
        longer.push(0);
        assert!(decode(&longer.into(), &Limits::CLIENT).is_err());
        for cut in 0..frame.len() {
            assert!(
                decode(&frame.slice(..cut), &Limits::CLIENT).is_err(),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn unknown_channels_are_refused() {
        let mut frame = encode(Channel::Shell, &parts(&[])).to_vec();
        frame[56] = b'S';
        assert_eq!(decode(&frame.into(), &Limits::CLIENT), Err(Error::UnknownChannel));
    }

    #[test]
    fn at_the_limit_passes_one_more_fails() {
        let frame = encode(Channel::Shell, &parts(&[b"a", b"b"]));
        let exact = Limits {
            message_bytes: parts(&[b"a", b"b"]).byte_len(),
            header_bytes: 14,
            buffers: 2,
        };
        assert!(decode(&frame, &exact).is_ok());
        for (limits, name) in [
            (
                Limits {
                    message_bytes: exact.message_bytes - 1,
                    ..exact
                },
                "message",
            ),
            (
                Limits {
                    header_bytes: 13,
                    ..exact
                },
                "header",
            ),
            (Limits { buffers: 1, ..exact }, "buffers"),
        ] {
            match decode(&frame, &limits) {
                Err(Error::TooLarge { field, got, limit }) => assert_eq!((field, got), (name, limit + 1)),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
