//! Against servers that say what a test wants.

use bytes::Bytes;
use himalia_credentials::SecretText;
use himalia_model::credential::{OAuth, OAuthFields};
use http::{Request, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;

/// URL, status, headers, body.
type Scripting = (String, u16, Vec<(&'static str, String)>, String);

/// Answers by URL, and what it was asked.
#[derive(Default)]
struct Scripted {
    answers: Mutex<Vec<Scripting>>,
    asked: Mutex<Vec<(String, Option<String>, String)>>,
}

impl Scripted {
    fn answer(&self, url: &str, status: u16, body: &Value) {
        self.answers
            .lock()
            .push((url.to_owned(), status, Vec::new(), body.to_string()));
    }

    fn urls(&self) -> Vec<String> {
        self.asked.lock().iter().map(|(url, ..)| url.clone()).collect()
    }
}

impl Transport for Scripted {
    fn send(&self, request: Request<Bytes>) -> ResponseFuture<'_> {
        let url = request.uri().to_string();
        let authorization = request.headers().get("authorization");
        let authorization = authorization.map(|value| value.to_str().unwrap().to_owned());
        let body = String::from_utf8(request.body().to_vec()).unwrap();
        self.asked.lock().push((url.clone(), authorization, body));
        let answers = self.answers.lock();
        let found = answers.iter().find(|(one, ..)| *one == url).cloned();
        let (_, status, headers, body) = found.unwrap_or_else(|| (url, 404, Vec::new(), String::new()));
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(name, value);
        }
        Box::pin(async move { Ok(response.body(Bytes::from(body)).unwrap()) })
    }
}

fn oauth(fields: Value) -> OAuth {
    let fields: OAuthFields = serde_json::from_value(fields).unwrap();
    OAuth::try_from(&fields).unwrap()
}

fn metadata(issuer: &str) -> Value {
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "registration_endpoint": format!("{issuer}/register"),
        "token_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
    })
}

fn mcp() -> OAuth {
    oauth(json!({"grant": "authorization_code", "resource": "https://api.test/x/mcp"}))
}

#[tokio::test]
async fn a_challenge_names_the_metadata_of_the_resource() {
    let web = Scripted::default();
    web.answers.lock().push((
        "https://api.test/x/mcp".to_owned(),
        401,
        vec![(
            "www-authenticate",
            r#"Bearer resource_metadata="https://api.test/meta", scope="read write""#.to_owned(),
        )],
        String::new(),
    ));
    web.answer(
        "https://api.test/meta",
        200,
        &json!({"resource": "https://api.test/x/mcp", "authorization_servers": ["https://id.test/tenant"], "scopes_supported": ["a"]}),
    );
    web.answer(
        "https://id.test/.well-known/openid-configuration/tenant",
        200,
        &metadata("https://id.test/tenant"),
    );
    let server = discover(&web, &mcp()).await.unwrap();
    assert_eq!(server.token, "https://id.test/tenant/token");
    assert_eq!(server.resource.as_deref(), Some("https://api.test/x/mcp"));
    assert!(server.takes_public_clients);
    assert_eq!(server.scope.as_deref(), Some("read write"));
    // A server of MCP knows POST alone.
    let asked = web.asked.lock();
    assert!(asked[0].2.contains("tools/list") && asked[1].0 == "https://api.test/meta");
}

#[tokio::test]
async fn without_scopes_in_the_challenge_all_that_the_resource_has_are_asked_for() {
    for (supported, scope) in [
        (json!(["a", "b"]), Some("a b")),
        (json!([]), None),
        (json!(["a\nb"]), None),
    ] {
        let web = Scripted::default();
        web.answer(
            "https://api.test/.well-known/oauth-protected-resource",
            200,
            &json!({"authorization_servers": ["https://id.test"], "scopes_supported": supported}),
        );
        web.answer(
            "https://id.test/.well-known/oauth-authorization-server",
            200,
            &metadata("https://id.test"),
        );
        let server = discover(&web, &mcp()).await.unwrap();
        assert_eq!(server.scope.as_deref(), scope);
    }
}

