//! Two tenants behind one door: every route, with what the other one has.
#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

pub(crate) mod fixture;
mod ids;

use std::io::ErrorKind;

use crate::common::{self, Gateway, Reply, UPGRADE};
use axum::http::Method;
use fixture::{ADA, BOB, EVE, Request, call, gateway, made, stop};
use himalia_engine::Principal;
use himalia_http::{Access, ROUTES, Token};
use himalia_testkit::patience::within;
use ids::{Ids, shown};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Routes without any id, each with what it is to a tenant.
#[derive(Debug, PartialEq)]
enum Whole {
    /// The same for all, and of no kernel.
    Shared,
    /// Lists what is the caller's.
    Own,
    /// Makes something of the caller's.
    Makes,
    /// The operator's: 403.
    Operators,
    /// For tokens with the scope `admin`: 403.
    Admins,
}

/// What is read the same by all.
const SHARED: [&str; 7] = [
    "/v1/templates",
    "/api/me",
    "/api/spec.yaml",
    "/v1/openapi.json",
    "/api/kernelspecs",
    "/api/kernelspecs/{name}",
    "/kernelspecs/{name}/{file}",
];

/// Beginnings of routes that are tested elsewhere.
const OTHERS: [&str; 13] = [
    "/e2b/",
    "/files",
    "/azure/",
    "/openai/",
    "/v1/credentials/",
    "/v1/skills",
    "/v1/workflow",
    "/v1/schedules",
    "/v1/webhooks",
    "/v1/deliveries",
    "/v1/grants",
    "/v1/tool-approvals/",
    "/v1/prompt-webhooks",
];

