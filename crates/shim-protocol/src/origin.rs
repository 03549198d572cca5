use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};

use crate::{Kind, ProtocolError};

/// A request of the gateway: numbers start again at 1 in every epoch, so both are needed to name one.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId {
    /// The gateway's epoch.
    pub epoch: u64,
    /// The number, from 1.
    pub number: u64,
}

impl RequestId {
    /// The identity frame that is put before `<IDS|MSG>`; kernels echo it: `hm.<epoch>.<number>`.
    pub fn identity(self) -> String {
        format!("hm.{}.{}", self.epoch, self.number)
    }

    /// Reads an identity frame; `None` for any other frame.
    pub fn from_identity(frame: &[u8]) -> Option<Self> {
        let (epoch, number) = std::str::from_utf8(frame)
            .ok()?
            .strip_prefix("hm.")?
            .split_once('.')?;
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !plain(epoch) || !plain(number) {
            return None;
        }
        Some(Self {
            epoch: epoch.parse().ok()?,
            number: number.parse().ok()?,
        })
    }
}

/// Bytes of an encoded [`Origin`].
pub const ORIGIN_BYTES: usize = 20;

/// Origin of a kernel's message; stands before the v1 frame in a `msg` of the shim: `u32 incarnation · u64 epoch · u64 request`. The last
/// two are 0 if the message answers no request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Origin {
    /// The kernel process that sent it.
    pub incarnation: u32,
    /// The request that it answers (replies and input requests of kernels that echo identities).
    pub answers: Option<RequestId>,
}

impl Origin {
    /// Appends the encoded form.
    pub fn encode(&self, out: &mut BytesMut) {
        let answers = self.answers.unwrap_or(RequestId { epoch: 0, number: 0 });
        out.put_u32_le(self.incarnation);
        out.put_u64_le(answers.epoch);
        out.put_u64_le(answers.number);
    }

    /// Splits the origin off the body of a `msg` of the shim; the rest is the v1 frame, not copied.
    ///
    /// # Errors
    /// [`ProtocolError::Body`] when the body is too short.
    pub fn split(mut body: Bytes) -> Result<(Self, Bytes), ProtocolError> {
        if body.len() < ORIGIN_BYTES {
            let reason = format!("{} bytes, the origin alone has {ORIGIN_BYTES}", body.len());
            return Err(ProtocolError::Body {
                kind: Kind::Message.as_str(),
                reason,
            });
        }
        let incarnation = body.get_u32_le();
        let answers = RequestId {
            epoch: body.get_u64_le(),
            number: body.get_u64_le(),
        };
        Ok((
            Self {
                incarnation,
                answers: (answers.number != 0).then_some(answers),
            },
            body,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_frames_are_read_back_and_nothing_else_is() {
        let id = RequestId {
            epoch: 7,
            number: u64::MAX,
        };
        assert_eq!(RequestId::from_identity(id.identity().as_bytes()), Some(id));
        for other in [
            "",
            "hm.",
            "hm.1",
            "hm.1.",
            "hm..1",
            "hm.1.2.3",
            "hm.+1.2",
            "hm.1.99999999999999999999",
            "x",
        ] {
            assert_eq!(RequestId::from_identity(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn an_origin_survives_and_a_short_body_is_refused() {
        for answers in [None, Some(RequestId { epoch: 3, number: 9 })] {
            let origin = Origin {
                incarnation: 2,
                answers,
            };
            let mut out = BytesMut::new();
            origin.encode(&mut out);
            out.extend_from_slice(b"frame");
            assert_eq!(
                Origin::split(out.freeze()).unwrap(),
                (origin, Bytes::from_static(b"frame"))
            );
        }
        assert!(Origin::split(Bytes::from_static(&[0; 19])).is_err());
    }
}
