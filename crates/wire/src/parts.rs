//! A message as the bytes that its sender wrote, and how large it may be.

use bytes::Bytes;

use crate::{Error, Result};

/// One Jupyter message without its envelope: the four JSON parts and the binary buffers, byte for byte as sent.
///
/// The parts share the memory of the frame that they were decoded from. Code that keeps one for long should
/// keep a copy, or the whole read buffer stays alive.
#[derive(Clone, Debug, Eq, PartialEq, Default)]
pub struct Parts {
    /// JSON object: `msg_id`, `msg_type`, `session`, …
    pub header: Bytes,
    /// JSON object: the header of the message that caused this one, or `{}`.
    pub parent_header: Bytes,
    /// JSON object.
    pub metadata: Bytes,
    /// JSON object, by the type of the message.
    pub content: Bytes,
    /// Binary buffers, outside the JSON and outside the signature.
    pub buffers: Vec<Bytes>,
}

impl Parts {
    /// The four signed parts in the order in which they are sent and signed.
    pub fn signed(&self) -> [&Bytes; 4] {
        [&self.header, &self.parent_header, &self.metadata, &self.content]
    }

    /// Sum of the lengths of parts and buffers, in bytes.
    pub fn byte_len(&self) -> usize {
        self.lengths().fold(0, usize::saturating_add)
    }

    /// Lengths in the order of sending: header, parent header, metadata, content, buffers.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = usize> + '_ {
        self.signed()
            .into_iter()
            .map(Bytes::len)
            .chain(self.buffers.iter().map(Bytes::len))
    }

    /// Refuses a message that is over `limits`.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        at_most("header", self.header.len(), limits.header_bytes)?;
        at_most("parent_header", self.parent_header.len(), limits.header_bytes)?;
        at_most("buffers", self.buffers.len(), limits.buffers)?;
        at_most("message", self.byte_len(), limits.message_bytes)
    }
}

/// Size limits of a message. A value at the limit is accepted, one more is refused.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Sum of parts and buffers in bytes; framing is not counted.
    pub message_bytes: usize,
    /// Header in bytes, and parent header in bytes, each.
    pub header_bytes: usize,
    /// Number of binary buffers.
    pub buffers: usize,
}

impl Limits {
    /// For what clients send: 64 MiB, headers of 16 KiB, 256 buffers.
    pub const CLIENT: Self = Self {
        message_bytes: 64 << 20,
        header_bytes: 16 << 10,
        buffers: 256,
    };
    /// For what kernels send: 256 MiB, headers of 64 KiB, 1024 buffers.
    pub const KERNEL: Self = Self {
        message_bytes: 256 << 20,
        header_bytes: 64 << 10,
        buffers: 1024,
    };
}

/// `Ok` when `got <= limit`.
pub(crate) fn at_most(field: &'static str, got: usize, limit: usize) -> Result<()> {
    if got > limit {
        return Err(Error::TooLarge {
            field,
            got: got as u64,
            limit: limit as u64,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Limits = Limits {
        message_bytes: 10,
        header_bytes: 4,
        buffers: 2,
    };

    fn parts(header: usize, parent: usize, content: usize, buffers: &[usize]) -> Parts {
        let zeros = |n: usize| Bytes::from(vec![0; n]);
        Parts {
            header: zeros(header),
            parent_header: zeros(parent),
            metadata: Bytes::new(),
            content: zeros(content),
            buffers: buffers.iter().map(|n| zeros(*n)).collect(),
        }
    }

    #[test]
    fn at_the_limit_passes_one_more_fails() {
        assert!(parts(4, 4, 1, &[1, 0]).check(&SMALL).is_ok());
        for (bad, field) in [
            (parts(5, 0, 0, &[]), "header"),
            (parts(0, 5, 0, &[]), "parent_header"),
            (parts(0, 0, 0, &[0, 0, 0]), "buffers"),
            (parts(4, 4, 3, &[]), "message"),
            (parts(0, 0, 0, &[5, 6]), "message"),
        ] {
            match bad.check(&SMALL) {
                Err(Error::TooLarge {
                    field: named,
                    got,
                    limit,
                }) => {
                    assert_eq!(named, field);
                    assert_eq!(got, limit + 1);
                }
                other => panic!("{field}: {other:?}"),
            }
        }
    }
}
