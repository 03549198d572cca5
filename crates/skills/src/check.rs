//! Checks of a manifest and its files.

use std::fmt;
use std::sync::Arc;

use himalia_model::{MAX_LLMS_OF_TEMPLATE, MAX_TOOL_PATTERNS};
use himalia_tools::Schema;
use serde_json::Value;

use crate::manifest::{Kind, Manifest, TestCase};
use crate::skill::{Files, MAIN_FILE, MAX_FILES, MAX_SKILL_BYTES};
use crate::{MANIFEST_FILE, SKILL_FILE};

/// Characters of a name.
const MAX_NAME: usize = 64;
/// Characters of a description.
const MAX_DESCRIPTION: usize = 1024;
/// Bytes of one schema, as JSON.
const MAX_SCHEMA: usize = 64 << 10;
/// Bytes of a manifest, as JSON.
const MAX_MANIFEST: usize = 256 << 10;
const MAX_TESTS: usize = 32;
const MAX_SKILLS: usize = 32;
/// Bytes of the path of a file.
const MAX_PATH: usize = 200;
/// Seconds of a run.
const MAX_TIMEOUT: u32 = 86_400;

/// Reason why a skill is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The member of the manifest, `files` or `manifest`.
    pub field: &'static str,
    /// One line.
    pub reason: String,
}

impl Invalid {
    /// Error about a field.
    pub fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self {
            field,
            reason: reason.into(),
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason)
    }
}

impl std::error::Error for Invalid {}

/// Refuses what is no skill.
pub(crate) fn check(manifest: &Manifest, files: &Files) -> Result<(), Invalid> {
    check_name(&manifest.name)?;
    let described = manifest.description.chars().count();
    if manifest.description.trim().is_empty() || described > MAX_DESCRIPTION {
        let reason = format!("must have 1 to {MAX_DESCRIPTION} characters");
        return Err(Invalid::new("description", reason));
    }
    if manifest
        .timeout_s
        .is_some_and(|seconds| seconds == 0 || seconds > MAX_TIMEOUT)
    {
        return Err(Invalid::new("timeout_s", format!("must be 1 to {MAX_TIMEOUT}")));
    }
    if manifest
        .environment
        .as_ref()
        .is_some_and(|digest| digest.is_empty() || digest.len() > 200)
    {
        return Err(Invalid::new("environment", "must have 1 to 200 bytes"));
    }
    check_files(files)?;
    match manifest.kind {
        Kind::Instructions => check_instructions(manifest, files)?,
        Kind::Code => check_code(manifest, files)?,
    }
    let bytes = serde_json::to_vec(manifest).map_or(usize::MAX, |json| json.len());
    if bytes > MAX_MANIFEST {
        return Err(Invalid::new(
            "manifest",
            format!("has more than {MAX_MANIFEST} bytes"),
        ));
    }
    Ok(())
}

/// Refuses what is no name of a skill.
///
/// # Errors
/// On `name`.
pub fn check_name(name: &str) -> Result<(), Invalid> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let good = name.len() <= MAX_NAME
        && name.bytes().all(plain)
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-');
    if good {
        return Ok(());
    }
    let reason = format!(
        "must be 1 to {MAX_NAME} lower-case letters, digits and hyphens, with a letter first and no hyphen last"
    );
    Err(Invalid::new("name", reason))
}

fn check_files(files: &Files) -> Result<(), Invalid> {
    let bad = |reason: String| Err(Invalid::new("files", reason));
    if files.len() > MAX_FILES {
        return bad(format!("are {}, at most {MAX_FILES} are allowed", files.len()));
    }
    let bytes: usize = files.values().map(Vec::len).sum();
    if bytes > MAX_SKILL_BYTES {
        return bad(format!(
            "have {bytes} bytes, at most {MAX_SKILL_BYTES} are allowed"
        ));
    }
    for path in files.keys() {
        let shown: String = path.chars().take(80).flat_map(char::escape_debug).collect();
        let part = |part: &str| !part.is_empty() && part != "." && part != "..";
        if path.len() > MAX_PATH || !path.split('/').all(part) || path.chars().any(char::is_control) {
            return bad(format!(
                "{shown} must be a relative path of at most {MAX_PATH} bytes"
            ));
        }
        let below = |other: &String| {
            other
                .strip_prefix(path.as_str())
                .is_some_and(|rest| rest.starts_with('/'))
        };
        if files.keys().any(below) {
            return bad(format!("{shown} is a file and a directory"));
        }
        if path == MANIFEST_FILE {
            return bad(format!(
                "{MANIFEST_FILE} is the manifest, and no file of the skill"
            ));
        }
    }
    Ok(())
}

