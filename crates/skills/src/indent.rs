//! Lines of Python code: which of them begin inside of a string, and which are statements of their own. Enough of its lexical rules to indent it.

/// A line of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub(crate) text: &'a str,
    /// It begins inside of a string, so that its first characters are part of a value.
    pub(crate) in_string: bool,
    /// It begins where no bracket, string or continued line is open.
    pub(crate) begins: bool,
    /// It ends so.
    pub(crate) ends: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The quote of an open string, and whether there are three.
    string: Option<(char, bool)>,
    depth: u32,
    /// The last line ended with a backslash.
    continued: bool,
}

impl State {
    fn is_open(self) -> bool {
        self.string.is_some() || self.depth > 0 || self.continued
    }

    fn line(&mut self, text: &str) {
        self.continued = false;
        let mut rest = text.chars();
        while let Some(char) = rest.next() {
            let triple = |rest: &str| rest.starts_with(&char.to_string().repeat(2));
            match self.string {
                Some(_) if char == '\\' => self.continued = rest.next().is_none(),
                Some((quote, true)) if char == quote && triple(rest.as_str()) => {
                    rest.nth(1);
                    self.string = None;
                }
                Some((quote, false)) if char == quote => self.string = None,
                Some(_) => {}
                None => match char {
                    '#' => break,
                    '"' | '\'' => {
                        let three = triple(rest.as_str());
                        if three {
                            rest.nth(1);
                        }
                        self.string = Some((char, three));
                    }
                    '(' | '[' | '{' => self.depth += 1,
                    ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
                    '\\' => self.continued = rest.as_str().is_empty(),
                    _ => {}
                },
            }
        }
        // A string with one quote ends with its line.
        if let Some((_, false)) = self.string
            && !self.continued
        {
            self.string = None;
        }
    }
}

/// The lines of a piece of code.
pub(crate) fn lines(code: &str) -> Vec<Line<'_>> {
    let mut state = State::default();
    code.lines()
        .map(|text| {
            let before = state;
            state.line(text);
            Line {
                text,
                in_string: before.string.is_some(),
                begins: !before.is_open(),
                ends: !state.is_open(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_brackets_and_continued_lines_are_followed() {
        let code = "a = '''x\n  y''' + \"'''\"  # '''\nb = f(1,\n  \"a)b\",\n)\nc = 1 + \\\n  2\nd = 'it\\'s' # (\ne = r\"\\\"\n\"\"\"doc\nend\"\"\"";
        let told: Vec<(bool, bool, bool)> = lines(code)
            .into_iter()
            .map(|line| (line.in_string, line.begins, line.ends))
            .collect();
        let (whole, first, last) = ((false, true, true), (false, true, false), (false, false, true));
        assert_eq!(
            told,
            [
                first,
                (true, false, true),
                first,
                (false, false, false),
                last,
                first,
                last,
                whole,
                whole,
                first,
                (true, false, true)
            ]
        );
    }
}
