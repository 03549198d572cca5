//! The address of a skill's content.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::manifest::Manifest;
use crate::skill::Files;

/// SHA-256 of one JSON object without white space, whose members are sorted: the manifest, and the SHA-256 of each file.
pub(crate) fn digest(manifest: &Manifest, files: &Files) -> String {
    let files: Map<String, Value> = files
        .iter()
        .map(|(path, content)| (path.clone(), hex::encode(Sha256::digest(content)).into()))
        .collect();
    let manifest = serde_json::to_value(manifest).unwrap_or_default();
    address(json!({ "manifest": manifest, "files": files }))
}

/// The address of a value: `sha256:` and the SHA-256 of its JSON without white space, whose members are sorted.
pub fn address(value: Value) -> String {
    let hash = Sha256::digest(sorted(value).to_string());
    format!("sha256:{}", hex::encode(hash))
}

/// The same value; members are in the order of their names, also where a map keeps the order in which they came.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(String, Value)> = members.into_iter().collect();
            members.sort_by(|one, other| one.0.cmp(&other.0));
            Value::Object(
                members
                    .into_iter()
                    .map(|(name, value)| (name, sorted(value)))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        plain => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(json: Value) -> Manifest {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn the_same_content_has_the_same_address_and_every_change_has_another() {
        let base = json!({"name": "a", "version": "1.0.0", "kind": "code", "description": "d",
            "inputs": {"type": "object", "title": "t"}, "outputs": true});
        let other_order = r#"{"outputs": true, "inputs": {"title": "t", "type": "object"}, "description": "d",
            "kind": "code", "version": "1.0.0", "name": "a"}"#;
        let files: Files = [("main.py".to_owned(), b"x".to_vec())].into();
        let address = digest(&manifest(base.clone()), &files);
        assert_eq!(
            digest(&serde_json::from_str(other_order).unwrap(), &files),
            address
        );
        let known = "sha256:";
        assert!(address.starts_with(known) && address.len() == known.len() + 64);
        for (member, value) in [
            ("version", json!("1.0.1")),
            ("description", json!("e")),
            ("timeout_s", json!(5)),
        ] {
            let mut changed = base.clone();
            changed[member] = value;
            assert_ne!(digest(&manifest(changed), &files), address, "{member}");
        }
        for other in [[("main.py", "y")], [("main2.py", "x")]] {
            let files = other.map(|(path, content)| (path.to_owned(), content.as_bytes().to_vec()));
            assert_ne!(digest(&manifest(base.clone()), &files.into()), address);
        }
    }
}
