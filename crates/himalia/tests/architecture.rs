//! The arrows between the crates are the arrows of docs/contributing/crates.md, and images start from what is named exactly.

#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Each crate with the crates of this workspace that its product may stand on.
const ARROWS: &[(&str, &[&str])] = &[
    ("himalia-wire", &[]),
    ("himalia-journal", &[]),
    ("himalia-lease", &[]),
    ("himalia-proc", &[]),
    ("himalia-backoff", &[]),
    ("himalia-tls", &[]),
    ("himalia-authority", &[]),
    ("himalia-shim-protocol", &[]),
    ("himalia-link", &["himalia-tls", "himalia-shim-protocol"]),
    ("himalia-jail", &[]),
    ("himalia-provisioner", &["himalia-link"]),
    (
        "himalia-sandbox",
        &[
            "himalia-backoff",
            "himalia-jail",
            "himalia-link",
            "himalia-proc",
            "himalia-provisioner",
        ],
    ),
    (
        "himalia-kubernetes",
        &[
            "himalia-backoff",
            "himalia-authority",
            "himalia-link",
            "himalia-provisioner",
        ],
    ),
    ("himalia-metrics", &["himalia-proc"]),
    ("himalia-traces", &["himalia-metrics", "himalia-model"]),
    (
        "himalia-otlp",
        &["himalia-tls", "himalia-metrics", "himalia-traces"],
    ),
    (
        "himalia-store",
        &["himalia-lease", "himalia-metrics", "himalia-proc", "himalia-tls"],
    ),
    (
        "himalia-shared-log",
        &[
            "himalia-tls",
            "himalia-backoff",
            "himalia-journal",
            "himalia-metrics",
            "himalia-store",
        ],
    ),
    ("himalia-outcome", &["himalia-wire"]),
    ("himalia-model", &["himalia-wire", "himalia-provisioner"]),
    (
        "himalia-executions",
        &[
            "himalia-model",
            "himalia-kernelspecs",
            "himalia-budget",
            "himalia-kernel",
            "himalia-journal",
            "himalia-outcome",
            "himalia-wire",
        ],
    ),
    ("himalia-kernelspecs", &["himalia-model"]),
    (
        "himalia-budget",
        &["himalia-model", "himalia-journal", "himalia-proc"],
    ),
    ("himalia-credentials", &["himalia-model"]),
    ("himalia-oauth", &["himalia-credentials", "himalia-model"]),
    (
        "himalia-egress",
        &[
            "himalia-tls",
            "himalia-credentials",
            "himalia-model",
            "himalia-splice",
        ],
    ),
    ("himalia-splice", &[]),
    ("himalia-tools", &[]),
    ("himalia-schedules", &[]),
    ("himalia-skills", &["himalia-model", "himalia-tools"]),
    (
        "himalia-workflows",
        &["himalia-backoff", "himalia-skills", "himalia-tools"],
    ),
    (
        "himalia-tool-servers",
        &[
            "himalia-backoff",
            "himalia-credentials",
            "himalia-model",
            "himalia-tools",
            "himalia-upstream",
        ],
    ),
    (
        "himalia-upstream",
        &["himalia-tls", "himalia-credentials", "himalia-model"],
    ),
    (
        "himalia-llm",
        &["himalia-credentials", "himalia-model", "himalia-upstream"],
    ),
    ("himalia-packages", &["himalia-egress", "himalia-model"]),
    ("himalia-sandbox-api", &["himalia-egress", "himalia-model"]),
    ("himalia-connect", &["himalia-backoff", "himalia-wire"]),
    (
        "himalia-cli",
        &[
            "himalia-tls",
            "himalia-connect",
            "himalia-model",
            "himalia-outcome",
            "himalia-skills",
        ],
    ),
    (
        "himalia-kernel",
        &[
            "himalia-metrics",
            "himalia-model",
            "himalia-journal",
            "himalia-link",
            "himalia-outcome",
            "himalia-provisioner",
            "himalia-shim-protocol",
            "himalia-wire",
            "himalia-traces",
        ],
    ),
    (
        "himalia-shim",
        &[
            "himalia-wire",
            "himalia-shim-protocol",
            "himalia-link",
            "himalia-proc",
            "himalia-splice",
        ],
    ),
    (
        "himalia-session",
        &[
            "himalia-backoff",
            "himalia-metrics",
            "himalia-model",
            "himalia-oauth",
            "himalia-kernelspecs",
            "himalia-budget",
            "himalia-credentials",
            "himalia-egress",
            "himalia-kernel",
            "himalia-executions",
            "himalia-journal",
            "himalia-lease",
            "himalia-link",
            "himalia-llm",
            "himalia-outcome",
            "himalia-packages",
            "himalia-provisioner",
            "himalia-sandbox-api",
            "himalia-shared-log",
            "himalia-shim-protocol",
            "himalia-store",
            "himalia-tool-servers",
            "himalia-tools",
            "himalia-traces",
        ],
    ),
    (
        "himalia-engine",
        &[
            "himalia-metrics",
            "himalia-model",
            "himalia-kernelspecs",
            "himalia-budget",
            "himalia-kernel",
            "himalia-executions",
            "himalia-session",
            "himalia-journal",
            "himalia-outcome",
            "himalia-provisioner",
            "himalia-shim-protocol",
            "himalia-store",
            "himalia-wire",
            "himalia-traces",
        ],
    ),
    (
        "himalia-runs",
        &[
            "himalia-backoff",
            "himalia-model",
            "himalia-budget",
            "himalia-engine",
            "himalia-executions",
            "himalia-kernel",
            "himalia-session",
            "himalia-schedules",
            "himalia-skills",
            "himalia-journal",
            "himalia-outcome",
            "himalia-provisioner",
            "himalia-store",
            "himalia-wire",
            "himalia-workflows",
        ],
    ),
    ("himalia-relay", &["himalia-tls"]),
    (
        "himalia-cluster",
        &["himalia-engine", "himalia-relay", "himalia-wire"],
    ),
    ("himalia-oidc", &["himalia-oauth", "himalia-tls"]),
    (
        "himalia-http",
        &[
            "himalia-cluster",
            "himalia-wire",
            "himalia-engine",
            "himalia-oidc",
            "himalia-relay",
            "himalia-runs",
        ],
    ),
    ("himalia-mcp", &["himalia-engine", "himalia-runs"]),
    ("himalia-facade", &["himalia-engine"]),
    ("himalia-azure", &["himalia-engine", "himalia-facade"]),
    ("himalia-openai", &["himalia-engine", "himalia-facade"]),
    ("himalia-e2b", &["himalia-engine", "himalia-facade"]),
    (
        "himalia",
        &[
            "himalia-tls",
            "himalia-azure",
            "himalia-cli",
            "himalia-e2b",
            "himalia-egress",
            "himalia-engine",
            "himalia-authority",
            "himalia-http",
            "himalia-kubernetes",
            "himalia-mcp",
            "himalia-oidc",
            "himalia-openai",
            "himalia-otlp",
            "himalia-relay",
            "himalia-provisioner",
            "himalia-sandbox",
            "himalia-runs",
        ],
    ),
    ("himalia-testkit", &["himalia-proc", "himalia-wire"]),
];

