//! A position in the text of an execution from which folding can continue.

use crate::excerpt::Excerpt;
use crate::fold::Fold;
use crate::page::Page;
use crate::screen::{Screen, Sink};

/// State of the text at a place, from which folding can continue: the lines that can still change.
#[derive(Clone, Debug)]
pub struct Mark {
    pub(crate) screen: Screen<()>,
    pub(crate) clear_next: bool,
    bytes: u64,
}

impl Mark {
    /// The beginning of a text. What came before it, if anything did, is taken back.
    pub fn origin() -> Self {
        Self {
            screen: Screen::new(()),
            clear_next: false,
            bytes: 0,
        }
    }

    /// UTF-8 bytes of the text before it that can no longer change. A page that begins there or later needs nothing of them.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Approximate memory, in bytes.
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.screen.weight()
    }

    /// A page of the text, to be folded on from here. `offset` is not before [`Self::bytes`].
    pub fn page(&self, offset: u64, limit: usize) -> Fold<Page> {
        Fold::resumed(self, Page::after(offset, limit, self.bytes))
    }

    /// All text from here on.
    pub fn text(&self) -> Fold<String> {
        Fold::resumed(self, String::new())
    }
}

impl Sink for () {
    fn push(&mut self, _: &str) {}

    fn clear(&mut self) {}
}

impl Fold<Excerpt> {
    /// The place after the latest message.
    pub fn mark(&self) -> Mark {
        Mark {
            screen: self.screen.over(()),
            clear_next: self.clear_next,
            bytes: self.screen.sink().bytes(),
        }
    }

    /// UTF-8 bytes of all text so far.
    pub fn text_bytes(&self) -> u64 {
        let rest = self.screen.over(String::new()).finish();
        self.screen.sink().bytes() + rest.len() as u64
    }

    /// UTF-8 bytes of the text that can no longer change.
    pub fn final_bytes(&self) -> u64 {
        self.screen.sink().bytes()
    }

    /// Approximate memory in bytes, without the error and the notes, which are bounded.
    pub fn weight(&self) -> usize {
        self.screen.weight() + self.screen.sink().weight() + self.outputs.weight() + self.files.weight()
    }
}

impl Fold<String> {
    /// Takes the text that can no longer change, and forgets it.
    pub fn take_text(&mut self) -> String {
        std::mem::take(self.screen.sink_mut())
    }
}

#[cfg(test)]
mod tests {
    use himalia_wire::{Channel, build};
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    use super::*;

    const CHARS: usize = 40;

    fn messages() -> impl Strategy<Value = Vec<(&'static str, Json)>> {
        let stream = (any::<bool>(), "([abé漢]{0,9}|\n|\r|\u{8}|\u{1b}\\[2?[ABK]){0,12}").prop_map(
            |(is_stderr, text)| {
                let name = if is_stderr { "stderr" } else { "stdout" };
                ("stream", json!({"name": name, "text": text}))
            },
        );
        let clear = any::<bool>().prop_map(|wait| ("clear_output", json!({"wait": wait})));
        let display = Just((
            "display_data",
            json!({"data": {"text/plain": "x"}, "transient": {"display_id": "d"}}),
        ));
        let update = Just((
            "update_display_data",
            json!({"data": {"text/plain": "y"}, "transient": {"display_id": "d"}}),
        ));
        let error = Just(("error", json!({"ename": "E", "evalue": "v", "traceback": []})));
        let one = prop_oneof![12 => stream, 1 => clear, 1 => display, 1 => update, 1 => error];
        proptest::collection::vec(one, 0..24)
    }

    fn put<S: Sink>(fold: &mut Fold<S>, messages: &[(&str, Json)]) {
        for (kind, content) in messages {
            fold.message(Channel::Iopub, &build::message("kernel", kind, None, content));
        }
    }

    /// Of the whole: what is printed, without what was taken back.
    fn whole(messages: &[(&str, Json)]) -> String {
        let mut fold = Fold::over(String::new(), CHARS);
        put(&mut fold, messages);
        fold.into_text()
    }

    proptest! {
        /// Folding on from any place is folding from the beginning.
        #[test]
        fn a_fold_goes_on_from_any_place(messages in messages(), cut in 0usize..24) {
            let (before, after) = messages.split_at(cut.min(messages.len()));
            let (mut from_start, mut first) = (Fold::new(CHARS), Fold::new(CHARS));
            put(&mut from_start, &messages);
            put(&mut first, before);
            let mut on = first.clone();
            put(&mut on, after);
            let (one, other) = (from_start.outcome(), on.outcome());
            prop_assert_eq!((&one.text, &one.outputs, &one.error), (&other.text, &other.outputs, &other.error));
            prop_assert_eq!(on.text_bytes(), one.text.bytes_total);
            prop_assert_eq!(on.text_bytes(), whole(&messages).len() as u64);
        }

        /// Pages from any place on are pages of the whole, also where the text is taken back later.
        #[test]
        fn a_page_is_the_same_from_any_place(messages in messages(), cut in 0usize..24, offset in 0u64..60, limit in 1usize..30) {
            let (before, after) = messages.split_at(cut.min(messages.len()));
            let mut first = Fold::new(CHARS);
            put(&mut first, before);
            let mark = first.mark();
            prop_assume!(mark.bytes() <= offset);
            let (mut from_start, mut on) = (Fold::over(Page::new(offset, limit), CHARS), mark.page(offset, limit));
            put(&mut from_start, &messages);
            put(&mut on, after);
            let (one, other) = (from_start.into_text(), on.into_text());
            prop_assert_eq!(one.text(), other.text());
            prop_assert_eq!((one.offset(), one.next(), one.total()), (other.offset(), other.next(), other.total()));
        }

        /// The text in pieces is the text, as long as nothing is taken back; from the place where that was, in any case.
        #[test]
        fn text_can_be_taken_as_it_becomes_final(messages in messages()) {
            let (mut fold, mut text) = (Mark::origin().text(), String::new());
            let from = messages.iter().rposition(|(kind, _)| *kind == "clear_output").map_or(0, |at| at + 1);
            // What was before is taken back by the next output, if there is one.
            prop_assume!(from == 0 || messages[from..].iter().any(|(kind, _)| *kind == "stream"));
            for message in &messages[from..] {
                put(&mut fold, std::slice::from_ref(message));
                text.push_str(&fold.take_text());
            }
            text.push_str(&fold.into_text());
            prop_assert_eq!(text, whole(&messages));
        }
    }
}
