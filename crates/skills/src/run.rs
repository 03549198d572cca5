//! A run of a code skill: what a kernel runs, and what comes back.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::check::Invalid;
use crate::skill::Skill;

/// Bytes of the inputs of a run, as JSON.
pub const MAX_INPUT_BYTES: usize = 128 << 10;
/// Bytes of the outputs of a run, as JSON.
pub const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// The media type of the display that carries the outputs.
pub const OUTPUT_TYPE: &str = "application/vnd.himalia.skill+json";

/// Works in any Python kernel with `IPython`.
const RUN: &str = include_str!("run.py");

/// The Python code that runs `main` of a skill with inputs that were checked, in a module of its own.
///
/// # Errors
/// It is not code, or the inputs are too long.
pub fn code(skill: &Skill, inputs: &Map<String, Value>) -> Result<String, Invalid> {
    skill.of_code()?;
    let inputs = serde_json::to_value(inputs).unwrap_or_default();
    if inputs.to_string().len() > MAX_INPUT_BYTES {
        let reason = format!("have more than {MAX_INPUT_BYTES} bytes as JSON");
        return Err(Invalid::new("inputs", reason));
    }
    let files: Map<String, Value> = skill
        .files()
        .iter()
        .map(|(path, content)| (path.clone(), STANDARD.encode(content).into()))
        .collect();
    let given = json!({
        "module": format!("himalia_skill_{}", skill.manifest().name.replace('-', "_")),
        "files": files,
        "inputs": inputs,
        "most": MAX_OUTPUT_BYTES,
    });
    let given = STANDARD.encode(given.to_string());
    Ok(format!(
        "{RUN}_himalia_show_outputs(await _himalia_run_skill(\"{given}\"), \"{OUTPUT_TYPE}\")\n"
    ))
}

/// The outputs in what was displayed under [`OUTPUT_TYPE`].
pub fn outputs(shown: &Value) -> Option<&Value> {
    shown.get("outputs")
}