/// What a crate must not be built on, whatever else stands there ("must not know").
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("himalia-wire", &["tokio", "zeromq", "axum", "hyper"]),
    (
        "himalia-journal",
        &["himalia-wire", "zeromq", "axum", "tokio-tungstenite"],
    ),
    ("himalia-shim-protocol", &["tokio", "axum", "hyper"]),
    (
        "himalia-shim",
        &["axum", "hyper", "rusqlite", "tokio-tungstenite", "zeromq"],
    ),
    ("himalia-link", &["himalia-wire", "axum", "hyper", "rusqlite"]),
    ("himalia-jail", &["tokio", "axum", "hyper", "himalia-wire"]),
    (
        "himalia-provisioner",
        &["axum", "hyper", "rusqlite", "himalia-jail", "himalia-wire"],
    ),
    ("himalia-sandbox", &["axum", "hyper", "rusqlite"]),
    ("himalia-kubernetes", &["axum", "rusqlite", "himalia-wire"]),
    ("himalia-metrics", &["tokio", "axum", "hyper", "himalia-model"]),
    ("himalia-traces", &["axum", "hyper", "reqwest", "himalia-journal"]),
    ("himalia-store", &["himalia-wire", "zeromq", "axum"]),
    ("himalia-relay", &["himalia-wire", "axum", "rusqlite"]),
    (
        "himalia-cluster",
        &["himalia-session", "rusqlite", "tokio-tungstenite"],
    ),
    ("himalia-shared-log", &["himalia-wire", "himalia-kernel", "axum"]),
    ("himalia-oidc", &["himalia-wire", "axum", "rusqlite"]),
    ("himalia-outcome", &["tokio", "axum", "himalia-journal"]),
    (
        "himalia-model",
        &["tokio", "axum", "hyper", "himalia-store", "himalia-journal"],
    ),
    ("himalia-kernelspecs", &["axum", "hyper", "himalia-sandbox"]),
    ("himalia-budget", &["axum", "hyper", "himalia-store"]),
    (
        "himalia-credentials",
        &["tokio", "axum", "hyper", "himalia-store"],
    ),
    ("himalia-egress", &["axum", "reqwest", "himalia-link"]),
    ("himalia-packages", &["axum", "reqwest", "himalia-link"]),
    (
        "himalia-sandbox-api",
        &["axum", "reqwest", "himalia-link", "himalia-tools"],
    ),
    ("himalia-tools", &["tokio", "axum", "hyper", "reqwest", "rmcp"]),
    (
        "himalia-tool-servers",
        &["axum", "rusqlite", "himalia-egress", "himalia-store"],
    ),
    (
        "himalia-executions",
        &["axum", "hyper", "himalia-store", "himalia-sandbox"],
    ),
    (
        "himalia-kernel",
        &[
            "axum",
            "hyper",
            "himalia-store",
            "himalia-budget",
            "himalia-kernelspecs",
        ],
    ),
    (
        "himalia-session",
        &["axum", "hyper", "zeromq", "tokio-tungstenite", "himalia-sandbox"],
    ),
    (
        "himalia-engine",
        &["axum", "hyper", "zeromq", "tokio-tungstenite", "himalia-sandbox"],
    ),
    (
        "himalia-http",
        &[
            "zeromq",
            "rusqlite",
            "himalia-sandbox",
            "himalia-store",
            "himalia-journal",
        ],
    ),
    ("himalia-runs", &["axum", "hyper", "zeromq", "rusqlite"]),
    ("himalia-mcp", &["axum", "hyper", "zeromq", "rusqlite"]),
    ("himalia-facade", &["hyper", "zeromq", "rusqlite"]),
    ("himalia-azure", &["hyper", "zeromq", "rusqlite"]),
    ("himalia-openai", &["hyper", "zeromq", "rusqlite"]),
    ("himalia-e2b", &["hyper", "zeromq", "rusqlite"]),
    (
        "himalia-connect",
        &["himalia-engine", "axum", "hyper", "reqwest", "rusqlite"],
    ),
    // The proxy of `himalia mcp` passes messages on as they are, and knows HTTP and server-sent events alone.
    ("himalia-cli", &["axum", "rusqlite", "zeromq", "rmcp"]),
    ("himalia", &["zeromq", "himalia-testkit", "reqwest"]),
];

