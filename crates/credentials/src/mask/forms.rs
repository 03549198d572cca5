//! The forms that a character has in texts.

/// Zeros at the beginning of a number of an entity that are read over.
const ZEROS: usize = 8;

/// Result of comparing the beginning of a text with a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// With the form, of so many bytes.
    With(usize),
    /// It ends within the form.
    Open,
    /// With something else.
    Otherwise,
}

/// The bytes that an escaped form of a character begins with.
pub(super) const ESCAPES: [u8; 3] = [b'%', b'\\', b'&'];
/// The bytes that an end of a line begins with, in addition to a backslash.
pub(super) const LINE_ENDS: [u8; 2] = [b'\r', b'\n'];

/// The bytes that stand for a character as they are.
pub(super) fn plain_bytes(character: u8, any_case: bool) -> Vec<u8> {
    let cases = [character.to_ascii_lowercase(), character.to_ascii_uppercase()];
    let all = cases.into_iter().chain([b'+', character]);
    all.filter(|byte| plain(&[*byte], character, any_case) == Begins::With(1))
        .collect()
}

/// Bytes of a text that are enough to know which character an escaped form stands for.
pub(super) const LONGEST: usize = 24;

/// The only character that the escaped form at the beginning of a text may stand for. The text has at least [`LONGEST`] bytes. `None`: there is no
/// such form, or it is an entity with a name.
pub(super) fn unescaped(text: &[u8]) -> Option<u8> {
    let hex = |high: u8, low: u8| {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        u8::try_from(digit(high)? << 4 | digit(low)?).ok()
    };
    match text {
        [b'%', high, low, ..]
        | [b'\\', b'x' | b'X', high, low, ..]
        | [b'\\', b'u' | b'U', b'0', b'0', high, low, ..] => hex(*high, *low),
        [b'\\', next @ (b'"' | b'\'' | b'\\' | b'/'), ..] => Some(*next),
        [b'&', b'#', rest @ ..] => {
            let (radix, rest) = match rest {
                [b'x' | b'X', rest @ ..] => (16, rest),
                rest => (10, rest),
            };
            let zeros = rest.iter().take(ZEROS).take_while(|byte| **byte == b'0').count();
            let digits = rest.get(zeros..)?.split(|byte| *byte == b';').next()?;
            u8::from_str_radix(
                std::str::from_utf8(digits.get(..digits.len().min(4))?).ok()?,
                radix,
            )
            .ok()
        }
        _ => None,
    }
}

/// Returns true if a character may have an entity with a name.
pub(super) fn may_be_named(character: u8) -> bool {
    !character.is_ascii_alphanumeric()
}

/// The bytes after the first one of an escaped form of a character.
pub(super) fn second_bytes(escape: u8, character: u8) -> Vec<u8> {
    (0..=u8::MAX)
        .filter(|second| escaped(&[escape, *second], character) != Begins::Otherwise)
        .collect()
}

/// The form of a character that a text begins with: as it is. Without `any_case`, letters are as they are.
pub(super) fn plain(text: &[u8], character: u8, any_case: bool) -> Begins {
    match text.first() {
        None => Begins::Open,
        Some(byte) if *byte == character => Begins::With(1),
        Some(byte) if any_case && byte.eq_ignore_ascii_case(&character) => Begins::With(1),
        Some(b'+') if character == b' ' => Begins::With(1),
        Some(_) => Begins::Otherwise,
    }
}

/// The same for a form that stands for it in a URL, in JSON or JavaScript, or in HTML.
pub(super) fn escaped(text: &[u8], character: u8) -> Begins {
    let [high, low] = digits(character);
    match text.first() {
        Some(b'%') => begins(text, &[b'%', high, low]),
        Some(b'\\') => match text.get(1) {
            None => Begins::Open,
            Some(b'u' | b'U') => begins(text, &[b'\\', b'u', b'0', b'0', high, low]),
            Some(b'x' | b'X') => begins(text, &[b'\\', b'x', high, low]),
            Some(next) if *next == character && matches!(next, b'"' | b'\'' | b'\\' | b'/') => {
                Begins::With(2)
            }
            Some(_) => Begins::Otherwise,
        },
        Some(b'&') => entity(text, character),
        _ => Begins::Otherwise,
    }
}

/// An end of a line that a text begins with, and spaces after it: as it is, or as in JSON.
pub(super) fn line_end(text: &[u8]) -> Begins {
    /// A carriage return, a line feed, and the indentation of the next line.
    const MOST: usize = 18;
    match text {
        [b'\\'] => Begins::Open,
        [b'\\', b'n' | b'r', ..] => match text.get(2..) {
            Some([b'\\']) => Begins::Open,
            Some([b'\\', b'n', ..]) => Begins::With(4),
            _ => Begins::With(2),
        },
        [b'\r' | b'\n', ..] => {
            let rest = text.iter().take(MOST);
            let spaces = rest.take_while(|byte| matches!(byte, b'\r' | b'\n' | b' ' | b'\t'));
            Begins::With(spaces.count())
        }
        _ => Begins::Otherwise,
    }
}

