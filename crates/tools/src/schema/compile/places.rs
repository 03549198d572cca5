//! Resolves references. Nothing outside of the document is ever read.

use std::collections::HashMap;

use serde_json::Value;

use crate::schema::text;

/// The parts of a document that have an `$id`, by it.
pub(super) struct Places<'a>(HashMap<&'a str, &'a Value>);

impl<'a> Places<'a> {
    pub(super) fn new(document: &'a Value) -> Self {
        let mut found = HashMap::new();
        let mut open = vec![document];
        while let Some(one) = open.pop() {
            if let Some(id) = own_id(one) {
                found.entry(id).or_insert(one);
            }
            match one {
                Value::Array(items) => open.extend(items),
                Value::Object(members) => open.extend(members.values()),
                _ => {}
            }
        }
        Self(found)
    }

    /// True if parts are resources of their own.
    pub(super) fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    /// The resource that a reference names, which is the given one if it names none, and what is behind its `#`.
    pub(super) fn resource(&self, target: &str, own: &'a Value) -> Result<(&'a Value, String), String> {
        let (base, fragment) = target.split_once('#').unwrap_or((target, ""));
        let resource = if base.is_empty() {
            Some(own)
        } else {
            self.0.get(base).copied()
        };
        let resource = resource.ok_or_else(|| {
            format!(
                "has the reference {}, to another document; nothing is read for it",
                text::json(&target.into())
            )
        })?;
        Ok((resource, decoded(fragment)))
    }
}

/// The name of a part that is a resource of its own.
pub(super) fn own_id(schema: &Value) -> Option<&str> {
    let id = schema.get("$id")?.as_str()?;
    let id = id.strip_suffix('#').unwrap_or(id);
    (!id.is_empty() && !id.starts_with('#')).then_some(id)
}

/// The part that a JSON Pointer leads to, and the resource that it is in.
pub(super) fn pointer<'a>(resource: &'a Value, pointer: &str) -> Option<(&'a Value, &'a Value)> {
    let (mut at, mut within) = (resource, resource);
    for name in pointer.split('/').skip(1) {
        let name = name.replace("~1", "/").replace("~0", "~");
        at = match at {
            Value::Object(members) => members.get(&name)?,
            Value::Array(items) => items.get(name.parse::<usize>().ok()?)?,
            _ => return None,
        };
        if own_id(at).is_some() {
            within = at;
        }
    }
    Some((at, within))
}

/// Without its percent signs.
fn decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let code = others.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = others
            .get(if code.is_some() { 2 } else { 0 }..)
            .unwrap_or_default();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
