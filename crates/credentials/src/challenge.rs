//! Challenges of servers (`WWW-Authenticate`, RFC 9110 11.6.1).

/// The value of a parameter of a challenge, with or without quotes. Escapes in a quoted value stay as they are.
pub fn challenge_parameter<'a>(challenge: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = challenge;
    while let Some(equals) = rest.find('=') {
        let (before, after) = rest.split_at(equals);
        let found = before
            .trim_end()
            .rsplit([' ', ',', '\t'])
            .next()
            .unwrap_or_default();
        let after = after.get(1..)?.trim_start();
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_at(after.find([',', ' ', '\t']).unwrap_or(after.len())),
        };
        if found.eq_ignore_ascii_case(name) {
            return Some(value);
        }
        rest = left;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_read() {
        for (challenge, value) in [
            (r#"Bearer scope="a b""#, Some("a b")),
            (
                r#"Bearer error="invalid_token", scope=https://a/x, x=y"#,
                Some("https://a/x"),
            ),
            (r#"Bearer SCOPE = "a""#, Some("a")),
            (r#"Bearer my_scope="b""#, None),
            (
                r#"Bearer error_description="the scope=admin is missing", scope="b""#,
                Some("b"),
            ),
            ("Bearer scope=", Some("")),
            ("Bearer scope=\"open", Some("open")),
            ("Bearer", None),
            ("", None),
        ] {
            assert_eq!(challenge_parameter(challenge, "scope"), value, "{challenge}");
        }
    }
}
