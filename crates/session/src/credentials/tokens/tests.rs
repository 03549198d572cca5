//! Tokens from a server that rotates refresh tokens, and forgets a grant when an old one is used.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use himalia_credentials::{CredentialSource as _, SecretText};
use himalia_model::credential::{CredentialDefinition, CredentialKeys, CredentialSettings, TokenState};
use himalia_model::network::PrivateAddresses;
use himalia_model::{EngineConfig, TimeSource};
use himalia_oauth::{ResponseFuture, Transport};
use himalia_store::SqliteStore;
use http::{Request, Response};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use url::Url;

use super::*;
use crate::credentials::{Credentials, TokenSettings};
use himalia_credentials::CredentialValue;

/// An authorization server.
struct Server {
    /// The refresh token that is good now.
    good: Mutex<String>,
    /// Tokens that were given.
    given: AtomicU64,
    /// What was asked of it.
    asked: Mutex<Vec<(String, String)>>,
    /// The hosts that were asked.
    hosts: Mutex<Vec<String>>,
    /// The authorization server that the resource names.
    named: Mutex<&'static str>,
    /// It answers as often as this has permits.
    answers: Semaphore,
    /// Refresh tokens are not accepted any longer.
    revoked: Mutex<bool>,
    is_down: Mutex<bool>,
}

impl Server {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            good: Mutex::new("refresh-0".to_owned()),
            given: AtomicU64::new(0),
            asked: Mutex::default(),
            hosts: Mutex::default(),
            named: Mutex::new("https://id.test"),
            answers: Semaphore::new(1000),
            revoked: Mutex::new(false),
            is_down: Mutex::new(false),
        })
    }

    fn count(&self, path: &str) -> usize {
        self.asked
            .lock()
            .iter()
            .filter(|(one, _)| one.ends_with(path))
            .count()
    }

    fn answer(&self, host: &str, path: &str, form: &str) -> (u16, Value) {
        let members: HashMap<String, String> = url::form_urlencoded::parse(form.as_bytes())
            .into_owned()
            .collect();
        let member = |name: &str| members.get(name).map_or("", String::as_str);
        match (path, member("grant_type")) {
            ("/.well-known/oauth-authorization-server", _) => (
                200,
                json!({
                    "issuer": format!("https://{host}"),
                    "authorization_endpoint": format!("https://{host}/authorize"),
                    "token_endpoint": format!("https://{host}/token"),
                    "revocation_endpoint": format!("https://{host}/revoke"),
                    "registration_endpoint": format!("https://{host}/register"),
                    "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
                    "code_challenge_methods_supported": ["S256"],
                }),
            ),
            ("/.well-known/oauth-protected-resource/mcp", _) => {
                (200, json!({"authorization_servers": [*self.named.lock()]}))
            }
            ("/register", _) => (201, json!({"client_id": "registered"})),
            ("/revoke", _) => (200, json!({})),
            ("/token", "refresh_token") => {
                let mut good = self.good.lock();
                if *self.revoked.lock() || member("refresh_token") != *good {
                    *self.revoked.lock() = true;
                    return (
                        400,
                        json!({"error": "invalid_grant", "error_description": "revoked"}),
                    );
                }
                let number = self.given.fetch_add(1, Ordering::SeqCst) + 1;
                *good = format!("refresh-{number}");
                (
                    200,
                    json!({"access_token": format!("access-{number}"), "refresh_token": *good, "expires_in": 100}),
                )
            }
            ("/token", "authorization_code") if member("code") == "good-code" => {
                assert!(!member("code_verifier").is_empty() && member("client_id") == "registered");
                (
                    200,
                    json!({"access_token": "access-0", "refresh_token": *self.good.lock(), "expires_in": 100, "scope": "read"}),
                )
            }
            ("/token", "client_credentials") => {
                let number = self.given.fetch_add(1, Ordering::SeqCst) + 1;
                (
                    200,
                    json!({"access_token": format!("access-{number}"), "expires_in": 100}),
                )
            }
            ("/token", _) => (400, json!({"error": "invalid_grant"})),
            _ => (404, json!({})),
        }
    }
}

impl Transport for Server {
    fn send(&self, request: Request<Bytes>) -> ResponseFuture<'_> {
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            let host = request.uri().host().unwrap().to_owned();
            self.hosts.lock().push(host.clone());
            let form = String::from_utf8(request.body().to_vec()).unwrap();
            self.asked.lock().push((path.clone(), form.clone()));
            if *self.is_down.lock() {
                return Err("connection refused".to_owned());
            }
            self.answers.acquire().await.unwrap().forget();
            let (status, body) = self.answer(&host, &path, &form);
            Ok(Response::builder()
                .status(status)
                .body(Bytes::from(body.to_string()))
                .unwrap())
        })
    }
}

