//! Texts of prompts, of `input()` and of `getpass()`, as people see them.

use crate::unseen::Sight;

/// Characters of a question that are kept; what follows is cut off.
pub const MAX_PROMPT_CHARS: usize = 2_000;

/// A question that may be shown: no control characters but line feeds and tabs, no characters that are not seen ([`Sight`]), and at most
/// [`MAX_PROMPT_CHARS`]. The text comes from the code, which may want to look like another program.
pub fn shown(prompt: &str) -> String {
    let mut sight = Sight::default();
    let mut kept = prompt
        .chars()
        .filter(|c| matches!(c, '\n' | '\t') || sight.shows(*c));
    let mut text: String = kept.by_ref().take(MAX_PROMPT_CHARS).collect();
    if kept.next().is_some() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_plain_and_short() {
        assert_eq!(shown("Name?\n\tfirst "), "Name?\n\tfirst ");
        assert_eq!(shown("a\u{1b}[2J\r\u{7}\u{202e}b\u{2066}c\u{9b}d"), "a[2Jbcd");
        assert_eq!(shown("Pay\u{200b} \u{e0041}1\u{feff}0?"), "Pay 10?");
        assert_eq!(shown(&"ü".repeat(MAX_PROMPT_CHARS)), "ü".repeat(MAX_PROMPT_CHARS));
        let long = shown(&"x".repeat(10 << 20));
        assert_eq!(long.chars().count(), MAX_PROMPT_CHARS + 1);
        assert!(long.ends_with("x…"));
    }
}
