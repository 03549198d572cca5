//! Characters that a person does not see. All places that show what code, tools and servers wrote decide by this.
//!
//! Unseen are the characters that have no shape of their own, or change the order or the shape of others: format characters (general category
//! Cf), those that Unicode ignores by default (such as zero-width spaces, tags and variation selectors), line and paragraph separators, the
//! blank pattern of Braille, and those without a meaning in Unicode (private use and noncharacters). Two texts that differ in them look the same,
//! and they can carry words that only a program reads.
//!
//! The marks of numbers and verses of Arabic, Syriac and Kaithi are Cf, but have a shape: they are seen.
//!
//! A text for people is shown without them, except where a script or an emoji needs one ([`Sight`]). What a person approves to the letter has
//! all of them as escapes ([`escape_unseen`]).

use std::fmt::Write as _;

const ZERO_WIDTH_NON_JOINER: char = '\u{200c}';
const ZERO_WIDTH_JOINER: char = '\u{200d}';
/// The selector of the picture of an emoji.
const EMOJI: char = '\u{fe0f}';

/// True if a person does not see this character, wherever it is. Control characters are not meant.
pub fn is_unseen(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
        | '\u{e000}'..='\u{f8ff}' | '\u{fdd0}'..='\u{fdef}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' | '\u{f0000}'..='\u{10ffff}')
        || u32::from(c) & 0xfffe == 0xfffe
}

/// Looks at the characters of a text, one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sight {
    /// The latest one that is shown.
    before: Option<char>,
}

impl Sight {
    /// True if the next character is shown: it is seen, or the one before needs it. Control characters are not, line feeds and tabs neither.
    ///
    /// Joiners belong to scripts from Hebrew on and to emoji, variation selectors to signs, emoji, ideographs and Mongolian letters. One of them
    /// is shown behind such a character, a second one is not. The tags of a flag of a region are not shown.
    pub fn shows(&mut self, c: char) -> bool {
        let is_needed = || self.before.is_some_and(|before| needs(before, c));
        let shown = !c.is_control() && (!is_unseen(c) || is_needed());
        if shown {
            self.before = Some(c);
        }
        shown
    }
}

/// True if a character is read otherwise without this unseen one behind it.
fn needs(before: char, c: char) -> bool {
    match c {
        ZERO_WIDTH_JOINER | ZERO_WIDTH_NON_JOINER => {
            before == EMOJI || (before >= '\u{590}' && !is_unseen(before))
        }
        '\u{fe00}'..='\u{fe0f}' => {
            matches!(before, '#' | '*' | '0'..='9' | '©' | '®')
                || (before >= '\u{1000}' && !is_unseen(before))
        }
        '\u{180b}'..='\u{180d}' | '\u{180f}' => matches!(before, '\u{1820}'..='\u{18aa}'),
        '\u{e0100}'..='\u{e01ef}' => {
            matches!(before, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
        }
        _ => false,
    }
}

/// JSON in which each character is shown where it is: control characters but line feeds, and those that are not seen, are escapes.
pub fn escape_unseen(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && (c.is_control() || is_unseen(c)) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut sight = Sight::default();
        text.chars().filter(|c| sight.shows(*c)).collect()
    }

    #[test]
    fn what_is_not_seen_is_not_shown() {
        let unseen = [
            "\u{0}\u{1b}\u{9b}\u{ad}\u{34f}\u{61c}\u{115f}\u{180e}\u{200b}\u{200c}\u{200d}\u{200e}\u{2028}\u{202e}\u{2060}\u{2065}",
            "\u{2066}\u{2800}\u{3164}\u{e000}\u{f8ff}\u{fdd0}\u{fe0f}\u{feff}\u{fff9}\u{ffff}\u{1d173}\u{e0001}\u{e0041}\u{e0100}\u{f0000}\u{10fffd}",
        ];
        for c in unseen.concat().chars() {
            assert_eq!(shown(&format!("a{c}{c}b")), "ab", "{c:?}");
        }
        // Also behind what would need another one.
        assert_eq!(shown("क\u{e0041}\u{200b}漢\u{e0041}👍\u{e0100}"), "क漢👍");
        assert_eq!(shown("क\u{200d}\u{200d}\u{200c}ष"), "क\u{200d}ष");
    }

    #[test]
    fn scripts_and_emoji_keep_what_they_need() {
        for text in [
            "plain ü ñ Ελλάδα Жук",
            "می\u{200c}خواهم",
            "क्\u{200d}ष",
            "👩\u{200d}👩\u{200d}👧 🏳\u{fe0f}\u{200d}🌈 ❤\u{fe0f} 1\u{fe0f}\u{20e3} ©\u{fe0f} 👍🏽",
            "葛\u{e0100}飾区",
            "ᠠ\u{180b}",
            "\u{600}١٢",
            "e\u{301} \u{a0}\u{3000}",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn an_escape_stands_for_each() {
        assert_eq!(
            escape_unseen("{\n \"a\u{1b}\": \"\u{200b}\u{200d}\u{fe0f}\u{202e}\u{e0041}é👍\"}"),
            "{\n \"a\\u001b\": \"\\u200b\\u200d\\ufe0f\\u202e\\udb40\\udc41é👍\"}"
        );
    }

    proptest::proptest! {
        #[test]
        fn what_was_shown_is_shown_again(text: String) {
            let once = shown(&text);
            proptest::prop_assert_eq!(shown(&once), once);
        }
    }
}
