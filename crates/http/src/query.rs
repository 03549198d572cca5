//! Query parameters.

use axum::extract::Query;
use axum::http::Uri;

use crate::error::ApiError;

/// All values of one parameter, decoded, in order. A query that cannot be decoded has none.
pub(crate) fn all(uri: &Uri, name: &str) -> Vec<String> {
    if !uri.query().is_some_and(|q| q.contains(name)) {
        return Vec::new();
    }
    let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
        return Vec::new();
    };
    pairs
        .into_iter()
        .filter(|(key, _)| key == name)
        .map(|(_, value)| value)
        .collect()
}

/// The last value of one parameter, as Jupyter's servers take it; an empty one counts as absent.
pub(crate) fn last(uri: &Uri, name: &str) -> Option<String> {
    all(uri, name).pop().filter(|v| !v.is_empty())
}

/// A parameter that is a whole number, if present. Anything else: 400 naming it.
pub(crate) fn number(uri: &Uri, name: &'static str) -> Result<Option<u64>, ApiError> {
    let Some(text) = last(uri, name) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(ApiError::bad_request(format!("{name}: expected a whole number"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded() {
        let uri: Uri = "/x?a=1&b=%2Fp+q&a=2&c".parse().unwrap();
        assert_eq!(all(&uri, "a"), ["1", "2"]);
        assert_eq!(last(&uri, "a").as_deref(), Some("2"));
        assert_eq!(last(&uri, "b").as_deref(), Some("/p q"));
        assert_eq!(last(&uri, "c"), None);
        assert_eq!(last(&uri, "d"), None);
    }
}