#[tokio::test]
async fn a_challenge_that_names_another_host_is_refused() {
    for named in [
        "https://evil.test/meta",
        "http://api.test/meta",
        "https://api.test:444/meta",
        "https://api.test.evil.test/meta",
    ] {
        let web = Scripted::default();
        let challenge = format!("Bearer resource_metadata=\"{named}\"");
        let headers = vec![("www-authenticate", challenge)];
        web.answers
            .lock()
            .push(("https://api.test/x/mcp".to_owned(), 401, headers, String::new()));
        web.answer(
            named,
            200,
            &json!({"authorization_servers": ["https://evil.test"]}),
        );
        let refused = discover(&web, &mcp()).await.unwrap_err().to_string();
        assert!(refused.contains("is not at https://api.test"), "{refused}");
        assert_eq!(web.urls(), ["https://api.test/x/mcp"]);
    }
}

#[tokio::test]
async fn well_known_addresses_are_tried_in_their_order() {
    let web = Scripted::default();
    let failed = discover(&web, &mcp()).await.unwrap_err();
    assert!(
        failed.to_string().contains("https://api.test publishes none"),
        "{failed}"
    );
    assert_eq!(
        web.urls(),
        [
            "https://api.test/x/mcp",
            "https://api.test/x/mcp",
            "https://api.test/.well-known/oauth-protected-resource/x/mcp",
            "https://api.test/.well-known/oauth-protected-resource",
            "https://api.test/.well-known/oauth-authorization-server",
            "https://api.test/.well-known/openid-configuration",
        ]
    );
    let issuer = oauth(json!({"grant": "authorization_code", "issuer": "https://id.test/a/b"}));
    web.asked.lock().clear();
    discover(&web, &issuer).await.unwrap_err();
    assert_eq!(
        web.urls(),
        [
            "https://id.test/.well-known/oauth-authorization-server/a/b",
            "https://id.test/.well-known/openid-configuration/a/b",
            "https://id.test/a/b/.well-known/openid-configuration",
        ]
    );
}

#[tokio::test]
async fn metadata_that_cannot_be_trusted_is_refused() {
    for (change, word) in [
        (json!({"issuer": "https://other.test"}), "issuer"),
        (json!({"issuer": "https://id.test/"}), "issuer"),
        (json!({"token_endpoint": "http://id.test/t"}), "token_endpoint"),
        (
            json!({"authorization_endpoint": "javascript:x"}),
            "authorization_endpoint",
        ),
        (json!({"code_challenge_methods_supported": ["plain"]}), "PKCE"),
    ] {
        let web = Scripted::default();
        let mut said = metadata("https://id.test");
        said.as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        web.answer(
            "https://id.test/.well-known/oauth-authorization-server",
            200,
            &said,
        );
        let issuer = oauth(json!({"grant": "authorization_code", "issuer": "https://id.test"}));
        let failed = discover(&web, &issuer).await.unwrap_err().to_string();
        assert!(failed.contains(word), "{failed}");
    }
    let web = Scripted::default();
    web.answer(
        "https://api.test/.well-known/oauth-protected-resource/x/mcp",
        200,
        &json!({"resource": "https://other.test/x/mcp", "authorization_servers": ["https://id.test"]}),
    );
    let failed = discover(&web, &mcp()).await.unwrap_err().to_string();
    assert!(failed.contains("not of https://api.test/x/mcp"), "{failed}");
}

#[tokio::test]
async fn a_server_that_a_resource_names_must_publish_pkce() {
    let web = Scripted::default();
    web.answer(
        "https://api.test/.well-known/oauth-protected-resource",
        200,
        &json!({"authorization_servers": ["https://id.test"]}),
    );
    let mut silent = metadata("https://id.test");
    silent
        .as_object_mut()
        .unwrap()
        .remove("code_challenge_methods_supported");
    web.answer(
        "https://id.test/.well-known/oauth-authorization-server",
        200,
        &silent,
    );
    let refused = discover(&web, &mcp()).await.unwrap_err().to_string();
    assert!(refused.contains("PKCE"), "{refused}");
    let named = oauth(json!({"grant": "authorization_code", "issuer": "https://id.test"}));
    discover(&web, &named).await.unwrap();
}

#[tokio::test]
async fn a_client_registers_itself_as_the_server_takes_it() {
    let web = Scripted::default();
    let server = Server {
        registration: Some("https://id.test/register".to_owned()),
        takes_public_clients: false,
        secret_in_body: true,
        ..Server::default()
    };
    web.answer(
        "https://id.test/register",
        201,
        &json!({"client_id": "c1", "client_secret": "s3cret-s3cret", "token_endpoint_auth_method": "client_secret_post"}),
    );
    let client = register(&web, &server, "http://127.0.0.1:1/x", Some("read"))
        .await
        .unwrap();
    assert!(client.id == "c1" && client.secret.is_some() && client.secret_in_body);
    let sent: Value = serde_json::from_str(&web.asked.lock()[0].2).unwrap();
    assert_eq!(sent["token_endpoint_auth_method"], "client_secret_post");
    assert_eq!(
        (&sent["application_type"], &sent["scope"]),
        (&json!("native"), &json!("read"))
    );
    let none = register(&web, &Server::default(), "http://127.0.0.1:1/x", None).await;
    assert!(none.unwrap_err().to_string().contains("client_id"));
}