fn check_instructions(manifest: &Manifest, files: &Files) -> Result<(), Invalid> {
    text(files, SKILL_FILE)?;
    for (field, is_there) in [
        ("inputs", manifest.inputs.is_some()),
        ("outputs", manifest.outputs.is_some()),
        ("template", manifest.template.is_some()),
        ("environment", manifest.environment.is_some()),
        ("network", !manifest.network.is_empty()),
        ("tools", !manifest.tools.is_empty()),
        ("models", !manifest.models.is_empty()),
        ("skills", !manifest.skills.is_empty()),
        ("timeout_s", manifest.timeout_s.is_some()),
        ("tests", !manifest.tests.is_empty()),
    ] {
        if is_there {
            return Err(Invalid::new(field, "is for code; instructions are not run"));
        }
    }
    Ok(())
}

fn check_code(manifest: &Manifest, files: &Files) -> Result<(), Invalid> {
    let code = text(files, MAIN_FILE)?;
    let defines = |line: &str| line.starts_with("def main(") || line.starts_with("async def main(");
    if !code.lines().any(defines) {
        let reason = format!("{MAIN_FILE} defines no function main");
        return Err(Invalid::new("files", reason));
    }
    let inputs = schema("inputs", manifest.inputs.as_ref())?;
    let outputs = schema("outputs", manifest.outputs.as_ref())?;
    let of_object = manifest.inputs.as_ref().and_then(|schema| schema.get("type"));
    if of_object != Some(&Value::from("object")) {
        let reason = "must have \"type\": \"object\": its members are the arguments of main";
        return Err(Invalid::new("inputs", reason));
    }
    if manifest.tools.len() > MAX_TOOL_PATTERNS {
        let reason = format!(
            "are {}, at most {MAX_TOOL_PATTERNS} are allowed",
            manifest.tools.len()
        );
        return Err(Invalid::new("tools", reason));
    }
    if manifest.models.len() > MAX_LLMS_OF_TEMPLATE {
        let reason = format!(
            "are {}, at most {MAX_LLMS_OF_TEMPLATE} are allowed",
            manifest.models.len()
        );
        return Err(Invalid::new("models", reason));
    }
    for (index, name) in manifest.models.iter().enumerate() {
        if manifest.models[..index].contains(name) {
            let shown: String = name.chars().take(MAX_NAME).flat_map(char::escape_debug).collect();
            return Err(Invalid::new("models", format!("has {shown} twice")));
        }
    }
    if manifest.skills.len() > MAX_SKILLS {
        let reason = format!("are {}, at most {MAX_SKILLS} are allowed", manifest.skills.len());
        return Err(Invalid::new("skills", reason));
    }
    for name in manifest.skills.keys() {
        let shown: String = name.chars().take(MAX_NAME).flat_map(char::escape_debug).collect();
        if check_name(name).is_err() {
            return Err(Invalid::new(
                "skills",
                format!("{shown} is not the name of a skill"),
            ));
        }
        if *name == manifest.name {
            let reason = format!("{shown} is this skill: its code calls itself without a run");
            return Err(Invalid::new("skills", reason));
        }
    }
    if manifest.tests.len() > MAX_TESTS {
        let reason = format!("are {}, at most {MAX_TESTS} are allowed", manifest.tests.len());
        return Err(Invalid::new("tests", reason));
    }
    for (at, test) in manifest.tests.iter().enumerate() {
        check_test(test, &inputs, &outputs)
            .map_err(|reason| Invalid::new("tests", format!("{at}: {reason}")))?;
    }
    Ok(())
}

