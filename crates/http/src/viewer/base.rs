//! Below which path a browser sees the gateway.

use std::borrow::Cow;

use axum::http::HeaderMap;

/// Characters of a prefix; a longer one is not taken.
const MOST: usize = 256;

/// The base URL without its last slash, behind the prefix that a reverse proxy has cut off and names in `X-Forwarded-Prefix`.
///
/// A browser cannot send that header for another page, and what it changes, the path of a cookie and the address of the frame's
/// scripts, is of this one answer only.
pub(crate) fn of<'a>(request: &HeaderMap, own: &'a str) -> Cow<'a, str> {
    let said = request
        .get("x-forwarded-prefix")
        .and_then(|value| value.to_str().ok());
    match said
        .map(|said| said.trim_end_matches('/'))
        .filter(|said| is_path(said))
    {
        Some(prefix) => Cow::Owned(format!("{prefix}{own}")),
        None => Cow::Borrowed(own),
    }
}

/// Checks whether the text can stand unchanged in a cookie's path and in a policy.
fn is_path(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~/".contains(c);
    text.len() <= MOST && text.starts_with('/') && !text.starts_with("//") && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_taken_when_it_is_a_plain_path() {
        let seen = |prefix: &str| {
            let mut request = HeaderMap::new();
            request.insert("x-forwarded-prefix", prefix.parse().unwrap());
            of(&request, "/j").into_owned()
        };
        assert_eq!(
            (seen("/proxy/x"), seen("/a/")),
            ("/proxy/x/j".into(), "/a/j".into())
        );
        let long = format!("/{}", "x".repeat(MOST));
        for bad in [
            "",
            "/",
            "x",
            "//evil",
            "/a; Domain=x",
            "/a b",
            "/a,b",
            "/a'",
            &long,
        ] {
            assert_eq!(seen(bad), "/j", "{bad}");
        }
        assert_eq!(of(&HeaderMap::new(), ""), "");
    }
}
