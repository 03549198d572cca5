//! Signatures of Standard Webhooks, version 1.0.0, symmetric scheme
//! (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Seconds by which the timestamp of a message may differ from the receiver's clock.
pub const TOLERANCE_S: i64 = 300;
/// Bytes of the id of a message.
pub const MAX_ID_BYTES: usize = 256;
/// Prefix of a secret's text.
const PREFIX: &str = "whsec_";
/// Bytes of a new secret; the scheme has 24 to 64.
const SECRET_BYTES: usize = 32;
/// Signatures of one message that are compared; a sender has several while it changes its secret.
const MAX_SIGNATURES: usize = 8;

/// A shared secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// Reason why a message is refused. The sender does not get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureError {
    /// A part is missing or malformed.
    Malformed,
    /// The timestamp is too old, or in the future.
    Timestamp,
    /// No signature is that of the secret.
    Signature,
}

/// Signed parts of a message, as they were received.
#[derive(Clone, Copy, Debug)]
pub struct SignedMessage<'a> {
    /// `webhook-id`.
    pub id: &'a str,
    /// `webhook-timestamp`, seconds since 1970.
    pub timestamp: &'a str,
    pub body: &'a [u8],
}

impl Secret {
    pub fn of(random: [u8; SECRET_BYTES]) -> Self {
        Self(Zeroizing::new(random.to_vec()))
    }

    pub fn parse(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
        (24..=64)
            .contains(&bytes.len())
            .then(|| Self(Zeroizing::new(bytes)))
    }

    /// Text form of the secret.
    pub fn text(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{PREFIX}{}", STANDARD.encode(&*self.0)))
    }

    /// The value of `webhook-signature`.
    pub fn sign(&self, message: SignedMessage<'_>) -> String {
        format!(
            "v1,{}",
            STANDARD.encode(self.mac(message).finalize().into_bytes())
        )
    }

    /// Checks a message against the signatures that came with it. `now`: seconds since 1970. The comparison takes the same time
    /// whatever the signature.
    ///
    /// # Errors
    /// It is not one of a holder of the secret, or not of now.
    pub fn check(
        &self,
        message: SignedMessage<'_>,
        signatures: &str,
        now: i64,
    ) -> Result<(), SignatureError> {
        if message.id.is_empty() || message.id.len() > MAX_ID_BYTES || message.id.contains('.') {
            return Err(SignatureError::Malformed);
        }
        let is_number =
            !message.timestamp.is_empty() && message.timestamp.bytes().all(|byte| byte.is_ascii_digit());
        let sent = message.timestamp.parse::<i64>().ok().filter(|_| is_number);
        let sent = sent.ok_or(SignatureError::Malformed)?;
        if sent.abs_diff(now) > TOLERANCE_S.unsigned_abs() {
            return Err(SignatureError::Timestamp);
        }
        let given = signatures.split(' ').filter_map(|one| one.strip_prefix("v1,"));
        let decoded = given
            .take(MAX_SIGNATURES)
            .filter_map(|one| STANDARD.decode(one).ok());
        let mac = self.mac(message);
        let mut right = false;
        for signature in decoded {
            right |= mac.clone().verify_slice(&signature).is_ok();
        }
        right.then_some(()).ok_or(SignatureError::Signature)
    }

    fn mac(&self, message: SignedMessage<'_>) -> Hmac<Sha256> {
        #[allow(clippy::expect_used, reason = "HMAC takes a key of any length")]
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length");
        for part in [
            message.id.as_bytes(),
            b".",
            message.timestamp.as_bytes(),
            b".",
            message.body,
        ] {
            mac.update(part);
        }
        mac
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The example of the specification's libraries.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const AT: &str = "1614265330";
    const BODY: &[u8] = b"{\"test\": 2432232314}";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn message<'a>(id: &'a str, timestamp: &'a str, body: &'a [u8]) -> SignedMessage<'a> {
        SignedMessage { id, timestamp, body }
    }

    #[test]
    fn the_example_of_the_specification_is_signed_and_checked() {
        let secret = Secret::parse(SECRET).unwrap();
        assert_eq!(secret.sign(message(ID, AT, BODY)), SIGNATURE);
        let now = 1_614_265_330;
        let check = |signatures: &str, now| secret.check(message(ID, AT, BODY), signatures, now);
        assert_eq!(check(SIGNATURE, now), Ok(()));
        assert_eq!(
            check(&format!("v1,AAAA v1a,xyz {SIGNATURE}"), now + TOLERANCE_S),
            Ok(())
        );
        assert_eq!(
            check(SIGNATURE, now + TOLERANCE_S + 1),
            Err(SignatureError::Timestamp)
        );
        assert_eq!(
            check(SIGNATURE, now - TOLERANCE_S - 1),
            Err(SignatureError::Timestamp)
        );
        for wrong in [
            "",
            "v1,",
            "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        ] {
            assert_eq!(check(wrong, now), Err(SignatureError::Signature), "{wrong}");
        }
        for (id, at) in [
            ("", AT),
            ("a.b", AT),
            (ID, ""),
            (ID, "-5"),
            (ID, "+1614265330"),
            (ID, "1e9"),
        ] {
            assert_eq!(
                secret.check(message(id, at, BODY), SIGNATURE, now),
                Err(SignatureError::Malformed),
                "{id} {at}"
            );
        }
    }

    #[test]
    fn a_secret_is_read_as_it_is_written_and_shown_nowhere() {
        let secret = Secret::of([7; 32]);
        assert_eq!(Secret::parse(&secret.text()), Some(secret.clone()));
        assert_eq!(format!("{secret:?}"), "Secret");
        for wrong in ["", "whsec_", "whsec_AAAA", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] {
            assert_eq!(Secret::parse(wrong), None);
        }
    }

    proptest! {
        #[test]
        fn another_message_has_another_signature(id in "[a-z]{1,20}", body in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..200) {
            let secret = Secret::of([3; 32]);
            let signature = secret.sign(message(&id, AT, &body));
            prop_assert_eq!(secret.check(message(&id, AT, &body), &signature, 1_614_265_330), Ok(()));
            let mut changed = body.clone();
            match changed.get_mut(at) {
                Some(byte) => *byte ^= 1,
                None => changed.push(b'x'),
            }
            prop_assert_eq!(secret.check(message(&id, AT, &changed), &signature, 1_614_265_330), Err(SignatureError::Signature));
            let other = Secret::of([4; 32]);
            prop_assert_eq!(other.check(message(&id, AT, &body), &signature, 1_614_265_330), Err(SignatureError::Signature));
        }
    }
}
