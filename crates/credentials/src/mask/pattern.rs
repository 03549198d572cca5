//! One secret in one encoding.

use base64::Engine as _;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use zeroize::Zeroize;

use super::forms::{self, Begins};

/// Encodings that are shorter than this are not looked for.
const SHORTEST: usize = 6;

/// The characters of a secret in an encoding. In a text each of them may have any of its [`forms`].
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pattern {
    characters: Vec<u8>,
    /// The letters may be of either case.
    any_case: bool,
    /// Lines may end within the form.
    lines: bool,
}

/// A pattern at the beginning of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Match {
    /// Bytes of the text; `None`: it is not there.
    pub(super) length: Option<usize>,
    /// True if more text may still complete or extend the match.
    pub(super) is_open: bool,
}

/// Places in a text that are reached, character by character.
#[derive(Default)]
pub(super) struct Places {
    now: Vec<usize>,
    next: Vec<usize>,
}

impl Drop for Pattern {
    fn drop(&mut self) {
        self.characters.zeroize();
    }
}

impl Pattern {
    /// The patterns of a secret of any length.
    pub(super) fn of(secret: &[u8]) -> impl Iterator<Item = Self> {
        let pattern = |characters: Vec<u8>, any_case: bool, lines: bool| Self {
            characters,
            any_case,
            lines,
        };
        let mut all = vec![
            pattern(secret.to_vec(), false, false),
            pattern(hex::encode(secret).into_bytes(), true, false),
        ];
        for alphabet in [STANDARD, URL_SAFE] {
            for before in [&b""[..], b"\0", b"\0\0"] {
                all.push(pattern(inside_base64(secret, &alphabet, before), false, true));
            }
        }
        all.into_iter()
            .filter(|pattern| pattern.characters.len() >= SHORTEST)
    }

    /// One of its characters, of which it has at least [`SHORTEST`].
    pub(super) fn character(&self, number: usize) -> u8 {
        self.characters.get(number).copied().unwrap_or_default()
    }

    /// The letters may be of either case.
    pub(super) fn any_case(&self) -> bool {
        self.any_case
    }

    /// Lines may end within the form.
    pub(super) fn has_lines(&self) -> bool {
        self.lines
    }

    /// Returns true if this byte may follow its first character.
    pub(super) fn may_continue(&self, byte: u8) -> bool {
        let is_plain = forms::plain(&[byte], self.character(1), self.any_case) != Begins::Otherwise;
        is_plain || forms::ESCAPES.contains(&byte) || (self.lines && forms::LINE_ENDS.contains(&byte))
    }

    /// Matches the beginning of a text.
    pub(super) fn at(&self, text: &[u8], any_case: bool, places: &mut Places) -> Match {
        let any_case = any_case || self.any_case;
        let Places { now, next } = places;
        now.clear();
        now.push(0);
        let mut is_open = false;
        for (number, character) in self.characters.iter().enumerate() {
            next.clear();
            for place in now.iter().copied() {
                let place = if self.lines && number > 0 {
                    match forms::line_end(text.get(place..).unwrap_or_default()) {
                        Begins::With(length) => place.saturating_add(length),
                        Begins::Open => {
                            is_open = true;
                            place
                        }
                        Begins::Otherwise => place,
                    }
                } else {
                    place
                };
                let rest = text.get(place..).unwrap_or_default();
                for begins in [
                    forms::plain(rest, *character, any_case),
                    forms::escaped(rest, *character),
                ] {
                    match begins {
                        Begins::With(length) => {
                            let end = place.saturating_add(length);
                            if !next.contains(&end) {
                                next.push(end);
                            }
                        }
                        Begins::Open => is_open = true,
                        Begins::Otherwise => {}
                    }
                }
            }
            if next.is_empty() {
                return Match {
                    length: None,
                    is_open,
                };
            }
            std::mem::swap(now, next);
        }
        Match {
            length: now.iter().copied().max(),
            is_open,
        }
    }
}

/// Characters of the Base64 form that the secret alone decides, where this many bytes (modulo 3) precede it. An empty secret decides none.
fn inside_base64(secret: &[u8], alphabet: &Alphabet, before: &[u8]) -> Vec<u8> {
    let text = [before, secret].concat();
    let encoded = GeneralPurpose::new(alphabet, NO_PAD).encode(&text).into_bytes();
    // Six bits each: the first character that has bits of the secret alone, and after the last such one.
    let start = before.len().saturating_mul(8).div_ceil(6);
    let end = text.len().saturating_mul(8) / 6;
    encoded.get(start..end).unwrap_or_default().to_vec()
}
