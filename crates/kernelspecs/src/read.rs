//! Reading one `kernel.json`, whatever is in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use himalia_model::{InterruptMode, KernelJson, KernelSpec};
use serde_json::{Map, Value};

use super::files::resources;
use super::{paths, program};

/// Bytes of a `kernel.json`; a longer one is a problem.
const MAX_JSON_BYTES: u64 = 1 << 20;

/// The placeholder without which a kernel cannot be reached.
const CONNECTION_FILE: &str = "{connection_file}";

/// Reads the kernelspec in `dir`. `None` when the directory is none (no `kernel.json`). A broken one comes with its
/// first problem, and with everything that could be understood.
///
/// `path` is the `PATH` that its program would be looked up on if the kernelspec sets none.
pub(super) fn read(name: &str, dir: &Path, path: &str) -> Option<KernelSpec> {
    let mut problem = Problem(None);
    let spec = match text(&dir.join("kernel.json")) {
        Ok(Some(text)) => parse(&text, &mut problem),
        Ok(None) => return None,
        Err(reason) => {
            problem.note(reason);
            KernelJson::default()
        }
    };
    let mut spec = KernelSpec {
        name: name.to_owned(),
        spec,
        resources: resources(dir),
        dir: dir.to_owned(),
        problem: problem.0,
    };
    if spec.spec.display_name.is_empty() {
        name.clone_into(&mut spec.spec.display_name);
    }
    if spec.problem.is_none() {
        spec.problem = start_problem(&spec, path);
    }
    Some(spec)
}

/// Reason why it cannot be started, as far as that shows without starting it.
fn start_problem(spec: &KernelSpec, path: &str) -> Option<String> {
    let Some(first) = spec.spec.argv.first() else {
        return Some("argv is missing or empty".to_owned());
    };
    if !spec.spec.argv.iter().any(|word| word.contains(CONNECTION_FILE)) {
        return Some(format!("argv has no {CONNECTION_FILE}"));
    }
    // A PATH of its own may be a template; what it looks like in the end is only known at a start.
    let own = spec
        .spec
        .env
        .get("PATH")
        .map(|own| own.replace("${PATH}", path).replace("$PATH", path));
    let path = own.as_deref().unwrap_or(path);
    let first = super::launch::place(first, &spec.dir);
    program::resolve(&first, paths::prefix_of(&spec.dir), path).err()
}

/// `Ok(None)` when there is no such file.
fn text(file: &Path) -> Result<Option<Vec<u8>>, String> {
    let found = match file.metadata() {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(None),
        Err(error) => return Err(format!("kernel.json cannot be read: {error}")),
    };
    if !found.is_file() {
        return Err("kernel.json is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(MAX_JSON_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("kernel.json cannot be read: {error}"))?;
    if bytes.len() as u64 > MAX_JSON_BYTES {
        return Err(format!("kernel.json has more than {MAX_JSON_BYTES} bytes"));
    }
    Ok(Some(bytes))
}

/// The first problem; later ones often follow from it.
struct Problem(Option<String>);

impl Problem {
    fn note(&mut self, problem: String) {
        self.0.get_or_insert(problem);
    }
}

fn parse(text: &[u8], problem: &mut Problem) -> KernelJson {
    let mut fields = match serde_json::from_slice(text) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) => {
            problem.note("kernel.json is not a JSON object".to_owned());
            return KernelJson::default();
        }
        Err(error) => {
            problem.note(format!("kernel.json is not valid JSON: {error}"));
            return KernelJson::default();
        }
    };
    let mut spec = KernelJson {
        argv: strings(&mut fields, problem),
        display_name: string(&mut fields, "display_name", problem),
        language: string(&mut fields, "language", problem),
        interrupt_mode: InterruptMode::default(),
        env: environment(&mut fields, problem),
        metadata: object(&mut fields, "metadata", problem),
        other: Map::new(),
    };
    match string(&mut fields, "interrupt_mode", problem).as_str() {
        "" | "signal" => {}
        "message" => spec.interrupt_mode = InterruptMode::Message,
        other => problem.note(format!("interrupt_mode {other:?} is neither signal nor message")),
    }
    spec.other = fields;
    spec
}

fn string(fields: &mut Map<String, Value>, name: &str, problem: &mut Problem) -> String {
    match fields.remove(name) {
        Some(Value::String(text)) => text,
        None | Some(Value::Null) => String::new(),
        Some(_) => {
            problem.note(format!("{name} is not a string"));
            String::new()
        }
    }
}

fn object(fields: &mut Map<String, Value>, name: &str, problem: &mut Problem) -> Map<String, Value> {
    match fields.remove(name) {
        Some(Value::Object(map)) => map,
        None | Some(Value::Null) => Map::new(),
        Some(_) => {
            problem.note(format!("{name} is not an object"));
            Map::new()
        }
    }
}

fn strings(fields: &mut Map<String, Value>, problem: &mut Problem) -> Vec<String> {
    let Some(value) = fields.remove("argv") else {
        return Vec::new();
    };
    let words = value.as_array().and_then(|words| {
        words
            .iter()
            .map(|word| word.as_str().map(str::to_owned))
            .collect::<Option<Vec<_>>>()
    });
    words.unwrap_or_else(|| {
        problem.note("argv is not an array of strings".to_owned());
        Vec::new()
    })
}

fn environment(fields: &mut Map<String, Value>, problem: &mut Problem) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    for (name, value) in object(fields, "env", problem) {
        match value {
            Value::String(value) if super::environment::is_name(&name) && !value.contains('\0') => {
                env.insert(name, value);
            }
            Value::String(_) => problem.note(format!("env: {name:?} cannot be a variable")),
            _ => problem.note(format!("env: {name} is not a string")),
        }
    }
    env
}
