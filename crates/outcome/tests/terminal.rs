//! The gateway and the viewer leave the same text of the same writes: `tests/vectors/terminal.json`.

use himalia_outcome::Screen;
use serde::Deserialize;

#[derive(Deserialize)]
struct Vector {
    name: String,
    /// Stream and text.
    writes: Vec<(String, String)>,
    text: String,
}

#[test]
fn a_screen_leaves_what_the_vectors_say() {
    let vectors: Vec<Vector> =
        serde_json::from_str(include_str!("../../../tests/vectors/terminal.json")).unwrap();
    assert!(!vectors.is_empty());
    for vector in vectors {
        let mut whole = Screen::new(String::new());
        let mut single = whole.clone();
        for (stream, text) in &vector.writes {
            let is_stderr = stream == "stderr";
            whole.write(is_stderr, text);
            for char in text.chars() {
                single.write(is_stderr, char.encode_utf8(&mut [0; 4]));
            }
        }
        assert_eq!(whole.finish(), vector.text, "{}", vector.name);
        assert_eq!(
            single.finish(),
            vector.text,
            "{}, one character at a time",
            vector.name
        );
    }
}
