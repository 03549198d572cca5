//! Text as a terminal leaves it: carriage returns and backspaces overwrite, colours are gone.
//!
//! Standard output and standard error have a line each that is still being written. A line goes to the sink when it ends,
//! so a progress bar on one and prints on the other do not tear each other apart, and only the last state of a bar is
//! kept, however many messages it came in.

/// Characters of a line that can still be overwritten. A longer line goes to the sink in pieces.
pub(crate) const LINE_CHARS: usize = 64 << 10;
/// Characters of a control string after which it is taken for text that lost its end.
const CONTROL_CHARS: usize = 4096;

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
#[derive(Clone, Debug, Default)]
pub struct Screen<S> {
    sink: S,
    out: Line,
    err: Line,
}

#[derive(Clone, Debug, Default)]
struct Line {
    chars: Vec<char>,
    cursor: usize,
    control: Control,
}

/// Where in a control sequence (ECMA-48) a stream is; it may go on in the next message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Control {
    #[default]
    None,
    Escape,
    /// `ESC [`, with the first parameter so far.
    Sequence(u8),
    /// `ESC ]` and the like, until BEL or `ESC \`; how long it is already.
    Text(usize),
    TextEscape(usize),
}

impl Control {
    /// One character more of a control string.
    fn text(length: usize) -> Self {
        if length < CONTROL_CHARS {
            Self::Text(length + 1)
        } else {
            Self::None
        }
    }
}

impl<S: Sink> Screen<S> {
    /// An empty one.
    pub fn new(sink: S) -> Self {
        Self {
            sink,
            out: Line::default(),
            err: Line::default(),
        }
    }

    /// Writes to one of the two streams.
    pub fn write(&mut self, is_stderr: bool, text: &str) {
        let line = if is_stderr { &mut self.err } else { &mut self.out };
        let mut rest = text;
        while !rest.is_empty() {
            if line.is_fresh() {
                // Whole lines without anything special, which is nearly all there is, are not looked at singly.
                let special = rest.find(|c: char| c != '\n' && c != '\t' && c.is_control());
                let plain = rest.get(..special.unwrap_or(rest.len())).unwrap_or_default();
                if let Some(end) = plain.rfind('\n') {
                    let (lines, tail) = rest.split_at(end + 1);
                    self.sink.push(lines);
                    rest = tail;
                    continue;
                }
            }
            let Some(char) = rest.chars().next() else { return };
            rest = rest.get(char.len_utf8()..).unwrap_or_default();
            line.put(char, &mut self.sink);
        }
    }

    /// Takes everything back.
    pub fn clear(&mut self) {
        self.sink.clear();
        (self.out, self.err) = (Line::default(), Line::default());
    }

    /// The sink with all text, lines included that have not ended.
    pub fn finish(mut self) -> S {
        let both = !self.out.chars.is_empty() && !self.err.chars.is_empty();
        self.out.flush(&mut self.sink);
        if both {
            self.sink.push("\n");
        }
        self.err.flush(&mut self.sink);
        self.sink
    }
}

/// Text on its own, without colours and overwritten parts.
pub(crate) fn plain(text: &str) -> String {
    let mut screen = Screen::new(String::new());
    screen.write(false, text);
    screen.finish()
}

impl Line {
    fn is_fresh(&self) -> bool {
        self.chars.is_empty() && self.cursor == 0 && self.control == Control::None
    }

    fn put(&mut self, char: char, sink: &mut impl Sink) {
        if char == '\n' {
            self.control = Control::None;
            self.flush(sink);
            sink.push("\n");
            return;
        }
        self.control = match self.control {
            Control::None => {
                self.put_plain(char, sink);
                return;
            }
            Control::Escape => match char {
                '[' => Control::Sequence(0),
                ']' | 'P' | 'X' | '^' | '_' => Control::Text(0),
                // Intermediate bytes; another one follows.
                ' '..='/' => Control::Escape,
                _ => Control::None,
            },
            Control::Sequence(first) => match char {
                '0'..='9' => {
                    let digit = u8::try_from(u32::from(char) - u32::from('0')).unwrap_or(0);
                    Control::Sequence(first.saturating_mul(10).saturating_add(digit))
                }
                ' '..='?' => Control::Sequence(first),
                '@'..='~' => {
                    if char == 'K' {
                        self.erase(first);
                    }
                    Control::None
                }
                // It has lost its end.
                _ => {
                    self.control = Control::None;
                    self.put_plain(char, sink);
                    return;
                }
            },
            Control::Text(length) => match char {
                '\u{7}' => Control::None,
                '\u{1b}' => Control::TextEscape(length + 1),
                _ => Control::text(length),
            },
            Control::TextEscape(length) => match char {
                '\\' | '\u{7}' => Control::None,
                _ => Control::text(length),
            },
        };
    }

    fn put_plain(&mut self, char: char, sink: &mut impl Sink) {
        match char {
            '\u{1b}' => self.control = Control::Escape,
            '\u{9b}' => self.control = Control::Sequence(0),
            '\r' => self.cursor = 0,
            '\u{8}' => self.cursor = self.cursor.saturating_sub(1),
            char if char == '\t' || !char.is_control() => self.write(char, sink),
            _ => {}
        }
    }

    fn write(&mut self, char: char, sink: &mut impl Sink) {
        if self.cursor > self.chars.len() {
            self.chars.resize(self.cursor, ' ');
        }
        match self.chars.get_mut(self.cursor) {
            Some(old) => *old = char,
            None => self.chars.push(char),
        }
        self.cursor += 1;
        if self.chars.len() >= LINE_CHARS {
            self.flush(sink);
        }
    }

    /// `CSI n K`: 0 to the end of the line, 1 to its start, 2 all of it.
    fn erase(&mut self, what: u8) {
        match what {
            0 => self.chars.truncate(self.cursor),
            1 => self.chars.iter_mut().take(self.cursor).for_each(|old| *old = ' '),
            _ => self.chars.clear(),
        }
    }

    fn flush(&mut self, sink: &mut impl Sink) {
        if !self.chars.is_empty() {
            sink.push(&self.chars.drain(..).collect::<String>());
        }
        self.cursor = 0;
    }
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
            shown(&[(false, &format!("\u{1b}]{}tail", "x".repeat(CONTROL_CHARS + 1)))]),
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

    proptest! {
        /// Where a stream is cut into messages does not matter.
        #[test]
        fn cuts_do_not_matter(text in "[a-c\u{1b}\\[\\]0-2Km\r\n\u{8}é ]{0,80}", cuts in proptest::collection::vec(0usize..80, 0..6)) {
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

        /// Nothing is left that moves a cursor or changes a colour.
        #[test]
        fn nothing_special_is_left(text in any::<String>()) {
            let out = plain(&text);
            prop_assert!(out.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
        }
    }
}
