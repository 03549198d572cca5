//! Texts of servers, shortened for errors.

/// Characters of a text of a server in an error.
const TEXT_CHARS: usize = 2000;

/// A text of a server, short enough for an error, on one line.
pub fn clip(text: &str) -> String {
    let plain = text
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter });
    let mut cut: String = plain.take(TEXT_CHARS).collect();
    if cut.len() < text.len() && text.chars().nth(TEXT_CHARS).is_some() {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_servers_are_cut_and_have_no_control_characters() {
        let text = clip(&"\u{1b}[31mé\n".repeat(TEXT_CHARS));
        assert_eq!(text.chars().count(), TEXT_CHARS + 1);
        assert!(!text.contains(char::is_control) && text.ends_with('…'));
        assert_eq!(clip("short"), "short");
    }
}
