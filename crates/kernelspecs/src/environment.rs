//! The environment of a kernel.

use std::collections::BTreeMap;

use himalia_model::EngineError;

use super::template;

/// Characters of a variable's value.
pub(crate) const MAX_VALUE_CHARS: usize = 4096;
/// Bytes of a variable's name.
const MAX_NAME_BYTES: usize = 256;
const MAX_VARIABLES: usize = 512;

/// True if a text can name a variable: `[A-Za-z_][A-Za-z0-9_]*`, at most 256 bytes.
pub(super) fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES
        && name
            .bytes()
            .next()
            .is_some_and(|first| first == b'_' || first.is_ascii_alphabetic())
        && name
            .bytes()
            .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

/// Checks the variables of a request. [`EngineError::BadRequest`] names the variable, never its value.
pub fn check(request: &BTreeMap<String, String>) -> Result<(), EngineError> {
    let bad = |reason: String| Err(EngineError::bad_request("env", reason));
    if request.len() > MAX_VARIABLES {
        return bad(format!(
            "has {} variables, at most {MAX_VARIABLES} are allowed",
            request.len()
        ));
    }
    for (name, value) in request {
        if !is_name(name) {
            let shown: String = name.chars().take(64).collect();
            return bad(format!("{shown:?} is not the name of a variable"));
        }
        if value.contains('\0') {
            return bad(format!("{name} contains a NUL character"));
        }
        let characters = value.chars().count();
        if characters > MAX_VALUE_CHARS {
            return bad(format!(
                "{name} has {characters} characters, at most {MAX_VALUE_CHARS} are allowed"
            ));
        }
    }
    Ok(())
}

/// The complete environment: `base`, under the kernelspec's variables, under those of the request.
///
/// `${NAME}` in the kernelspec's values means a variable of `base` or of the request, so it can show
/// neither the gateway's environment nor another kernel's.
pub(super) fn build(
    base: BTreeMap<String, String>,
    spec: &BTreeMap<String, String>,
    request: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let copies = |from: &BTreeMap<String, String>| from.clone().into_iter();
    let mut known = base;
    known.extend(copies(request));
    let filled: Vec<_> = spec
        .iter()
        .map(|(name, value)| (name.clone(), template::dollars(value, &known)))
        .collect();
    known.extend(filled);
    known.extend(copies(request));
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
        entries
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    #[test]
    fn the_request_wins_and_templates_see_the_kernels_own_variables() {
        let base = map([("PATH", "/bin"), ("LANG", "C")]);
        let spec = map([
            ("PATH", "/env/bin:${PATH}"),
            ("WHO", "$KERNEL_USERNAME"),
            ("A", "spec"),
            ("B", "${A}"),
        ]);
        let request = map([("KERNEL_USERNAME", "ada"), ("A", "${LANG}")]);
        let built = build(base, &spec, &request);
        let expected = map([
            ("A", "${LANG}"),
            ("B", "${LANG}"),
            ("KERNEL_USERNAME", "ada"),
            ("LANG", "C"),
            ("PATH", "/env/bin:/bin"),
            ("WHO", "ada"),
        ]);
        assert_eq!(built, expected);
    }

    #[test]
    fn bad_variables_are_named_and_their_values_are_not_shown() {
        check(&map([("KERNEL_A", ""), ("_x9", "ü=\n")])).unwrap();
        check(&map([("KERNEL_A", &"ü".repeat(MAX_VALUE_CHARS))])).unwrap();
        let refusal = |name, value: &str| check(&map([(name, value)])).unwrap_err().to_string();
        let long = "s".repeat(MAX_VALUE_CHARS + 1);
        assert_eq!(
            refusal("KERNEL_A", &long),
            "env: KERNEL_A has 4097 characters, at most 4096 are allowed"
        );
        assert!(refusal("KERNEL_A", "a\0b").contains("KERNEL_A contains a NUL"));
        for name in ["", "9A", "A=B", "A B", "Ä", "A\0"] {
            assert!(refusal(name, "secret").contains("is not the name"), "{name}");
            assert!(!refusal(name, "secret").contains("secret"));
        }
        let many = (0..=MAX_VARIABLES)
            .map(|n| (format!("A{n}"), String::new()))
            .collect();
        assert!(check(&many).is_err());
    }
}
