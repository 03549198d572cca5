//! JSON of servers, which takes more memory than it has bytes: `[0,0,0…` has two bytes for each value of 32.

use serde::de::DeserializeOwned;

/// Values and members of a text of JSON. What has more is refused before it is parsed.
const MAX_VALUES: usize = 1_000_000;

/// Why a text is not read.
#[derive(Debug, PartialEq, Eq)]
pub enum NotRead {
    /// It has too many values.
    TooMany,
    /// It is not what was expected.
    Malformed(String),
}

impl std::fmt::Display for NotRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooMany => write!(f, "has more than {MAX_VALUES} values"),
            // Without a part of the text.
            Self::Malformed(reason) => f.write_str(reason),
        }
    }
}

/// Reads a text, which may be hostile. It is at most as deep as `serde_json` permits.
///
/// # Errors
/// [`NotRead`] says why, without a part of the text.
pub fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, NotRead> {
    if values(text) > MAX_VALUES {
        return Err(NotRead::TooMany);
    }
    serde_json::from_slice(text).map_err(|error| {
        let kind = match error.classify() {
            serde_json::error::Category::Data => "is not the JSON that was expected",
            _ => "is no JSON",
        };
        NotRead::Malformed(format!(
            "{kind} (line {}, column {})",
            error.line(),
            error.column()
        ))
    })
}

/// The values of a text that is JSON, at most one too many for each array and object.
fn values(text: &[u8]) -> usize {
    let (mut count, mut in_string, mut escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn values_are_counted_and_not_what_is_in_strings() {
        assert_eq!(values(br#"{"a": "[,{\",", "b": [1, 2]}"#), 5);
        assert_eq!(values(b"7"), 1);
    }

    #[test]
    fn a_text_of_many_small_values_is_refused_before_it_is_parsed() {
        let many = format!("[{}0]", "0,".repeat(MAX_VALUES));
        assert_eq!(parse::<Value>(many.as_bytes()), Err(NotRead::TooMany));
        let long = json!([",".repeat(MAX_VALUES)]);
        assert_eq!(parse::<Value>(long.to_string().as_bytes()), Ok(long));
        let deep = "[".repeat(100_000);
        assert!(matches!(
            parse::<Value>(deep.as_bytes()),
            Err(NotRead::Malformed(_))
        ));
    }
}