/// The dependencies of each crate, those of tests and build scripts left out.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
            "--manifest-path",
        ])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let packages = metadata["packages"].as_array().unwrap().iter().map(|package| {
        let all = package["dependencies"].as_array().unwrap().iter();
        let product = all.filter(|dependency| dependency["kind"].is_null());
        (
            text(&package["name"]),
            product.map(|dependency| text(&dependency["name"])).collect(),
        )
    });
    packages.collect()
}

#[test]
fn arrows_go_one_way() {
    let found = dependencies();
    let named: Vec<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    for name in found.keys() {
        assert!(
            named.contains(&name.as_str()),
            "{name} is a new crate: give it a place in docs/contributing/crates.md and here"
        );
    }
    for (name, allowed) in ARROWS {
        let own = found[*name].iter().filter(|other| found.contains_key(*other));
        for other in own {
            assert!(allowed.contains(&other.as_str()), "{name} must not know {other}");
        }
    }
}

#[test]
fn no_crate_knows_what_it_must_not() {
    let found = dependencies();
    for (name, forbidden) in FORBIDDEN {
        for other in *forbidden {
            assert!(
                !found[*name].iter().any(|dependency| dependency == other),
                "{name} must not know {other}"
            );
        }
    }
}

/// The crates of this workspace that the commands of `himalia` are linked with, their own included. Two are leaves: back-off and TLS.
const CRATES_OF_COMMANDS: usize = 14;

