//! A part of a text of any length, by offset.

use crate::screen::Sink;

/// Collects the bytes of a text from an offset on. Characters are never cut: a page begins with the first whole character
/// at or after its offset, and holds at least one character if there is one.
#[derive(Clone, Debug, Default)]
pub struct Page {
    offset: u64,
    limit: usize,
    text: String,
    /// Start of the page, once text is on it.
    start: Option<u64>,
    full: bool,
    total: u64,
}

impl Page {
    /// The page of at most `limit` UTF-8 bytes after `offset` bytes.
    pub fn new(offset: u64, limit: usize) -> Self {
        Self {
            offset,
            limit,
            ..Self::default()
        }
    }

    /// The same page for a text of which `before` bytes, no more than `offset`, are not pushed.
    pub fn after(offset: u64, limit: usize, before: u64) -> Self {
        Self {
            total: before,
            ..Self::new(offset, limit)
        }
    }

    /// True if no later text can be on the page.
    pub fn is_full(&self) -> bool {
        self.full
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Bytes before the page.
    pub fn offset(&self) -> u64 {
        self.start.unwrap_or_else(|| self.offset.min(self.total))
    }

    /// The offset of the next page; equal to [`Self::total`] when this is the last one.
    pub fn next(&self) -> u64 {
        self.offset() + self.text.len() as u64
    }

    /// Bytes of the text so far.
    pub fn total(&self) -> u64 {
        self.total
    }
}

impl Sink for Page {
    fn push(&mut self, text: &str) {
        let before = self.total;
        self.total += text.len() as u64;
        if self.full || self.total <= self.offset {
            return;
        }
        let skip = usize::try_from(self.offset.saturating_sub(before)).unwrap_or(text.len());
        let Some(from) = (skip..=text.len()).find(|at| text.is_char_boundary(*at)) else {
            return;
        };
        let rest = text.get(from..).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        self.start.get_or_insert(before + from as u64);
        let room = self.limit.saturating_sub(self.text.len());
        let mut end = room.min(rest.len());
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        if end == 0 && self.text.is_empty() {
            end = rest.chars().next().map_or(0, char::len_utf8);
        }
        self.full = end < rest.len();
        self.text.push_str(rest.get(..end).unwrap_or_default());
    }

    fn clear(&mut self) {
        *self = Self::new(self.offset, self.limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page(pieces: &[String], offset: u64, limit: usize) -> Page {
        let mut page = Page::new(offset, limit);
        for piece in pieces {
            page.push(piece);
        }
        page
    }

    #[test]
    fn beyond_the_end_is_empty() {
        let page = page(&["abc".into()], 7, 10);
        assert_eq!(
            (page.text(), page.offset(), page.next(), page.total()),
            ("", 3, 3, 3)
        );
    }

    proptest! {
        /// Page after page is the whole text, whatever the sizes.
        #[test]
        fn pages_are_the_text(pieces in proptest::collection::vec("[aé漢\n]{0,20}", 0..20), limit in 1usize..30) {
            let whole = pieces.concat();
            let (mut all, mut offset) = (String::new(), 0);
            while offset < whole.len() as u64 {
                let page = page(&pieces, offset, limit);
                prop_assert_eq!(page.offset(), offset);
                prop_assert!(!page.text().is_empty() && page.text().len() <= limit.max(4));
                all.push_str(page.text());
                offset = page.next();
            }
            prop_assert_eq!(all, whole);
        }
    }
}
