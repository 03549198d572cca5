//! Cells of a session as a function: what a person edits, tests and publishes.

use semver::Version;
use serde_json::{Map, Value, json};

use crate::check::{Invalid, check_name};
use crate::indent::lines;
use crate::manifest::{Kind, Manifest, TestCase};
use crate::skill::{MAIN_FILE, Skill};

/// Inputs or outputs of a draft.
const MAX_VARIABLES: usize = 32;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    /// Name of the skill.
    pub name: String,
    /// Purpose of the skill.
    pub description: String,
    /// Variables that the cells assign and that become arguments. The statements that assign them are left out.
    pub inputs: Vec<String>,
    /// Variables that it returns.
    pub outputs: Vec<String>,
    /// Code of the cells, in order.
    pub cells: Vec<String>,
}

/// A skill, version 0.1.0, whose `main` is the cells in their order. Its schemas say what is known: the names, and the types of inputs that
/// were assigned as literals, which are its test too.
///
/// # Errors
/// What is wrong, with the field: `name`, `description`, `inputs`, `outputs`, `cells`.
pub fn draft(wanted: &Draft) -> Result<Skill, Invalid> {
    check_name(&wanted.name)?;
    for (field, names) in [("inputs", &wanted.inputs), ("outputs", &wanted.outputs)] {
        if names.len() > MAX_VARIABLES {
            return Err(Invalid::new(
                field,
                format!("are {}, at most {MAX_VARIABLES}", names.len()),
            ));
        }
        if let Some(bad) = names.iter().find(|name| !is_variable(name)) {
            let shown: String = bad.chars().take(64).flat_map(char::escape_debug).collect();
            return Err(Invalid::new(
                field,
                format!("{shown} is not a name of a variable"),
            ));
        }
    }
    if wanted.cells.is_empty() {
        return Err(Invalid::new("cells", "must have at least one cell"));
    }
    let mut known = Map::new();
    let mut body = String::new();
    for (at, cell) in wanted.cells.iter().enumerate() {
        add_cell(&mut body, &mut known, at + 1, cell, &wanted.inputs)?;
    }
    let returned: Vec<String> = wanted
        .outputs
        .iter()
        .map(|name| format!("\"{name}\": {name}"))
        .collect();
    let arguments = wanted.inputs.join(", ");
    let main = format!(
        "async def main({arguments}):\n{body}    return {{{}}}\n",
        returned.join(", ")
    );
    let property = |name: &String| {
        let kind = known.get(name).and_then(kind_of);
        (
            name.clone(),
            kind.map_or_else(|| json!({}), |kind| json!({ "type": kind })),
        )
    };
    let inputs: Map<String, Value> = wanted.inputs.iter().map(property).collect();
    let outputs: Map<String, Value> = wanted
        .outputs
        .iter()
        .map(|name| (name.clone(), json!({})))
        .collect();
    let has_all = wanted.inputs.iter().all(|name| known.contains_key(name));
    let test = TestCase {
        name: "as in the session".to_owned(),
        inputs: known,
        outputs: None,
        error: None,
    };
    let manifest = Manifest {
        name: wanted.name.clone(),
        version: Version::new(0, 1, 0),
        kind: Kind::Code,
        description: wanted.description.clone(),
        inputs: Some(json!({
            "type": "object", "properties": inputs, "required": wanted.inputs, "additionalProperties": false,
        })),
        outputs: Some(json!({ "type": "object", "properties": outputs, "required": wanted.outputs })),
        template: None,
        environment: None,
        network: himalia_model::network::AllowList::default(),
        tools: Vec::new(),
        models: Vec::new(),
        skills: std::collections::BTreeMap::new(),
        timeout_s: None,
        tests: if has_all { vec![test] } else { Vec::new() },
    };
    Skill::new(manifest, [(MAIN_FILE.to_owned(), main.into_bytes())].into())
}

fn add_cell(
    body: &mut String,
    known: &mut Map<String, Value>,
    number: usize,
    cell: &str,
    inputs: &[String],
) -> Result<(), Invalid> {
    for line in lines(cell) {
        if line.begins && line.text.trim_start().starts_with(['%', '!']) {
            let shown: String = line.text.trim().chars().take(40).collect();
            let reason = format!("code {number} has a command of IPython, which is not Python: {shown}");
            return Err(Invalid::new("cells", reason));
        }
        if let Some((name, value)) = assigned(line.text).filter(|_| line.begins)
            && inputs.iter().any(|input| input == name)
        {
            if !line.ends {
                let reason = format!("{name} is assigned in more than one line of code {number}");
                return Err(Invalid::new("inputs", reason));
            }
            if let Some(value) = literal(value) {
                known.entry(name).or_insert(value);
            }
            continue;
        }
        if line.in_string || line.text.is_empty() {
            body.push_str(line.text);
        } else {
            body.push_str("    ");
            body.push_str(line.text);
        }
        body.push('\n');
    }
    Ok(())
}

