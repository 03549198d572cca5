//! The value of an expression as JSON, from its representation in Python.

use serde_json::Value;

/// Numbers, truth values, `None` and plain strings as such; anything else as the text that it is.
pub(crate) fn of_repr(text: &str) -> Value {
    match text {
        "True" => return Value::Bool(true),
        "False" => return Value::Bool(false),
        "None" => return Value::Null,
        _ => {}
    }
    if let Ok(number @ Value::Number(_)) = serde_json::from_str(text) {
        return number;
    }
    for quote in ['\'', '"'] {
        let inner = text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
        // What has escapes or more quotes is no plain string.
        if let Some(inner) = inner.filter(|inner| !inner.contains([quote, '\\'])) {
            return inner.into();
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_values_are_values() {
        for (text, value) in [
            ("42", json!(42)),
            ("-1.5", json!(-1.5)),
            ("1e+20", json!(1e20)),
            ("True", json!(true)),
            ("None", json!(null)),
            ("'a b'", json!("a b")),
            ("\"it's\"", json!("it's")),
            ("''", json!("")),
            ("'", json!("'")),
            (r"'a\nb'", json!(r"'a\nb'")),
            ("'a' + 'b'", json!("'a' + 'b'")),
            ("[1, 2]", json!("[1, 2]")),
            ("nan", json!("nan")),
        ] {
            assert_eq!(of_repr(text), value, "{text}");
        }
    }
}
