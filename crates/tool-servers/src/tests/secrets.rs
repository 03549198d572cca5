//! Credentials: where they go, and where they do not.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use himalia_credentials::{Credential, CredentialValue, GivenSecrets, SecretText, Unusable};
use himalia_model::credential::{CredentialDefinition, CredentialFields};
use serde_json::{Value, json};

use super::support::*;
use crate::call::CallError;
use crate::state::ServerState;

const SECRET: &str = "s3cret-s3cret-s3cret";

fn credential(definition: Value, value: &str) -> Credential {
    let fields: CredentialFields = serde_json::from_value(definition).unwrap();
    let definition: CredentialDefinition = fields.try_into().unwrap();
    let given = GivenSecrets {
        value: Some(SecretText::new(value.to_owned())),
        ..GivenSecrets::default()
    };
    let value = CredentialValue::new(definition.kind(), given).unwrap();
    Credential::new("api", definition, value)
}

/// A server that says which secret it received, in its reply or in its error.
async fn telltale() -> Raw {
    calls(&["reply", "refuse", "html"], |request, mut stream| {
        Box::pin(async move {
            let told = request.headers.get("authorization").cloned().unwrap_or_default();
            match request.tool().unwrap().as_str() {
                "reply" => respond_json(&mut stream, &result(&request, &text(&told))).await,
                "refuse" => respond(&mut stream, "403 Forbidden", "", told.as_bytes()).await,
                _ => {
                    let header = format!("content-type: text/{told}\r\n");
                    respond(&mut stream, "200 OK", &header, b"").await;
                }
            }
        })
    })
    .await
}

