use std::time::Duration;

use himalia_provisioner::{SandboxKey, SandboxSpec};
use serde_json::{Value, json};

use super::*;
use crate::config::DEFAULT_KIND;

fn built(change: impl FnOnce(&mut KubernetesConfig, &mut SandboxSpec)) -> Value {
    let mut config = KubernetesConfig::new("kernels", "g1", "image:1", "agent:1");
    let mut spec = SandboxSpec::new(SandboxKey::generate().unwrap());
    spec.labels.insert("kernel".to_owned(), "a b/c".to_owned());
    change(&mut config, &mut spec);
    let names = Names {
        gateway: config.gateway.clone(),
        replica: Some("a.1".to_owned()),
    };
    let kind = config.kind(None).unwrap();
    let parts = Parts {
        id: "0123456789abcdef0123456789abcdef".parse().unwrap(),
        names: &names,
        authority: "00",
        config: &config,
        kind,
        image: config.image(None).unwrap(),
        claim: None,
    };
    serde_json::to_value(pod(&parts, &spec, kind.isolation)).unwrap()
}

/// Every field that confines it: the cluster's admission would refuse some of them, and not others.
#[test]
fn a_pod_is_confined() {
    let pod = built(|_, _| {});
    let spec = &pod["spec"];
    assert_eq!(pod["metadata"].get("ownerReferences"), None);
    assert_eq!(pod["metadata"]["annotations"]["himalia.internal/replica"], "a.1");
    assert_eq!(spec["restartPolicy"], "Never");
    assert_eq!(spec["automountServiceAccountToken"], false);
    assert_eq!(spec["enableServiceLinks"], false);
    assert_eq!(spec["dnsPolicy"], "None");
    for field in ["hostNetwork", "hostPID", "hostIPC", "serviceAccountName"] {
        assert_eq!(spec.get(field), None, "{field}");
    }
    assert_eq!(
        spec["securityContext"],
        json!({"runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"}})
    );
    let containers = [&spec["initContainers"][0], &spec["containers"][0]];
    for container in containers {
        let context = &container["securityContext"];
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["privileged"], false);
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
        assert_eq!(
            container["resources"]["requests"],
            container["resources"]["limits"]
        );
        assert!(
            container["resources"]["limits"]
                .get("ephemeral-storage")
                .is_some()
        );
        assert_eq!(container.get("env"), None);
    }
    // The secret is the init container's alone.
    let mounted = |container: &Value| container["volumeMounts"].to_string().contains("\"secret\"");
    assert!(mounted(containers[0]) && !mounted(containers[1]));
    assert!(
        spec["volumes"]
            .as_array()
            .unwrap()
            .iter()
            .all(|volume| volume.get("hostPath").is_none())
    );
}

#[test]
fn limits_and_the_kind_are_in_the_pod() {
    let pod = built(|config, spec| {
        spec.limits.memory_bytes = Some(256 << 20);
        spec.limits.cpu_millis = Some(500);
        spec.limits.shm_bytes = Some(8 << 20);
        let kind = config.kinds.get_mut(DEFAULT_KIND).unwrap();
        kind.runtime_class = Some("gvisor".to_owned());
        kind.host_users = Some(false);
        kind.node_selector.insert("pool".to_owned(), "kernels".to_owned());
        kind.resources.insert("nvidia.com/gpu".to_owned(), 1);
        let claim = |name: &str, subdirectory: &str| MountSource::Claim {
            claim: name.to_owned(),
            subdirectory: subdirectory.into(),
        };
        let mounted = |source, target: &str, read_only| SharedMount {
            name: "m".to_owned(),
            source,
            target: target.into(),
            read_only,
            owner: None,
        };
        spec.mounts = vec![
            mounted(claim("shared", ""), "/data", true),
            mounted(claim("homes", "acme/ada"), "/home/kernel", false),
        ];
        kind.deadline = Some(Duration::from_hours(1));
        config.pull_secrets.push("registry".to_owned());
    });
    let spec = &pod["spec"];
    assert_eq!(spec["runtimeClassName"], "gvisor");
    assert_eq!(spec["hostUsers"], false);
    assert_eq!(spec["nodeSelector"], json!({"pool": "kernels"}));
    assert_eq!(spec["activeDeadlineSeconds"], 3600);
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "registry"}]));
    let limits = &spec["containers"][0]["resources"]["limits"];
    assert_eq!(limits["memory"], "268435456");
    assert_eq!(limits["cpu"], "500m");
    assert_eq!(limits["nvidia.com/gpu"], "1");
    let mounts = spec["containers"][0]["volumeMounts"].as_array().unwrap();
    let data = mounts.iter().find(|mount| mount["mountPath"] == "/data").unwrap();
    assert_eq!((&data["readOnly"], data.get("subPath")), (&json!(true), None));
    let home = mounts
        .iter()
        .find(|mount| mount["mountPath"] == "/home/kernel")
        .unwrap();
    assert_eq!(
        (&home["readOnly"], &home["subPath"]),
        (&json!(false), &json!("acme/ada"))
    );
    let claim = |name: &Value| {
        let volumes = spec["volumes"].as_array().unwrap();
        volumes.iter().find(|volume| volume["name"] == *name).unwrap()["persistentVolumeClaim"].clone()
    };
    assert_eq!(
        claim(&data["name"]),
        json!({"claimName": "shared", "readOnly": true})
    );
    assert_eq!(
        claim(&home["name"]),
        json!({"claimName": "homes", "readOnly": false})
    );
    assert!(mounts.iter().any(|mount| mount["mountPath"] == "/dev/shm"));
}

#[test]
fn what_callers_name_is_data() {
    let pod = built(|_, spec| {
        spec.labels.insert("x\n\": {}".to_owned(), "app=\u{0}".to_owned());
    });
    let labels = pod["metadata"]["labels"].as_object().unwrap();
    assert_eq!(labels.len(), 3, "no caller adds one");
    let caller = pod["metadata"]["annotations"][CALLER].as_str().unwrap();
    let back: BTreeMap<String, String> = serde_json::from_str(caller).unwrap();
    assert_eq!(back["kernel"], "a b/c");
    assert_eq!(back.len(), 2);
}

#[test]
fn a_network_through_the_gateway_is_an_argument_of_the_shim() {
    let arguments = |network: Network| {
        let pod = built(|_, spec| spec.network = network);
        pod["spec"]["containers"][0]["args"].to_string()
    };
    assert!(arguments(Network::Allow).contains("\"--network\""));
    assert!(!arguments(Network::None).contains("\"--network\""));
}

#[test]
fn the_work_directory_is_shown_where_clients_look_for_it() {
    let places = |show_data: bool| {
        let pod = built(|_, spec| spec.show_data = show_data);
        let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array().unwrap();
        let work = mounts.iter().filter(|mount| mount["name"] == "work");
        work.map(|mount| mount["mountPath"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(places(true), ["/session", "/mnt/data"]);
    assert_eq!(places(false), ["/session"]);
}