/// A clock that a test moves.
#[derive(Debug, Default)]
struct Hands(AtomicU64);

impl TimeSource for Hands {
    fn wall_micros(&self) -> u64 {
        1_800_000_000_000_000 + self.0.load(Ordering::SeqCst)
    }

    fn boot_micros(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

struct World {
    _dir: tempfile::TempDir,
    store: Arc<dyn Store>,
    server: Arc<Server>,
    hands: Arc<Hands>,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            store: Arc::new(SqliteStore::open(&dir.path().join("x.db"), "a").unwrap()),
            _dir: dir,
            server: Server::new(),
            hands: Arc::default(),
        }
    }

    /// A gateway on the store.
    fn gateway(&self, is_shared: bool) -> Arc<Credentials> {
        let settings = CredentialSettings {
            keys: Some(CredentialKeys("11".repeat(32))),
            configured: Vec::new(),
        };
        let tokens = TokenSettings {
            transports: Transports::all(&(Arc::clone(&self.server) as Arc<dyn Transport>)),
            metrics: himalia_metrics::Metrics::new().tokens().clone(),
            is_shared,
        };
        let clock = Clock::of(Arc::clone(&self.hands) as Arc<dyn TimeSource>);
        Arc::new(Credentials::new(self.store.clone(), &settings, clock, tokens).unwrap())
    }

    fn pass(&self, seconds: u64) {
        self.hands.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }
}

async fn set(gateway: &Credentials, grant: &str) {
    let mut definition =
        json!({"kind": "oauth2", "hosts": ["api.test"], "grant": grant, "issuer": "https://id.test"});
    if grant != "authorization_code" {
        definition["client_id"] = "c".into();
    }
    let definition: CredentialDefinition = serde_json::from_value(definition).unwrap();
    let secret = |text: &str| SecretText::new(text.to_owned());
    let value = CredentialValue {
        value: secret(if grant == "refresh_token" { "refresh-0" } else { "" }),
        session_token: None,
        client_secret: (grant != "authorization_code").then(|| secret("s3cret-of-c")),
    };
    gateway
        .set(("acme", "api"), definition, &value, "acme/ada")
        .await
        .unwrap();
}

async fn token(gateway: &Credentials) -> Result<String, String> {
    let mut found = gateway.find("acme", &["api".to_owned()]).await.unwrap();
    let ready = gateway.ready("acme", found.pop().unwrap()).await.unwrap();
    match ready.unusable {
        None => Ok(ready.value.value.expose().to_owned()),
        Some(reason) => Err(reason.to_string()),
    }
}

fn many(gateway: &Arc<Credentials>, count: usize) -> tokio::task::JoinSet<Result<String, String>> {
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..count {
        let gateway = Arc::clone(gateway);
        all.spawn(async move { token(&gateway).await });
    }
    all
}

#[tokio::test]
async fn many_requests_make_one_refresh() {
    let world = World::new();
    let gateway = world.gateway(false);
    set(&gateway, "refresh_token").await;
    for round in 1..=3 {
        let tokens = many(&gateway, 20).join_all().await;
        assert_eq!(tokens, vec![Ok(format!("access-{round}")); 20]);
        assert_eq!(world.server.count("/token"), round);
        world.pass(99);
    }
}

#[tokio::test]
async fn replicas_take_turns() {
    let world = World::new();
    let (one, other) = (world.gateway(true), world.gateway(true));
    set(&one, "refresh_token").await;
    for round in 1..=3 {
        let (mut all, others) = (many(&one, 10), many(&other, 10));
        let mut tokens = others.join_all().await;
        while let Some(token) = all.join_next().await {
            tokens.push(token.unwrap());
        }
        assert_eq!(tokens, vec![Ok(format!("access-{round}")); 20]);
        assert_eq!(
            world.server.count("/token"),
            round,
            "an old refresh token would end the grant"
        );
        world.pass(99);
    }
}

