//! The two kinds of placeholders in a kernelspec.

use std::collections::BTreeMap;

/// Replaces `{name}` by the value of `name`; unknown names and all other braces stay
/// (`jupyter_client.KernelManager.format_kernel_cmd`).
pub(super) fn braces(text: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        rest = &rest[open..];
        let known = values.iter().find_map(|(name, value)| {
            let after = rest[1..].strip_prefix(name)?.strip_prefix('}')?;
            Some((value, after))
        });
        if let Some((value, after)) = known {
            out.push_str(value);
            rest = after;
        } else {
            out.push('{');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
}

/// Replaces `$NAME` and `${NAME}` by variables and `$$` by `$`; unknown names stay as they are
/// (`string.Template.safe_substitute`).
pub(super) fn dollars(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let braced = after.starts_with('{');
        let name = identifier(if braced { &after[1..] } else { after });
        let closed = !braced || after[1 + name.len()..].starts_with('}');
        let length = 1 + name.len() + if braced { 2 } else { 0 };
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some(value) = variables.get(name).filter(|_| closed && !name.is_empty()) {
            out.push_str(value);
            rest = &rest[at + length..];
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// The longest `[A-Za-z_][A-Za-z0-9_]*` at the start, possibly empty.
fn identifier(text: &str) -> &str {
    let end = text
        .char_indices()
        .find(|(at, c)| !(*c == '_' || c.is_ascii_alphabetic() || (*at > 0 && c.is_ascii_digit())))
        .map_or(text.len(), |(at, _)| at);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_braces_are_replaced() {
        let values = [("resource_dir", "/r"), ("prefix", "/p")];
        let replaced = |text| braces(text, &values);
        assert_eq!(replaced("{resource_dir}/x{prefix}"), "/r/x/p");
        assert_eq!(replaced("{connection_file}"), "{connection_file}");
        assert_eq!(replaced("{{prefix}} {} {"), "{/p} {} {");
        assert_eq!(replaced("λ{prefix"), "λ{prefix");
        // What was put in is not looked at again.
        assert_eq!(braces("{a}", &[("a", "{b}"), ("b", "no")]), "{b}");
    }

    #[test]
    fn dollars_follow_python_templates() {
        let variables = BTreeMap::from([
            ("PATH".to_owned(), "/bin".to_owned()),
            ("A1".to_owned(), "$PATH".to_owned()),
            (String::new(), "empty".to_owned()),
        ]);
        let cases = [
            ("/opt/bin:${PATH}", "/opt/bin:/bin"),
            ("$PATH:/x", "/bin:/x"),
            ("$A1", "$PATH"),
            ("$PATHS ${PATHS} ${PATH", "$PATHS ${PATHS} ${PATH"),
            ("100$ $$PATH $9 $ü ${} $", "100$ $PATH $9 $ü ${} $"),
        ];
        for (text, expected) in cases {
            assert_eq!(dollars(text, &variables), expected, "{text}");
        }
    }
}
