//! Lines of a program's output, each within a bound.

use bytes::{Buf as _, Bytes, BytesMut};

/// Bytes of a line that is too long which are kept: whose answer it is stands at its beginning.
const HEAD_BYTES: usize = 1024;
/// Bytes of one line. Behind it the program is given up.
const MAX_LINE: u64 = 4 << 30;

/// A line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Bytes),
    /// It is longer than it may be.
    Long {
        head: Bytes,
        bytes: u64,
    },
    /// It has no end.
    Endless,
}

/// Puts lines together.
#[derive(Debug, Default)]
pub(super) struct Lines {
    line: BytesMut,
    /// Bytes of the line that were not kept.
    skipped: u64,
}

impl Lines {
    /// The next line that has come whole, of at most `most` bytes. Takes what it has read away from `output`.
    pub(super) fn next(&mut self, output: &mut Bytes, most: usize) -> Option<Line> {
        let end = memchr::memchr(b'\n', output);
        let piece = output.split_to(end.unwrap_or(output.len()));
        if self.skipped == 0 && self.line.len() + piece.len() <= most {
            self.line.extend_from_slice(&piece);
        } else {
            if self.skipped == 0 {
                self.skipped = self.line.len() as u64;
                let missing = HEAD_BYTES.saturating_sub(self.line.len()).min(piece.len());
                self.line
                    .extend_from_slice(piece.get(..missing).unwrap_or_default());
                // The memory of a long line is given back.
                self.line = BytesMut::from(self.line.get(..HEAD_BYTES).unwrap_or(&self.line));
            }
            self.skipped += piece.len() as u64;
        }
        if self.skipped > MAX_LINE {
            return Some(Line::Endless);
        }
        end?;
        output.advance(1);
        let line = self.line.split().freeze();
        Some(match std::mem::take(&mut self.skipped) {
            0 => Line::Whole(line),
            bytes => Line::Long { head: line, bytes },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lines: &mut Lines, output: &[u8], most: usize) -> Vec<Line> {
        let mut output = Bytes::copy_from_slice(output);
        std::iter::from_fn(|| lines.next(&mut output, most)).collect()
    }

    fn whole(text: &'static str) -> Line {
        Line::Whole(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn lines_come_whole_however_they_are_written() {
        for size in 1..10 {
            let mut lines = Lines::default();
            let text = b"one\n\ntwo and three\nfour";
            let got: Vec<Line> = text
                .chunks(size)
                .flat_map(|piece| all(&mut lines, piece, 100))
                .collect();
            assert_eq!(got, [whole("one"), whole(""), whole("two and three")], "{size}");
        }
    }

    #[test]
    fn a_long_line_takes_no_more_memory_than_its_beginning() {
        let mut lines = Lines::default();
        assert_eq!(all(&mut lines, b"0123456789", 20), []);
        for _ in 0..1000 {
            assert_eq!(all(&mut lines, &[b'x'; 4096], 20), []);
            assert!(
                lines.line.capacity() <= 2 * HEAD_BYTES,
                "{}",
                lines.line.capacity()
            );
        }
        let got = all(&mut lines, b"\nnext\n", 20);
        let Line::Long { head, bytes } = &got[0] else {
            panic!("{got:?}")
        };
        assert!(head.starts_with(b"0123456789x") && head.len() == HEAD_BYTES);
        assert_eq!((*bytes, &got[1]), (4_096_010, &whole("next")));
    }

    #[test]
    fn a_line_without_end_is_given_up() {
        let mut lines = Lines {
            line: BytesMut::new(),
            skipped: MAX_LINE,
        };
        assert_eq!(
            lines.next(&mut Bytes::from_static(b"xx"), 20),
            Some(Line::Endless)
        );
    }
}
