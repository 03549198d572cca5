//! JSON of servers, which takes more memory than it has bytes: `[0,0,0…` has two bytes for each value of 32.

use himalia_model::{MAX_JSON_MEMORY, exceeds_json_memory};
use serde::de::DeserializeOwned;

/// Reasons why a text is not parsed.
#[derive(Debug, PartialEq, Eq)]
pub enum NotRead {
    /// The lists and objects would take more memory than [`MAX_JSON_MEMORY`].
    TooMany,
    /// It is not what was expected.
    Malformed(String),
}

impl std::fmt::Display for NotRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooMany => write!(
                f,
                "has lists and objects that take more than {} MiB of memory",
                MAX_JSON_MEMORY >> 20
            ),
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
    if exceeds_json_memory(text, MAX_JSON_MEMORY) {
        return Err(NotRead::TooMany);
    }
    serde_json::from_slice(text).map_err(|error| {
        let kind = match error.classify() {
            serde_json::error::Category::Data => "is not the JSON that was expected",
            _ => "is not JSON",
        };
        NotRead::Malformed(format!(
            "{kind} (line {}, column {})",
            error.line(),
            error.column()
        ))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_text_of_many_small_values_is_refused_before_it_is_parsed() {
        for small in ["0", r#"{"a":0}"#] {
            let many = format!("[{}0]", format!("{small},").repeat(1_100_000));
            assert_eq!(parse::<Value>(many.as_bytes()), Err(NotRead::TooMany));
        }
        let long = json!([",".repeat(1_100_000)]);
        assert_eq!(parse::<Value>(long.to_string().as_bytes()), Ok(long));
        let deep = "[".repeat(100_000);
        assert!(matches!(
            parse::<Value>(deep.as_bytes()),
            Err(NotRead::Malformed(_))
        ));
    }
}
