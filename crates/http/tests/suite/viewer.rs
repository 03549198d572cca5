//! The viewer's files and headers, and browsers that sign in, over the wire.
#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

use crate::common;

use std::io::Write as _;
use std::sync::LazyLock;

use common::{Gateway, Reply, TOKEN, UPGRADE};
use flate2::Compression;
use flate2::write::GzEncoder;
use himalia_http::{AllowedOrigins, HttpConfig, Token, Viewer, ViewerFile};

const KERNELS: &str = "/api/kernels";
const CHANNELS: &str = "/api/kernels/11111111-2222-3333-4444-555555555555/channels";
const CODE: &str = "a-code-of-the-tests";

/// Content as gzip; as Brotli it is a text of its own, since nothing here unpacks that.
static FILES: LazyLock<Vec<ViewerFile>> = LazyLock::new(|| {
    let file = |path, content: &str| {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(content.as_bytes()).unwrap();
        ViewerFile {
            path,
            brotli: format!("brotli of {content}").leak().as_bytes(),
            gzip: gzip.finish().unwrap().leak(),
        }
    };
    vec![
        file("index.html", "<!doctype html>the page"),
        file("frame.html", "<!doctype html>the frame"),
        file("icon.svg", "<svg/>"),
        file("assets/index-1a2b.js", "the script"),
        file("frame/frame.js", "the frame's script"),
    ]
});

fn viewer(config: &mut HttpConfig) {
    config.viewer = Viewer::new(&FILES);
    config.sign_in_code = Some(Token::new(CODE));
}

async fn at(base: &str) -> Gateway {
    Gateway::with(|config| {
        viewer(config);
        config.base_url = base.into();
    })
    .await
}

fn cache(reply: &Reply) -> &str {
    reply.header("cache-control").unwrap()
}

