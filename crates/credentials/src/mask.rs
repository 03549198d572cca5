//! Finding secrets in responses: as they are, and in the encodings in which servers usually repeat what they were sent.
//!
//! ```text
//! a secret     Pattern (mask/pattern.rs): as text, as hexadecimal digits, as Base64 at any offset
//! a character  forms (mask/forms.rs): as it is, percent-encoded, escaped as in JSON or JavaScript, as an entity of HTML
//! a text       Mask (here), LiveMask (mask/live.rs): all patterns of some credentials, at the places where they may begin (mask/starts.rs)
//! a stream     MaskStream (mask/stream.rs)
//! ```

mod forms;
mod live;
mod pattern;
mod starts;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::ops::Range;

pub use live::LiveMask;
pub use stream::MaskStream;

use crate::Credential;
use pattern::{Pattern, Places};
use starts::Starts;

/// Replacement for each byte of a secret.
const MASK: u8 = b'*';

/// The secrets of credentials, to be found in responses. Each byte of one is overwritten, so that no length changes.
pub struct Mask {
    patterns: Vec<Pattern>,
    starts: Starts,
}

impl Mask {
    /// For the secrets of these credentials. One that has none yet adds nothing.
    pub fn new<'a>(credentials: impl IntoIterator<Item = &'a Credential>) -> Self {
        let mut patterns = BTreeSet::new();
        for credential in credentials {
            let value = &credential.value;
            let own = [
                Some(&value.value),
                value.session_token.as_ref(),
                value.client_secret.as_ref(),
            ];
            for secret in own.into_iter().flatten().chain(&credential.known.all()) {
                patterns.extend(Pattern::of(secret.expose().as_bytes()));
            }
        }
        let patterns: Vec<Pattern> = patterns.into_iter().collect();
        let starts = Starts::new(&patterns);
        Self { patterns, starts }
    }

    /// True if no secret is looked for.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
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

    /// True if the text contains a secret in any letter case, as in the name of a header.
    pub fn is_in_any_case(&self, text: &str) -> bool {
        let mut places = Places::default();
        let mut starts = 0..text.len();
        starts.any(|at| {
            let rest = text.as_bytes().get(at..).unwrap_or_default();
            let mut patterns = self.patterns.iter();
            patterns.any(|pattern| pattern.at(rest, true, &mut places).length.is_some())
        })
    }

    /// Adds the places at which secrets are. Gives the number of bytes at the end that may be the beginning of one.
    fn find(&self, text: &[u8], found: &mut Vec<Range<usize>>) -> usize {
        let mut places = Places::default();
        let mut open = 0;
        self.starts.each(&self.patterns, text, |at, pattern| {
            let rest = text.get(at..).unwrap_or_default();
            let match_here = pattern.at(rest, false, &mut places);
            // Occurrences may overlap.
            found.extend(match_here.length.map(|length| at..at.saturating_add(length)));
            if match_here.is_open {
                open = open.max(rest.len());
            }
        });
        open
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mask")
            .field("patterns", &self.patterns.len())
            .finish_non_exhaustive()
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