#[tokio::test]
async fn a_token_that_expires_soon_is_used_while_another_one_is_got() {
    let world = World::new();
    let gateway = world.gateway(false);
    set(&gateway, "refresh_token").await;
    token(&gateway).await.unwrap();
    world.pass(85);
    world.server.answers.forget_permits(1000);
    assert_eq!(
        token(&gateway).await.as_deref(),
        Ok("access-1"),
        "it does not wait"
    );
    world.server.answers.add_permits(1000);
    while world.server.count("/token") < 2 || token(&gateway).await.as_deref() != Ok("access-2") {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.server.count("/token"), 2);
}

#[tokio::test]
async fn what_the_server_gives_is_written_whether_a_caller_waits_or_not() {
    let world = World::new();
    let gateway = world.gateway(false);
    set(&gateway, "refresh_token").await;
    world.server.answers.forget_permits(1000);
    let mut waits = many(&gateway, 1);
    while world.server.count("/.well-known/oauth-authorization-server") == 0 {
        tokio::task::yield_now().await;
    }
    waits.shutdown().await;
    world.server.answers.add_permits(1000);
    assert_eq!(token(&gateway).await.as_deref(), Ok("access-1"));
    assert_eq!(world.server.count("/token"), 1);
}

#[tokio::test]
async fn a_gateway_that_was_killed_does_not_hold_the_claim() {
    let world = World::new();
    let killed = world.gateway(false);
    set(&killed, "refresh_token").await;
    let key = Key {
        owner: "acme".to_owned(),
        name: "api".to_owned(),
    };
    let mut kept = killed.tokens.read(&key).await.unwrap().unwrap();
    kept.record.refreshing = Some(format!("{} x", killed.tokens.process));
    assert!(killed.tokens.write(&mut kept).await.unwrap());
    assert_eq!(token(&world.gateway(false)).await.as_deref(), Ok("access-1"));
}

#[tokio::test]
async fn a_revoked_grant_says_how_to_grant_again() {
    let world = World::new();
    let gateway = world.gateway(false);
    set(&gateway, "refresh_token").await;
    token(&gateway).await.unwrap();
    *world.server.revoked.lock() = true;
    world.pass(99);
    let reason = token(&gateway).await.unwrap_err();
    assert!(reason.contains("invalid_grant (revoked)"), "{reason}");
    world.pass(60);
    assert!(
        token(&gateway)
            .await
            .unwrap_err()
            .contains("himalia credential set api")
    );
    assert_eq!(world.server.count("/token"), 2, "it is not asked again");
    let listed = gateway.list(Some("acme")).await.unwrap();
    assert_eq!(listed[0].tokens.as_ref().unwrap().state, TokenState::Ended);
    // Responses may still repeat what was revoked.
    let found = gateway.find("acme", &["api".to_owned()]).await.unwrap();
    let mask = himalia_credentials::Mask::new(&found);
    assert!(mask.text(b"access-1").is_some() && mask.text(b"refresh-1").is_some());
    *world.server.revoked.lock() = false;
    *world.server.good.lock() = "refresh-0".to_owned();
    set(&gateway, "refresh_token").await;
    assert_eq!(token(&gateway).await.as_deref(), Ok("access-2"));
}

#[tokio::test]
async fn a_server_that_is_down_is_asked_once_in_a_while() {
    let world = World::new();
    let gateway = world.gateway(false);
    set(&gateway, "client_credentials").await;
    *world.server.is_down.lock() = true;
    for _ in 0..5 {
        assert!(token(&gateway).await.unwrap_err().contains("connection refused"));
    }
    assert_eq!(world.server.asked.lock().len(), 1);
    let listed = gateway.list(Some("acme")).await.unwrap();
    assert_eq!(listed[0].tokens.as_ref().unwrap().state, TokenState::Ready);
}

#[tokio::test]
async fn a_refused_token_is_replaced_once() {
    let world = World::new();
    let gateway = world.gateway(false);
    set(&gateway, "client_credentials").await;
    token(&gateway).await.unwrap();
    let found = gateway.find("acme", &["api".to_owned()]).await.unwrap();
    assert!(
        gateway.renewed("acme", &found[0]).await.is_none(),
        "it is too young"
    );
    world.pass(20);
    for _ in 0..3 {
        let renewed = gateway.renewed("acme", &found[0]).await.unwrap();
        assert_eq!(renewed.value.value.expose(), "access-2");
    }
    assert_eq!(world.server.count("/token"), 2);
}

fn state_of(url: &str) -> String {
    let url = Url::parse(url).unwrap();
    let (_, state) = url.query_pairs().find(|(name, _)| name == "state").unwrap();
    state.into_owned()
}

