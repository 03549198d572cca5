/// The beginning of a text, at most `bytes` of it and as one line. For what a kernel says and the gateway repeats.
pub(crate) fn line(text: &str, bytes: usize) -> String {
    let end = (0..=bytes.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    text.get(..end)
        .unwrap_or_default()
        .replace(|character: char| character.is_control(), " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_between_characters() {
        assert_eq!(line("aé\nb", 2), "a");
        assert_eq!(line("aé\nb", 4), "aé ");
        assert_eq!(line("short", 100), "short");
    }
}