fn client(secret_in_body: bool) -> Client {
    Client {
        id: "me:1".to_owned(),
        secret: Some(SecretText::new("a+b s3cret".to_owned())),
        secret_in_body,
    }
}

fn server() -> Server {
    Server {
        token: "https://id.test/token".to_owned(),
        resource: Some("https://api.test/mcp".to_owned()),
        ..Server::default()
    }
}

#[tokio::test]
async fn tokens_are_asked_for_as_the_client_is_known() {
    let web = Scripted::default();
    web.answer(
        "https://id.test/token",
        200,
        &json!({"access_token": "access-1", "token_type": "bearer", "expires_in": "60", "refresh_token": "refresh-1"}),
    );
    let grant = [("grant_type", "client_credentials")];
    let got = client(false).tokens(&web, &server(), &grant).await.unwrap();
    assert_eq!((got.access.expose(), got.expires_in), ("access-1", Some(60)));
    client(true).tokens(&web, &server(), &grant).await.unwrap();
    let asked = web.asked.lock();
    // "me%3A1:a%2Bb+s3cret"
    assert_eq!(asked[0].1.as_deref(), Some("Basic bWUlM0ExOmElMkJiK3MzY3JldA=="));
    assert_eq!(
        asked[0].2,
        "grant_type=client_credentials&resource=https%3A%2F%2Fapi.test%2Fmcp"
    );
    assert!(
        asked[1].1.is_none()
            && asked[1]
                .2
                .ends_with("&client_id=me%3A1&client_secret=a%2Bb+s3cret")
    );
}

#[tokio::test]
async fn an_answer_without_a_token_that_can_be_used_is_an_error() {
    let tokens = async |status: u16, body: Value| {
        let web = Scripted::default();
        web.answer("https://id.test/token", status, &body);
        let got = client(false)
            .tokens(&web, &server(), &[("grant_type", "x")])
            .await;
        got.unwrap_err()
    };
    let refused = tokens(
        400,
        json!({"error": "invalid_grant", "error_description": "gone\u{1b}[2J"}),
    )
    .await;
    assert!(refused.is_final());
    assert_eq!(
        refused.to_string(),
        "the authorization server refused: invalid_grant (gone[2J)"
    );
    assert!(!tokens(400, json!({"error": "slow_down"})).await.is_final());
    let down = tokens(503, json!({"error": "invalid_grant"})).await;
    assert!(matches!(down, OAuthError::Unreachable { .. }), "{down}");
    for (body, word) in [
        (json!({"access_token": "access-1", "token_type": "DPoP"}), "DPoP"),
        (json!({"access_token": "short"}), "access token"),
        (json!({"access_token": "with\nline-end"}), "access token"),
        (json!({"token_type": "bearer"}), "no access token"),
        (json!(["s3cret-s3cret"]), "JSON"),
    ] {
        let error = tokens(200, body).await.to_string();
        assert!(error.contains(word) && !error.contains("s3cret"), "{error}");
    }
}

#[test]
fn an_answer_of_another_server_is_refused() {
    let known = Server {
        issuer: Some("https://id.test".to_owned()),
        names_issuer: true,
        ..server()
    };
    let answer = |issuer: Option<&str>, error: Option<&str>| Answer {
        code: Some("code".to_owned()),
        error: error.map(str::to_owned),
        issuer: issuer.map(str::to_owned),
        ..Answer::default()
    };
    assert_eq!(
        check_answer(&known, answer(Some("https://id.test"), None)).unwrap(),
        "code"
    );
    for wrong in [
        answer(Some("https://evil.test"), None),
        answer(None, None),
        answer(Some("https://id.test"), Some("access_denied")),
        Answer {
            issuer: Some("https://id.test".to_owned()),
            ..Answer::default()
        },
    ] {
        check_answer(&known, wrong).unwrap_err();
    }
    assert!(check_answer(&server(), answer(None, None)).is_ok());
}
