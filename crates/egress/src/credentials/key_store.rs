//! Certificates as Java reads them: a key store in the format JKS, which every Java opens without a password.

use std::io;

use sha1::{Digest, Sha1};

const MAGIC: u32 = 0xfeed_feed;
const VERSION: u32 = 2;
/// An entry that is a certificate and no key.
const TRUSTED: u32 = 2;
/// Text that is hashed between the password and the store.
const SALT: &[u8] = b"Mighty Aphrodite";
/// The usual one. It protects nothing: certificates are public.
const PASSWORD: &str = "changeit";

/// A store that trusts these certificates, DER.
///
/// # Errors
/// A certificate, or their number, is too large for the format.
pub(super) fn of<'a>(certificates: impl ExactSizeIterator<Item = &'a [u8]>) -> io::Result<Vec<u8>> {
    let mut store = Vec::new();
    for number in [MAGIC, VERSION, length(certificates.len())?] {
        store.extend(number.to_be_bytes());
    }
    for (number, certificate) in certificates.enumerate() {
        store.extend(TRUSTED.to_be_bytes());
        text(&mut store, &format!("authority-{number}"))?;
        // When it was made, milliseconds since 1970: a store of the same certificates is the same.
        store.extend(0_u64.to_be_bytes());
        text(&mut store, "X.509")?;
        store.extend(length(certificate.len())?.to_be_bytes());
        store.extend(certificate);
    }
    let mut hash = Sha1::new();
    for unit in PASSWORD.encode_utf16() {
        hash.update(unit.to_be_bytes());
    }
    hash.update(SALT);
    hash.update(&store);
    store.extend(hash.finalize());
    Ok(store)
}

fn length(length: usize) -> io::Result<u32> {
    u32::try_from(length).map_err(io::Error::other)
}

fn text(store: &mut Vec<u8>, text: &str) -> io::Result<()> {
    let length = u16::try_from(text.len()).map_err(io::Error::other)?;
    store.extend(length.to_be_bytes());
    store.extend(text.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_has_the_bytes_that_java_expects() {
        let store = of([&b"\x30\x01\x00"[..]].into_iter()).unwrap();
        let (body, hash) = store.split_at(store.len() - 20);
        let mut expected = b"\xfe\xed\xfe\xed\0\0\0\x02\0\0\0\x01\0\0\0\x02\0\x0bauthority-0".to_vec();
        expected.extend(b"\0\0\0\0\0\0\0\0\0\x05X.509\0\0\0\x03\x30\x01\x00");
        assert_eq!(body, expected);
        let mut keyed = b"\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite".to_vec();
        keyed.extend(body);
        assert_eq!(hash, &Sha1::digest(&keyed)[..]);
    }
}
