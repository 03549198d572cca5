//! Bytes per second that a mask looks through: `cargo run --release -p himalia-credentials --example mask`.
#![allow(clippy::print_stdout, reason = "the figures are the output")]
#![allow(
    clippy::cast_precision_loss,
    clippy::format_push_string,
    reason = "it only measures"
)]

use std::error::Error;
use std::time::Instant;

use bytes::Bytes;
use himalia_credentials::{Credential, CredentialValue, Mask, MaskStream, SecretText};
use himalia_model::credential::CredentialFields;

/// Bytes of a part of a response.
const PART: usize = 16 << 10;
/// Bytes of a text.
const TEXT: usize = 4 << 20;
/// How often a text is looked through; the shortest time counts.
const TIMES: usize = 9;

/// The same numbers each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap_or_default() % below
    }

    fn text(&mut self, letters: &[u8], length: usize) -> String {
        (0..length)
            .map(|_| char::from(letters[self.next(letters.len())]))
            .collect()
    }
}

const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const WORDS: &[u8] = b"eeeeeeeeetttttttaaaaaaoooooiiiiinnnnnsssshhhhrrrrdddlllcccuummwwffggyyppbbvkjxqz     ";

fn mask(numbers: &mut Numbers, secrets: usize) -> Result<Mask, Box<dyn Error>> {
    let mut all = Vec::new();
    for _ in 0..secrets {
        let fields: CredentialFields =
            serde_json::from_str(r#"{"kind": "bearer", "hosts": ["example.org"]}"#)?;
        let value = CredentialValue {
            value: SecretText::new(format!("sk-{}", numbers.text(BASE64, 40))),
            session_token: None,
            client_secret: None,
        };
        all.push(Credential::new("one", fields.try_into()?, value));
    }
    Ok(Mask::new(&all))
}

/// Texts as servers send them.
fn texts(numbers: &mut Numbers) -> [(&'static str, String); 4] {
    let mut json = String::new();
    let mut escaped = String::new();
    while json.len() < TEXT {
        let (name, text) = (numbers.text(WORDS, 8), numbers.text(WORDS, 60));
        let number = numbers.next(1_000_000);
        json += &format!("{{\"id\": {number}, \"name\": \"{name}\", \"text\": \"{text}\\n\"}},\n");
        escaped += &format!("url=https%3A%2F%2Fexample.org%2F{number}&amp;name=\\u00e9\\u4f60{name}\\\"\n");
    }
    [
        ("words", numbers.text(WORDS, TEXT)),
        ("JSON", json),
        ("Base64", numbers.text(BASE64, TEXT)),
        ("escapes", escaped),
    ]
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = Numbers(1);
    let texts = texts(&mut numbers);
    println!("{:12}{:>10}{:>12}", "text", "secrets", "MB/s");
    for (name, text) in texts {
        let text = Bytes::from(text);
        for secrets in [1, 10, 64] {
            let mask = mask(&mut numbers, secrets)?;
            let mut best = 0.0_f64;
            for _ in 0..TIMES {
                let (mut stream, mut passed) = (MaskStream::default(), 0);
                let begun = Instant::now();
                for from in (0..text.len()).step_by(PART) {
                    let part = text.slice(from..(from + PART).min(text.len()));
                    passed += stream.next(&mask, part).len();
                }
                passed += stream.finish().len();
                best = best.max(passed as f64 / begun.elapsed().as_secs_f64() / 1e6);
            }
            println!("{name:12}{secrets:10}{best:12.0}");
        }
    }
    Ok(())
}
