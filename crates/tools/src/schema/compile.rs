//! A document becomes nodes: each of its parts once, in time and memory linear in its length.

mod keywords;
mod places;

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde_json::{Map, Value};

use super::node::{Id, Node, Nodes, Rule};
use super::size;
use places::Places;

/// A part that is to be read.
struct Part<'a> {
    id: Id,
    schema: &'a Value,
    /// The part with an `$id` that it is in, or the document: `#` refers to that.
    resource: &'a Value,
}

/// A reference whose target has a name, which may come later.
struct NamedReference {
    from: Id,
    rule: usize,
    resource: *const Value,
    name: String,
}

/// State of the compilation of a document.
pub(super) struct Compiler<'a> {
    nodes: Nodes,
    /// By place in the document.
    ids: HashMap<*const Value, Id>,
    to_read: VecDeque<Part<'a>>,
    anchors: HashMap<(*const Value, String), Id>,
    named: Vec<NamedReference>,
    places: Places<'a>,
    /// A `$ref` excludes what is beside it.
    excludes: bool,
}

/// Reads a document.
///
/// # Errors
/// The reason, in a line.
pub(super) fn compile(document: &Value) -> Result<Nodes, String> {
    let draft = document.get("$schema").and_then(Value::as_str).unwrap_or("");
    let old = ["draft-03", "draft-04", "draft-06", "draft-07"];
    let mut compiler = Compiler {
        nodes: Nodes {
            bytes: document.to_string().len(),
            ..Nodes::default()
        },
        ids: HashMap::new(),
        to_read: VecDeque::new(),
        anchors: HashMap::new(),
        named: Vec::new(),
        places: Places::new(document),
        excludes: old.iter().any(|one| draft.contains(one)),
    };
    compiler.nodes.root = compiler.part(document, document);
    while let Some(part) = compiler.to_read.pop_front() {
        let node = compiler.read(&part)?;
        if let Some(place) = compiler.nodes.all.get_mut(part.id) {
            *place = node;
        }
    }
    compiler.resolve_names()?;
    size::check(&compiler.nodes)?;
    Ok(compiler.nodes)
}

impl<'a> Compiler<'a> {
    /// The node of a part, which is read later if it was not yet.
    fn part(&mut self, schema: &'a Value, resource: &'a Value) -> Id {
        if let Some(id) = self.ids.get(&std::ptr::from_ref(schema)) {
            return *id;
        }
        let id = self.nodes.all.len();
        self.nodes.all.push(Node::All(true));
        self.ids.insert(schema, id);
        let resource = if id > 0 && places::own_id(schema).is_some() {
            schema
        } else {
            resource
        };
        self.to_read.push_back(Part { id, schema, resource });
        id
    }

    fn read(&mut self, part: &Part<'a>) -> Result<Node, String> {
        let words = match part.schema {
            Value::Bool(all) => return Ok(Node::All(*all)),
            Value::Object(words) => words,
            other => {
                return Err(format!(
                    "has {} where a schema is expected",
                    super::text::json(other)
                ));
            }
        };
        for keyword in ["$defs", "definitions"] {
            self.schemas_by_name(words, keyword, part.resource)?;
        }
        self.anchors(part, words);
        let mut rules = Vec::new();
        self.references(part, words, &mut rules)?;
        if !(self.excludes && words.contains_key("$ref")) {
            self.rules(part.resource, words, &mut rules)?;
        }
        Ok(Node::Words(rules))
    }

    fn anchors(&mut self, part: &Part<'a>, words: &'a Map<String, Value>) {
        let of_id = ["$id", "id"]
            .into_iter()
            .filter_map(|name| words.get(name)?.as_str()?.strip_prefix('#'));
        let plain = ["$anchor", "$dynamicAnchor"]
            .into_iter()
            .filter_map(|name| words.get(name)?.as_str());
        for name in of_id.chain(plain).filter(|name| !name.is_empty()) {
            self.anchors.insert((part.resource, name.to_owned()), part.id);
        }
    }

    fn references(
        &mut self,
        part: &Part<'a>,
        words: &'a Map<String, Value>,
        rules: &mut Vec<Rule>,
    ) -> Result<(), String> {
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(value) = words.get(keyword) else { continue };
            let target = value.as_str().ok_or_else(|| wrong(keyword, value, "a text"))?;
            if keyword != "$ref" && self.places.are_several() {
                return Err(format!(
                    "has {keyword} among several $id: where it leads is not known before a value is checked"
                ));
            }
            let (resource, fragment) = self.places.resource(target, part.resource)?;
            if fragment.is_empty() || fragment.starts_with('/') {
                let (found, resource) = places::pointer(resource, &fragment).ok_or_else(|| {
                    format!(
                        "has the reference {}, which leads nowhere",
                        super::text::json(value)
                    )
                })?;
                rules.push(Rule::Reference(self.part(found, resource)));
                continue;
            }
            // Until all names are known.
            self.named.push(NamedReference {
                from: part.id,
                rule: rules.len(),
                resource,
                name: fragment,
            });
            rules.push(Rule::Reference(part.id));
        }
        Ok(())
    }

    fn resolve_names(&mut self) -> Result<(), String> {
        for NamedReference {
            from,
            rule,
            resource,
            name,
        } in std::mem::take(&mut self.named)
        {
            let shown: String = name.chars().take(100).collect();
            let found = self.anchors.get(&(resource, name)).copied();
            let found =
                found.ok_or_else(|| format!("has the reference \"#{shown}\", which leads nowhere"))?;
            if let Some(Node::Words(rules)) = self.nodes.all.get_mut(from)
                && let Some(place) = rules.get_mut(rule)
            {
                *place = Rule::Reference(found);
            }
        }
        Ok(())
    }

    /// The value of a keyword that is a schema.
    fn schema(&mut self, words: &'a Map<String, Value>, keyword: &str, resource: &'a Value) -> Option<Id> {
        Some(self.part(words.get(keyword)?, resource))
    }

    /// The value of a keyword that is a list of schemas.
    fn schemas(
        &mut self,
        words: &'a Map<String, Value>,
        keyword: &str,
        resource: &'a Value,
    ) -> Result<Option<Vec<Id>>, String> {
        let Some(value) = words.get(keyword) else {
            return Ok(None);
        };
        let all = value
            .as_array()
            .ok_or_else(|| wrong(keyword, value, "a list of schemas"))?;
        Ok(Some(all.iter().map(|one| self.part(one, resource)).collect()))
    }

    /// The value of a keyword that is an object of schemas.
    fn schemas_by_name(
        &mut self,
        words: &'a Map<String, Value>,
        keyword: &str,
        resource: &'a Value,
    ) -> Result<BTreeMap<String, Id>, String> {
        let Some(value) = words.get(keyword) else {
            return Ok(BTreeMap::new());
        };
        let all = value
            .as_object()
            .ok_or_else(|| wrong(keyword, value, "an object of schemas"))?;
        Ok(all
            .iter()
            .map(|(name, one)| (name.clone(), self.part(one, resource)))
            .collect())
    }
}

/// A keyword with a value that it cannot have.
fn wrong(keyword: &str, value: &Value, expected: &str) -> String {
    format!("has {keyword}: {}, expected {expected}", super::text::json(value))
}