#[tokio::test]
async fn the_page_is_public_and_may_do_little() {
    let gateway = Gateway::with(viewer).await;
    for (path, kind, body) in [
        ("/", "text/html; charset=utf-8", "<!doctype html>the page"),
        ("/icon.svg", "image/svg+xml", "<svg/>"),
        (
            "/assets/index-1a2b.js",
            "text/javascript; charset=utf-8",
            "the script",
        ),
        (
            "/frame/frame.js",
            "text/javascript; charset=utf-8",
            "the frame's script",
        ),
    ] {
        let reply = gateway.bare("GET", path, &[], "").await;
        assert_eq!((reply.status, &*reply.body), (200, body.as_bytes()), "{path}");
        for (name, wanted) in [
            ("content-type", kind),
            (
                "content-security-policy",
                "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' \
                 blob: data:; connect-src 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action \
                 'none'; require-trusted-types-for 'script'",
            ),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("x-dns-prefetch-control", "off"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(reply.header(name), Some(wanted), "{path}: {name}");
        }
        // The frame has an opaque origin and loads its scripts from here all the same; nothing else is for it.
        let opaque = gateway.bare("GET", path, &["Origin: null"], "").await;
        let wanted = if path.starts_with("/frame/") { 200 } else { 404 };
        assert_eq!(opaque.status, wanted, "{path}");
        assert_eq!(reply.header("cross-origin-resource-policy"), None);
        let head = gateway.bare("HEAD", path, &[], "").await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
    }
    for absent in [
        "/assets/x.js",
        "/assets/..%2findex.html",
        "/frame/index.html",
        "/assets/",
    ] {
        let status = gateway.bare("GET", absent, &[], "").await.status;
        assert!(matches!(status, 404 | 302), "{absent}: {status}");
    }
}

#[tokio::test]
async fn the_frame_is_a_sandbox_that_loads_its_scripts_by_their_address() {
    for (base, path) in [("/", ""), ("/a/b", "/a/b")] {
        let gateway = at(base).await;
        for (proto, scheme) in [("http", "http"), ("https", "https")] {
            let proto = format!("X-Forwarded-Proto: {proto}");
            let reply = gateway
                .bare("GET", &format!("{path}/frame.html"), &[&proto], "")
                .await;
            let wanted = format!(
                "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' \
                 {scheme}://{}{path}/frame/; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; media-src data: \
                 blob:; connect-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'",
                gateway.address
            );
            assert_eq!(reply.header("content-security-policy"), Some(&*wanted), "{base}");
            let connections = reply.header("connection-allowlist");
            assert_eq!(connections, Some("(response-origin); webrtc=block"), "{base}");
            assert_eq!(reply.header("x-dns-prefetch-control"), Some("off"), "{base}");
        }
    }
}

#[tokio::test]
async fn files_are_compressed_tagged_and_kept() {
    let gateway = Gateway::with(viewer).await;
    let get = async |path: &str, headers: &[&str]| gateway.bare("GET", path, headers, "").await;
    for (path, lasting) in [
        ("/", "no-cache"),
        ("/frame.html", "no-cache"),
        ("/frame/frame.js", "no-cache"),
        ("/assets/index-1a2b.js", "public, max-age=31536000, immutable"),
    ] {
        let mut tags = Vec::new();
        for (accepted, coding) in [("br, gzip", Some("br")), ("gzip", Some("gzip")), ("x", None)] {
            let accept = format!("Accept-Encoding: {accepted}");
            let reply = get(path, &[&accept]).await;
            assert_eq!(reply.header("content-encoding"), coding, "{path}");
            assert_eq!(cache(&reply), lasting, "{path}");
            assert!(reply.head.to_ascii_lowercase().contains("vary: accept-encoding"));
            if coding == Some("br") {
                assert!(reply.body.starts_with(b"brotli of "));
            }
            let tag = reply.header("etag").unwrap().to_owned();
            let known = get(path, &[&accept, &format!("If-None-Match: {tag}")]).await;
            assert_eq!((known.status, known.body.len()), (304, 0), "{path}");
            assert_eq!((known.header("etag"), cache(&known)), (Some(&*tag), lasting));
            tags.push(tag);
        }
        tags.dedup();
        assert_eq!(tags.len(), 3, "each form has a tag of its own");
    }
}

#[tokio::test]
async fn below_a_base_url() {
    let gateway = at("/lab/x").await;
    let bare = gateway.bare("GET", "/lab/x?a=1", &[], "").await;
    assert_eq!((bare.status, bare.header("location")), (302, Some("/lab/x/?a=1")));
    for path in ["/lab/x/", "/lab/x/assets/index-1a2b.js", "/lab/x/frame/frame.js"] {
        assert_eq!(gateway.bare("GET", path, &[], "").await.status, 200, "{path}");
    }
    assert_eq!(gateway.bare("GET", "/", &[], "").await.status, 404);
    let signed = sign_in(&gateway, "/lab/x", &format!(r#"{{"token": "{TOKEN}"}}"#)).await;
    let set = signed.header("set-cookie").unwrap();
    assert!(set.contains("; Path=/lab/x/; "), "{set}");
    let kernels = gateway
        .bare("GET", "/lab/x/api/kernels", &[&cookie(&signed)], "")
        .await;
    assert_eq!(kernels.status, 200);
}

#[tokio::test]
async fn without_files_the_page_says_how_to_build_it() {
    let gateway = Gateway::start().await;
    let reply = gateway.bare("GET", "/", &[], "").await;
    assert_eq!(reply.status, 200);
    assert!(String::from_utf8_lossy(&reply.body).contains("<code>make web</code>"));
    assert!(reply.header("content-security-policy").is_some());
    assert_eq!(gateway.bare("GET", "/frame.html", &[], "").await.status, 404);
}

async fn sign_in(gateway: &Gateway, base: &str, body: &str) -> Reply {
    let origin = format!("Origin: http://{}", gateway.address);
    let path = format!("{base}/viewer/sign-in");
    gateway.bare("POST", &path, &[&origin], body).await
}

/// The header with which a browser shows the cookie that it was given.
fn cookie(reply: &Reply) -> String {
    let set = reply.header("set-cookie").unwrap();
    format!("Cookie: a=b; {}", set.split(';').next().unwrap())
}

#[tokio::test]
async fn a_cookie_counts_as_the_token() {
    let gateway = Gateway::with(viewer).await;
    let signed = sign_in(&gateway, "", &format!(r#"{{"token": " {TOKEN}\n"}}"#)).await;
    assert_eq!((signed.status, signed.body.len()), (204, 0));
    let set = signed.header("set-cookie").unwrap();
    let port = gateway.address.port();
    assert!(set.starts_with(&format!("himalia-{port}=")), "{set}");
    assert!(set.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{set}");
    assert_eq!(cache(&signed), "no-store");
    assert!(!set.contains(TOKEN));

    let cookie = cookie(&signed);
    let get = async |headers: &[&str]| gateway.bare("GET", KERNELS, headers, "").await.status;
    assert_eq!(get(&[&cookie]).await, 200);
    assert_eq!(get(&[&cookie, "Sec-Fetch-Site: same-origin"]).await, 200);
    // A credential that is shown counts alone.
    assert_eq!(get(&[&cookie, "Authorization: token wrong"]).await, 401);
    assert_eq!(get(&["Cookie: himalia-1=x"]).await, 401);

    let own = format!("Origin: http://{}", gateway.address);
    let out = gateway
        .bare("POST", "/viewer/sign-out", &[&own, &cookie], "")
        .await;
    assert_eq!(out.status, 204);
    assert!(out.header("set-cookie").unwrap().contains("; Max-Age=0"));
    assert_eq!(get(&[&cookie]).await, 401);
}

#[tokio::test]
async fn a_cookie_counts_for_own_pages_only() {
    let gateway = Gateway::with(|config| {
        viewer(config);
        config.allow_origin = AllowedOrigins::new(["https://lab.example"]);
    })
    .await;
    let signed = sign_in(&gateway, "", &format!(r#"{{"token": "{TOKEN}"}}"#)).await;
    let cookie = cookie(&signed);
    let own = format!("Origin: http://{}", gateway.address);
    let (allowed, foreign) = ("Origin: https://lab.example", "Origin: http://127.0.0.1:1");
    let call = async |method: &str, path: &str, headers: &[&str]| {
        let headers: Vec<&str> = headers.iter().copied().chain([&*cookie]).collect();
        gateway.bare(method, path, &headers, "").await.status
    };
    // 400, 404: it was let in.
    for (method, path, inside) in [
        ("POST", "/api/kernels/x/interrupt", 404),
        ("DELETE", "/v1/sessions/11111111-2222-3333-4444-555555555555", 404),
        ("PUT", "/v1/sessions/x/files/a", 404),
        ("PATCH", "/api/me", 501),
    ] {
        assert_eq!(call(method, path, &[&own]).await, inside, "{method} {path}");
        assert_eq!(call(method, path, &[]).await, 403, "{method} {path}");
        assert_eq!(
            call(method, path, &["Sec-Fetch-Site: same-origin"]).await,
            403,
            "{method} {path}"
        );
        assert_eq!(call(method, path, &[allowed]).await, 403, "{method} {path}");
        assert_eq!(call(method, path, &[foreign]).await, 404, "{method} {path}");
        assert_eq!(
            call(method, path, &["Origin: null"]).await,
            404,
            "{method} {path}"
        );
    }
    assert_eq!(call("GET", KERNELS, &["Sec-Fetch-Site: same-site"]).await, 403);
    assert_eq!(call("GET", KERNELS, &[allowed]).await, 403);
    let upgrade = |origin: &'static str| {
        let mut headers = UPGRADE.to_vec();
        headers.extend((!origin.is_empty()).then_some(origin));
        headers
    };
    assert_eq!(call("GET", CHANNELS, &upgrade("")).await, 403);
    assert_eq!(call("GET", CHANNELS, &upgrade(foreign)).await, 403);
    let headers = [&UPGRADE[..], &[&own]].concat();
    assert_eq!(call("GET", CHANNELS, &headers).await, 404);
}

#[tokio::test]
async fn the_code_signs_in_once() {
    let gateway = Gateway::with(viewer).await;
    let with_code = format!(r#"{{"code": "{CODE}"}}"#);
    for bad in ["", "{}", r#"{"token": 3}"#, r#"{"code": "a", "token": "b"}"#] {
        let reply = sign_in(&gateway, "", bad).await;
        assert_eq!(reply.status, 400, "{bad}");
        assert_eq!(reply.json()["code"], "bad_request");
    }
    let signed = sign_in(&gateway, "", &with_code).await;
    assert_eq!(signed.status, 204);
    let again = sign_in(&gateway, "", &with_code).await;
    assert_eq!((again.status, again.header("set-cookie")), (401, None));
    let get = gateway.bare("GET", KERNELS, &[&cookie(&signed)], "").await;
    assert_eq!(get.status, 200);
    // It is no token.
    assert_eq!(
        gateway
            .bare("GET", &format!("{KERNELS}?token={CODE}"), &[], "")
            .await
            .status,
        401
    );
}

#[tokio::test]
async fn guesses_are_slowed_down_and_bodies_are_small() {
    let gateway = Gateway::with(viewer).await;
    let mut statuses = Vec::new();
    for i in 0..12 {
        let body = if i % 2 == 0 {
            r#"{"token": "wrong"}"#
        } else {
            r#"{"code": "wrong"}"#
        };
        statuses.push(sign_in(&gateway, "", body).await.status);
    }
    assert_eq!(statuses, [[401; 10].as_slice(), &[429; 2]].concat());
    let large = format!(r#"{{"token": "{}"}}"#, "x".repeat(5000));
    assert_eq!(sign_in(&gateway, "", &large).await.status, 413);
    // A right one is let in all the same.
    assert_eq!(
        sign_in(&gateway, "", &format!(r#"{{"code": "{CODE}"}}"#))
            .await
            .status,
        204
    );
    let foreign = ["Origin: http://evil.example"];
    let reply = gateway
        .bare(
            "POST",
            "/viewer/sign-in",
            &foreign,
            &format!(r#"{{"token": "{TOKEN}"}}"#),
        )
        .await;
    assert_eq!((reply.status, reply.header("set-cookie")), (404, None));
}

#[tokio::test]
async fn behind_tls_the_cookie_is_secure() {
    let gateway = Gateway::with(viewer).await;
    let body = format!(r#"{{"token": "{TOKEN}"}}"#);
    let origin = format!("Origin: https://{}", gateway.address);
    for header in ["X-Forwarded-Proto: https", &origin] {
        let reply = gateway.bare("POST", "/viewer/sign-in", &[header], &body).await;
        let set = reply.header("set-cookie").unwrap();
        assert!(set.ends_with("; SameSite=Strict; Secure"), "{set}");
        let (name, value) = set.split(';').next().unwrap().split_once('=').unwrap();
        assert_eq!(name, format!("__Host-himalia-{}", gateway.address.port()));
        // A page without TLS, or of another host of the domain, can have set the name without its prefix.
        for (name, status) in [(name, 200), (name.trim_start_matches("__Host-"), 401)] {
            let cookie = format!("Cookie: {name}={value}");
            let shown = [cookie.as_str(), "X-Forwarded-Proto: https"];
            assert_eq!(
                gateway.bare("GET", KERNELS, &shown, "").await.status,
                status,
                "{name}"
            );
        }
    }
}
