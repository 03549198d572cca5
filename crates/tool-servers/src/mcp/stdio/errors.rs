//! Standard error of a program: for the log of the gateway, and its end for the reason of a failure.

use std::collections::VecDeque;

use himalia_upstream::clip;
use tokio::time::{Duration, Instant};

/// Bytes of the end that are kept.
const TAIL_BYTES: usize = 2048;
/// Bytes of a line in the log. What is behind them is left out.
const LINE_BYTES: usize = 512;
/// Lines of one program in the log within a minute. The next ones are counted.
const LINES: u32 = 60;
const MINUTE: Duration = Duration::from_mins(1);
/// A variable of a program is hidden in what it writes if its value has so many bytes.
const SECRET_BYTES: usize = 8;

/// The errors of one program.
pub(in crate::mcp) struct Errors {
    server: String,
    secrets: Vec<String>,
    tail: VecDeque<u8>,
    line: Vec<u8>,
    since: Instant,
    lines: u32,
    omitted: u64,
}

impl Errors {
    /// Creates the filter for a server whose variables have these values.
    pub(in crate::mcp) fn new<'a>(server: &str, values: impl Iterator<Item = &'a String>) -> Self {
        Self {
            server: server.to_owned(),
            secrets: values
                .filter(|value| value.len() >= SECRET_BYTES)
                .cloned()
                .collect(),
            tail: VecDeque::new(),
            line: Vec::new(),
            since: Instant::now(),
            lines: 0,
            omitted: 0,
        }
    }

    /// It has written this.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let end = bytes
            .get(bytes.len().saturating_sub(TAIL_BYTES)..)
            .unwrap_or_default();
        self.tail.extend(end);
        self.tail.drain(..self.tail.len().saturating_sub(TAIL_BYTES));
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE_BYTES.saturating_sub(self.line.len()).min(piece.len());
            self.line.extend_from_slice(piece.get(..room).unwrap_or_default());
            if piece.ends_with(b"\n") {
                let mut line = std::mem::take(&mut self.line);
                if line.len() == LINE_BYTES {
                    // A part of a secret may stand at the end.
                    let words = line.iter().rposition(u8::is_ascii_whitespace).unwrap_or(0);
                    line.truncate(words);
                }
                self.log(&line);
            }
        }
    }

    fn log(&mut self, line: &[u8]) {
        if self.since.elapsed() >= MINUTE {
            if self.omitted > 0 {
                tracing::info!(
                    server = self.server,
                    omitted = self.omitted,
                    "lines of the errors of a server of tools are left out"
                );
            }
            (self.since, self.lines, self.omitted) = (Instant::now(), 0, 0);
        }
        let text = self.shown(line);
        if text.is_empty() {
            return;
        }
        if self.lines >= LINES {
            self.omitted += 1;
            return;
        }
        self.lines += 1;
        tracing::info!(
            server = self.server,
            text,
            "a server of tools writes to its standard error"
        );
    }

    /// The end of all of it, on one line; empty if there is none.
    pub(super) fn tail(&mut self) -> String {
        let tail = self.tail.make_contiguous();
        let first = if tail.len() == TAIL_BYTES {
            // A part of a secret may stand at the beginning.
            tail.iter()
                .position(u8::is_ascii_whitespace)
                .unwrap_or(TAIL_BYTES)
        } else {
            0
        };
        let tail = tail.get(first..).unwrap_or_default().to_vec();
        self.shown(&tail)
    }

    fn shown(&self, bytes: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(bytes).into_owned();
        for secret in &self.secrets {
            text = text.replace(secret, "*");
        }
        clip(text.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_end_is_kept_without_secrets_and_the_log_has_a_bound() {
        let (secret, short) = ("s3cret-token".to_owned(), "UTC".to_owned());
        let mut errors = Errors::new("a", [&secret, &short].into_iter());
        for number in 0..10_000 {
            errors.add(format!("line {number} UTC s3cret-token\n").as_bytes());
        }
        errors.add(&vec![b'x'; 1 << 20]);
        assert!(errors.line.len() <= LINE_BYTES && errors.tail.len() <= TAIL_BYTES);
        assert_eq!((errors.lines, errors.omitted), (LINES, 10_000 - u64::from(LINES)));
        errors.add(b"\nthe token s3cret-token is bad in UTC\n");
        let tail = errors.tail();
        assert!(tail.ends_with("the token * is bad in UTC"), "{tail}");
        tokio::time::advance(MINUTE).await;
        errors.add(b"again\n");
        assert_eq!((errors.lines, errors.omitted), (1, 0));
    }
}
