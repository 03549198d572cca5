//! Finding secrets in responses: as they are, and in the encodings in which servers usually repeat what they were sent.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use bytes::{Bytes, BytesMut};
use memchr::memmem::Finder;
use zeroize::Zeroize;

use crate::Credential;

/// What takes the place of each byte.
const MASK: u8 = b'*';
/// Encodings that are shorter than this are not looked for.
const SHORTEST: usize = 6;

/// What is looked for: the secrets of credentials. What is found is overwritten byte by byte, so that no length changes.
pub struct Mask {
    needles: Vec<Needle>,
}

struct Needle {
    bytes: Vec<u8>,
    finder: Finder<'static>,
}

impl Drop for Needle {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

impl Mask {
    /// For the secrets of these credentials.
    pub fn new<'a>(credentials: impl IntoIterator<Item = &'a Credential>) -> Self {
        let mut texts = BTreeSet::new();
        for credential in credentials {
            let value = &credential.value;
            let own = [
                Some(&value.value),
                value.session_token.as_ref(),
                value.client_secret.as_ref(),
            ];
            for secret in own.into_iter().flatten().chain(&credential.known.all()) {
                encodings(secret.expose(), &mut texts);
            }
        }
        let needle = |bytes: Vec<u8>| Needle {
            finder: Finder::new(&bytes).into_owned(),
            bytes,
        };
        Self {
            needles: texts.into_iter().map(needle).collect(),
        }
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.needles.is_empty()
    }

    /// A whole text, such as the value of a header; `None`: there is no secret in it.
    pub fn text(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut found = Vec::new();
        self.find(text, &mut found);
        if found.is_empty() {
            return None;
        }
        let mut masked = text.to_vec();
        overwrite(&mut masked, &found);
        Some(masked)
    }

    /// Whether a secret is in this, in any case of its letters, as in the name of a header.
    pub fn is_in_any_case(&self, text: &str) -> bool {
        let text = text.to_ascii_lowercase();
        self.needles.iter().any(|needle| {
            Finder::new(&needle.bytes.to_ascii_lowercase())
                .find(text.as_bytes())
                .is_some()
        })
    }

    /// Adds the places at which secrets are.
    fn find(&self, text: &[u8], found: &mut Vec<Range<usize>>) {
        for Needle { finder, bytes } in &self.needles {
            let mut at = 0;
            while let Some(next) = finder.find(&text[at..]) {
                found.push(at + next..at + next + bytes.len());
                // Occurrences may overlap.
                at += next + 1;
            }
        }
    }

    /// How many bytes at the end may be the beginning of a secret.
    fn open_end(&self, text: &[u8]) -> usize {
        let begun = |needle: &Needle| {
            let most = needle.bytes.len().saturating_sub(1).min(text.len());
            let tail = &text[text.len() - most..];
            // The first byte of the secret stands at few places.
            memchr::memchr_iter(needle.bytes[0], tail)
                .find(|at| needle.bytes.starts_with(&tail[*at..]))
                .map_or(0, |at| most - at)
        };
        self.needles.iter().map(begun).max().unwrap_or(0)
    }
}

/// A mask that follows the secrets of its credentials: one that is got while a response is passed on is looked for from then on.
pub struct LiveMask {
    credentials: Vec<Credential>,
    mask: Arc<Mask>,
    version: u64,
}

impl LiveMask {
    /// For the secrets of these credentials.
    pub fn new(credentials: Vec<Credential>) -> Self {
        let version = version(&credentials);
        Self {
            mask: Arc::new(Mask::new(&credentials)),
            credentials,
            version,
        }
    }

    /// As it is now.
    pub fn current(&mut self) -> &Arc<Mask> {
        let version = version(&self.credentials);
        if version != self.version {
            self.mask = Arc::new(Mask::new(&self.credentials));
            self.version = version;
        }
        &self.mask
    }
}

/// Secrets are added only, so the sum changes with each one.
fn version(credentials: &[Credential]) -> u64 {
    let versions = credentials.iter().map(|credential| credential.known.version());
    versions.fold(0, u64::wrapping_add)
}

impl fmt::Debug for LiveMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.mask.fmt(f)
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mask")
            .field("needles", &self.needles.len())
            .finish()
    }
}

fn overwrite(text: &mut [u8], found: &[Range<usize>]) {
    for range in found {
        let end = range.end.min(text.len());
        if let Some(part) = text.get_mut(range.start..end) {
            part.fill(MASK);
        }
    }
}

