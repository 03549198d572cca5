//! Multipart messages of a kernel's ZMQ sockets.
//!
//! ```text
//! identity or topic frames (any number) · <IDS|MSG> · signature · header · parent_header · metadata · content · buffers…
//! ```
//! [Wire protocol](https://jupyter-client.readthedocs.io/en/stable/messaging.html#the-wire-protocol). A topic
//! frame is usual on iopub and absent in some messages (`iopub_welcome`).

use bytes::Bytes;

use crate::parts::at_most;
use crate::{Error, Limits, Parts, Result, Signer};

/// The frame between identities and signature.
pub const DELIMITER: &[u8] = b"<IDS|MSG>";

/// Most frames that are accepted before the delimiter.
pub const MAX_IDENTITIES: usize = 16;

/// Frames from the signature to the content.
const FIXED: usize = 5;

/// A verified message from a kernel.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KernelMessage {
    /// The frames before the delimiter: routing identities (shell, control, stdin) or a topic (iopub).
    pub identities: Vec<Bytes>,
    /// The signature, verified. Give it to a [`crate::DuplicateGuard`].
    pub signature: Bytes,
    /// The message.
    pub parts: Parts,
}

/// Splits and verifies a multipart message.
///
/// Nothing is parsed: that the parts are JSON is not known afterwards, only that they are within `limits` and
/// that their signature is right. The parts share the frames' memory.
pub fn decode(frames: Vec<Bytes>, signer: &Signer, limits: &Limits) -> Result<KernelMessage> {
    let searched = frames.iter().take(MAX_IDENTITIES.saturating_add(1));
    let Some(delimiter) = searched.clone().position(|frame| frame == DELIMITER) else {
        return Err(Error::NoDelimiter {
            looked_at: searched.count(),
        });
    };
    let total = frames.len();
    let mut frames = frames.into_iter();
    let identities: Vec<Bytes> = frames.by_ref().take(delimiter).collect();
    let identity_bytes = identities.iter().map(Bytes::len).fold(0, usize::saturating_add);
    at_most("identities", identity_bytes, limits.header_bytes)?;
    frames.next();

    let (Some(signature), Some(header), Some(parent_header), Some(metadata), Some(content)) = (
        frames.next(),
        frames.next(),
        frames.next(),
        frames.next(),
        frames.next(),
    ) else {
        let got = total.saturating_sub(delimiter).saturating_sub(1);
        return Err(Error::TooFew {
            what: "zmq",
            got: got as u64,
            need: FIXED as u64,
        });
    };
    // Counted before the buffers are collected.
    at_most("buffers", frames.len(), limits.buffers)?;
    let parts = Parts {
        header,
        parent_header,
        metadata,
        content,
        buffers: frames.collect(),
    };
    parts.check(limits)?;
    if !signer.verify(&signature, &parts) {
        return Err(Error::BadSignature);
    }
    Ok(KernelMessage {
        identities,
        signature,
        parts,
    })
}

/// Puts a message into frames and signs it.
pub fn encode(identities: &[Bytes], parts: &Parts, signer: &Signer) -> Vec<Bytes> {
    let frames = identities
        .len()
        .saturating_add(FIXED)
        .saturating_add(1)
        .saturating_add(parts.buffers.len());
    let mut out = Vec::with_capacity(frames);
    out.extend_from_slice(identities);
    out.push(Bytes::from_static(DELIMITER));
    out.push(Bytes::from(signer.sign(parts)));
    out.extend(parts.signed().into_iter().cloned());
    out.extend_from_slice(&parts.buffers);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer() -> Signer {
        Signer::new("hmac-sha256", b"key").unwrap()
    }

    fn parts(buffers: usize) -> Parts {
        Parts {
            header: Bytes::from_static(b"{\"msg_id\":\"i\"}"),
            parent_header: Bytes::from_static(b"{}"),
            metadata: Bytes::from_static(b"{}"),
            content: Bytes::from_static(b"{}"),
            buffers: vec![Bytes::from_static(b"<IDS|MSG>"); buffers],
        }
    }

    fn identities(n: usize) -> Vec<Bytes> {
        vec![Bytes::from_static(b"id"); n]
    }

    #[test]
    fn any_number_of_identities() {
        for n in [0, 1, 2, MAX_IDENTITIES] {
            let frames = encode(&identities(n), &parts(2), &signer());
            let incoming = decode(frames, &signer(), &Limits::KERNEL).unwrap();
            assert_eq!(incoming.identities, identities(n));
            assert_eq!(incoming.parts, parts(2));
            assert_eq!(incoming.signature.len(), 64);
        }
        let frames = encode(&identities(MAX_IDENTITIES + 1), &parts(0), &signer());
        assert_eq!(
            decode(frames, &signer(), &Limits::KERNEL),
            Err(Error::NoDelimiter { looked_at: 17 })
        );
    }

    #[test]
    fn missing_frames() {
        assert_eq!(
            decode(vec![], &signer(), &Limits::KERNEL),
            Err(Error::NoDelimiter { looked_at: 0 })
        );
        let whole = encode(&identities(1), &parts(0), &signer());
        for keep in 2..whole.len() {
            let got = decode(whole[..keep].to_vec(), &signer(), &Limits::KERNEL);
            assert_eq!(
                got,
                Err(Error::TooFew {
                    what: "zmq",
                    got: keep as u64 - 2,
                    need: 5
                })
            );
        }
    }

    #[test]
    fn limits_hold_before_and_at_the_edge() {
        let limits = Limits {
            buffers: 3,
            ..Limits::KERNEL
        };
        assert!(decode(encode(&[], &parts(3), &signer()), &signer(), &limits).is_ok());
        let over = decode(encode(&[], &parts(4), &signer()), &signer(), &limits);
        assert_eq!(
            over,
            Err(Error::TooLarge {
                field: "buffers",
                got: 4,
                limit: 3
            })
        );
        let many = decode(
            encode(&[], &parts(100_000), &signer()),
            &signer(),
            &Limits::KERNEL,
        );
        assert!(many.unwrap_err().is_too_large());
        let long = [Bytes::from(vec![0; Limits::KERNEL.header_bytes + 1])];
        let long = decode(encode(&long, &parts(0), &signer()), &signer(), &Limits::KERNEL);
        assert!(long.unwrap_err().to_string().starts_with("identities"));
    }

    #[test]
    fn a_wrong_signature_is_refused() {
        let mut frames = encode(&[], &parts(0), &signer());
        frames[1] = Bytes::from_static(b"00");
        assert_eq!(
            decode(frames, &signer(), &Limits::KERNEL),
            Err(Error::BadSignature)
        );
        let other = Signer::new("hmac-sha256", b"other").unwrap();
        let frames = encode(&[], &parts(0), &other);
        assert_eq!(
            decode(frames, &signer(), &Limits::KERNEL),
            Err(Error::BadSignature)
        );
    }
}
