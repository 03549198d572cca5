//! Text as a terminal leaves it: carriage returns and backspaces overwrite, the cursor goes up and down, colours are gone.
//!
//! Standard output and standard error have a cursor each. A line goes to the sink some time after its end, so a progress bar on
//! one stream and prints on the other do not tear each other apart, and only the last state of a bar is kept, however many
//! messages it came in. The cursor can go back to lines of its stream that are still held: at most [`HELD_ROWS`] of both streams
//! together, with at most [`LINE_CHARS`] characters. Lines that it went back to count as not ended.

use crate::rows::{EndedRows, Pen};

/// Characters of the lines of one stream that can still be overwritten. A longer line goes to the sink in pieces.
pub(crate) const LINE_CHARS: usize = 64 << 10;
/// Lines that have ended and to which the cursor can go back.
pub(crate) const HELD_ROWS: usize = 64;

/// Takes finished text.
pub trait Sink {
    /// More text, in order.
    fn push(&mut self, text: &str);
    /// All text so far is taken back.
    fn clear(&mut self);
}

impl Sink for String {
    fn push(&mut self, text: &str) {
        self.push_str(text);
    }

    fn clear(&mut self) {
        String::clear(self);
    }
}

/// A terminal of endless length over a sink.
#[derive(Clone, Debug)]
pub struct Screen<S> {
    sink: S,
    held: EndedRows,
    out: Pen,
    err: Pen,
}

impl<S: Sink> Screen<S> {
    /// An empty one.
    pub fn new(sink: S) -> Self {
        Self {
            sink,
            held: EndedRows::default(),
            out: Pen::new(false),
            err: Pen::new(true),
        }
    }

    /// Writes to one of the two streams.
    pub fn write(&mut self, is_stderr: bool, text: &str) {
        let pen = if is_stderr { &mut self.err } else { &mut self.out };
        let mut rest = text;
        while !rest.is_empty() {
            if pen.is_fresh() {
                // Whole lines without anything special, which is nearly all there is, are not looked at singly.
                let special = rest.find(|c: char| c != '\n' && c != '\t' && c.is_control());
                let plain = rest.get(..special.unwrap_or(rest.len())).unwrap_or_default();
                if let Some(end) = plain.rfind('\n') {
                    let (lines, tail) = rest.split_at(end + 1);
                    self.held.add_lines(is_stderr, lines, &mut self.sink);
                    rest = tail;
                    continue;
                }
            }
            let Some(char) = rest.chars().next() else { return };
            rest = rest.get(char.len_utf8()..).unwrap_or_default();
            pen.put(char, &mut self.held, &mut self.sink);
        }
    }

    /// Sink of the text that can no longer change.
    pub(crate) fn sink(&self) -> &S {
        &self.sink
    }

    pub(crate) fn sink_mut(&mut self) -> &mut S {
        &mut self.sink
    }

    /// The same lines that can still change, over another sink.
    pub(crate) fn over<T>(&self, sink: T) -> Screen<T> {
        Screen {
            sink,
            held: self.held.clone(),
            out: self.out.clone(),
            err: self.err.clone(),
        }
    }

    /// Approximate memory of the lines that can still change, in bytes.
    pub(crate) fn weight(&self) -> usize {
        self.held.weight() + self.out.weight() + self.err.weight()
    }

    /// Takes everything back.
    pub fn clear(&mut self) {
        self.sink.clear();
        self.held = EndedRows::default();
        (self.out, self.err) = (Pen::new(false), Pen::new(true));
    }

    /// The sink with all text, lines included that have not ended.
    pub fn finish(mut self) -> S {
        self.held.release(&mut self.sink);
        let (out, err) = (self.out.text(), self.err.text());
        self.sink.push(&out);
        if !out.is_empty() && !out.ends_with('\n') && !err.is_empty() {
            self.sink.push("\n");
        }
        self.sink.push(&err);
        self.sink
    }
}