fn check_test(test: &TestCase, inputs: &Schema, outputs: &Schema) -> Result<(), String> {
    if test.name.is_empty() || test.name.len() > 200 {
        return Err("name: must have 1 to 200 bytes".to_owned());
    }
    if let Some(wrong) = inputs.violations(&Value::Object(test.inputs.clone())).first() {
        return Err(format!("inputs{}: {}", wrong.path, wrong.text));
    }
    match (&test.outputs, &test.error) {
        (Some(_), Some(_)) => Err("error: excludes outputs".to_owned()),
        (Some(wanted), None) => match outputs.violations(wanted).first() {
            Some(wrong) => Err(format!("outputs{}: {}", wrong.path, wrong.text)),
            None => Ok(()),
        },
        (None, _) => Ok(()),
    }
}

/// The schema of code, which has one.
pub(crate) fn schema(field: &'static str, schema: Option<&Value>) -> Result<Arc<Schema>, Invalid> {
    let schema = schema.ok_or_else(|| Invalid::new(field, "is missing: code has a JSON Schema of it"))?;
    if schema.to_string().len() > MAX_SCHEMA {
        return Err(Invalid::new(field, format!("has more than {MAX_SCHEMA} bytes")));
    }
    Schema::shared(schema).map_err(|reason| Invalid::new(field, reason))
}

