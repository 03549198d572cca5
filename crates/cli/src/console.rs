//! Output of a command while code runs: what the code prints, and messages of the command itself.

use std::io::{IsTerminal as _, Write};

use super::terminal::Filter;

/// Standard output and standard error of the command.
#[derive(Debug)]
pub(super) struct Console {
    /// Standard error is a terminal that shows colours.
    colours: bool,
    /// True if both streams are probably on one terminal.
    screen: bool,
    /// The last character on the screen was no line break.
    open_line: bool,
    /// Filter for the output of code on each stream that is a terminal, unless raw output was requested.
    out_filter: Option<Filter>,
    err_filter: Option<Filter>,
}

/// A stream of the code, and of the command.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Switches colours off.
const PLAIN: &str = "\u{1b}[0m";

impl Console {
    /// `raw` passes what the code prints to a terminal as it is, sequences that steer the terminal included.
    pub(super) fn new(raw: bool) -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let terminal = std::io::stderr().is_terminal();
        let filter = |terminal: bool| (terminal && !raw).then(Filter::default);
        Self {
            colours: terminal
                && variable("NO_COLOR").is_none()
                && variable("TERM").is_some_and(|term| term != "dumb"),
            screen: terminal && std::io::stdout().is_terminal(),
            open_line: false,
            out_filter: filter(std::io::stdout().is_terminal()),
            err_filter: filter(terminal),
        }
    }

    /// Prints output of the code on one of its streams.
    pub(super) fn print(&mut self, stream: Stream, text: &str) -> anyhow::Result<()> {
        let filter = match stream {
            Stream::Out => &mut self.out_filter,
            Stream::Err => &mut self.err_filter,
        };
        match filter {
            Some(filter) => {
                let text = filter.pass(text);
                self.put(stream, &text)
            }
            None => self.put(stream, text),
        }
    }

    /// A value, on lines of its own on a screen.
    pub(super) fn value(&mut self, text: &str) -> anyhow::Result<()> {
        self.end_line()?;
        self.print(Stream::Out, &format!("{text}\n"))
    }

    /// A traceback; its last line is what was raised.
    pub(super) fn traceback(&mut self, lines: &[&str]) -> anyhow::Result<()> {
        self.end_line()?;
        for (at, line) in lines.iter().enumerate() {
            let line = if at + 1 == lines.len() {
                self.styled("1;31", line)
            } else {
                (*line).to_owned()
            };
            self.print(Stream::Err, &format!("{line}\n"))?;
        }
        Ok(())
    }

    /// A word of the command's own.
    pub(super) fn say(&mut self, text: &str) -> anyhow::Result<()> {
        self.end_line()?;
        let text = self.styled("2", &format!("himalia: {text}"));
        self.put(Stream::Err, &format!("{text}\n"))
    }

    /// Begins a new line on a screen whose last one is not ended, without the colours that the code left switched on.
    pub(super) fn end_line(&mut self) -> anyhow::Result<()> {
        if self.out_filter.as_mut().is_some_and(Filter::take_style) {
            put(Stream::Out, PLAIN)?;
        }
        if self.err_filter.as_mut().is_some_and(Filter::take_style) {
            put(Stream::Err, PLAIN)?;
        }
        if self.screen && self.open_line {
            self.put(Stream::Err, "\n")?;
        }
        Ok(())
    }

    /// The user ended the line on the screen.
    pub(super) fn line_was_typed(&mut self) {
        self.open_line = false;
    }

    fn styled(&self, style: &str, text: &str) -> String {
        if self.colours {
            format!("\u{1b}[{style}m{text}{PLAIN}")
        } else {
            text.to_owned()
        }
    }

    fn put(&mut self, to: Stream, text: &str) -> anyhow::Result<()> {
        if let Some(last) = text.chars().last() {
            self.open_line = last != '\n';
        }
        put(to, text)
    }
}

fn put(to: Stream, text: &str) -> anyhow::Result<()> {
    let mut to: Box<dyn Write> = match to {
        Stream::Out => Box::new(std::io::stdout()),
        Stream::Err => Box::new(std::io::stderr()),
    };
    to.write_all(text.as_bytes())?;
    Ok(to.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_only() {
        let console = |colours| Console {
            colours,
            screen: false,
            open_line: false,
            out_filter: None,
            err_filter: None,
        };
        assert_eq!(console(false).styled("2", "x"), "x");
        assert_eq!(console(true).styled("2", "x"), "\u{1b}[2mx\u{1b}[0m");
    }
}