/// The forms of one secret.
fn encodings(secret: &str, texts: &mut BTreeSet<Vec<u8>>) {
    texts.insert(secret.as_bytes().to_vec());
    for keep in ["-_.~", "-_.~/", "-_.~*/:@!$&'()+,;="] {
        for encoded in [
            percent_encoded(secret, keep),
            percent_encoded(secret, keep).replace("%20", "+"),
        ] {
            texts.insert(lower_hex(&encoded).into_bytes());
            texts.insert(encoded.into_bytes());
        }
    }
    let escaped = secret.replace('\\', "\\\\").replace('"', "\\\"");
    texts.insert(escaped.replace('/', "\\/").into_bytes());
    texts.insert(escaped.into_bytes());
    texts.insert(
        secret
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .into_bytes(),
    );
    texts.insert(hex::encode(secret).into_bytes());
    for alphabet in [STANDARD, URL_SAFE] {
        for before in 0..3 {
            texts.insert(inside_base64(secret, &alphabet, before));
        }
    }
    texts.retain(|text| text.len() >= SHORTEST);
}

/// Those characters of the Base64 form of a text with the secret in it that the secret alone decides, where so many bytes (modulo 3)
/// precede it.
fn inside_base64(secret: &str, alphabet: &Alphabet, before: usize) -> Vec<u8> {
    let text = [&b"\0\0"[..before], secret.as_bytes()].concat();
    let encoded = GeneralPurpose::new(alphabet, NO_PAD).encode(&text).into_bytes();
    // Six bits each: the first character that has bits of the secret alone, and after the last such one.
    let start = (before * 8).div_ceil(6);
    let end = text.len() * 8 / 6;
    encoded[start..end].to_vec()
}

/// As in the query of a URL, with these characters beside letters and digits left as they are.
pub(crate) fn percent_encoded(text: &str, keep: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || keep.as_bytes().contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // A text takes all that is written.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// `%2F` becomes `%2f`.
fn lower_hex(encoded: &str) -> String {
    let mut parts = encoded.split('%');
    let mut lower = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        lower.push('%');
        lower.push_str(&digits.to_ascii_lowercase());
        lower.push_str(rest);
    }
    lower
}

/// Masks a stream that comes in parts. It holds back what may be the beginning of a secret, and nothing else.
#[derive(Debug)]
pub struct MaskStream {
    /// Not passed on yet.
    held: BytesMut,
    /// Parts of `held` that are secret.
    found: Vec<Range<usize>>,
}

impl Default for MaskStream {
    fn default() -> Self {
        Self {
            held: BytesMut::new(),
            found: Vec::new(),
        }
    }
}

impl MaskStream {
    /// Takes the next part, and gives what can be passed on, which may be nothing.
    pub fn next(&mut self, mask: &Mask, part: Bytes) -> Bytes {
        // Most parts have no secret and are not copied.
        if self.held.is_empty() {
            let mut found = Vec::new();
            mask.find(&part, &mut found);
            if found.is_empty() && mask.open_end(&part) == 0 {
                return part;
            }
        }
        self.held.extend_from_slice(&part);
        mask.find(&self.held, &mut self.found);
        let keep = mask.open_end(&self.held);
        let pass = self.held.len() - keep;
        let mut passed = self.held.split_to(pass);
        overwrite(&mut passed, &self.found);
        self.found.retain_mut(|range| {
            *range = range.start.saturating_sub(pass)..range.end.saturating_sub(pass);
            range.start < range.end
        });
        passed.freeze()
    }

