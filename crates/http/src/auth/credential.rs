//! Finds the token in a request.
//!
//! In order: the query (`?token=`), the path (`{base}/t/<token>/…`, cut off by `prefix`), the header
//! (`Authorization: token …` or `bearer …`, case-insensitive). The first that is present counts and a later one is not
//! tried when it is wrong, as in `jupyter_server` (`IdentityProvider.get_token`). An empty one counts as absent: gateway
//! clients send `Authorization: token ` when they have none.

use axum::http::{HeaderMap, Uri, header};

use crate::query;

/// A token that stood in the path, put into the request's extensions.
#[derive(Clone)]
pub(crate) struct PathToken(pub(crate) Vec<u8>);

/// The presented token, if any. Of several in one place all must be equal, otherwise the answer is a text that no
/// token matches.
pub(crate) fn presented(uri: &Uri, headers: &HeaderMap, path: Option<&PathToken>) -> Option<Vec<u8>> {
    let in_query = query::all(uri, "token")
        .into_iter()
        .map(String::into_bytes)
        .filter(|t| !t.is_empty());
    if let Some(token) = only(in_query) {
        return Some(token);
    }
    if let Some(PathToken(token)) = path
        && !token.is_empty()
    {
        return Some(token.clone());
    }
    only(
        headers
            .get_all(header::AUTHORIZATION)
            .iter()
            .filter_map(|v| from_header(v.as_bytes())),
    )
}

fn only(mut tokens: impl Iterator<Item = Vec<u8>>) -> Option<Vec<u8>> {
    let first = tokens.next()?;
    if tokens.all(|t| t == first) {
        Some(first)
    } else {
        Some(Vec::new())
    }
}

/// The token of `token <t>` or `bearer <t>`. Another scheme is no credential of ours.
fn from_header(value: &[u8]) -> Option<Vec<u8>> {
    let value = value.trim_ascii();
    let space = value.iter().position(u8::is_ascii_whitespace)?;
    let (scheme, token) = value.split_at_checked(space)?;
    let known = scheme.eq_ignore_ascii_case(b"token") || scheme.eq_ignore_ascii_case(b"bearer");
    let token = token.trim_ascii();
    (known && !token.is_empty()).then(|| token.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for value in values {
            map.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        map
    }

    fn get(uri: &str, auth: &[&str], path: Option<&str>) -> Option<String> {
        let path = path.map(|p| PathToken(p.into()));
        presented(&uri.parse().unwrap(), &headers(auth), path.as_ref()).map(|t| String::from_utf8(t).unwrap())
    }

    #[test]
    fn forms_and_precedence() {
        for form in [
            "token x",
            "Token x",
            "TOKEN  x",
            "bearer x",
            "Bearer x",
            "BEARER x ",
        ] {
            assert_eq!(get("/", &[form], None).as_deref(), Some("x"), "{form}");
        }
        assert_eq!(get("/?token=q", &["token h"], Some("p")).as_deref(), Some("q"));
        assert_eq!(get("/", &["token h"], Some("p")).as_deref(), Some("p"));
        assert_eq!(get("/?token=", &["token h"], None).as_deref(), Some("h"));
        assert_eq!(get("/?a=1&token=a%2Bb%20c", &[], None).as_deref(), Some("a+b c"));
    }

    #[test]
    fn absent_and_contradicting() {
        for none in [&[][..], &["token "], &["token"], &["Basic eA=="], &["x"]] {
            assert_eq!(get("/", none, None), None, "{none:?}");
        }
        assert_eq!(get("/?token=a&token=b", &["token h"], None).as_deref(), Some(""));
        assert_eq!(get("/?token=a&token=a", &[], None).as_deref(), Some("a"));
        assert_eq!(get("/", &["token a", "bearer b"], None).as_deref(), Some(""));
    }
}
