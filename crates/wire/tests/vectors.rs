//! Messages as the reference implementations frame them, see `tests/vectors/README.md`.

use bytes::Bytes;
use himalia_wire::{Channel, Limits, Parts, Signer, header, legacy, v1, zmq};
use serde::Deserialize;
use serde_json::Value;

const PYTHON: &str = include_str!("../../../tests/vectors/python.json");
const JAVASCRIPT: &str = include_str!("../../../tests/vectors/javascript.json");

#[derive(Deserialize)]
struct Vector {
    name: String,
    channel: String,
    parts: [Hex; 4],
    buffers: Vec<Hex>,
    v1: Hex,
    legacy_text: Option<String>,
    legacy_binary: Option<Hex>,
    #[serde(flatten)]
    zmq: Option<Zmq>,
    #[serde(default)]
    null_parent: bool,
}

#[derive(Deserialize)]
struct Zmq {
    scheme: String,
    key: Hex,
    identities: Vec<Hex>,
    #[serde(rename = "zmq")]
    frames: Vec<Hex>,
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Hex(Bytes);

impl TryFrom<String> for Hex {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let pairs = text.as_bytes().chunks(2).map(String::from_utf8_lossy);
        let bytes: Result<Vec<u8>, _> = pairs.map(|pair| u8::from_str_radix(&pair, 16)).collect();
        bytes.map(|bytes| Self(bytes.into()))
    }
}

impl Vector {
    fn channel(&self) -> Channel {
        Channel::parse(&self.channel).unwrap_or_else(|| panic!("{}", self.name))
    }

    fn expected(&self) -> Parts {
        let [header, parent_header, metadata, content] = &self.parts;
        Parts {
            header: header.0.clone(),
            parent_header: parent_header.0.clone(),
            metadata: metadata.0.clone(),
            content: content.0.clone(),
            buffers: bytes(&self.buffers),
        }
    }
}

fn bytes(list: &[Hex]) -> Vec<Bytes> {
    list.iter().map(|hex| hex.0.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vectors(json: &str) -> Vec<Vector> {
        let vectors: Vec<Vector> = serde_json::from_str(json).unwrap();
        assert!(vectors.len() >= 8);
        vectors
    }

    /// Parsed, with lone surrogates (that `Value` refuses) as U+FFFD.
    fn parsed(name: &str, json: &[u8]) -> Value {
        let text = String::from_utf8_lossy(json).replace(r"\ud800", r"\ufffd");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"))
    }

    #[test]
    fn python_zmq_frames_byte_for_byte() {
        for vector in vectors(PYTHON) {
            let zmq = vector.zmq.as_ref().unwrap();
            let signer = Signer::new(&zmq.scheme, &zmq.key.0).unwrap();
            let incoming = zmq::decode(bytes(&zmq.frames), &signer, &Limits::KERNEL).unwrap();
            assert_eq!(incoming.identities, bytes(&zmq.identities), "{}", vector.name);
            assert_eq!(incoming.parts, vector.expected(), "{}", vector.name);
            let frames = zmq::encode(&incoming.identities, &incoming.parts, &signer);
            assert_eq!(frames, bytes(&zmq.frames), "{}", vector.name);
        }
    }

    #[test]
    fn v1_frames_byte_for_byte() {
        for vector in vectors(PYTHON).iter().chain(&vectors(JAVASCRIPT)) {
            let (channel, parts) = v1::decode(&vector.v1.0, &Limits::CLIENT).unwrap();
            assert_eq!(channel, vector.channel(), "{}", vector.name);
            assert_eq!(parts, vector.expected(), "{}", vector.name);
            assert_eq!(v1::encode(channel, &parts), vector.v1.0, "{}", vector.name);
        }
    }

    #[test]
    fn headers_of_all_vectors_can_be_read() {
        for vector in vectors(PYTHON).iter().chain(&vectors(JAVASCRIPT)) {
            let parts = vector.expected();
            let peek = header::peek(&parts.header).unwrap();
            let full = parsed(&vector.name, &parts.header);
            assert_eq!(peek.msg_id, full["msg_id"].as_str().unwrap());
            assert_eq!(peek.msg_type, full["msg_type"].as_str().unwrap());
            assert_eq!(peek.session, full["session"].as_str().unwrap());
            let parent = header::peek_parent(&parts.parent_header).unwrap();
            let full = parsed(&vector.name, &parts.parent_header);
            assert_eq!(
                parent.map(|p| p.msg_id.into_owned()).as_deref(),
                full["msg_id"].as_str()
            );
        }
    }

    /// A server's legacy frames: the same JSON (its text may differ) and the same buffers.
    #[test]
    fn python_legacy_frames_mean_the_same() {
        for vector in vectors(PYTHON) {
            let name = &vector.name;
            let ours = legacy::encode(vector.channel(), &vector.expected()).unwrap();
            match (ours, &vector.legacy_text, &vector.legacy_binary) {
                (legacy::Frame::Text(ours), Some(theirs), None) => {
                    assert_eq!(
                        parsed(name, ours.as_bytes()),
                        parsed(name, theirs.as_bytes()),
                        "{name}"
                    );
                }
                (legacy::Frame::Binary(ours), None, Some(theirs)) => {
                    let (ours, our_buffers) = split(&ours);
                    let (theirs, their_buffers) = split(&theirs.0);
                    assert_eq!(parsed(name, &ours), parsed(name, &theirs), "{name}");
                    assert_eq!(our_buffers, their_buffers, "{name}");
                }
                other => panic!("{name}: {other:?}", other = other.0),
            }
        }
    }

    /// A client's legacy frames: the parts are its own bytes.
    #[test]
    fn javascript_legacy_frames_byte_for_byte() {
        for vector in vectors(JAVASCRIPT) {
            let name = &vector.name;
            let (channel, parts) = match (&vector.legacy_text, &vector.legacy_binary) {
                (Some(text), None) => legacy::decode_text(text, &Limits::CLIENT).unwrap(),
                (None, Some(frame)) => legacy::decode_binary(&frame.0, &Limits::CLIENT).unwrap(),
                _ => panic!("{name}"),
            };
            assert_eq!(channel, Some(vector.channel()), "{name}");
            assert_eq!(parts, vector.expected(), "{name}");
            assert!(!vector.null_parent || parts.parent_header == "{}", "{name}");
        }
    }

    /// JSON and the rest, cut by the table as a client does it.
    fn split(frame: &Bytes) -> (Bytes, Vec<Bytes>) {
        let word = |i: usize| u32::from_be_bytes(frame[i * 4..i * 4 + 4].try_into().unwrap()) as usize;
        let mut ends: Vec<usize> = (1..=word(0)).map(word).collect();
        assert_eq!(ends[0], 4 * (word(0) + 1));
        ends.push(frame.len());
        let mut slices = ends.windows(2).map(|pair| frame.slice(pair[0]..pair[1]));
        let json = slices.next().unwrap();
        (json, slices.collect())
    }
}