    /// How many bytes are held back.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// What was held back, at the end of the stream.
    pub fn finish(&mut self) -> Bytes {
        let mut rest = self.held.split();
        overwrite(&mut rest, &self.found);
        self.found.clear();
        rest.freeze()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::SecretText;
    use crate::credential::tests::credential;

    fn mask(secret: &str) -> Mask {
        let one = credential(json!({"kind": "bearer", "hosts": ["a"]}), secret);
        Mask::new([&one])
    }

    fn streamed(mask: &Mask, parts: &[&[u8]]) -> Vec<u8> {
        let mut stream = MaskStream::default();
        let mut passed = Vec::new();
        for part in parts {
            passed.extend_from_slice(&stream.next(mask, Bytes::copy_from_slice(part)));
        }
        passed.extend_from_slice(&stream.finish());
        passed
    }

    #[test]
    fn the_usual_encodings_are_found() {
        let secret = "s3cr/et+\"with\\ more&<>";
        let mask = mask(secret);
        let base64 = |engine: &GeneralPurpose, text: &str| engine.encode(text);
        let (standard, url) = (
            base64::engine::general_purpose::STANDARD,
            base64::engine::general_purpose::URL_SAFE_NO_PAD,
        );
        for text in [
            secret.to_owned(),
            serde_json::to_string(secret).unwrap(),
            serde_json::to_string(secret).unwrap().replace('/', "\\/"),
            percent_encoded(secret, "-_.~"),
            percent_encoded(secret, "-_.~/").replace("%20", "+"),
            hex::encode(secret),
            base64(&standard, secret),
            base64(&standard, &format!("user:{secret}")),
            base64(&url, &format!("users:{secret}@x")),
            base64(&standard, &format!("us:{secret}:")),
        ] {
            let masked = mask
                .text(text.as_bytes())
                .map(|masked| String::from_utf8(masked).unwrap());
            let masked = masked.unwrap_or(text.clone());
            let stars = memchr::memchr_iter(MASK, masked.as_bytes()).count();
            assert!(stars + 12 >= text.len() && stars >= 20, "{text}: {masked}");
            assert_eq!(masked.len(), text.len());
        }
        assert_eq!(mask.text(b"nothing of this"), None);
        assert!(mask.is_in_any_case(&format!("x-{secret}").to_ascii_uppercase()));
    }

    #[test]
    fn nothing_is_held_back_that_begins_no_secret() {
        let mask = mask("s3cret-s3cret");
        let mut stream = MaskStream::default();
        assert_eq!(
            stream.next(&mask, Bytes::from_static(b"data: 1\n\n")),
            "data: 1\n\n"
        );
        assert_eq!(stream.next(&mask, Bytes::from_static(b"data: s3c")), "data: ");
        assert_eq!(stream.held(), 3);
        assert_eq!(
            stream.next(&mask, Bytes::from_static(b"s")),
            "s3cs"[..3].to_owned()
        );
        assert_eq!(stream.finish(), "s");
    }

    #[test]
    fn secrets_that_overlap_are_masked_whole() {
        let mask = mask("abababab");
        for cut in 0..=12 {
            let text = b"xabababababx";
            let (a, b) = text.split_at(cut);
            assert_eq!(streamed(&mask, &[a, b]), b"x**********x", "{cut}");
        }
    }

    #[test]
    fn a_live_mask_follows_its_credential() {
        let one = credential(
            json!({"kind": "oauth2", "hosts": ["a"], "grant": "client_credentials", "issuer": "https://i", "client_id": "c"}),
            "first-access-token",
        );
        let known = one.known.clone();
        let mut mask = LiveMask::new(vec![one]);
        let mut stream = MaskStream::default();
        let mut passed = Vec::new();
        let mut pass = |mask: &Mask, part: &'static str| {
            passed.extend_from_slice(&stream.next(mask, Bytes::from_static(part.as_bytes())));
        };
        pass(mask.current(), "first-access-token second-access-token sec");
        known.add([SecretText::new("second-access-token".to_owned())]);
        pass(mask.current(), "ond-access-token second-access-token ");
        pass(mask.current(), "first-access-token.");
        let text = String::from_utf8(passed).unwrap();
        let stars = "*".repeat(19);
        // What was passed on before the token was got cannot be masked.
        assert_eq!(
            text,
            format!(
                "{} second-access-token second-access-token {stars} {}.",
                &stars[1..],
                &stars[1..]
            )
        );
    }

    proptest! {
        #[test]
        fn no_cut_lets_a_secret_through(
            secret in "[ab/+ ]{8,12}".prop_filter("no space at an end", |text| text.trim() == text),
            around in proptest::collection::vec("[ab/+ ]{0,9}", 1..6),
            cuts in proptest::collection::vec(0_usize..80, 0..12),
        ) {
            let mask = mask(&secret);
            let text = around.join(&secret).into_bytes();
            let whole = mask.text(&text).unwrap_or_else(|| text.clone());
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < text.len()).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let parts: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            let passed = streamed(&mask, &parts);
            prop_assert_eq!(&passed, &whole);
            prop_assert!(memchr::memmem::find(&passed, secret.as_bytes()).is_none());
        }

        #[test]
        fn every_base64_of_a_text_with_the_secret_is_masked(
            secret in "[!-~]{8,20}", before in "[ -~]{0,7}", after in "[ -~]{0,7}",
        ) {
            let mask = mask(&secret);
            let text = base64::engine::general_purpose::STANDARD.encode(format!("{before}{secret}{after}"));
            let masked = mask.text(text.as_bytes()).unwrap();
            let stars = memchr::memchr_iter(MASK, &masked).count();
            prop_assert!(stars >= secret.len() * 8 / 6 - 1);
        }
    }
}
