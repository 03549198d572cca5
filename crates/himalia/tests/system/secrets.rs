//! Tokens: wrong ones in all forms, and where the right one must never show.

use himalia_testkit::client::{Connect, Framing, WsClient};
use himalia_testkit::gateway::{Gateway, TOKEN};
use himalia_testkit::http::Http;

use crate::common::gateway;

const WRONG: &str = "canary-of-a-wrong-token";

#[tokio::test]
async fn wrong_tokens_are_refused_in_every_form() {
    let gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let http = gateway.http().anonymous();
    let upper = TOKEN.to_uppercase();
    let (shorter, longer) = (&TOKEN[1..], format!("{TOKEN}x"));
    let header = |value: &str| Some(value.to_owned());
    // A peer has ten wrong tokens a minute; what is no token at all is not counted.
    for (path, authorization) in [
        ("/api/kernels".to_owned(), None),
        ("/api/kernels".to_owned(), header("token ")),
        ("/api/kernels".to_owned(), header("Basic dGVzdGtpdC10b2tlbg==")),
        ("/api/kernels".to_owned(), header(TOKEN)),
        ("/api/kernels".to_owned(), header(&format!("token {WRONG}"))),
        ("/api/kernels".to_owned(), header(&format!("Bearer {WRONG}"))),
        ("/api/kernels".to_owned(), header(&format!("token {upper}"))),
        ("/api/kernels".to_owned(), header(&format!("token {shorter}"))),
        ("/api/kernels".to_owned(), header(&format!("token {longer}"))),
        (
            format!("/api/kernels?token={WRONG}"),
            header(&format!("token {TOKEN}")),
        ),
        (
            format!("/t/{WRONG}/api/kernels"),
            header(&format!("token {TOKEN}")),
        ),
        (format!("/v1/sessions/{kernel}/events"), None),
        ("/no/such/path".to_owned(), None),
    ] {
        let headers: Vec<_> = authorization
            .iter()
            .map(|value| ("authorization", value.as_str()))
            .collect();
        let reply = http.request("GET", &path, &headers, None).await.unwrap();
        assert_eq!(reply.status, 401, "{path} {authorization:?}: {}", reply.text());
        assert_hidden(&reply.text());
        assert!(!reply.headers.iter().any(|(_, value)| value.contains(WRONG)));
    }
    for connect in [
        Connect {
            token: Some(WRONG.to_owned()),
            ..gateway.channels(&kernel, Framing::V1)
        },
        Connect {
            token: None,
            ..gateway.channels(&kernel, Framing::V1)
        },
        Connect {
            query: Some(format!("token={WRONG}")),
            ..gateway.channels(&kernel, Framing::Legacy)
        },
    ] {
        assert_eq!(WsClient::refusal(WsClient::connect(&connect).await), 401);
    }
    // Too many: later ones are put off, and the right one still gets in.
    let wrong = Http::new(gateway.address(), Some(WRONG));
    let mut last = 401;
    for _ in 0..12 {
        last = wrong.get("/api/kernels").await.unwrap().status;
    }
    assert_eq!(last, 429);
    assert_eq!(gateway.http().get("/api/kernels").await.unwrap().status, 200);
    gateway.connect(&kernel).await.unwrap();
    assert_hidden(&gateway.log());
}

#[tokio::test]
async fn no_token_is_logged_however_it_is_shown_and_however_much_is_logged() {
    let mut gateway = Gateway::builder()
        .arg("--log")
        .arg("trace")
        .start()
        .await
        .unwrap();
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let http = gateway.http().anonymous();
    for path in [
        format!("/api/kernels?token={TOKEN}"),
        format!("/api/kernels/{kernel}?token={TOKEN}&x=1"),
        format!("/t/{TOKEN}/api/kernels"),
        format!("/t/{TOKEN}/api/kernels/"),
        format!("/t/{TOKEN}/no/such/path"),
        format!("/api/nothing?token={TOKEN}"),
        format!("/t/{TOKEN}"),
    ] {
        let reply = http.get(&path).await.unwrap();
        assert_ne!(reply.status, 401, "{path}");
        // A redirect's address is the caller's own.
        assert!(!reply.text().contains(TOKEN), "{path}: {}", reply.text());
    }
    let url = format!(
        "ws://{}/t/{TOKEN}/api/kernels/{kernel}/channels",
        gateway.address()
    );
    let mut socket = WsClient::connect(&Connect::new(url)).await.unwrap();
    socket.execute("error ValueError x").await.unwrap();
    let origin = Connect {
        headers: vec![("origin", "https://elsewhere.example".to_owned())],
        ..gateway.channels(&kernel, Framing::V1)
    };
    assert_eq!(WsClient::refusal(WsClient::connect(&origin).await), 403);
    gateway.crash().await.unwrap();
    crate::common::until_state(&gateway, &kernel, "idle").await;
    for file in ["gateway-1.log", "gateway-2.log"] {
        let log = std::fs::read_to_string(gateway.file(file)).unwrap();
        assert!(
            log.contains("TRACE") || log.contains("DEBUG"),
            "so much is logged"
        );
        assert!(
            !log.contains(TOKEN),
            "{}",
            log.lines().find(|line| line.contains(TOKEN)).unwrap()
        );
    }
    // Nor is it on the disk in plain text.
    for path in crate::common::tree(&gateway.file("data")) {
        let bytes = std::fs::read(gateway.file("data").join(&path)).unwrap_or_default();
        assert!(
            !bytes.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes()),
            "{path}"
        );
    }
}

fn assert_hidden(text: &str) {
    assert!(!text.contains(TOKEN) && !text.contains(WRONG), "{text}");
    assert!(
        !text.contains("panicked") && !text.contains("Traceback"),
        "{text}"
    );
}
