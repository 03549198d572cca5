//! The lines of a [`Screen`](crate::Screen) that can still change: one cursor for each stream, and what has ended lately.

use std::collections::VecDeque;

use crate::screen::{HELD_ROWS, LINE_CHARS, Sink};

/// Characters of a control string after which it is taken for text that lost its end.
const CONTROL_CHARS: usize = 4096;

/// Lines of both streams that have ended, in the order of their ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndedRows {
    rows: VecDeque<Row>,
    chars: usize,
}

#[derive(Clone, Debug)]
struct Row {
    is_stderr: bool,
    /// Without its line break.
    text: String,
    chars: usize,
}

impl EndedRows {
    /// Bytes of memory.
    pub(crate) fn weight(&self) -> usize {
        let row = |row: &Row| size_of::<Row>() + row.text.len();
        self.rows.iter().map(row).sum()
    }

    /// Whole lines with their ends, without control characters.
    pub(crate) fn add_lines(&mut self, is_stderr: bool, lines: &str, sink: &mut impl Sink) {
        let before = lines.get(..lines.len().saturating_sub(1)).unwrap_or_default();
        // What comes before the last ones would go to the sink in any case.
        let start = before.rmatch_indices('\n').nth(HELD_ROWS - 1);
        let (gone, kept) = lines.split_at(start.map_or(0, |(at, _)| at + 1));
        if !gone.is_empty() {
            self.release(sink);
            sink.push(gone);
        }
        for line in kept.split_terminator('\n') {
            self.add(is_stderr, line.to_owned(), sink);
        }
    }

    /// One line. The oldest ones go to the sink for it.
    fn add(&mut self, is_stderr: bool, text: String, sink: &mut impl Sink) {
        let chars = text.chars().count();
        if chars >= LINE_CHARS {
            // Its pieces would have gone already, had it come in several messages.
            self.release(sink);
            push_line(sink, &text);
            return;
        }
        self.chars += chars;
        self.rows.push_back(Row {
            is_stderr,
            text,
            chars,
        });
        while self.rows.len() > HELD_ROWS || self.chars > LINE_CHARS {
            let Some(row) = self.rows.pop_front() else { return };
            self.chars -= row.chars;
            push_line(sink, &row.text);
        }
    }

    /// The latest line of a stream, which has not ended then.
    fn take(&mut self, is_stderr: bool) -> Option<Vec<char>> {
        let at = self.rows.iter().rposition(|row| row.is_stderr == is_stderr)?;
        let row = self.rows.remove(at)?;
        self.chars -= row.chars;
        Some(row.text.chars().collect())
    }

    /// All of them to the sink.
    pub(crate) fn release(&mut self, sink: &mut impl Sink) {
        self.chars = 0;
        for row in self.rows.drain(..) {
            push_line(sink, &row.text);
        }
    }
}

fn push_line(sink: &mut impl Sink, text: &str) {
    sink.push(text);
    sink.push("\n");
}

/// A stream's cursor, and the lines around it that have not ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pen {
    is_stderr: bool,
    /// Lines above the last one, since the cursor went back to them. One more than the held lines at most.
    above: VecDeque<Vec<char>>,
    /// The cursor's line.
    line: Vec<char>,
    below: VecDeque<Vec<char>>,
    column: usize,
    /// The first line's beginning is in the sink.
    is_torn: bool,
    control: Control,
}

/// State of a stream within a control sequence (ECMA-48), which may continue in the next message.
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

impl Pen {
    pub(crate) fn new(is_stderr: bool) -> Self {
        Self {
            is_stderr,
            ..Self::default()
        }
    }

    /// True at the beginning of a line.
    pub(crate) fn is_fresh(&self) -> bool {
        self.line.is_empty()
            && self.column == 0
            && self.above.is_empty()
            && self.below.is_empty()
            && !self.is_torn
            && self.control == Control::None
    }

    /// Bytes of memory.
    pub(crate) fn weight(&self) -> usize {
        let lines = self.above.iter().chain(&self.below).chain([&self.line]);
        lines
            .map(|line| size_of::<Vec<char>>() + line.len() * size_of::<char>())
            .sum()
    }

