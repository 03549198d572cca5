//! Filters text of sandboxed code for a terminal: keeps colours, removes all other control sequences.
//!
//! Code in a sandbox is hostile until shown otherwise. Written raw, it could fill the clipboard (OSC 52), make links and
//! titles (OSC 8, 0), move the cursor over what `himalia` itself says, or make the terminal type an answer. So a terminal gets
//! text, colours (SGR), line feed, carriage return, tabulator, backspace and the erasure of a line (EL), which a
//! carriage return could do with spaces too, and no characters that are not seen. Sequences may be cut anywhere between two texts: a filter
//! remembers where it is. ECMA-48 names the sequences.

use himalia_outcome::Sight;

/// Parameters of one colour sequence that are passed on; a longer one is removed.
const MAX_PARAMETERS: usize = 64;

/// Position of a filter in an escape sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte: the next final byte ends it.
    Intermediate,
    /// After CSI. Its parameters are kept; `true` if it can still be passed on.
    Control(bool),
    /// In an OSC, DCS, SOS, PM or APC, which ST or BEL ends.
    String,
    /// After an ESC in one of these.
    StringEscape,
}

/// The filter of one stream.
#[derive(Debug, Default)]
pub(super) struct Filter {
    state: State,
    sight: Sight,
    parameters: String,
    styled: bool,
}

impl Filter {
    /// The part of a text that a terminal may get.
    pub(super) fn pass(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            self.character(c, &mut out);
        }
        out
    }

    /// Returns true if the filtered text left a style switched on, and resets that state.
    pub(super) fn take_style(&mut self) -> bool {
        std::mem::take(&mut self.styled)
    }

    fn character(&mut self, c: char, out: &mut String) {
        self.state = match self.state {
            State::Text => self.text(c, out),
            State::Escape => match c {
                '[' => self.control(),
                ']' | 'P' | 'X' | '^' | '_' => State::String,
                ' '..='/' => State::Intermediate,
                '\u{1b}' => State::Escape,
                '0'..='~' => State::Text,
                _ => self.text(c, out),
            },
            State::Intermediate => match c {
                ' '..='/' => State::Intermediate,
                '0'..='~' => State::Text,
                _ => self.text(c, out),
            },
            State::Control(fits) => match c {
                '0'..='9' | ';' | ':' if fits && self.parameters.len() < MAX_PARAMETERS => {
                    self.parameters.push(c);
                    State::Control(true)
                }
                ' '..='?' => State::Control(false),
                '@'..='~' => {
                    if fits && matches!(c, 'm' | 'K') {
                        out.push_str("\u{1b}[");
                        out.push_str(&self.parameters);
                        out.push(c);
                        if c == 'm' {
                            self.styled = !matches!(self.parameters.as_str(), "" | "0");
                        }
                    }
                    State::Text
                }
                _ => self.text(c, out),
            },
            State::String => match c {
                '\u{7}' | '\u{9c}' => State::Text,
                '\u{1b}' => State::StringEscape,
                _ => State::String,
            },
            State::StringEscape => match c {
                '\\' | '\u{7}' | '\u{9c}' => State::Text,
                '\u{1b}' => State::StringEscape,
                _ => State::String,
            },
        };
    }

    fn text(&mut self, c: char, out: &mut String) -> State {
        match c {
            '\u{1b}' => return State::Escape,
            // The forms in one character of CSI, and of DCS, SOS, OSC, PM and APC.
            '\u{9b}' => return self.control(),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => return State::String,
            '\n' | '\r' | '\t' | '\u{8}' => out.push(c),
            _ if self.sight.shows(c) => out.push(c),
            _ => {}
        }
        State::Text
    }

    fn control(&mut self) -> State {
        self.parameters.clear();
        State::Control(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn passed(text: &str) -> String {
        Filter::default().pass(text)
    }

    #[test]
    fn text_and_colours_pass() {
        for text in [
            "plain ü 漢字\tx\r\n",
            "می\u{200c}خواهم ❤\u{fe0f}",
            "50 %\r100 %\u{8}\u{8}",
            "\u{1b}[1;31mred\u{1b}[0m",
            "\u{1b}[38:2::1:2:3mx\u{1b}[m",
            "a\u{1b}[2Kb\u{1b}[K",
        ] {
            assert_eq!(passed(text), text);
        }
    }

    #[test]
    fn what_steers_a_terminal_is_removed() {
        for (text, left) in [
            ("a\u{1b}]52;c;ZXZpbA==\u{7}b", "ab"),
            (
                "a\u{1b}]8;;http://evil.example\u{1b}\\link\u{1b}]8;;\u{1b}\\b",
                "alinkb",
            ),
            ("a\u{1b}]0;title\u{9c}b", "ab"),
            ("a\u{9d}0;title\u{7}b", "ab"),
            ("a\u{1b}P1$r\u{1b}\\b", "ab"),
            ("a\u{1b}_Gf=100;AAAA\u{1b}\\b", "ab"),
            ("a\u{1b}[2J\u{1b}[1;1Hb", "ab"),
            ("a\u{1b}[1Ab\u{1b}[6nc\u{1b}[?1049hd", "abcd"),
            ("a\u{1b}[>4;1mb", "ab"),
            ("a\u{9b}31mb", "a\u{1b}[31mb"),
            ("a\u{1b}cb\u{1b}(0c\u{1b}#8d", "abcd"),
            ("a\u{7}\u{b}\u{c}\u{e}\u{7f}\u{85}b", "ab"),
            ("a\u{202e}b\u{2066}c", "abc"),
            ("a\u{200b}b\u{e0041}\u{feff}c", "abc"),
            ("a\u{1b}\u{1b}]2;x\u{7}b", "ab"),
        ] {
            assert_eq!(passed(text), left, "{text:?}");
        }
    }

    #[test]
    fn a_style_that_is_left_on_is_known() {
        let mut filter = Filter::default();
        filter.pass("\u{1b}[31mred");
        assert!(filter.take_style() && !filter.take_style());
        filter.pass("\u{1b}[31mred\u{1b}[0m");
        assert!(!filter.take_style());
    }

    #[test]
    fn a_long_colour_is_removed() {
        let long = format!("a\u{1b}[{}mb", "1;".repeat(100));
        assert_eq!(passed(&long), "ab");
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(parts in prop::collection::vec("[\u{1b}\u{9b}\u{9c}\u{7}\\[\\]P\\\\;:?0-9mKHax\n]{0,8}", 0..12)) {
            let whole = passed(&parts.concat());
            let mut filter = Filter::default();
            let cut: String = parts.iter().map(|part| filter.pass(part)).collect();
            prop_assert_eq!(&cut, &whole);
            // What passed is fixed: nothing in it forms a new sequence.
            prop_assert_eq!(passed(&whole), whole);
        }
    }
}
