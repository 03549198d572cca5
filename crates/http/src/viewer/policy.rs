//! The policy of the viewer's pages, which browsers enforce.
//!
//! The page itself runs its own scripts only and talks to the gateway only. The frame runs output of kernels, in an
//! opaque origin without network access.

use axum::http::{HeaderMap, HeaderValue, header};

use crate::auth::cookie;

const PAGE: &str = "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; \
img-src 'self' blob: data:; connect-src 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; \
form-action 'none'; require-trusted-types-for 'script'";

/// The policy of the frame: its own origin is opaque, so its scripts are named by their address. `http://` covers
/// `https://` too (CSP 3 §6.7.2.8).
fn frame(request: &HeaderMap, base: &str) -> String {
    let scheme = if cookie::is_https(request) {
        "https"
    } else {
        "http"
    };
    let scripts = host(request).map(|host| format!(" {scheme}://{host}{base}/frame/"));
    format!(
        "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'{}; style-src 'unsafe-inline'; \
         img-src data: blob:; font-src data:; media-src data: blob:; connect-src 'none'; form-action 'none'; \
         base-uri 'none'; frame-ancestors 'self'",
        scripts.unwrap_or_default()
    )
}

/// The host that the browser calls, if it is one that can stand in a policy.
fn host(request: &HeaderMap) -> Option<&str> {
    let host = request.get(header::HOST)?.to_str().ok()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    (!host.is_empty() && host.chars().all(plain)).then_some(host)
}

/// The only connections of a frame, by whatever means: what a Content-Security-Policy leaves out (WebRTC, looked-up
/// names, connections ahead of requests) is refused too, also to documents within it. Browsers that do not know the
/// header ignore it. CSP's own `webrtc 'block'` is left out: no browser heeds it, and Chromium reports it as an error.
const FRAME_CONNECTIONS: &str = "(response-origin); webrtc=block";

/// Sets the headers of a page that the gateway writes itself.
pub(crate) fn restrict(headers: &mut HeaderMap, request: &HeaderMap, base: &str) {
    set(headers, request, base, false);
}

/// Sets the headers of a file of the viewer. `base` is the base URL without its last slash.
pub(super) fn set(headers: &mut HeaderMap, request: &HeaderMap, base: &str, is_frame: bool) {
    let policy = if is_frame {
        HeaderValue::from_str(&frame(request, base)).unwrap_or(HeaderValue::from_static("sandbox"))
    } else {
        HeaderValue::from_static(PAGE)
    };
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    if is_frame {
        headers.insert(
            "connection-allowlist",
            HeaderValue::from_static(FRAME_CONNECTIONS),
        );
    }
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_DNS_PREFETCH_CONTROL, "off"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(
        "cross-origin-opener-policy",
        HeaderValue::from_static("same-origin"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_names_its_scripts_and_nothing_else_gets_into_its_policy() {
        let scripts = |host: &str, proto: &str| {
            let mut request = HeaderMap::new();
            request.insert(header::HOST, host.parse().unwrap());
            request.insert("x-forwarded-proto", proto.parse().unwrap());
            let policy = frame(&request, "/j");
            let part = policy.split("; ").find(|part| part.starts_with("script-src"));
            part.unwrap().to_owned()
        };
        let inline = "script-src 'unsafe-inline' 'unsafe-eval'";
        assert_eq!(
            scripts("gw.example:8", "http"),
            format!("{inline} http://gw.example:8/j/frame/")
        );
        assert_eq!(
            scripts("[::1]:8", "https"),
            format!("{inline} https://[::1]:8/j/frame/")
        );
        for bad in ["x; connect-src *", "x y", "*", "x,y", "x/"] {
            assert_eq!(scripts(bad, "http"), inline, "{bad}");
        }
    }
}