    /// The lines that have not ended.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.above {
            text.extend(line);
            text.push('\n');
        }
        text.extend(&self.line);
        for line in &self.below {
            text.push('\n');
            text.extend(line);
        }
        text
    }

    pub(crate) fn put(&mut self, char: char, held: &mut EndedRows, sink: &mut impl Sink) {
        if char == '\n' {
            self.control = Control::None;
            self.line_break(held, sink);
            return;
        }
        self.control = match self.control {
            Control::None => {
                self.put_plain(char, held, sink);
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
                    self.obey(char, first, held);
                    Control::None
                }
                // It has lost its end.
                _ => {
                    self.control = Control::None;
                    self.put_plain(char, held, sink);
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

    fn put_plain(&mut self, char: char, held: &mut EndedRows, sink: &mut impl Sink) {
        match char {
            '\u{1b}' => self.control = Control::Escape,
            '\u{9b}' => self.control = Control::Sequence(0),
            '\r' => self.column = 0,
            '\u{8}' => self.column = self.column.saturating_sub(1),
            char if char == '\t' || !char.is_control() => self.write(char, held, sink),
            _ => {}
        }
    }

    fn write(&mut self, char: char, held: &mut EndedRows, sink: &mut impl Sink) {
        if self.column > self.line.len() {
            self.line.resize(self.column, ' ');
        }
        match self.line.get_mut(self.column) {
            Some(old) => *old = char,
            None => self.line.push(char),
        }
        self.column += 1;
        let others = self.above.iter().chain(&self.below).map(Vec::len);
        if self.line.len() + others.sum::<usize>() >= LINE_CHARS {
            self.tear(held, sink);
        }
    }

    /// Hands over the text down to the cursor's line, which can no longer be overwritten.
    fn tear(&mut self, held: &mut EndedRows, sink: &mut impl Sink) {
        held.release(sink);
        for line in self.above.drain(..) {
            push_line(sink, &line.iter().collect::<String>());
        }
        sink.push(&self.line.drain(..).collect::<String>());
        self.column = 0;
        self.is_torn = true;
    }

    /// Down to the next line's beginning. Below the last one there is nothing: then all lines have ended.
    fn line_break(&mut self, held: &mut EndedRows, sink: &mut impl Sink) {
        self.column = 0;
        if self.down() {
            return;
        }
        self.above.push_back(std::mem::take(&mut self.line));
        for line in self.above.drain(..) {
            let text = line.into_iter().collect::<String>();
            if std::mem::take(&mut self.is_torn) {
                held.release(sink);
                push_line(sink, &text);
            } else {
                held.add(self.is_stderr, text, sink);
            }
        }
    }

    /// Performs a control sequence: `CSI n A` and `CSI n B` move up and down, `CSI n K` erases.
    fn obey(&mut self, what: char, first: u8, held: &mut EndedRows) {
        match what {
            'A' => (0..first.max(1)).all(|_| self.up(held)),
            'B' => (0..first.max(1)).all(|_| self.down()),
            'K' => {
                self.erase(first);
                true
            }
            _ => true,
        };
    }

    /// To the line above; false if there is none.
    fn up(&mut self, held: &mut EndedRows) -> bool {
        let Some(line) = self.above.pop_back().or_else(|| held.take(self.is_stderr)) else {
            return false;
        };
        self.below.push_front(std::mem::replace(&mut self.line, line));
        true
    }

    /// To the line below; false if there is none.
    fn down(&mut self) -> bool {
        let Some(line) = self.below.pop_front() else {
            return false;
        };
        self.above.push_back(std::mem::replace(&mut self.line, line));
        true
    }

    /// `CSI n K`: 0 to the end of the line, 1 to its start, 2 all of it.
    fn erase(&mut self, what: u8) {
        match what {
            0 => self.line.truncate(self.column),
            1 => self.line.iter_mut().take(self.column).for_each(|old| *old = ' '),
            _ => self.line.clear(),
        }
    }
}
