//! The server name in the first message of a TLS client (RFC 8446, section 4.1.2; RFC 6066, section 3). Only what is needed, and
//! bounded: nothing is decrypted.

/// Most bytes of records up to the end of the message.
pub(crate) const HELLO_BYTES: usize = 32 * 1024;

const RECORD_HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

/// An alert for a client whose server name is refused: fatal, `unrecognized_name`.
pub(crate) const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// Kinds of first bytes of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FirstBytes {
    /// Not enough to tell.
    Part,
    /// No TLS.
    Other,
    /// TLS, and what it says of the server.
    Hello(ClientHello),
}

/// Names in a client's first TLS message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientHello {
    /// The name, as it was sent.
    pub(crate) server_name: Option<String>,
    /// True if the real name may be encrypted.
    pub(crate) encrypted: bool,
}

/// Looks at the first bytes of a connection.
pub(crate) fn look(bytes: &[u8]) -> FirstBytes {
    let mut message = Vec::new();
    let mut rest = bytes;
    // The message may be cut into records at any place.
    loop {
        match rest {
            []
            | [RECORD_HANDSHAKE]
            | [RECORD_HANDSHAKE, 3]
            | [RECORD_HANDSHAKE, 3, 0..=4]
            | [RECORD_HANDSHAKE, 3, 0..=4, _] => return FirstBytes::Part,
            [RECORD_HANDSHAKE, 3, 0..=4, high, low, after @ ..] => {
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                if length == 0 {
                    return FirstBytes::Other;
                }
                let there = after.len().min(length);
                message.extend_from_slice(&after[..there]);
                match parse(&message) {
                    ParsedHello::Done(hello) => return FirstBytes::Hello(hello),
                    ParsedHello::Broken => return FirstBytes::Other,
                    ParsedHello::Part if there < length => return FirstBytes::Part,
                    ParsedHello::Part => rest = &after[there..],
                }
            }
            _ => return FirstBytes::Other,
        }
    }
}

enum ParsedHello {
    Part,
    Broken,
    Done(ClientHello),
}

fn parse(message: &[u8]) -> ParsedHello {
    let [kind, a, b, c, body @ ..] = message else {
        return match message {
            [] | [CLIENT_HELLO, ..] => ParsedHello::Part,
            _ => ParsedHello::Broken,
        };
    };
    let length = usize::try_from(u32::from_be_bytes([0, *a, *b, *c])).unwrap_or(usize::MAX);
    if *kind != CLIENT_HELLO || length > HELLO_BYTES {
        return ParsedHello::Broken;
    }
    match body.get(..length) {
        None => ParsedHello::Part,
        Some(body) => hello(Bytes(body)).map_or(ParsedHello::Broken, ParsedHello::Done),
    }
}

fn hello(mut body: Bytes<'_>) -> Option<ClientHello> {
    // Version and random number.
    body.take(2 + 32)?;
    body.short()?;
    body.long()?;
    body.short()?;
    let mut found = ClientHello::default();
    if body.0.is_empty() {
        return Some(found);
    }
    let mut extensions = Bytes(body.long()?);
    if !body.0.is_empty() {
        return None;
    }
    while !extensions.0.is_empty() {
        let kind = extensions.number()?;
        let data = extensions.long()?;
        match kind {
            // A second one would let two readers see two names.
            SERVER_NAME if found.server_name.is_some() => return None,
            SERVER_NAME => found.server_name = Some(server_name(Bytes(data))?),
            ENCRYPTED_CLIENT_HELLO => found.encrypted = true,
            _ => {}
        }
    }
    Some(found)
}

/// The list has one name.
fn server_name(mut data: Bytes<'_>) -> Option<String> {
    let mut list = Bytes(data.long()?);
    let kind = list.take(1)?;
    let name = list.long()?;
    let single = kind == [HOST_NAME] && list.0.is_empty() && data.0.is_empty();
    let name = single.then_some(name)?;
    String::from_utf8(name.to_vec()).ok()
}