fn text<'a>(files: &'a Files, path: &str) -> Result<&'a str, Invalid> {
    let bytes = files
        .get(path)
        .ok_or_else(|| Invalid::new("files", format!("{path} is missing")))?;
    std::str::from_utf8(bytes).map_err(|_| Invalid::new("files", format!("{path} is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Skill;

    fn manifest() -> Value {
        json!({
            "name": "reconcile", "version": "1.2.0", "kind": "code", "description": "Compares.",
            "inputs": {"type": "object", "properties": {"month": {"type": "string"}}, "required": ["month"]},
            "outputs": {"type": "object", "required": ["total"]},
            "network": ["api.example.org"],
            "tests": [{"name": "october", "inputs": {"month": "2026-10"}, "outputs": {"total": 3}}],
        })
    }

    fn made(manifest: Value, files: &[(&str, &[u8])]) -> Result<Skill, String> {
        let manifest = serde_json::from_value(manifest).map_err(|error| error.to_string())?;
        let files = files
            .iter()
            .map(|(path, content)| ((*path).to_owned(), content.to_vec()));
        Skill::new(manifest, files.collect()).map_err(|wrong| wrong.to_string())
    }

    const MAIN: (&str, &[u8]) = ("main.py", b"def main(month):\n    return {'total': 1}\n");

    #[test]
    fn inputs_and_outputs_are_checked_against_their_schemas() {
        let skill = made(manifest(), &[MAIN]).unwrap();
        let object = |value: Value| value.as_object().unwrap().clone();
        let wrong = |inputs: Value| skill.check_inputs(&object(inputs)).unwrap();
        assert_eq!(wrong(json!({"month": "x"})), []);
        assert_eq!(wrong(json!({"month": 1}))[0].path, "/month");
        assert_eq!(wrong(json!({}))[0].rule, "required");
        assert_eq!(skill.check_outputs(&json!({"total": 1})).unwrap(), []);
        assert_eq!(skill.check_outputs(&json!([])).unwrap()[0].rule, "type");
    }

    #[test]
    fn an_error_names_the_member() {
        let long = "x".repeat(MAX_DESCRIPTION + 1);
        for (member, value, wanted) in [
            ("name", json!("Reconcile"), "name: must be 1 to 64"),
            ("name", json!("1a"), "name: must be"),
            ("name", json!("a-"), "name: must be"),
            ("version", json!("1.2"), "unexpected end"),
            ("description", json!(" "), "description: must have"),
            ("description", json!(long), "description: must have"),
            (
                "inputs",
                Value::Null,
                "inputs: is missing: code has a JSON Schema of it",
            ),
            (
                "outputs",
                Value::Null,
                "outputs: is missing: code has a JSON Schema of it",
            ),
            (
                "inputs",
                json!({"type": "array"}),
                "inputs: must have \"type\": \"object\"",
            ),
            (
                "inputs",
                json!({"type": "objekt"}),
                "inputs: has type: \"objekt\", expected ",
            ),
            (
                "outputs",
                json!({"$ref": "https://example.org/x"}),
                "outputs: has the reference \"https://example.org/x\", to another document",
            ),
            ("models", json!(["a", "b", "a"]), "models: has a twice"),
            ("models", json!(vec!["a"; 65]), "models: are 65, at most 64"),
            ("timeout_s", json!(0), "timeout_s: must be 1 to 86400"),
            ("environment", json!(""), "environment: must have"),
            ("network", json!(["a b"]), "host \"a b\" is not a host"),
            (
                "tests",
                json!([{"name": "a", "inputs": {}}]),
                "tests: 0: inputs: ",
            ),
            (
                "tests",
                json!([{"name": "a", "inputs": {"month": "x"}, "outputs": {}}]),
                "tests: 0: outputs: ",
            ),
            (
                "tests",
                json!([{"name": "a", "inputs": {"month": "x"}, "outputs": {"total": 1}, "error": "E"}]),
                "tests: 0: error: excludes outputs",
            ),
            ("tool", json!([]), "unknown field `tool`"),
        ] {
            let mut changed = manifest();
            changed[member] = value;
            let wrong = made(changed, &[MAIN]).unwrap_err();
            assert!(wrong.starts_with(wanted), "{member}: {wrong}");
        }
    }

    #[test]
    fn files_are_bounded_and_stay_below_their_directory() {
        let big = vec![b'x'; MAX_SKILL_BYTES];
        let many: Vec<String> = (0..=MAX_FILES).map(|at| format!("f{at}")).collect();
        let many: Vec<(&str, &[u8])> = many.iter().map(|path| (path.as_str(), &b""[..])).collect();
        for (files, wanted) in [
            (&[][..], "files: main.py is missing"),
            (
                &[("main.py", &b"x = 1"[..])],
                "files: main.py defines no function main",
            ),
            (&[("main.py", b"\xff")], "files: main.py is not UTF-8"),
            (&[MAIN, ("a", &big)], "files: have "),
            (&many, "files: are 65"),
            (&[MAIN, ("../x", b"")], "files: ../x must be a relative path"),
            (&[MAIN, ("/x", b"")], "files: /x must be a relative path"),
            (&[MAIN, ("a//x", b"")], "files: a//x must be a relative path"),
            (&[MAIN, ("a\n", b"")], "files: a\\n must be a relative path"),
            (
                &[MAIN, ("a", b""), ("a/b", b"")],
                "files: a is a file and a directory",
            ),
            (&[MAIN, ("skill.json", b"")], "files: skill.json is the manifest"),
        ] {
            let wrong = made(manifest(), files).unwrap_err();
            assert!(wrong.starts_with(wanted), "{wrong}\nwanted {wanted}");
        }
    }

    #[test]
    fn instructions_have_a_text_and_nothing_that_runs() {
        let text: (&str, &[u8]) = ("SKILL.md", b"# How");
        let plain = json!({"name": "a", "version": "1.0.0", "kind": "instructions", "description": "d"});
        let skill = made(plain.clone(), &[text]).unwrap();
        assert!(skill.check_inputs(&serde_json::Map::new()).is_err());
        assert!(crate::code(&skill, &serde_json::Map::new()).is_err());
        let mut typed = plain.clone();
        typed["inputs"] = json!({"type": "object"});
        assert_eq!(
            made(typed, &[text]).unwrap_err(),
            "inputs: is for code; instructions are not run"
        );
        assert_eq!(made(plain, &[]).unwrap_err(), "files: SKILL.md is missing");
    }
}