/// A server that answers with a part of its reply, or says that it has several.
async fn sending_parts() -> Raw {
    calls(&["part", "parts"], |request, mut stream| {
        Box::pin(async move {
            let told = request.headers.get("authorization").cloned().unwrap_or_default();
            let (status, kind) = match request.tool().unwrap().as_str() {
                "part" => ("206 Partial Content", "application/json"),
                _ => ("200 OK", "multipart/byteranges; boundary=x"),
            };
            let header = format!("content-type: {kind}\r\n");
            respond(&mut stream, status, &header, &told.as_bytes()[..10]).await;
        })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_not_read_in_parts_of_an_answer() {
    let server = sending_parts().await;
    let source = Arc::new(Source::default());
    *source.all.lock().unwrap() = vec![credential(
        json!({"kind": "bearer", "hosts": [server.url]}),
        SECRET,
    )];
    let servers = ready_with(&source, &server.url).await;
    for tool in ["part", "parts"] {
        let error = call(&servers, "a", tool).await.unwrap_err().to_string();
        assert!(error.contains("the response is a part"), "{error}");
    }
}

async fn ready_with(source: &Arc<Source>, url: &str) -> crate::ToolServers {
    let fields = json!({"url": url, "credential": "api"});
    let servers = start_with(vec![config("a", fields)], Arc::clone(source));
    until(&servers, |servers| is_ready(&servers.states()[0].state)).await;
    servers
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_added_to_each_request_and_masked_in_each_answer() {
    let server = telltale().await;
    let source = Arc::new(Source::default());
    let bearer = json!({"kind": "bearer", "hosts": [server.url]});
    *source.all.lock().unwrap() = vec![credential(bearer.clone(), SECRET)];
    let servers = ready_with(&source, &server.url).await;
    let masked = format!("Bearer {}", "*".repeat(SECRET.len()));
    assert_eq!(call(&servers, "a", "reply").await.unwrap().content, json!(masked));
    for tool in ["refuse", "html"] {
        let error = call(&servers, "a", tool).await.unwrap_err().to_string();
        assert!(error.contains("***") && !error.contains("s3cret"), "{error}");
    }
    // Another value counts at once, and so does a revocation.
    let other = "0ther-0ther-0ther";
    *source.all.lock().unwrap() = vec![credential(bearer, other)];
    let reply = call(&servers, "a", "reply").await.unwrap();
    assert_eq!(
        reply.content,
        json!(format!("Bearer {}", "*".repeat(other.len())))
    );
    source.all.lock().unwrap().clear();
    let before = server.requests.load(Ordering::SeqCst);
    let error = call(&servers, "a", "reply").await.unwrap_err();
    assert!(
        matches!(&error, CallError::Unavailable(reason) if reason.contains("revoked")),
        "{error}"
    );
    assert_eq!(server.requests.load(Ordering::SeqCst), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_goes_to_no_other_host() {
    let server = telltale().await;
    let source = Arc::new(Source::default());
    let elsewhere = json!({"kind": "bearer", "hosts": ["api.example.org"]});
    *source.all.lock().unwrap() = vec![credential(elsewhere, SECRET)];
    let fields = json!({"url": server.url, "credential": "api"});
    let servers = start_with(vec![config("a", fields.clone())], Arc::clone(&source));
    until(&servers, |servers| {
        failure(servers, "a").is_some_and(|reason| reason.contains("not bound"))
    })
    .await;
    source.fails.store(true, Ordering::SeqCst);
    until(&servers, |servers| {
        failure(servers, "a").is_some_and(|reason| reason.contains("cannot read"))
    })
    .await;
    assert_eq!(server.requests.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_in_the_query_is_in_no_error() {
    let source = Arc::new(Source::default());
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let query = json!({"kind": "query", "parameter": "key", "hosts": [gone]});
    *source.all.lock().unwrap() = vec![credential(query, SECRET)];
    let fields = json!({"url": gone, "credential": "api"});
    let servers = start_with(vec![config("a", fields)], Arc::clone(&source));
    until(&servers, |servers| failure(servers, "a").is_some()).await;
    let reason = failure(&servers, "a").unwrap();
    assert!(
        !reason.contains("s3cret") && reason.contains("127.0.0.1"),
        "{reason}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_description_elsewhere_is_read_without_the_secret() {
    let api = Raw::start(|request, mut stream| {
        Box::pin(async move {
            let told =
                json!({"told": request.headers.get("x-api-key"), "accept": request.headers.get("accept")});
            respond_json(&mut stream, &told).await;
        })
    })
    .await;
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = Arc::clone(&told);
    let descriptions = Raw::start(move |request, mut stream| {
        noted.lock().unwrap().push(request.headers.contains_key("x-api-key"));
        Box::pin(async move {
            let key = json!({"name": "X-Api-Key", "in": "header", "schema": {"type": "string"}});
            let description = json!({"openapi": "3.1.0", "paths": {"/x": {"get": {"operationId": "x", "parameters": [key]}}}});
            respond_json(&mut stream, &description).await;
        })
    })
    .await;
    let source = Arc::new(Source::default());
    let header = json!({"kind": "header", "header": "X-Api-Key", "hosts": [api.url]});
    *source.all.lock().unwrap() = vec![credential(header, SECRET)];
    let fields = json!({"openapi": descriptions.url, "base_url": api.url, "credential": "api"});
    let servers = start_with(vec![config("a", fields)], Arc::clone(&source));
    until(&servers, |servers| is_ready(&servers.states()[0].state)).await;
    assert_eq!(*told.lock().unwrap(), [false]);
    // An argument does not take its place.
    let own = arguments(json!({"X-Api-Key": "of the caller"}));
    let reply = servers.call(ME, "a", "x", own, LIMITS).await.unwrap();
    assert_eq!(reply.content["told"], json!("*".repeat(SECRET.len())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_token_is_refused_is_sent_once_more_with_another_one() {
    const TOKEN: &str = "the-second-access-token";
    let server = calls(&["reply", "never"], |request, mut stream| {
        Box::pin(async move {
            let told = request.headers.get("authorization").cloned().unwrap_or_default();
            if request.tool().unwrap() == "reply" && told.ends_with(TOKEN) {
                respond_json(&mut stream, &result(&request, &text(&told))).await;
            } else {
                let challenge = "www-authenticate: Bearer error=\"invalid_token\"\r\n";
                respond(&mut stream, "401 Unauthorized", challenge, told.as_bytes()).await;
            }
        })
    })
    .await;
    let tokens = json!({"kind": "oauth2", "grant": "client_credentials", "issuer": "https://id.test", "client_id": "c",
                        "hosts": [server.url]});
    let with = |token: &str| {
        let mut one = credential(json!({"kind": "bearer", "hosts": [server.url]}), token);
        let fields: CredentialFields = serde_json::from_value(tokens.clone()).unwrap();
        one.definition = fields.try_into().unwrap();
        one
    };
    let source = Arc::new(Source::default());
    *source.all.lock().unwrap() = vec![with(SECRET)];
    let servers = ready_with(&source, &server.url).await;
    *source.next.lock().unwrap() = Some(with(TOKEN));
    let before = server.requests.load(Ordering::SeqCst);
    let reply = call(&servers, "a", "reply").await.unwrap();
    assert_eq!(
        reply.content,
        json!(format!("Bearer {}", "*".repeat(TOKEN.len())))
    );
    assert_eq!(server.requests.load(Ordering::SeqCst), before + 2);
    *source.next.lock().unwrap() = Some(with(SECRET));
    let error = call(&servers, "a", "never").await.unwrap_err().to_string();
    assert!(error.contains("401") && !error.contains("s3cret"), "{error}");
    assert_eq!(
        server.requests.load(Ordering::SeqCst),
        before + 4,
        "there is no third one"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_wakes_its_server() {
    let server = telltale().await;
    let source = Arc::new(Source::default());
    let tokens = json!({"kind": "oauth2", "grant": "authorization_code", "issuer": "https://id.test", "client_id": "c",
                        "hosts": [server.url]});
    let fields: CredentialFields = serde_json::from_value(tokens).unwrap();
    let mut granted = credential(json!({"kind": "bearer", "hosts": [server.url]}), SECRET);
    granted.definition = fields.try_into().unwrap();
    let mut not_granted = granted.clone();
    not_granted.value.value = SecretText::default();
    not_granted.unusable = Some(Unusable::NoGrant("it has no grant yet".to_owned()));
    *source.all.lock().unwrap() = vec![not_granted];
    let fields = json!({"url": server.url, "credential": "api"});
    // Without the grant, the next attempt is far away.
    let timing = crate::task::Timing {
        backoff: (LONG * 10, LONG * 10),
        token: std::time::Duration::from_millis(5),
        ..timing()
    };
    let servers = start_timed(vec![config("a", fields)], Arc::clone(&source), timing);
    until(&servers, |servers| failure(servers, "a").is_some()).await;
    *source.all.lock().unwrap() = vec![granted.clone()];
    until(&servers, |servers| is_ready(&servers.states()[0].state)).await;
    // The grant is taken back. A call says that it was not made, whenever it comes.
    let mut taken = granted.clone();
    taken.value.value = SecretText::default();
    taken.unusable = Some(Unusable::NoGrant("it was revoked".to_owned()));
    *source.all.lock().unwrap() = vec![taken];
    for _ in 0..2 {
        let error = call(&servers, "a", "reply").await.unwrap_err();
        assert!(
            matches!(&error, CallError::Unavailable(reason) if reason.contains("revoked")),
            "{error}"
        );
        until(&servers, |servers| failure(servers, "a").is_some()).await;
    }
    let mut again = granted;
    again.value.value = SecretText::new("another".to_owned());
    *source.all.lock().unwrap() = vec![again];
    until(&servers, |servers| is_ready(&servers.states()[0].state)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scopes_that_a_token_lacks_are_noted() {
    let challenge = r#"Bearer error="insufficient_scope", scope="write all""#;
    let server = calls(&["write", "other"], move |request, mut stream| {
        Box::pin(async move {
            let challenge = match request.tool().unwrap().as_str() {
                "write" => challenge,
                _ => r#"Bearer error="invalid_request", scope="more""#,
            };
            let header = format!("www-authenticate: {challenge}\r\n");
            respond(&mut stream, "403 Forbidden", &header, b"").await;
        })
    })
    .await;
    let tokens = json!({"kind": "oauth2", "grant": "authorization_code", "issuer": "https://id.test", "client_id": "c",
                        "hosts": [server.url]});
    let fields: CredentialFields = serde_json::from_value(tokens).unwrap();
    let mut granted = credential(json!({"kind": "bearer", "hosts": [server.url]}), SECRET);
    granted.definition = fields.try_into().unwrap();
    let source = Arc::new(Source::default());
    *source.all.lock().unwrap() = vec![granted];
    let servers = ready_with(&source, &server.url).await;
    for tool in ["other", "write"] {
        let error = call(&servers, "a", tool).await.unwrap_err();
        assert!(matches!(error, CallError::Refused { code: 403, .. }), "{error}");
    }
    assert_eq!(*source.missing_scopes.lock().unwrap(), ["write all"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_credential_has_no_grant_says_how_to_grant_it_and_others_work() {
    let server = telltale().await;
    let source = Arc::new(Source::default());
    let tokens = json!({"kind": "oauth2", "grant": "authorization_code", "issuer": "https://id.test", "client_id": "c",
                        "hosts": [server.url]});
    let fields: CredentialFields = serde_json::from_value(tokens).unwrap();
    let mut granted = credential(json!({"kind": "bearer", "hosts": [server.url]}), SECRET);
    granted.definition = fields.try_into().unwrap();
    let mut not_granted = granted.clone();
    not_granted.value.value = SecretText::default();
    let reason = "it has no grant yet; a person grants it with `himalia auth api`";
    not_granted.unusable = Some(Unusable::NoGrant(reason.to_owned()));
    *source.all.lock().unwrap() = vec![not_granted.clone()];
    let with_credential = config("a", json!({"url": server.url, "credential": "api"}));
    let without = config("b", json!({"url": server.url}));
    let servers = start_with(vec![with_credential, without], Arc::clone(&source));
    let missing = |servers: &crate::ToolServers| match &servers.states()[0].state {
        ServerState::Failed { missing_grant, .. } => missing_grant.clone(),
        _ => None,
    };
    until(&servers, |servers| missing(servers).is_some()).await;
    assert!(missing(&servers).unwrap().ends_with(reason));
    until(&servers, |servers| is_ready(&servers.states()[1].state)).await;
    assert_eq!(call(&servers, "b", "reply").await.unwrap().content, json!(""));
    let error = call(&servers, "a", "reply").await.unwrap_err().to_string();
    assert!(error.contains(reason), "{error}");
    // Granted, and ended again while it is connected.
    *source.all.lock().unwrap() = vec![granted];
    until(&servers, |servers| is_ready(&servers.states()[0].state)).await;
    let masked = format!("Bearer {}", "*".repeat(SECRET.len()));
    assert_eq!(call(&servers, "a", "reply").await.unwrap().content, json!(masked));
    *source.all.lock().unwrap() = vec![not_granted];
    let error = call(&servers, "a", "reply").await.unwrap_err();
    assert!(
        matches!(&error, CallError::Unavailable(text) if text.contains(reason)),
        "{error}"
    );
}