/// Bytes that are left to read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        self.take(2)
            .and_then(|two| two.try_into().ok())
            .map(u16::from_be_bytes)
    }

    /// As many bytes as one byte says.
    fn short(&mut self) -> Option<&'a [u8]> {
        let [length] = self.take(1)? else { return None };
        self.take(usize::from(*length))
    }

    /// As many bytes as two bytes say.
    fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(usize::from(length))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        let length = u16::try_from(data.len()).unwrap();
        [&kind.to_be_bytes()[..], &length.to_be_bytes(), data].concat()
    }

    fn name(name: &str) -> Vec<u8> {
        let length = u16::try_from(name.len()).unwrap();
        let entry = [&[HOST_NAME][..], &length.to_be_bytes(), name.as_bytes()].concat();
        let total = u16::try_from(entry.len()).unwrap();
        extension(SERVER_NAME, &[&total.to_be_bytes()[..], &entry].concat())
    }

    fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
        let extensions = extensions.concat();
        let length = u16::try_from(extensions.len()).unwrap();
        let body = [
            &[3, 3][..],
            &[7; 32],
            &[0],
            &[0, 2, 0x13, 1],
            &[1, 0],
            &length.to_be_bytes(),
            &extensions,
        ]
        .concat();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[CLIENT_HELLO][..], &length[1..], &body].concat()
    }

    fn records(message: &[u8], most: usize) -> Vec<u8> {
        let record = |part: &[u8]| {
            let length = u16::try_from(part.len()).unwrap();
            [&[RECORD_HANDSHAKE, 3, 1][..], &length.to_be_bytes(), part].concat()
        };
        message.chunks(most).flat_map(record).collect()
    }

    /// The first bytes of a client that wants this server.
    pub(crate) fn client_hello(server: Option<&str>) -> Vec<u8> {
        records(
            &message(&server.map(name).into_iter().collect::<Vec<_>>()),
            16_384,
        )
    }

    fn wanted(server: &str) -> FirstBytes {
        FirstBytes::Hello(ClientHello {
            server_name: Some(server.to_owned()),
            encrypted: false,
        })
    }

    #[test]
    fn the_name_is_found_however_it_is_cut() {
        let message = message(&[
            extension(10, &[0; 300]),
            name("a.example"),
            extension(43, &[2, 3, 4]),
        ]);
        for most in [1, 3, 4, 5, 64, 16_384] {
            let bytes = records(&message, most);
            assert_eq!(look(&bytes), wanted("a.example"));
            for cut in 0..bytes.len() {
                let seen = look(&bytes[..cut]);
                assert!(
                    seen == FirstBytes::Part || (seen == wanted("a.example") && cut + 1 >= bytes.len()),
                    "{cut} of {most}"
                );
            }
        }
    }

    #[test]
    fn what_could_hide_another_name_is_seen() {
        let two = records(&message(&[name("a.example"), name("b.example")]), 16_384);
        assert_eq!(look(&two), FirstBytes::Other);
        let hidden = records(
            &message(&[name("a.example"), extension(ENCRYPTED_CLIENT_HELLO, &[1; 60])]),
            16_384,
        );
        let FirstBytes::Hello(hello) = look(&hidden) else {
            panic!()
        };
        assert!(hello.encrypted);
        let none = records(&message(&[extension(10, &[])]), 16_384);
        assert_eq!(look(&none), FirstBytes::Hello(ClientHello::default()));
        let mut trailing = message(&[name("a.example")]);
        trailing[3] += 1;
        trailing.push(0);
        assert_eq!(look(&records(&trailing, 16_384)), FirstBytes::Other);
    }

    #[test]
    fn what_is_no_tls_is_told_at_once() {
        for bytes in [
            &b"GET / HTTP/1.1"[..],
            b"SSH-2.0",
            &[0x80, 0x2e, 1],
            &[22, 2],
            &[22, 3, 9],
            &[22, 3, 1, 0, 0],
            &[22, 3, 1, 0, 4, 2],
        ] {
            assert_eq!(look(bytes), FirstBytes::Other, "{bytes:?}");
        }
        assert_eq!(
            look(&[22, 3, 1, 0, 5, 1, 0, 0xff, 0, 0]),
            FirstBytes::Other,
            "longer than may be"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..600), head in any::<bool>()) {
            let bytes = if head { records(&[&[1, 0, 2, 0][..], &bytes].concat(), 100) } else { bytes };
            look(&bytes);
        }

        /// More bytes never change what was seen.
        #[test]
        fn what_was_seen_stays(server in "[a-z]{1,20}", most in 1_usize..200, more in proptest::collection::vec(any::<u8>(), 0..50)) {
            let bytes = records(&message(&[name(&server)]), most);
            prop_assert_eq!(look(&bytes), wanted(&server));
            prop_assert_eq!(look(&[&bytes[..], &more].concat()), wanted(&server));
        }
    }
}
