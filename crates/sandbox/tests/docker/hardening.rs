use himalia_provisioner::{Files, Provisioner as _};
use serde_json::Value;

use crate::fixture::{Fixture, dialled, spec};
use crate::uids::of_containers;

pub(crate) const PROBE: &str = include_str!("probe.py");

/// What the probe found in a sandbox of this fixture.
pub(crate) async fn probe(fixture: &Fixture, id: himalia_provisioner::SandboxId) -> Value {
    let (status, text) = fixture.python(id, PROBE).await;
    assert_eq!(status, 0, "{text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What holds at every level.
pub(crate) fn check(found: &Value) {
    let uid = found["ids"][0].as_u64().unwrap();
    assert_eq!(found["ids"], serde_json::json!([uid, uid, uid]));
    assert!(of_containers(uid.try_into().unwrap()), "{uid}");
    let groups = found["groups"].as_array().unwrap();
    assert!(groups.iter().all(|group| *group == uid), "{groups:?}");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        let value = found["status"][set].as_str().unwrap();
        assert!(value.chars().all(|digit| digit == '0'), "{set} {found:#}");
    }
    assert_eq!(found["no_new_privileges"], 1);
    assert_eq!(found["seccomp"], 2);
    for (call, result) in found["calls"].as_object().unwrap() {
        let result = result.as_str().unwrap();
        assert!(["EPERM", "ENOSYS"].contains(&result), "{call}: {result}");
    }
    for (path, result) in found["write"].as_object().unwrap() {
        let own = ["/session/", "/tmp/", "/dev/shm/", "/himalia/run/"];
        let writable = own.iter().any(|own| path.starts_with(own));
        assert_eq!(result == "ok", writable, "{path}: {result}");
    }
    for (path, result) in found["read"].as_object().unwrap() {
        assert_ne!(result, "ok", "{path} {found:#}");
    }
    assert_eq!(found["there"], serde_json::json!([]));
    assert_eq!(found["interfaces"], serde_json::json!(["lo"]));
    for (target, result) in found["connect"].as_object().unwrap() {
        assert_ne!(result, "ok", "{target}");
    }
    assert_eq!(found["limits"], serde_json::json!([[0, 0], [256, 256]]));
    assert_eq!(found["host"], "kernel");
    assert_eq!(found["home"], "/session");
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn a_container_is_closed_as_seen_from_inside() {
    let fixture = Fixture::new();
    let handle = fixture.start(spec()).await;
    dialled(&handle).await;
    let found = probe(&fixture, handle.id).await;
    check(&found);
    assert_eq!(found["oom"], "200");
    let first = found["first"].as_str().unwrap();
    assert!(
        first.starts_with("/himalia/bin/himalia-shim --gateway-dir /himalia/gw "),
        "{first}"
    );
    let devices: Vec<_> = found["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    let harmless = [
        "console", "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin",
        "stdout", "tty", "urandom", "zero",
    ];
    assert!(devices.iter().all(|name| harmless.contains(name)), "{devices:?}");
    fixture.stop(handle.id).await;
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn a_container_is_closed_as_the_engine_says() {
    let fixture = Fixture::new();
    let mut wanted = spec();
    wanted.files = Files::Session("seen".to_owned());
    let key = wanted.key.expose().to_owned();
    let handle = fixture.start(wanted).await;
    let found = fixture.inspect(handle.id).await;
    let text = serde_json::to_string(&found).unwrap();
    assert!(!text.contains(&key), "the key is a secret");
    let host = found.host_config.unwrap();
    assert_eq!(host.cap_drop.unwrap(), ["ALL"]);
    assert!(host.cap_add.unwrap_or_default().is_empty());
    assert_eq!(host.network_mode.as_deref(), Some("none"));
    assert_eq!(host.readonly_rootfs, Some(true));
    assert_eq!(host.privileged, Some(false));
    assert_eq!(host.ipc_mode.as_deref(), Some("private"));
    assert_eq!(host.pids_limit, Some(64));
    assert_eq!(host.nano_cpus, Some(1_000_000_000));
    assert_eq!(host.memory, host.memory_swap);
    assert!(host.masked_paths.unwrap().contains(&"/proc/kcore".to_owned()));
    assert!(host.devices.unwrap_or_default().is_empty());
    let writable = found.mounts.unwrap();
    let writable: Vec<_> = writable.iter().filter(|mount| mount.rw == Some(true)).collect();
    assert_eq!(writable.len(), 1, "{writable:?}");
    assert_eq!(writable[0].destination.as_deref(), Some("/session"));
    fixture.stop(handle.id).await;
    fixture.provisioner.remove_files("seen").await.unwrap();
    fixture.nothing_left().await;
}
