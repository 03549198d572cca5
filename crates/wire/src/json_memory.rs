//! The memory that JSON takes once it is read: many small values take a hundred times their text.

/// Bytes of memory that the values of a request may take.
pub const MAX_JSON_MEMORY: usize = 64 << 20;

/// Bytes of memory of an object, whose first member takes room for eleven: the most that one byte of text can cost.
const OBJECT: usize = 640;

/// Returns true if the lists, objects and members of a JSON text take more than about `most` bytes of memory when they are read as values.
/// Texts within it are not counted: they take as much as they are long. A short text is not looked through.
pub fn exceeds_json_memory(text: &[u8], most: usize) -> bool {
    text.len() > most / OBJECT && json_memory(text) > most
}

fn json_memory(text: &[u8]) -> usize {
    // The first item of a list takes room for four.
    const LIST: usize = 128;
    const NEXT: usize = 64;
    let (mut bytes, mut in_text, mut escaped) = (0_usize, false, false);
    for byte in text {
        if in_text {
            in_text = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
            continue;
        }
        bytes = bytes.saturating_add(match byte {
            b'{' => OBJECT,
            b'[' => LIST,
            b',' => NEXT,
            _ => 0,
        });
        in_text = *byte == b'"';
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_count_and_texts_do_not() {
        assert_eq!(json_memory(b"[1, 2, 3]"), 128 + 2 * 64);
        assert_eq!(json_memory(br#"{"a": {"b": "c"}}"#), 2 * 640);
        assert_eq!(json_memory(br#""{[,\"{[,\\""#), 0);
        assert_eq!(json_memory(br#"["{", "\\", {}]"#), 128 + 2 * 64 + 640);
        let small = format!("[{}]", vec![r#"{"a":0}"#; 1_000_000].join(","));
        assert!(json_memory(small.as_bytes()) > 10 * MAX_JSON_MEMORY);
        let rows = format!(
            "[{}]",
            vec!["[1.5,2.5,3.5,4.5,5.5,6.5,7.5,8.5]"; 50_000].join(",")
        );
        assert!(json_memory(rows.as_bytes()) < MAX_JSON_MEMORY);
    }

    #[test]
    fn the_shortest_text_that_takes_too_much_is_found() {
        let objects = "{".repeat(100);
        assert!(!exceeds_json_memory(objects.as_bytes(), 100 * OBJECT));
        assert!(exceeds_json_memory(objects.as_bytes(), 100 * OBJECT - 1));
        assert!(!exceeds_json_memory(&objects.as_bytes()[1..], 100 * OBJECT - 1));
    }
}
