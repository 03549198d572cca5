//! `himalia_variables_request`, as `docs/reference/kernel.md` describes it.

use bytes::Bytes;
use himalia_model::EngineError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::refusal::Refusal;

/// The type of the request.
pub const VARIABLES: &str = "himalia_variables_request";
/// Seconds after which the kernel itself gives up.
const KERNEL_SECONDS: u64 = 10;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct VariableQuery {
    /// First row; characters of a text.
    pub offset: Option<u64>,
    /// Rows at most: up to 1,000, and up to 50,000 as Arrow.
    pub limit: Option<u64>,
    /// Order of a table's rows.
    pub sort: Option<VariableSort>,
    /// Conditions that all rows of a table fulfil, up to 8.
    pub filters: Vec<VariableFilter>,
    /// As an Arrow IPC stream: frames and series only.
    pub arrow: bool,
}

/// The order of a table's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableSort {
    /// A column, by its label.
    pub by: String,
    /// The largest first.
    pub descending: bool,
}

/// A condition on a table's rows.
#[derive(Clone, Debug, PartialEq)]
pub struct VariableFilter {
    /// A column: its label, or its number.
    pub column: Value,
    /// `==`, `!=`, `<`, `<=`, `>`, `>=`, `contains`, `is_null`, `not_null`.
    pub op: String,
    /// Value of the comparison: a string, a number or a boolean.
    pub value: Value,
}

/// One variable in a list. Missing members are null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct VariableInfo {
    /// Name of the variable.
    pub name: String,
    /// The name of its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The module of its type.
    pub module: Option<String>,
    /// Lengths by dimension, of arrays and frames.
    pub shape: Option<Vec<u64>>,
    /// The type of the elements of an array or a series.
    pub dtype: Option<String>,
    /// Size of the object itself, without objects to which it refers.
    pub bytes: Option<u64>,
    /// Number of its elements.
    pub length: Option<u64>,
    /// The beginning of its value, as text.
    pub preview: Option<String>,
}

/// A page of the list of variables.
#[derive(Clone, Debug, PartialEq)]
pub struct VariablesReply {
    /// In the order of their definition.
    pub variables: Vec<VariableInfo>,
    /// All variables that there are.
    pub total: u64,
    /// There are more than are listed, or some are listed by their types alone.
    pub truncated: bool,
    /// Variables before the next page, if there is one.
    pub next: Option<u64>,
    /// The kernel process that they are in.
    pub incarnation: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct VariablePage {
    /// `variable`, `kind`, and `page` unless the kind is `object`, in the kernel's words.
    pub content: Map<String, Value>,
    /// The rows as an Arrow IPC stream, if that was asked for.
    pub arrow: Option<Bytes>,
    /// The kernel process that it is in.
    pub incarnation: u32,
}

impl VariableQuery {
    pub fn content(&self, name: &str) -> Value {
        let mut page = Map::new();
        for (key, value) in [("offset", self.offset), ("limit", self.limit)] {
            if let Some(value) = value {
                page.insert(key.into(), value.into());
            }
        }
        let filters = self.filters.iter().map(|filter| {
            let mut one = json!({ "column": filter.column, "op": filter.op });
            if !filter.value.is_null() {
                one["value"] = filter.value.clone();
            }
            one
        });
        let sort = self.sort.as_ref();
        json!({
            "name": name,
            "page": page,
            "sort": sort.map(|sort| json!({ "by": sort.by, "descending": sort.descending })),
            "filter": filters.collect::<Vec<_>>(),
            "format": if self.arrow { "arrow" } else { "json" },
        })
    }

    /// The field that a `ValueError` is about, in the caller's spelling, and what is wrong with it.
    fn blamed<'a>(&self, text: &'a str) -> (&'static str, &'a str) {
        let known = [
            ("page.offset: ", "offset"),
            ("page.limit: ", "limit"),
            ("sort.by: ", "sort"),
            ("filter", "filter"),
            ("format: ", "format"),
            ("name: ", "name"),
        ];
        for (prefix, field) in known {
            if let Some(rest) = text.strip_prefix(prefix) {
                // `filter` and `filter.value` are one parameter.
                let reason = rest.split_once(": ").filter(|_| field == "filter");
                return (field, reason.map_or(rest, |(_, reason)| reason));
            }
        }
        let by_sort = self.sort.as_ref().is_some_and(|sort| text.contains(&sort.by));
        match (by_sort, self.filters.is_empty()) {
            (true, _) => ("sort", text),
            (false, false) => ("filter", text),
            (false, true) => ("name", text),
        }
    }

    /// A refusal in the caller's terms.
    pub fn refused(&self, name: &str, refusal: &Refusal) -> EngineError {
        let reason = || match refusal.text.as_str() {
            "" => refusal.name.clone(),
            text => text.to_owned(),
        };
        match refusal.name.as_str() {
            "NameError" => EngineError::NotFound {
                what: "Variable",
                id: name.chars().take(100).flat_map(char::escape_debug).collect(),
            },
            "ValueError" => {
                let (field, reason) = self.blamed(&refusal.text);
                EngineError::bad_request(field, reason)
            }
            "Unsupported" => EngineError::Unsupported { reason: reason() },
            "Timeout" => EngineError::Timeout {
                what: "reading the variable",
                seconds: KERNEL_SECONDS,
            },
            "KernelBusy" => EngineError::Busy { reason: reason() },
            "Unstable" => EngineError::Busy {
                reason: format!("the variable changes while it is read: {}", refusal.text),
            },
            _ => EngineError::Unsupported {
                reason: format!("the kernel could not read it: {}: {}", refusal.name, refusal.text),
            },
        }
    }
}