/// Text on its own, without colours and overwritten parts.
pub(crate) fn plain(text: &str) -> String {
    let mut screen = Screen::new(String::new());
    screen.write(false, text);
    screen.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(writes: &[(bool, &str)]) -> String {
        let mut screen = Screen::new(String::new());
        for (is_stderr, text) in writes {
            screen.write(*is_stderr, text);
        }
        screen.finish()
    }

    #[test]
    fn overwriting_goes_on_in_the_next_message() {
        assert_eq!(
            shown(&[(false, "10%\r"), (false, "20"), (false, "%\r100%\n")]),
            "100%\n"
        );
        assert_eq!(shown(&[(false, "abc\u{8}\u{8}X\n")]), "aXc\n");
        assert_eq!(shown(&[(false, "a\r\nb\r"), (false, "\n")]), "a\nb\n");
        assert_eq!(shown(&[(false, "long line\r\u{1b}[Kx\n")]), "x\n");
        assert_eq!(shown(&[(false, "abc\u{1b}[2Kd\n")]), "   d\n");
    }

    #[test]
    fn a_bar_beside_prints_stays_one_line() {
        let writes = [
            (true, "\r  0%|   | 0/2"),
            (false, "first\n"),
            (true, "\r 50%|#  | 1/2"),
            (false, "second\n"),
            (true, "\r100%|###| 2/2\n"),
        ];
        assert_eq!(shown(&writes), "first\nsecond\n100%|###| 2/2\n");
    }

    #[test]
    fn colours_go_wherever_messages_are_cut() {
        assert_eq!(
            shown(&[(false, "\u{1b}[0;31mred\u{1b}["), (false, "0m plain")]),
            "red plain"
        );
        assert_eq!(
            shown(&[(false, "\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{1b}\\!")]),
            "link!"
        );
        assert_eq!(shown(&[(false, "\u{1b}(Bx\u{7}y\u{9b}1mz")]), "xyz");
        // A control string that never ends costs its line and no more.
        assert_eq!(shown(&[(false, "\u{1b}]lost\nkept")]), "\nkept");
        assert_eq!(
            shown(&[(false, &format!("\u{1b}]{}tail", "x".repeat(4097)))]),
            "tail"
        );
    }

    #[test]
    fn lines_that_have_not_ended_do_not_run_together() {
        assert_eq!(shown(&[(false, "a"), (true, "b")]), "a\nb");
        assert_eq!(shown(&[(true, "b")]), "b");
        assert_eq!(
            shown(&[(false, &"x".repeat(LINE_CHARS + 3))]),
            "x".repeat(LINE_CHARS + 3)
        );
    }

    /// A terminal with all its rows, for one stream.
    fn terminal(text: &str) -> String {
        let (mut rows, mut row, mut column) = (vec![Vec::new()], 0_usize, 0_usize);
        let mut rest = text;
        while let Some(char) = rest.chars().next() {
            rest = &rest[char.len_utf8()..];
            match char {
                '\n' => {
                    (row, column) = (row + 1, 0);
                    if row == rows.len() {
                        rows.push(Vec::new());
                    }
                }
                '\r' => column = 0,
                '\u{8}' => column = column.saturating_sub(1),
                '\u{1b}' => {
                    let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap();
                    let count: usize = rest[1..end].parse().unwrap_or(0);
                    match &rest[end..=end] {
                        "A" => row = row.saturating_sub(count.max(1)),
                        "B" => row = (row + count.max(1)).min(rows.len() - 1),
                        _ if count == 0 => rows[row].truncate(column),
                        _ if count == 1 => rows[row].iter_mut().take(column).for_each(|old| *old = ' '),
                        _ => rows[row].clear(),
                    }
                    rest = &rest[end + 1..];
                }
                char => {
                    let wide = rows[row].len().max(column + 1);
                    rows[row].resize(wide, ' ');
                    rows[row][column] = char;
                    column += 1;
                }
            }
        }
        let rows: Vec<String> = rows.into_iter().map(String::from_iter).collect();
        rows.join("\n")
    }

    #[test]
    fn a_line_is_out_of_reach_after_so_many_others() {
        let lines = |count| format!("first\n{}", "x\n".repeat(count));
        let up = format!("\u{1b}[{HELD_ROWS}A");
        let reached = |count| plain(&format!("{}{up}new", lines(count))).starts_with("newst\n");
        assert!(reached(HELD_ROWS - 1) && !reached(HELD_ROWS));
        let wide = "w".repeat(LINE_CHARS / 2);
        assert!(plain(&format!("first\n{wide}\n\u{1b}[2Anew")).starts_with("newst\n"));
        assert!(plain(&format!("first\n{wide}\n{wide}\n\u{1b}[3Anew")).starts_with("first\n"));
    }

    proptest! {
        /// Where a stream is cut into messages does not matter.
        #[test]
        fn cuts_do_not_matter(text in "[a-c\u{1b}\\[\\]0-2ABKm\r\n\u{8}é ]{0,80}", cuts in proptest::collection::vec(0usize..80, 0..6)) {
            let mut screen = Screen::new(String::new());
            let chars: Vec<char> = text.chars().collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(chars.len())).collect();
            cuts.push(chars.len());
            cuts.sort_unstable();
            let mut from = 0;
            for to in cuts {
                screen.write(false, &chars[from..to].iter().collect::<String>());
                from = to;
            }
            prop_assert_eq!(screen.finish(), plain(&text));
        }

        /// Text that fits is what a terminal of that many rows shows.
        #[test]
        fn it_is_what_a_terminal_shows(text in "([ab]{0,3}|\n|\r|\u{8}|\u{1b}\\[[0-3]?[ABK]){0,40}") {
            prop_assert_eq!(plain(&text), terminal(&text));
        }

        /// Where two streams are cut into messages does not matter, as long as their order is the same.
        #[test]
        fn cuts_of_two_streams_do_not_matter(writes in proptest::collection::vec((any::<bool>(), "([ab]{1,9}|\n|\r|\u{1b}\\[2?[ABK]){0,20}"), 0..12)) {
            let (mut whole, mut single) = (Screen::new(String::new()), Screen::new(String::new()));
            for (is_stderr, text) in &writes {
                whole.write(*is_stderr, text);
                for char in text.chars() {
                    single.write(*is_stderr, char.encode_utf8(&mut [0; 4]));
                }
            }
            prop_assert_eq!(whole.finish(), single.finish());
        }

        /// Nor does it where lines are too many, or too long, to be gone back to.
        #[test]
        fn cuts_do_not_matter_at_the_bounds(
            lines in 0usize..(2 * HELD_ROWS),
            long in proptest::sample::select(vec![1, LINE_CHARS / 64, LINE_CHARS / 2, LINE_CHARS - 1, LINE_CHARS, LINE_CHARS + 1]),
            up in 1usize..80,
        ) {
            let text = format!("{}{}\nx\u{1b}[{up}Ay\n", "line\n".repeat(lines), "z".repeat(long));
            let (mut single, last) = (Screen::new(String::new()), text.len() - 20.min(text.len()));
            for char in text[..last].chars() {
                single.write(false, char.encode_utf8(&mut [0; 4]));
            }
            single.write(false, &text[last..]);
            prop_assert_eq!(single.finish(), plain(&text));
        }

        /// Nothing is left that moves a cursor or changes a colour.
        #[test]
        fn nothing_special_is_left(text in any::<String>()) {
            let out = plain(&text);
            prop_assert!(out.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
        }
    }
}
