//! First message of the gateway on a connection: the name of the link that it calls.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Most bytes of a link's name.
const NAME_BYTES: usize = 64;

/// The name of a link, as it stands before everything else.
pub(crate) struct LinkName(String);

impl LinkName {
    /// # Errors
    /// When no link can have the name.
    pub(crate) fn new(link: &str) -> io::Result<Self> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        if link.is_empty() || link.len() > NAME_BYTES || !link.bytes().all(plain) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no link has such a name",
            ));
        }
        Ok(Self(link.to_owned()))
    }

    /// One byte with its length, and the name.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let length = u8::try_from(self.0.len()).unwrap_or(u8::MAX);
        [&[length], self.0.as_bytes()].concat()
    }

    /// Reads no byte behind it.
    pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let length = usize::from(from.read_u8().await?);
        let mut name = [0; u8::MAX as usize];
        let name = &mut name[..length];
        from.read_exact(name).await?;
        Self::new(&String::from_utf8_lossy(name))
    }

    pub(crate) fn into_name(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_comes_back_and_what_follows_is_left() {
        for name in ["gw.sock", "k20003.sock", &"a".repeat(NAME_BYTES)] {
            let mut bytes = LinkName::new(name).unwrap().encode();
            bytes.push(b'!');
            let mut rest = bytes.as_slice();
            assert_eq!(LinkName::read(&mut rest).await.unwrap().into_name(), name);
            assert_eq!(rest, b"!");
        }
    }

    #[tokio::test]
    async fn other_bytes_are_no_name() {
        for bytes in [&b""[..], b"\0", b"\x03ab", b"\x02a/", b"\x02A.", &[255; 256]] {
            assert!(LinkName::read(&mut &bytes[..]).await.is_err(), "{bytes:?}");
        }
    }
}