/// Name and value of an assignment at the beginning of a line.
fn assigned(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.split_once(':').map_or(name, |(name, _)| name);
    let is_one = !value.starts_with('=') && !line.starts_with(char::is_whitespace);
    let name = name.trim_end();
    (is_one && is_variable(name)).then_some((name, value.trim()))
}

/// The value of a literal, where Python and JSON agree about it.
fn literal(text: &str) -> Option<Value> {
    match text {
        "True" => return Some(true.into()),
        "False" => return Some(false.into()),
        _ => {}
    }
    let plain = |inner: &str| !inner.contains(['\'', '"', '\\']);
    let quoted = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    if let Some(inner) = quoted {
        return plain(inner).then(|| inner.into());
    }
    let value: Value = serde_json::from_str(text).ok()?;
    (value.is_number() || value.is_string()).then_some(value)
}

fn kind_of(value: &Value) -> Option<&'static str> {
    match value {
        Value::Bool(_) => Some("boolean"),
        Value::Number(number) if number.is_f64() => Some("number"),
        Value::Number(_) => Some("integer"),
        Value::String(_) => Some("string"),
        _ => None,
    }
}

/// A name in ASCII that is no keyword.
fn is_variable(name: &str) -> bool {
    const KEYWORDS: &[&str] = &[
        "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
        "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in",
        "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
    ];
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.len() <= 100
        && name.bytes().all(inner)
        && name.starts_with(|first: char| !first.is_ascii_digit())
        && !KEYWORDS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(cells: &[&str], inputs: &[&str], outputs: &[&str]) -> Draft {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        Draft {
            name: "report".into(),
            description: "A report".into(),
            inputs: owned(inputs),
            outputs: owned(outputs),
            cells: owned(cells),
        }
    }

    #[test]
    fn cells_become_a_function_of_their_variables() {
        let cells = [
            "import json\nmonth = '2026-10'\nlimit: int = 5",
            "text = '''a\n b'''\nif limit:\n    total = f(\n  1)\n\nsame = month == month",
        ];
        let skill = draft(&wanted(&cells, &["month", "limit"], &["total", "text"])).unwrap();
        let main = std::str::from_utf8(&skill.files()[MAIN_FILE]).unwrap();
        assert_eq!(
            main,
            "async def main(month, limit):\n    import json\n    text = '''a\n b'''\n    if limit:\n        total = f(\n      1)\n\n    \
             same = month == month\n    return {\"total\": total, \"text\": text}\n"
        );
        let manifest = skill.manifest();
        let inputs = manifest.inputs.as_ref().unwrap();
        assert_eq!(
            inputs["properties"],
            json!({"month": {"type": "string"}, "limit": {"type": "integer"}})
        );
        assert_eq!(inputs["required"], json!(["month", "limit"]));
        assert_eq!(
            Value::Object(manifest.tests[0].inputs.clone()),
            json!({"month": "2026-10", "limit": 5})
        );
    }

    #[test]
    fn what_cannot_become_a_function_is_named() {
        for (cells, inputs, outputs, wanted_reason) in [
            (&[][..], &[][..], &[][..], "cells: must have at least one cell"),
            (
                &["x = 1", "%pip install a"],
                &[],
                &[],
                "cells: code 2 has a command of IPython",
            ),
            (&["!ls"], &[], &[], "cells: code 1 has a command of IPython"),
            (
                &["a = (1,\n 2)"],
                &["a"],
                &[],
                "inputs: a is assigned in more than one line of code 1",
            ),
            (
                &["a = 1"],
                &["a b"],
                &[],
                "inputs: a b is not a name of a variable",
            ),
            (
                &["a = 1"],
                &[],
                &["class"],
                "outputs: class is not a name of a variable",
            ),
        ] {
            let wrong = draft(&wanted(cells, inputs, outputs)).unwrap_err().to_string();
            assert!(
                wrong.starts_with(wanted_reason),
                "{wrong}\nwanted {wanted_reason}"
            );
        }
    }

    #[test]
    fn an_input_without_a_known_value_has_no_type_and_makes_no_test() {
        let skill = draft(&wanted(&["path = compute()\nn = path"], &["path"], &["n"])).unwrap();
        assert_eq!(
            skill.manifest().inputs.as_ref().unwrap()["properties"],
            json!({"path": {}})
        );
        assert!(skill.manifest().tests.is_empty());
    }
}
