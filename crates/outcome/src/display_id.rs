//! The id by which later messages change a display.

use serde_json::{Map, Value as Json};

/// Bytes of a display id, at most. A display with a longer one keeps its content.
pub const MAX_DISPLAY_ID: usize = 256;

/// The id in the content of a display or of an update, if it has one that is followed.
pub(crate) fn display_id(content: &Map<String, Json>) -> Option<String> {
    let id = content.get("transient")?.get("display_id")?.as_str()?;
    (id.len() <= MAX_DISPLAY_ID).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_has_a_bounded_length() {
        let id_of = |id: Json| {
            let content = json!({ "transient": { "display_id": id } });
            display_id(content.as_object().unwrap())
        };
        let longest = "d".repeat(MAX_DISPLAY_ID);
        assert_eq!(id_of(json!(longest)), Some(longest));
        assert_eq!(id_of(json!("d".repeat(MAX_DISPLAY_ID + 1))), None);
        assert_eq!(id_of(json!(1)), None);
        assert_eq!(display_id(&Map::new()), None);
    }
}