fn whole(method: &str, path: &str) -> Option<Whole> {
    Some(match (method, path) {
        ("GET" | "PATCH", path) if SHARED.contains(&path) => Whole::Shared,
        (
            "GET",
            "/api/kernels" | "/api/sessions" | "/v1/sessions" | "/v1/runs" | "/v1/prompts" | "/v1/usage"
            | "/api/status",
        ) => Whole::Own,
        // Tools find sessions as the routes do; tests of agents look at them.
        ("POST", "/api/kernels" | "/api/sessions" | "/v1/sessions" | "/mcp") => Whole::Makes,
        ("GET", "/v1/pools" | "/metrics") | ("POST", "/v1/gc") => Whole::Operators,
        ("GET" | "POST", "/v1/tokens") | ("GET", "/v1/credentials" | "/v1/tool-approvals") => Whole::Admins,
        // A name is of its tenant, and another facade's routes are not served by this gateway: their own tests look at whose it is.
        (_, path) if OTHERS.iter().any(|start| path.starts_with(start)) => Whole::Makes,
        _ => return None,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_operator_sees_how_kernels_are_started() {
    let (gateway, engine) = gateway().await;
    for path in ["/api/kernelspecs", "/api/kernelspecs/python3"] {
        let mut seen = Vec::new();
        for token in [common::TOKEN, EVE] {
            let request = Request {
                method: "GET".to_owned(),
                path: path.to_owned(),
                body: String::new(),
                upgrade: false,
            };
            let reply = call(&gateway, token, &request).await;
            let mut json = reply.json();
            let spec = json
                .pointer_mut("/kernelspecs/python3")
                .map(serde_json::Value::take);
            seen.push(spec.unwrap_or(json));
        }
        assert_eq!(seen[0]["spec"]["argv"].as_array().unwrap().len(), 3);
        // A list, as clients want it, and nothing else is missing.
        seen[0]["spec"]["argv"] = json!([]);
        assert_eq!(seen[0], seen[1], "{path}");
        assert_eq!(seen[1]["spec"]["display_name"], "Fake");
    }
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_tenant_has_answers_as_what_never_was() {
    let (gateway, engine) = gateway().await;
    let cwd = tempfile::tempdir().unwrap();
    let hers = Ids::of(&gateway, ADA, cwd.path()).await;
    let unknown = Ids::unknown();
    let mut compared = 0;
    for route in ROUTES.iter().filter(|route| route.access == Access::Token) {
        if whole(route.method.as_str(), route.path).is_some() {
            continue;
        }
        for (known, strange) in hers.requests(route).iter().zip(&unknown.requests(route)) {
            let foreign = call(&gateway, EVE, known).await;
            let nothing = call(&gateway, EVE, strange).await;
            assert_eq!(shown(&foreign, &hers), shown(&nothing, &unknown), "{known:?}");
            // Nothing is there, unless the request is wrong in itself, or its kind is for another scope.
            let scope = route.path.contains("{token_id}") || route.path.ends_with("/steps/{step}/answer");
            let refused = if scope { 403 } else { 404 };
            assert!(
                matches!(foreign.status, 400) || foreign.status == refused,
                "{known:?}: {foreign:?}"
            );
            compared += 1;
        }
    }
    assert!(compared > 60, "{compared}");

    // All of it is there for the other caller of the tenant, and for the operator; what ends things comes last.
    for token in [common::TOKEN, BOB] {
        for route in ROUTES
            .iter()
            .filter(|route| route.access == Access::Token && route.method == Method::GET)
        {
            // This kernel knows nothing of its variables, and a log that grows has no end.
            let endless = route.path.ends_with("/events") || route.path.contains("/variables");
            // This gateway has no servers of tools.
            let endless = endless || route.path.ends_with("/tools/{tool}");
            if whole("GET", route.path).is_some() || endless || route.websocket {
                continue;
            }
            let mut requests = hers.requests(route);
            requests.retain(|one| !one.upgrade && (token == BOB || !one.path.contains("analysis")));
            for request in requests {
                let reply = call(&gateway, token, &request).await;
                assert!(
                    matches!(reply.status, 200 | 409),
                    "{token} {request:?}: {reply:?}"
                );
            }
        }
    }
    for path in [
        format!("/api/kernels/{}/channels", hers.kernel),
        format!("/v1/sessions/{}/events", hers.session),
        format!("/v1/executions/{}/events", hers.execution),
    ] {
        for (token, wanted) in [(EVE, 404), (BOB, 101), (common::TOKEN, 101)] {
            let auth = format!("Authorization: token {token}");
            let headers = [&UPGRADE[..], &[&auth]].concat();
            let mut stream = gateway.connect().await;
            let request = format!(
                "GET {path} HTTP/1.1\r\nHost: x\r\n{}\r\n\r\n",
                headers.join("\r\n")
            );
            tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes())
                .await
                .unwrap();
            let reply = within("the answer", Reply::head(&mut stream)).await.unwrap();
            assert_eq!(reply.status, wanted, "{token} {path}");
        }
    }
    for path in [
        format!("/api/sessions/{}", hers.jupyter_session),
        format!("/v1/sessions/{}", hers.session),
        format!("/api/kernels/{}", hers.kernel),
    ] {
        let request = |path: &str| Request {
            method: "DELETE".into(),
            path: path.into(),
            body: String::new(),
            upgrade: false,
        };
        assert_eq!(call(&gateway, BOB, &request(&path)).await.status, 204, "{path}");
    }
    // What is left of a session that is over is hers, too.
    let read = |path: String| Request {
        method: "GET".into(),
        path,
        body: String::new(),
        upgrade: false,
    };
    for path in [
        format!("/v1/executions/{}", hers.execution),
        format!("/v1/artifacts/{}", hers.sha256),
    ] {
        assert_eq!(
            call(&gateway, ADA, &read(path.clone())).await.status,
            200,
            "{path}"
        );
        assert_eq!(
            call(&gateway, EVE, &read(path.clone())).await.status,
            404,
            "{path}"
        );
    }
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_ones_own_and_the_gateway_is_the_operators() {
    let (gateway, engine) = gateway().await;
    let cwd = tempfile::tempdir().unwrap();
    let hers = Ids::of(&gateway, ADA, cwd.path()).await;
    let mut kinds = Vec::new();
    for route in ROUTES.iter().filter(|route| route.access == Access::Token) {
        let elsewhere = OTHERS.iter().any(|start| route.path.starts_with(start));
        let about_ids = !elsewhere && (route.path.contains("_id}") || route.path.contains("{sha256}"));
        let kind = whole(route.method.as_str(), route.path);
        // A new route has to be one or the other.
        assert_ne!(
            kind.is_some(),
            about_ids,
            "{} {}: whose is it?",
            route.method,
            route.path
        );
        let Some(kind) = kind else { continue };
        let request = Request {
            method: route.method.to_string(),
            path: route
                .path
                .replace("{name}", "python3")
                .replace("{file}", "logo-64x64.png"),
            body: match (route.method.as_str(), route.path) {
                (_, "/v1/gc") => "{}".into(),
                ("POST", "/v1/tokens") => json!({"caller": "x", "scope": "read"}).to_string(),
                _ => String::new(),
            },
            upgrade: false,
        };
        match kind {
            Whole::Makes => {}
            Whole::Operators | Whole::Admins => {
                let refused = call(&gateway, EVE, &request).await;
                assert_eq!(
                    (refused.status, refused.json()["code"].as_str()),
                    (403, Some("forbidden"))
                );
                let operators = call(&gateway, common::TOKEN, &request).await.status;
                assert!(matches!(operators, 200 | 201), "{request:?}: {operators}");
            }
            Whole::Shared | Whole::Own => {
                let reply = call(&gateway, EVE, &request).await;
                assert!(matches!(reply.status, 200 | 501), "{request:?}: {}", reply.status);
                let text = String::from_utf8_lossy(&reply.body).into_owned();
                for id in [&hers.kernel, &hers.session, &hers.jupyter_session, &hers.run] {
                    assert!(!text.contains(id.as_str()), "{request:?}");
                }
                let told = text.contains("analysis") || text.contains("acme");
                assert!(kind == Whole::Shared || !told, "{request:?}: {text}");
                if kind == Whole::Own && !["/api/status", "/v1/usage"].contains(&route.path) {
                    let text = String::from_utf8(call(&gateway, BOB, &request).await.body).unwrap();
                    let wanted = match route.path {
                        "/api/sessions" => &hers.jupyter_session,
                        "/v1/runs" => &hers.run,
                        _ => &hers.session,
                    };
                    assert!(text.contains(wanted.as_str()), "{request:?}: {text}");
                }
            }
        }
        kinds.push(kind);
    }
    assert!(kinds.contains(&Whole::Operators) && kinds.contains(&Whole::Own));
    let status = |token| made(&gateway, token, "GET", "/api/status", json!({}));
    assert_eq!(status(EVE).await["kernels"], 0);
    assert_eq!(status(BOB).await["kernels"], 4);

    // Her one place is taken by her own session of the same name, and then the limit says whose it is.
    let own = made(&gateway, EVE, "PUT", "/v1/sessions/analysis", json!({})).await;
    assert_eq!(
        (own["owner"].as_str(), own["id"] != hers.session.as_str()),
        (Some("evil"), true)
    );
    let start = |path: &str| Request {
        method: "POST".into(),
        path: path.into(),
        body: "{}".into(),
        upgrade: false,
    };
    let refused = call(&gateway, EVE, &start("/v1/sessions")).await;
    let detail = "the limit of 1 kernels of the tenant evil is reached";
    assert_eq!(
        (
            refused.status,
            refused.json()["code"].as_str(),
            refused.json()["detail"].as_str()
        ),
        (429, Some("kernel_limit"), Some(detail))
    );
    let refused = call(&gateway, EVE, &start("/api/kernels")).await;
    assert_eq!((refused.status, refused.message().as_str()), (403, detail));
    made(&gateway, BOB, "POST", "/v1/sessions", json!({})).await;

    // One log, two callers.
    let code = json!({"code": "print x"});
    let run = |token| {
        made(
            &gateway,
            token,
            "POST",
            "/v1/sessions/analysis/executions",
            code.clone(),
        )
    };
    assert_eq!(run(ADA).await["caller"], "acme/ada");
    assert_eq!(run(BOB).await["caller"], "acme/bob");
    let listed = made(
        &gateway,
        ADA,
        "GET",
        "/v1/sessions/analysis/executions",
        json!({}),
    )
    .await;
    let listed = listed["executions"].as_array().unwrap().clone();
    let callers: Vec<_> = listed.iter().map(|one| one["caller"].as_str().unwrap()).collect();
    assert_eq!(callers, ["acme/ada", "acme/ada", "acme/bob"]);
    stop(engine).await;
}

/// The header with which a browser shows the cookie that it was given.
fn cookie(reply: &Reply) -> String {
    let set = reply.header("set-cookie").unwrap();
    format!("Cookie: {}", set.split(';').next().unwrap())
}

#[tokio::test]
async fn a_browser_is_whoevers_token_it_signed_in_with() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sign-ins");
    let with = |ada: &'static str| {
        let file = file.clone();
        Gateway::with(move |config| {
            let principal = Principal::of_tenant("acme", "ada").unwrap();
            config.tokens.add(Token::new(ada), principal).unwrap();
            config.sign_ins_file = Some(file);
        })
    };
    let gateway = with(ADA).await;
    let mut cookies = Vec::new();
    for (token, username) in [(ADA, "acme/ada"), (common::TOKEN, "operator")] {
        let own = format!("Origin: http://{}", gateway.address);
        let body = json!({ "token": token }).to_string();
        let signed = gateway.bare("POST", "/viewer/sign-in", &[&own], &body).await;
        assert_eq!(signed.status, 204);
        let auth = format!("Authorization: Bearer {token}");
        for shown in [&cookie(&signed), &auth] {
            let me = gateway
                .bare(
                    "GET",
                    "/api/me?permissions=%7B%22kernels%22:[%22execute%22]%7D",
                    &[shown],
                    "",
                )
                .await;
            let me = me.json();
            assert_eq!(me["identity"]["username"], username);
            assert_eq!(me["permissions"]["kernels"], json!(["execute"]));
        }
        cookies.push(cookie(&signed));
    }
    let refused = gateway.bare("GET", "/v1/pools", &[&cookies[0]], "").await;
    assert_eq!(refused.status, 403);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.lines().count() == 2 && !text.contains("acme"), "{text}");
    assert!(!text.contains(ADA) && !text.contains(common::TOKEN));

    // The next gateway knows the browsers by the port that they call, and not the one whose token has changed.
    for (ada, wanted) in [(ADA, 200), ("the-next-token-of-ada", 401)] {
        let next = with(ada).await;
        for (at, wanted) in [wanted, 200].into_iter().enumerate() {
            let (_, value) = cookies[at].split_once('=').unwrap();
            let shown = format!("Cookie: himalia-{}={value}", next.address.port());
            let reply = next.bare("GET", "/api/me", &[&shown], "").await;
            assert_eq!(reply.status, wanted, "{ada} {at}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_out_ends_the_streams_and_sockets_of_that_browser_alone() {
    let (gateway, engine) = gateway().await;
    let session = made(&gateway, ADA, "PUT", "/v1/sessions/analysis", json!({})).await;
    let own = format!("Origin: http://{}", gateway.address);
    let mut cookies = Vec::new();
    for _ in 0..2 {
        let body = json!({ "token": ADA }).to_string();
        let signed = gateway.bare("POST", "/viewer/sign-in", &[&own], &body).await;
        cookies.push(cookie(&signed));
    }
    let channels = format!("/api/kernels/{}/channels", session["id"].as_str().unwrap());
    let events = "/v1/sessions/analysis/events";
    let mut open = Vec::new();
    for cookie in &cookies {
        for (path, socket) in [(events, false), (events, true), (channels.as_str(), true)] {
            let mut stream = gateway.connect().await;
            let mut head = format!(
                "GET {path} HTTP/1.1\r\nHost: {}\r\n{own}\r\n{cookie}\r\n",
                gateway.address
            );
            for header in UPGRADE.iter().filter(|_| socket) {
                head.push_str(header);
                head.push_str("\r\n");
            }
            head.push_str("\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let reply = within(path, Reply::head(&mut stream)).await.unwrap();
            assert_eq!(reply.status, if socket { 101 } else { 200 }, "{reply:?}");
            open.push(stream);
        }
    }
    // The answer comes over a connection that this sign-in has used.
    let mut leaving = gateway.connect().await;
    let list = format!(
        "GET /api/kernels HTTP/1.1\r\nHost: {}\r\n{}\r\n\r\n",
        gateway.address, cookies[0]
    );
    leaving.write_all(list.as_bytes()).await.unwrap();
    assert_eq!(
        within("a list", Reply::read(&mut leaving)).await.unwrap().status,
        200
    );
    let out = format!(
        "POST /viewer/sign-out HTTP/1.1\r\nHost: {}\r\n{own}\r\n{}\r\nContent-Length: 0\r\n\r\n",
        gateway.address, cookies[0]
    );
    leaving.write_all(out.as_bytes()).await.unwrap();
    assert_eq!(
        within("to sign out", Reply::read(&mut leaving))
            .await
            .unwrap()
            .status,
        204
    );
    let mut rest = Vec::new();
    for stream in &mut open[..3] {
        let _ = within("the end", stream.read_to_end(&mut rest)).await.unwrap();
    }
    for stream in &open[3..] {
        let read = stream.try_read(&mut [0]);
        let continues = read.map_or_else(|error| error.kind() == ErrorKind::WouldBlock, |bytes| bytes > 0);
        assert!(continues, "the other browser's connections continue");
    }
    drop(open);
    stop(engine).await;
}