/// Two hexadecimal digits.
fn digits(byte: u8) -> [u8; 2] {
    [byte >> 4, byte & 0xf].map(|half| match half {
        0..=9 => b'0'.saturating_add(half),
        _ => b'a'.saturating_add(half.saturating_sub(10)),
    })
}

/// Compares the beginning of a text with a form, in any letter case.
fn begins(text: &[u8], form: &[u8]) -> Begins {
    let same = text
        .iter()
        .zip(form)
        .all(|(one, other)| one.eq_ignore_ascii_case(other));
    if !same {
        Begins::Otherwise
    } else if text.len() < form.len() {
        Begins::Open
    } else {
        Begins::With(form.len())
    }
}

/// An entity of HTML, which begins with `&`.
fn entity(text: &[u8], character: u8) -> Begins {
    let is_hex = matches!(text.get(2), Some(b'x' | b'X'));
    let number = match text.get(1) {
        None => return Begins::Open,
        Some(b'#') if is_hex => 3,
        Some(b'#') => 2,
        Some(_) => return named(text, character),
    };
    let rest = text.get(number..).unwrap_or_default();
    let zeros = rest.iter().take(ZEROS).take_while(|byte| **byte == b'0').count();
    let rest = rest.get(zeros..).unwrap_or_default();
    let [high, low] = digits(character);
    let begun = if is_hex {
        begins(rest, &[high, low, b';'])
    } else {
        begins(rest, format!("{character};").as_bytes())
    };
    match begun {
        Begins::With(length) => Begins::With(number.saturating_add(zeros).saturating_add(length)),
        other => other,
    }
}

/// An entity with a name.
fn named(text: &[u8], character: u8) -> Begins {
    let names: &[&str] = match character {
        b'!' => &["&excl;"],
        b'"' => &["&quot;"],
        b'#' => &["&num;"],
        b'$' => &["&dollar;"],
        b'%' => &["&percnt;"],
        b'&' => &["&amp;"],
        b'\'' => &["&apos;"],
        b'(' => &["&lpar;"],
        b')' => &["&rpar;"],
        b'*' => &["&ast;", "&midast;"],
        b'+' => &["&plus;"],
        b',' => &["&comma;"],
        b'.' => &["&period;"],
        b'/' => &["&sol;"],
        b':' => &["&colon;"],
        b';' => &["&semi;"],
        b'<' => &["&lt;"],
        b'=' => &["&equals;"],
        b'>' => &["&gt;"],
        b'?' => &["&quest;"],
        b'@' => &["&commat;"],
        b'[' => &["&lsqb;", "&lbrack;"],
        b'\\' => &["&bsol;"],
        b']' => &["&rsqb;", "&rbrack;"],
        b'^' => &["&Hat;"],
        b'_' => &["&lowbar;", "&UnderBar;"],
        b'`' => &["&grave;", "&DiacriticalGrave;"],
        b'{' => &["&lcub;", "&lbrace;"],
        b'|' => &["&vert;", "&verbar;", "&VerticalLine;"],
        b'}' => &["&rcub;", "&rbrace;"],
        _ => &[],
    };
    let begun = names.iter().map(|name| begins(text, name.as_bytes()));
    begun
        .reduce(|one, other| match (one, other) {
            (Begins::Otherwise, other) | (_, other @ Begins::With(_)) => other,
            (one, _) => one,
        })
        .unwrap_or(Begins::Otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_stands_for_its_character() {
        for (text, character) in [
            ("%2B", b'+'),
            ("%2b", b'+'),
            ("\\u002B", b'+'),
            ("\\u002b", b'+'),
            ("\\x2b", b'+'),
            ("&#x2B;", b'+'),
            ("&#X0002b;", b'+'),
            ("&#43;", b'+'),
            ("&#043;", b'+'),
            ("&plus;", b'+'),
            ("\\/", b'/'),
            ("&sol;", b'/'),
            ("\\\"", b'"'),
            ("&quot;", b'"'),
            ("&lbrack;", b'['),
            ("&amp;", b'&'),
            ("%73", b's'),
        ] {
            let text = text.as_bytes();
            assert_eq!(escaped(text, character), Begins::With(text.len()));
            for cut in 1..text.len() {
                assert_eq!(
                    escaped(&text[..cut], character),
                    Begins::Open,
                    "{cut} of {text:?}"
                );
            }
            assert_eq!(escaped(text, b'z'), Begins::Otherwise);
        }
        assert_eq!(plain(b"+", b' ', false), Begins::With(1));
        assert_eq!(plain(b"S", b's', false), Begins::Otherwise);
        assert_eq!(plain(b"S", b's', true), Begins::With(1));
    }

    #[test]
    fn lines_end_as_in_mail_and_as_in_json() {
        for (text, length) in [
            ("\r\nA", 2),
            ("\nA", 1),
            ("\r\n  A", 4),
            ("\\r\\nA", 4),
            ("\\nA", 2),
        ] {
            assert_eq!(line_end(text.as_bytes()), Begins::With(length), "{text:?}");
        }
        assert_eq!(line_end(b"A"), Begins::Otherwise);
        assert_eq!(line_end(b"\\r\\"), Begins::Open);
    }
}