/// Request to the kernel for a page of the list.
pub fn list_request(offset: u64, limit: u64) -> Value {
    json!({ "page": { "offset": offset, "limit": limit } })
}

/// The list of a reply to [`list_request`], which begins at the asked offset.
pub fn listed(
    content: Map<String, Value>,
    (offset, limit): (u64, u64),
    incarnation: u32,
) -> Result<VariablesReply, EngineError> {
    #[derive(Deserialize)]
    struct Reply {
        variables: Vec<VariableInfo>,
        total: u64,
        #[serde(default)]
        truncated: bool,
        offset: u64,
    }
    let reply = serde_json::from_value::<Reply>(Value::Object(content)).map_err(|_| unreadable())?;
    if reply.offset != offset {
        return Err(unreadable());
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let variables: Vec<_> = reply.variables.into_iter().take(limit).collect();
    let end = offset.saturating_add(variables.len() as u64);
    Ok(VariablesReply {
        truncated: reply.truncated || end < reply.total,
        next: (end < reply.total && !variables.is_empty()).then_some(end),
        variables,
        total: reply.total,
        incarnation,
    })
}

/// The page of a reply. `arrow`: it is wanted so.
pub fn paged(
    content: Map<String, Value>,
    mut buffers: Vec<Bytes>,
    arrow: bool,
    incarnation: u32,
) -> Result<VariablePage, EngineError> {
    if !content.get("variable").is_some_and(Value::is_object) || (arrow && buffers.is_empty()) {
        return Err(unreadable());
    }
    let arrow = arrow.then(|| buffers.swap_remove(0));
    Ok(VariablePage {
        content,
        arrow,
        incarnation,
    })
}

fn unreadable() -> EngineError {
    EngineError::Unsupported {
        reason: "the kernel's reply is not one about variables".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query() -> VariableQuery {
        VariableQuery {
            limit: Some(5),
            sort: Some(VariableSort {
                by: "price".into(),
                descending: true,
            }),
            filters: vec![VariableFilter {
                column: "region".into(),
                op: "is_null".into(),
                value: Value::Null,
            }],
            ..VariableQuery::default()
        }
    }

    #[test]
    fn the_request_is_that_of_the_kernels_page() {
        assert_eq!(
            query().content("df"),
            json!({
                "name": "df", "page": {"limit": 5}, "sort": {"by": "price", "descending": true},
                "filter": [{"column": "region", "op": "is_null"}], "format": "json",
            })
        );
    }

    #[test]
    fn refusals_name_the_callers_field() {
        let told = |name: &str, text: &str| {
            let refusal = Refusal {
                name: name.into(),
                text: text.into(),
            };
            query().refused("df", &refusal)
        };
        for (text, field, wanted) in [
            ("page.limit: a number is needed", "limit", "a number is needed"),
            ("there is no column 'price'", "sort", "there is no column 'price'"),
            (
                "there is no column 'region'",
                "filter",
                "there is no column 'region'",
            ),
            ("filter.value: a string", "filter", "a string"),
            (
                "filter: column 'a' of int64: no",
                "filter",
                "column 'a' of int64: no",
            ),
        ] {
            match told("ValueError", text) {
                EngineError::BadRequest { field: named, reason } => {
                    assert_eq!((named, reason.as_str()), (field, wanted));
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(
            told("NameError", ""),
            EngineError::NotFound { what: "Variable", .. }
        ));
        assert!(matches!(told("Timeout", ""), EngineError::Timeout { .. }));
        for name in ["KernelBusy", "Unstable", "Timeout"] {
            assert!(told(name, "x").retryable(), "{name}");
        }
        assert!(!told("Unsupported", "x").retryable() && !told("MemoryError", "x").retryable());
    }

    #[test]
    fn a_list_has_pages() {
        let names = |reply: &VariablesReply| -> Vec<String> {
            reply.variables.iter().map(|one| one.name.clone()).collect()
        };
        let rows = |names: &[&str]| -> Value {
            let rows = names
                .iter()
                .map(|name| json!({"name": name, "type": "int", "new": 1}));
            rows.collect()
        };
        let page = |content: Value, offset, limit| {
            let content = content.as_object().unwrap().clone();
            listed(content, (offset, limit), 3).unwrap()
        };
        let new = json!({"variables": rows(&["b", "c"]), "total": 4, "truncated": true, "offset": 1});
        let shown = page(new, 1, 2);
        assert_eq!(
            (names(&shown), shown.next, shown.truncated),
            (vec!["b".into(), "c".into()], Some(3), true)
        );
        let last = json!({"variables": rows(&["d"]), "total": 4, "truncated": false, "offset": 3});
        assert_eq!(page(last, 3, 2).next, None);
        let elsewhere = json!({"variables": rows(&["d"]), "total": 4, "truncated": false, "offset": 0});
        assert!(listed(elsewhere.as_object().unwrap().clone(), (3, 2), 3).is_err());
    }

    #[test]
    fn what_is_no_page_is_refused() {
        assert!(listed(Map::new(), (0, 10), 1).is_err());
        let content = || json!({"variable": {}}).as_object().unwrap().clone();
        assert!(paged(content(), Vec::new(), true, 1).is_err());
        assert!(paged(Map::new(), Vec::new(), false, 1).is_err());
        let page = paged(content(), vec![Bytes::from_static(b"a")], true, 2).unwrap();
        assert_eq!((page.arrow.as_deref(), page.incarnation), (Some(&b"a"[..]), 2));
    }
}
