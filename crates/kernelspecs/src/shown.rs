//! Public form of a kernelspec for tenants: fields for clients, and none about the host.

use himalia_model::{KernelJson, KernelSpec};
use serde_json::{Map, Value};

/// In place of a problem, which names programs of the host.
const PROBLEM: &str = "it cannot be started here; the operator sees why";

/// A kernelspec without its command, its variables, and whatever else of it names a path of the host. Clients want `argv` to
/// be a list, so it is an empty one.
pub fn to_tenant(spec: KernelSpec) -> KernelSpec {
    let json = spec.spec;
    KernelSpec {
        spec: KernelJson {
            argv: Vec::new(),
            env: std::collections::BTreeMap::new(),
            metadata: without_paths(json.metadata),
            other: without_paths(json.other),
            ..json
        },
        dir: std::path::PathBuf::new(),
        problem: spec.problem.map(|_| PROBLEM.to_owned()),
        ..spec
    }
}

fn without_paths(mut map: Map<String, Value>) -> Map<String, Value> {
    map.retain(|_, value| !names_a_path(value));
    map
}

/// True if some text in it begins as an absolute path does. No deeper than a `kernel.json` may be.
fn names_a_path(value: &Value) -> bool {
    match value {
        Value::String(text) => text.starts_with('/') || text.starts_with("file:"),
        Value::Array(items) => items.iter().any(names_a_path),
        Value::Object(map) => map
            .iter()
            .any(|(key, value)| key.starts_with('/') || names_a_path(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_of_the_host_is_left() {
        let spec = KernelSpec {
            name: "k".to_owned(),
            spec: serde_json::from_value(json!({
                "argv": ["/opt/env/bin/python3", "-m", "himalia_kernel"],
                "display_name": "K", "language": "python", "interrupt_mode": "message",
                "env": {"PYTHONPATH": "/srv/lib"},
                "metadata": {"debugger": true, "conda_env_path": "/opt/env", "himalia": {"binds": ["/srv/data"]}},
                "kernel_protocol_version": "5.5", "codemirror": {"file": "/x"},
            }))
            .unwrap(),
            resources: BTreeMap::from([("logo-64x64".to_owned(), "logo-64x64.png".to_owned())]),
            dir: "/opt/env/share/jupyter/kernels/k".into(),
            problem: Some("its program /opt/env/bin/python3 is missing".to_owned()),
        };
        let shown = to_tenant(spec.clone());
        assert_eq!(
            serde_json::to_value(&shown.spec).unwrap(),
            json!({
                "argv": [], "display_name": "K", "language": "python", "interrupt_mode": "message",
                "env": {}, "metadata": {"debugger": true}, "kernel_protocol_version": "5.5",
            })
        );
        assert_eq!((&shown.name, &shown.resources), (&spec.name, &spec.resources));
        assert!(!format!("{shown:?}").contains("/opt"), "{shown:?}");
        assert!(shown.problem.is_some());
    }
}
