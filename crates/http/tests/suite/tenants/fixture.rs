//! A gateway of two tenants, and how they call it.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use himalia_engine::{Drain, Engine, EngineConfig, Principal, TenantLimits};
use himalia_http::{HttpConfig, Token};
use himalia_sandbox::{LocalConfig, LocalProvisioner};
use himalia_testkit::binaries;
use himalia_testkit::patience::within;
use serde_json::{Value, json};

use crate::common::{Gateway, Reply, UPGRADE};

pub(crate) const ADA: &str = "the-token-of-ada";
pub(crate) const BOB: &str = "the-token-of-bob";
pub(crate) const EVE: &str = "the-token-of-eve";

/// Ada and Bob are of one tenant, Eve is of another.
fn callers(config: &mut HttpConfig) {
    for (tenant, caller, token) in [("acme", "ada", ADA), ("acme", "bob", BOB), ("evil", "eve", EVE)] {
        let principal = Principal::of_tenant(tenant, caller).unwrap();
        config.tokens.add(Token::new(token), principal).unwrap();
    }
}

/// A gateway with a kernel that runs scripts, and its engine.
pub(crate) async fn gateway() -> (Gateway, Engine) {
    gateway_with(|config| {
        let limits = TenantLimits {
            max_kernels: Some(1),
            ..TenantLimits::default()
        };
        config.tenants.insert("evil".into(), limits);
    })
    .await
}

/// The same with other settings.
pub(crate) async fn gateway_with(adjust: impl FnOnce(&mut EngineConfig)) -> (Gateway, Engine) {
    gateway_over(adjust, |_| {}).await
}

/// The same with other settings of the engine, and of what it is served by.
pub(crate) async fn gateway_over(
    adjust: impl FnOnce(&mut EngineConfig),
    adjust_http: impl FnOnce(&mut HttpConfig),
) -> (Gateway, Engine) {
    let private = std::fs::Permissions::from_mode(0o700);
    let mut builder = tempfile::Builder::new();
    let dir = builder
        .prefix("hm")
        .permissions(private.clone())
        .tempdir_in("/tmp")
        .unwrap();
    let run = dir.path().join("run");
    std::fs::create_dir(&run).unwrap();
    std::fs::set_permissions(&run, private).unwrap();
    let spec = dir.path().join("kernels/python3");
    std::fs::create_dir_all(&spec).unwrap();
    let fake = binaries::fake_kernel().unwrap();
    let argv = json!({
        "argv": [fake, "-f", "{connection_file}"], "display_name": "Fake", "language": "python",
    });
    std::fs::write(spec.join("kernel.json"), argv.to_string()).unwrap();
    std::fs::write(spec.join("logo-64x64.png"), b"not really a png").unwrap();
    let shim = binaries::path("himalia-shim").unwrap();
    let provisioner = LocalProvisioner::new(LocalConfig::new(run, shim)).unwrap();
    let mut config = EngineConfig::new(dir.path().join("data"));
    config.kernelspec_dirs = vec![dir.path().join("kernels")];
    config.only_these_kernelspecs = true;
    // A test that fails leaves no processes for long.
    config.orphan_ttl = Some(Duration::from_secs(30));
    adjust(&mut config);
    let engine = Engine::open(config, Arc::new(provisioner)).await.unwrap();
    let serving = Gateway::over(engine.clone(), dir, |config| {
        callers(config);
        adjust_http(config);
    });
    (serving.await, engine)
}

pub(crate) async fn stop(engine: Engine) {
    let operator = Principal::operator();
    let drained = engine.drain(&operator, Drain::StopKernels);
    within("drain", drained).await.unwrap().unwrap();
}

/// Sends a request with the token. Does not wait for the end of a stream.
pub(crate) async fn call(gateway: &Gateway, token: &str, request: &Request) -> Reply {
    let auth = format!("Authorization: token {token}");
    // Responses are compared, and an id that the gateway makes differs.
    let mut headers = vec![auth.as_str(), "X-Request-Id: same"];
    if request.upgrade {
        headers.extend(UPGRADE);
    }
    let what = format!("{} {}", request.method, request.path);
    let exchange = gateway.bare(&request.method, &request.path, &headers, &request.body);
    within(&what, exchange).await.unwrap()
}

pub(crate) async fn made(gateway: &Gateway, token: &str, method: &str, path: &str, body: Value) -> Value {
    let request = Request {
        method: method.into(),
        path: path.into(),
        body: if method == "GET" {
            String::new()
        } else {
            body.to_string()
        },
        upgrade: false,
    };
    let reply = call(gateway, token, &request).await;
    assert!((200..300).contains(&reply.status), "{method} {path}: {reply:?}");
    serde_json::from_slice(&reply.body).unwrap_or_default()
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: String,
    pub(crate) upgrade: bool,
}
