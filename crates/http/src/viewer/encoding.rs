//! The encoding of a file that a client takes (RFC 9110 §12.5.3).

use axum::http::{HeaderMap, header};

/// A form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Brotli,
    Gzip,
    Plain,
}

impl Encoding {
    /// The best that the request allows; plain is never refused.
    pub(super) fn best(request: &HeaderMap) -> Self {
        let (brotli, gzip) = (weight(request, "br"), weight(request, "gzip"));
        if brotli > 0.0 && brotli >= gzip {
            Self::Brotli
        } else if gzip > 0.0 {
            Self::Gzip
        } else {
            Self::Plain
        }
    }

    pub(super) fn word(self) -> Option<&'static str> {
        match self {
            Self::Brotli => Some("br"),
            Self::Gzip => Some("gzip"),
            Self::Plain => None,
        }
    }
}

fn weight(request: &HeaderMap, wanted: &str) -> f32 {
    let (mut named, mut any) = (None, None);
    for item in request
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
    {
        let (coding, parameters) = item.split_once(';').unwrap_or((item, ""));
        let quality = parameters.trim().strip_prefix("q=");
        let quality = quality.map_or(Some(1.0), |quality| quality.trim().parse().ok());
        let coding = coding.trim();
        if coding.eq_ignore_ascii_case(wanted) {
            named = quality;
        } else if coding == "*" {
            any = quality;
        }
    }
    named.or(any).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_that_is_allowed() {
        for (accepted, wanted) in [
            ("gzip, deflate, br, zstd", Encoding::Brotli),
            ("gzip, deflate", Encoding::Gzip),
            ("GZIP", Encoding::Gzip),
            ("br;q=0.5, gzip;q=0.8", Encoding::Gzip),
            ("br;q=0, *", Encoding::Gzip),
            ("*", Encoding::Brotli),
            ("*;q=0", Encoding::Plain),
            ("identity", Encoding::Plain),
            ("br;q=x", Encoding::Plain),
            ("", Encoding::Plain),
        ] {
            let headers = [(header::ACCEPT_ENCODING, accepted.parse().unwrap())];
            assert_eq!(
                Encoding::best(&headers.into_iter().collect()),
                wanted,
                "{accepted}"
            );
        }
        assert_eq!(Encoding::best(&HeaderMap::new()), Encoding::Plain);
    }
}