fn came_back(state: &str) -> GrantAnswer {
    GrantAnswer {
        state: state.to_owned(),
        code: Some("good-code".to_owned()),
        ..GrantAnswer::default()
    }
}

const BACK: &str = "http://127.0.0.1:1/";

#[tokio::test]
async fn a_person_grants_once() {
    let world = World::new();
    let gateway = world.gateway(false);
    set(&gateway, "authorization_code").await;
    assert!(token(&gateway).await.unwrap_err().contains("himalia auth api"));
    let begun = gateway
        .begin_grant("acme", "api", "acme/ada", BACK)
        .await
        .unwrap();
    let state = state_of(&begun.url);
    assert!(!begun.url.contains("acme") && gateway.owner_of_grant(&state).unwrap() == "acme");
    // Another caller, another state, and the same once more.
    let other = gateway
        .finish_grant("acme/eve", came_back(&state))
        .await
        .unwrap_err();
    assert!(other.to_string().contains("another caller"), "{other}");
    gateway
        .finish_grant("acme/ada", came_back("x.eA"))
        .await
        .unwrap_err();
    let info = gateway.finish_grant("acme/ada", came_back(&state)).await.unwrap();
    let tokens = info.tokens.unwrap();
    assert_eq!(
        (tokens.state, tokens.granted_by.as_deref()),
        (TokenState::Ready, Some("acme/ada"))
    );
    assert_eq!(tokens.scope.as_deref(), Some("read"));
    let again = gateway
        .finish_grant("acme/ada", came_back(&state))
        .await
        .unwrap_err();
    assert!(again.to_string().contains("used already"), "{again}");
    assert_eq!(token(&gateway).await.as_deref(), Ok("access-0"));
    world.pass(99);
    assert_eq!(token(&gateway).await.as_deref(), Ok("access-1"));
    // Without what was found of the server before.
    assert_eq!(world.server.count("/.well-known/oauth-authorization-server"), 1);
    gateway.end_grant("acme", "api").await.unwrap();
    assert!(token(&gateway).await.unwrap_err().contains("no grant yet"));
    let asked = world.server.asked.lock();
    assert!(
        asked
            .iter()
            .any(|(path, form)| path == "/revoke" && form.contains("token=refresh-1"))
    );
}

#[tokio::test]
async fn a_grant_stays_with_its_server_whatever_the_resource_names_later() {
    let world = World::new();
    let gateway = world.gateway(false);
    let definition = json!({"kind": "oauth2", "hosts": ["api.test"], "grant": "authorization_code",
                            "resource": "https://api.test/mcp"});
    let definition: CredentialDefinition = serde_json::from_value(definition).unwrap();
    let value = CredentialValue {
        value: SecretText::default(),
        session_token: None,
        client_secret: None,
    };
    gateway
        .set(("acme", "api"), definition, &value, "acme/ada")
        .await
        .unwrap();
    let begun = gateway.begin_grant("acme", "api", "acme/ada", BACK).await;
    let state = state_of(&begun.unwrap().url);
    gateway.finish_grant("acme/ada", came_back(&state)).await.unwrap();
    *world.server.named.lock() = "https://evil.test";
    world.pass(99);
    assert_eq!(token(&gateway).await.as_deref(), Ok("access-1"));
    gateway.end_grant("acme", "api").await.unwrap();
    let hosts = world.server.hosts.lock();
    assert!(hosts.iter().all(|host| host != "evil.test"), "{hosts:?}");
    assert!(hosts.iter().any(|host| host == "id.test"), "{hosts:?}");
}

#[tokio::test]
async fn a_grant_is_finished_within_ten_minutes_and_only_the_latest_one() {
    let world = World::new();
    let gateway = world.gateway(false);
    set(&gateway, "authorization_code").await;
    let begin = async || {
        let begun = gateway
            .begin_grant("acme", "api", "acme/ada", BACK)
            .await
            .unwrap();
        state_of(&begun.url)
    };
    let (first, second) = (begin().await, begin().await);
    let replaced = gateway
        .finish_grant("acme/ada", came_back(&first))
        .await
        .unwrap_err();
    assert!(replaced.to_string().contains("begin again"), "{replaced}");
    world.pass(601);
    let late = gateway
        .finish_grant("acme/ada", came_back(&second))
        .await
        .unwrap_err();
    assert!(late.to_string().contains("10 minutes"), "{late}");
    let refused = GrantAnswer {
        error: Some("access_denied".to_owned()),
        ..came_back(&begin().await)
    };
    let refused = gateway.finish_grant("acme/ada", refused).await.unwrap_err();
    assert!(
        matches!(&refused, EngineError::Conflict { reason } if reason.contains("access_denied")),
        "{refused}"
    );
    // The gateway of another replica finishes what this one began.
    let state = begin().await;
    world
        .gateway(true)
        .finish_grant("acme/ada", came_back(&state))
        .await
        .unwrap();
    assert_eq!(token(&gateway).await.as_deref(), Ok("access-0"));
}

