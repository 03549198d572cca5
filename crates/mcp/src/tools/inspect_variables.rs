//! `inspect_variables`: the variables of a session, also while it runs code.

use himalia_engine::{VariableFilter, VariableInfo, VariableQuery, VariableSort, VariablesReply};
use rmcp::model::Tool;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::entry::{Effects, ToolEntry, tool};
use crate::call::{Answer, Call, answer};
use crate::failure::Failure;
use crate::{arguments, limits, sessions};

pub(super) const TOOL: ToolEntry = ToolEntry {
    name: "inspect_variables",
    describe,
    run: |call| Box::pin(run(call)),
};

fn describe(name: &'static str) -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "session": {"type": "string"},
            "kernel": {"type": "string"},
            "name": {"type": "string", "description": "one variable; default: all"},
            "offset": {"type": "integer"},
            "limit": {"type": "integer", "description": "rows (20)"},
            "sort": {"type": "string"},
            "descending": {"type": "boolean"},
            "filter": {"type": "array", "items": {"type": "object"},
                       "description": "{column, op, value}; op: == != < <= > >= contains is_null not_null"}
        },
        "required": ["session"]
    });
    let description =
        "Variables with type, shape, size and preview, or rows of one table, even while code runs.";
    tool(name, "Variables", description, schema, &Effects::READS)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    session: String,
    kernel: Option<String>,
    name: Option<String>,
    offset: Option<u64>,
    limit: Option<u64>,
    sort: Option<String>,
    #[serde(default)]
    descending: bool,
    #[serde(default)]
    filter: Vec<Condition>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Condition {
    column: Value,
    op: String,
    #[serde(default)]
    value: Value,
}

async fn run(mut call: Call) -> Answer {
    let wanted: Arguments = arguments::read(call.take_arguments())?;
    let kernel = wanted.kernel.as_deref();
    let session = sessions::kernel(&call, &wanted.session, kernel)?;
    let Some(name) = wanted.name.clone() else {
        only_the_session(&wanted)?;
        let engine = &call.engine;
        let reply = engine
            .variables(&call.principal, session, 0, limits::VARIABLES)
            .await?;
        let text = list(&reply);
        let body = json!({
            "variables": reply.variables,
            "total": reply.total,
            "truncated": reply.truncated,
            "incarnation": reply.incarnation,
        });
        return Ok(answer(body, text).into());
    };
    let query = query(wanted)?;
    let page = call
        .engine
        .variable(&call.principal, session, &name, &query)
        .await?;
    let shown = with(page.content, page.incarnation);
    let text = shown.to_string();
    Ok(answer(shown, text).into())
}

/// Refuses what a list would ignore.
fn only_the_session(wanted: &Arguments) -> Result<(), Failure> {
    let given = [
        ("offset", wanted.offset.is_some()),
        ("limit", wanted.limit.is_some()),
        ("sort", wanted.sort.is_some()),
        ("descending", wanted.descending),
        ("filter", !wanted.filter.is_empty()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(Failure::argument(name, "needs name")),
        None => Ok(()),
    }
}

fn query(wanted: Arguments) -> Result<VariableQuery, Failure> {
    let limit = wanted.limit.unwrap_or(limits::ROWS);
    if limit > limits::ROWS_MOST {
        let reason = format!("is more than {}", limits::ROWS_MOST);
        return Err(Failure::argument("limit", reason));
    }
    if wanted.descending && wanted.sort.is_none() {
        return Err(Failure::argument("descending", "needs sort"));
    }
    let descending = wanted.descending;
    let filters = wanted.filter.into_iter().map(|one| VariableFilter {
        column: one.column,
        op: one.op,
        value: one.value,
    });
    Ok(VariableQuery {
        offset: wanted.offset,
        limit: Some(limit),
        sort: wanted.sort.map(|by| VariableSort { by, descending }),
        filters: filters.collect(),
        arrow: false,
    })
}

/// As the native API shows it.
fn with(mut content: Map<String, Value>, incarnation: u32) -> Value {
    content.insert("incarnation".into(), incarnation.into());
    Value::Object(content)
}

/// One line for each variable.
fn list(reply: &VariablesReply) -> String {
    let mut lines: Vec<String> = reply.variables.iter().map(line).collect();
    if reply.truncated {
        lines.push("[more are left out]".into());
    }
    if lines.is_empty() {
        lines.push("no variables".into());
    }
    lines.join("\n")
}

fn line(variable: &VariableInfo) -> String {
    let size = match (&variable.shape, variable.length) {
        (None, None) => String::new(),
        (None, Some(length)) => format!(" of {length}"),
        (Some(shape), _) => format!(" {}", json!(shape)),
    };
    let preview = variable.preview.as_deref().unwrap_or_default();
    format!("{}: {}{size} {preview}", variable.name, variable.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &Value) -> Arguments {
        serde_json::from_value(arguments.clone()).unwrap()
    }

    #[test]
    fn a_list_takes_no_page_and_a_page_is_bounded() {
        let told = |wanted: &Value| match query(read(wanted)) {
            Ok(_) => String::new(),
            Err(failure) => failure.to_text(),
        };
        let without_name = only_the_session(&read(&json!({"session": "s", "sort": "a"})));
        assert!(
            without_name
                .unwrap_err()
                .to_text()
                .starts_with("sort: needs name")
        );
        let many = json!({"session": "s", "name": "df", "limit": limits::ROWS_MOST + 1});
        assert!(told(&many).starts_with("limit: is more than"), "{}", told(&many));
        let order = json!({"session": "s", "name": "df", "descending": true});
        assert!(told(&order).starts_with("descending: needs sort"));
        let good = query(read(
            &json!({"session": "s", "name": "df", "sort": "a", "descending": true,
            "filter": [{"column": "a", "op": ">", "value": 3}]}),
        ));
        let good = good.unwrap();
        assert_eq!((good.limit, good.filters.len()), (Some(limits::ROWS), 1));
        assert!(good.sort.unwrap().descending);
    }

    #[test]
    fn a_list_is_one_line_a_variable() {
        let reply = |variables: Value, truncated| VariablesReply {
            variables: serde_json::from_value(variables).unwrap(),
            total: 3,
            truncated,
            next: None,
            incarnation: 1,
        };
        let some = json!([
            {"name": "df", "type": "DataFrame", "shape": [3, 2], "length": 3, "preview": "a, b"},
            {"name": "names", "type": "list", "shape": null, "length": 4, "preview": "['x']"},
            {"name": "x", "type": "int", "shape": null, "length": null, "preview": "1"}
        ]);
        assert_eq!(
            list(&reply(some, true)),
            "df: DataFrame [3,2] a, b\nnames: list of 4 ['x']\nx: int 1\n[more are left out]"
        );
        assert_eq!(list(&reply(json!([]), false)), "no variables");
    }
}