/// Commands wait for their compilation, and a change of the gateway does not rebuild them.
#[test]
fn commands_link_few_crates() {
    let found = dependencies();
    let (mut linked, mut open) = (BTreeSet::new(), vec!["himalia-cli"]);
    while let Some(name) = open.pop() {
        if let Some((name, own)) = found.get_key_value(name)
            && linked.insert(name.as_str())
        {
            open.extend(own.iter().map(String::as_str));
        }
    }
    assert!(
        linked.len() <= CRATES_OF_COMMANDS,
        "himalia-cli is linked with {} crates, and {CRATES_OF_COMMANDS} are allowed: {linked:?}",
        linked.len()
    );
}

/// Gives every file of Rust below a directory to `look`.
fn each_source(dir: &Path, look: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            each_source(&path, look);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            look(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// What a provisioner can do is asked of [`himalia_provisioner::Capabilities`]; its name is for records and messages. Only
/// the crate that has the provisioners, and the binary, which is configured with them, name one.
#[test]
fn no_other_crate_asks_which_provisioner_it_is() {
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(crates).unwrap().flatten() {
        let src = entry.path().join("src");
        if ["provisioner", "sandbox", "kubernetes", "himalia", "testkit"]
            .iter()
            .any(|name| entry.file_name() == *name)
            || !src.is_dir()
        {
            continue;
        }
        each_source(&src, &mut |path, text| {
            let below = path.strip_prefix(&src).unwrap().to_string_lossy().into_owned();
            let is_test = below.contains("tests/") || below.ends_with("tests.rs") || below == "testing.rs";
            let product = text.split("#[cfg(test)]").next().unwrap_or_default();
            let names = ["ProvisionerKind::", "\"local\"", "\"docker\"", "\"kubernetes\""];
            if !is_test && names.iter().any(|name| product.contains(name)) {
                found.push(path.display().to_string());
            }
        });
    }
    assert!(found.is_empty(), "{found:?}");
}

/// `#[ignore]` is only for tests in containers, which `make test-docker` runs by that mark. Nothing runs others.
#[test]
fn no_test_is_left_out_but_those_that_need_an_engine() {
    let mut found = Vec::new();
    each_source(
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")),
        &mut |path, text| {
            if text.lines().any(|line| line.trim_start().starts_with("#[ignore")) {
                found.push(path.display().to_string());
            }
        },
    );
    found.retain(|path| !path.contains("/sandbox/tests/docker/"));
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn images_start_from_digests() {
    let docker = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docker");
    let files = [
        "kernel/Dockerfile",
        "gateway/Dockerfile",
        "gateway/prebuilt.Dockerfile",
    ];
    let is_digest = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    for file in files {
        let text = std::fs::read_to_string(format!("{docker}/{file}")).unwrap();
        let stages: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("FROM "))
            .collect();
        let bases: Vec<&str> = stages
            .iter()
            .filter_map(|stage| stage.split(' ').next())
            .collect();
        assert!(!bases.is_empty(), "{file}");
        for base in bases {
            let argument = base.trim_start_matches("${").trim_end_matches('}');
            let default = text
                .lines()
                .find_map(|line| line.strip_prefix(&format!("ARG {argument}=")));
            let digest = default.and_then(|image| image.split_once("@sha256:"));
            assert!(
                digest.is_some_and(|(_, digest)| is_digest(digest)),
                "{file}: {base} = {default:?}"
            );
        }
    }
}
