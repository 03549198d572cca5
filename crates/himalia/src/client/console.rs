//! Where a command writes while code runs: what the code printed, and the command's own words beside it.

use std::io::{IsTerminal as _, Write};

/// Standard output and standard error of the command.
#[derive(Debug)]
pub(super) struct Console {
    /// Standard error is a terminal that shows colours.
    colours: bool,
    /// Both are the same screen, as far as can be told.
    screen: bool,
    /// The last character on the screen was no line break.
    open_line: bool,
}

impl Console {
    pub(super) fn new() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let terminal = std::io::stderr().is_terminal();
        Self {
            colours: terminal
                && variable("NO_COLOR").is_none()
                && variable("TERM").is_some_and(|term| term != "dumb"),
            screen: terminal && std::io::stdout().is_terminal(),
            open_line: false,
        }
    }

    /// What the code printed, as it is.
    pub(super) fn out(&mut self, text: &str) -> anyhow::Result<()> {
        self.put(std::io::stdout(), text)
    }

    /// What it printed on standard error.
    pub(super) fn err(&mut self, text: &str) -> anyhow::Result<()> {
        self.put(std::io::stderr(), text)
    }

    /// A value, on lines of its own on a screen.
    pub(super) fn value(&mut self, text: &str) -> anyhow::Result<()> {
        self.end_line()?;
        self.out(&format!("{text}\n"))
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
            self.err(&format!("{line}\n"))?;
        }
        Ok(())
    }

    /// A word of the command's own.
    pub(super) fn say(&mut self, text: &str) -> anyhow::Result<()> {
        self.end_line()?;
        let text = self.styled("2", &format!("himalia: {text}"));
        self.err(&format!("{text}\n"))
    }

    /// Begins a new line on a screen whose last one is not ended.
    pub(super) fn end_line(&mut self) -> anyhow::Result<()> {
        if self.screen && self.open_line {
            self.err("\n")?;
        }
        Ok(())
    }

    /// Somebody ended the line on the screen.
    pub(super) fn line_was_typed(&mut self) {
        self.open_line = false;
    }

    fn styled(&self, style: &str, text: &str) -> String {
        if self.colours {
            format!("\u{1b}[{style}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    fn put(&mut self, mut to: impl Write, text: &str) -> anyhow::Result<()> {
        if let Some(last) = text.chars().last() {
            self.open_line = last != '\n';
        }
        to.write_all(text.as_bytes())?;
        Ok(to.flush()?)
    }
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
        };
        assert_eq!(console(false).styled("2", "x"), "x");
        assert_eq!(console(true).styled("2", "x"), "\u{1b}[2mx\u{1b}[0m");
    }
}
