//! Labels of a request in metrics and spans: each has few values, whatever clients send.

use axum::http::Method;
use axum::response::Response;

/// Path of the route that a request matched, with the names of its parameters. In the extensions of the response, for the outer layers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteLabel(pub(crate) &'static str);

impl RouteLabel {
    /// Takes the path out of a response.
    pub(crate) fn take(response: &mut Response) -> Option<&'static str> {
        response.extensions_mut().remove().map(|Self(path)| path)
    }
}

pub(crate) fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// The statuses that the gateway sends.
const STATUSES: &[(u16, &str)] = &[
    (101, "101"),
    (200, "200"),
    (201, "201"),
    (202, "202"),
    (204, "204"),
    (206, "206"),
    (207, "207"),
    (302, "302"),
    (303, "303"),
    (304, "304"),
    (307, "307"),
    (308, "308"),
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (406, "406"),
    (408, "408"),
    (409, "409"),
    (410, "410"),
    (412, "412"),
    (413, "413"),
    (415, "415"),
    (416, "416"),
    (422, "422"),
    (426, "426"),
    (429, "429"),
    (500, "500"),
    (503, "503"),
];

pub(crate) fn status(code: u16) -> &'static str {
    let known = STATUSES.iter().find(|(known, _)| *known == code);
    let class = match code / 100 {
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        5 => "5xx",
        _ => "1xx",
    };
    known.map_or(class, |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_a_label_of_a_short_list() {
        assert_eq!((status(404), status(507), status(299)), ("404", "5xx", "2xx"));
    }
}