#[tokio::test]
async fn browsers_come_back_to_addresses_that_keep_the_code_secret() {
    let world = World::new();
    let gateway = world.gateway(false);
    set(&gateway, "authorization_code").await;
    for wrong in [
        "http://gw.test/",
        "https://gw.test/?x",
        "x",
        "javascript:x",
        "https://u@gw.test/",
    ] {
        let refused = gateway
            .begin_grant("acme", "api", "acme/ada", wrong)
            .await
            .unwrap_err();
        assert!(
            matches!(
                refused,
                EngineError::BadRequest {
                    field: "redirect_uri",
                    ..
                }
            ),
            "{wrong}"
        );
    }
    assert!(
        gateway
            .begin_grant("acme", "none", "acme/ada", BACK)
            .await
            .is_err()
    );
    set(&gateway, "client_credentials").await;
    let nothing = gateway
        .begin_grant("acme", "api", "acme/ada", BACK)
        .await
        .unwrap_err();
    assert!(matches!(nothing, EngineError::Conflict { .. }), "{nothing}");
}

/// A server at an address of this machine that gives a token for each request, and counts them.
async fn local_server() -> (std::net::SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Arc::<AtomicU64>::default());
    let count = Arc::clone(&asked);
    tokio::spawn(async move {
        let body = json!({"access_token": "an-access-token", "expires_in": 100}).to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        while let Ok((mut stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let mut seen = Vec::new();
            while !String::from_utf8_lossy(&seen).contains("grant_type=client_credentials")
                && stream.read_buf(&mut seen).await.unwrap() > 0
            {}
            stream
                .write_all(format!("{head}{body}").as_bytes())
                .await
                .unwrap();
        }
    });
    (address, asked)
}

#[tokio::test]
async fn the_address_of_a_tenants_authorization_server_needs_an_allowance_for_tenants() {
    let (address, asked) = local_server().await;
    let ask = async |change: fn(&mut EngineConfig, PrivateAddresses), set_by: &str| {
        let mut config = EngineConfig::new("/nowhere");
        change(&mut config, address.to_string().parse().unwrap());
        let world = World::new();
        let metrics = himalia_metrics::Metrics::new();
        let tokens = TokenSettings::new(&config, metrics.tokens().clone(), false);
        let settings = CredentialSettings {
            keys: Some(CredentialKeys("11".repeat(32))),
            configured: Vec::new(),
        };
        let gateway = Credentials::new(world.store.clone(), &settings, Clock::default(), tokens);
        let gateway = Arc::new(gateway.unwrap());
        let definition = json!({
            "kind": "oauth2", "hosts": ["api.test"], "grant": "client_credentials", "client_id": "c",
            "token_url": format!("http://{address}/token"),
        });
        let definition: CredentialDefinition = serde_json::from_value(definition).unwrap();
        let value = CredentialValue {
            value: SecretText::new(String::new()),
            session_token: None,
            client_secret: Some(SecretText::new("s3cret-of-c".to_owned())),
        };
        gateway
            .set(("acme", "api"), definition, &value, set_by)
            .await
            .unwrap();
        token(&gateway).await
    };
    let for_sessions = |config: &mut EngineConfig, address| config.private_addresses = vec![address];
    let for_tenants = |config: &mut EngineConfig, address| config.callback_addresses = vec![address];
    for (change, set_by) in [
        (
            for_sessions as fn(&mut EngineConfig, PrivateAddresses),
            "acme/ada",
        ),
        (for_tenants, "operator"),
    ] {
        let refused = ask(change, set_by).await.unwrap_err();
        assert!(refused.contains("loopback address"), "{set_by}: {refused}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0, "nothing is sent");
    for (change, set_by) in [
        (for_tenants as fn(&mut EngineConfig, PrivateAddresses), "acme/ada"),
        (for_sessions, "operator"),
        (for_sessions, "operator/ci"),
    ] {
        assert_eq!(
            ask(change, set_by).await.as_deref(),
            Ok("an-access-token"),
            "{set_by}"
        );
    }
}
