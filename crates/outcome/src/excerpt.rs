//! The beginning and the end of a text of any length, in bounded memory.

use crate::screen::Sink;

/// Characters over what is kept of the end before it is cut again.
const SLACK: usize = 1024;

/// Keeps the first and the last characters of a text, half of the budget each, and counts all of it.
#[derive(Clone, Debug, Default)]
pub struct Excerpt {
    head_most: usize,
    tail_most: usize,
    head: String,
    head_chars: usize,
    tail: String,
    tail_chars: usize,
    /// Characters that were dropped between head and tail.
    dropped: bool,
    bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExcerptText {
    /// The beginning; all of it when nothing is omitted.
    pub head: String,
    /// The end; empty when nothing is omitted.
    pub tail: String,
    /// UTF-8 bytes of the whole text.
    pub bytes_total: u64,
    /// UTF-8 bytes between head and tail that are not shown.
    pub bytes_omitted: u64,
}

impl ExcerptText {
    /// Head and tail in one, with a note in between that says what is left out and `more`: where the rest is.
    pub fn text(self, more: &str) -> String {
        if self.bytes_omitted == 0 {
            return self.head;
        }
        let Self {
            head,
            tail,
            bytes_omitted,
            ..
        } = self;
        format!("{head}\n[… {bytes_omitted} bytes omitted{more} …]\n{tail}")
    }

    /// UTF-8 bytes that are shown.
    pub fn bytes_shown(&self) -> u64 {
        self.bytes_total - self.bytes_omitted
    }
}

impl Excerpt {
    /// For at most so many characters.
    pub fn new(budget: usize) -> Self {
        Self {
            head_most: budget / 2,
            tail_most: budget - budget / 2,
            ..Self::default()
        }
    }

    /// UTF-8 bytes of the whole text.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Approximate memory, in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Excerpt within the budget.
    pub fn shown(&self) -> ExcerptText {
        self.shown_within(self.head_most + self.tail_most)
    }

    /// Excerpt within a smaller budget.
    pub fn shown_within(&self, budget: usize) -> ExcerptText {
        let (bytes_total, budget) = (self.bytes, budget.min(self.head_most + self.tail_most));
        if !self.dropped && self.head_chars + self.tail_chars <= budget {
            let head = format!("{}{}", self.head, self.tail);
            return ExcerptText {
                head,
                bytes_total,
                ..ExcerptText::default()
            };
        }
        let (first, last) = (budget / 2, budget - budget / 2);
        // What is over in the head cannot be part of the end: the end is longer than the budget's half, or all there is.
        let kept = format!("{}{}", self.head, self.tail);
        let (head, tail) = if self.dropped {
            (first_chars(&self.head, first), last_chars(&self.tail, last))
        } else {
            (first_chars(&kept, first), last_chars(&kept, last))
        };
        let (head, tail) = (head.to_owned(), tail.to_owned());
        let bytes_omitted = bytes_total.saturating_sub((head.len() + tail.len()) as u64);
        ExcerptText {
            head,
            tail,
            bytes_total,
            bytes_omitted,
        }
    }

    fn trim(&mut self) {
        let tail = last_chars(&self.tail, self.tail_most).to_owned();
        self.dropped |= tail.len() < self.tail.len();
        self.tail_chars = self.tail_chars.min(self.tail_most);
        self.tail = tail;
    }
}

impl Sink for Excerpt {
    fn push(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        let mut rest = text;
        if self.head_chars < self.head_most {
            let head = first_chars(rest, self.head_most - self.head_chars);
            self.head_chars += head.chars().count();
            self.head.push_str(head);
            rest = rest.get(head.len()..).unwrap_or_default();
        }
        if rest.is_empty() {
            return;
        }
        // Of one large piece only the end can matter.
        let end = last_chars(rest, self.tail_most);
        if end.len() < rest.len() {
            self.dropped = true;
            self.tail.clear();
            self.tail_chars = 0;
        }
        self.tail_chars += end.chars().count();
        self.tail.push_str(end);
        if self.tail_chars > self.tail_most.saturating_mul(2).saturating_add(SLACK) {
            self.trim();
        }
    }

    fn clear(&mut self) {
        *self = Self::new(self.head_most + self.tail_most);
    }
}

fn first_chars(text: &str, count: usize) -> &str {
    let end = text.char_indices().nth(count).map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or_default()
}

fn last_chars(text: &str, count: usize) -> &str {
    let Some(before) = count.checked_sub(1) else {
        return "";
    };
    let start = text.char_indices().rev().nth(before).map_or(0, |(at, _)| at);
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_note_says_what_is_missing() {
        let mut excerpt = Excerpt::new(4);
        excerpt.push("äöxxxxüß");
        let shown = excerpt.shown();
        assert_eq!(
            (shown.bytes_total, shown.bytes_omitted, shown.bytes_shown()),
            (12, 4, 8)
        );
        assert_eq!(
            shown.text(", see there"),
            "äö\n[… 4 bytes omitted, see there …]\nüß"
        );
        let mut whole = Excerpt::new(4);
        whole.push("äöüß");
        assert_eq!(whole.shown().text(""), "äöüß");
        whole.clear();
        whole.push("x");
        assert_eq!((whole.shown().head.as_str(), whole.shown().bytes_total), ("x", 1));
    }

    proptest! {
        /// Any text in any pieces: the beginning and the end, and every byte counted.
        #[test]
        fn head_and_tail_are_exact(pieces in proptest::collection::vec("[aé漢]{0,40}", 0..60), budget in 0usize..50, less in 0usize..50) {
            let mut excerpt = Excerpt::new(budget);
            for piece in &pieces {
                excerpt.push(piece);
            }
            let whole = pieces.concat();
            let within = budget.min(less);
            for (shown, budget) in [(excerpt.shown(), budget), (excerpt.shown_within(less), within)] {
                prop_assert_eq!(shown.bytes_total, whole.len() as u64);
                prop_assert!(shown.head.chars().count() + shown.tail.chars().count() <= budget);
                prop_assert!(whole.starts_with(&shown.head) && whole.ends_with(&shown.tail));
                let kept = (shown.head.len() + shown.tail.len()) as u64;
                prop_assert_eq!(shown.bytes_omitted, shown.bytes_total - kept);
                if whole.chars().count() <= budget {
                    prop_assert_eq!(&shown.head, &whole);
                } else {
                    prop_assert_eq!(shown.head.chars().count() + shown.tail.chars().count(), budget);
                }
            }
        }
    }
}
