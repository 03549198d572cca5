//! The folder of a skill on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use himalia_skills::{Files, MANIFEST_FILE, MAX_FILES, MAX_SKILL_BYTES, SKILL_FILE, Skill};
use serde_json::{Value, json};

use crate::skills::NewKind;

const MAIN: &str = "\
def main(name):
    return {\"greeting\": f\"Hello, {name}\"}
";

/// Makes a folder that is a valid skill.
pub(super) fn new(name: &str, dir: Option<PathBuf>, kind: NewKind) -> anyhow::Result<ExitCode> {
    let dir = dir.unwrap_or_else(|| name.into());
    let files = match kind {
        NewKind::Code => {
            let manifest = json!({
                "name": name,
                "version": "0.1.0",
                "kind": "code",
                "description": "What it does, and when to use it.",
                "inputs": {
                    "type": "object",
                    "properties": { "name": { "type": "string" } },
                    "required": ["name"],
                    "additionalProperties": false,
                },
                "outputs": {
                    "type": "object",
                    "properties": { "greeting": { "type": "string" } },
                    "required": ["greeting"],
                },
                "tests": [{ "name": "a name", "inputs": { "name": "Ada" }, "outputs": { "greeting": "Hello, Ada" } }],
            });
            vec![
                (MANIFEST_FILE, format!("{manifest:#}\n")),
                ("main.py", MAIN.to_owned()),
            ]
        }
        NewKind::Instructions => {
            let text = format!(
                "---\nname: {name}\ndescription: What it does, and when to use it.\nversion: 0.1.0\n---\n\n# {name}\n"
            );
            vec![(SKILL_FILE, text)]
        }
    };
    let content = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), text.clone().into_bytes()));
    Skill::from_folder(content.collect())?;
    fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for (path, text) in files {
        fs::write(dir.join(path), text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads one, without what begins with a dot and `__pycache__`.
pub(super) fn read(dir: &Path) -> anyhow::Result<Skill> {
    let mut files = Files::new();
    collect(dir, "", &mut files, &mut 0)?;
    Skill::from_folder(files).with_context(|| format!("{} is not a skill", dir.display()))
}

fn collect(dir: &Path, below: &str, files: &mut Files, bytes: &mut u64) -> anyhow::Result<()> {
    let shown = || format!("cannot read {}", dir.display());
    for entry in fs::read_dir(dir).with_context(shown)? {
        let entry = entry.with_context(shown)?;
        let name = entry.file_name();
        let name = name
            .to_str()
            .with_context(|| format!("{}: its name is not UTF-8", entry.path().display()))?;
        if name.starts_with('.') || name == "__pycache__" {
            continue;
        }
        let path = format!("{below}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), &format!("{path}/"), files, bytes)?;
            continue;
        }
        ensure!(kind.is_file(), "{} is not a file", entry.path().display());
        *bytes += entry.metadata()?.len();
        // The manifest is no file of the skill.
        if files.len() > MAX_FILES || *bytes > 2 * MAX_SKILL_BYTES as u64 {
            bail!("{} is larger than a skill may be", dir.display());
        }
        files.insert(path, fs::read(entry.path())?);
    }
    Ok(())
}

/// Writes one that the gateway shows.
pub(super) fn write(dir: &Path, shown: &Value) -> anyhow::Result<ExitCode> {
    let mut files = Files::new();
    for (path, file) in shown["files"].as_object().into_iter().flatten() {
        let content = match (file["text"].as_str(), file["base64"].as_str()) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some(text)) => STANDARD.decode(text).context("the response is damaged")?,
            (None, None) => bail!("the response is damaged"),
        };
        files.insert(path.clone(), content);
    }
    let manifest = serde_json::from_value(shown["manifest"].clone()).context("the response is damaged")?;
    // Paths are checked: none leads out of the directory.
    let skill = Skill::new(manifest, files).context("the response is not a skill")?;
    fs::create_dir(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for (path, content) in skill.files() {
        let path = dir.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, content)?;
    }
    fs::write(dir.join(MANIFEST_FILE), format!("{:#}\n", shown["manifest"]))?;
    Ok(ExitCode::SUCCESS)
}

/// The content of a file in a request.
pub(super) fn as_json(content: &[u8]) -> Value {
    match std::str::from_utf8(content) {
        Ok(text) => json!({ "text": text }),
        Err(_) => json!({ "base64": STANDARD.encode(content) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_folder_is_a_skill_and_comes_back_as_it_was() {
        let place = tempfile::tempdir().unwrap();
        for (name, kind) in [("code-a", NewKind::Code), ("text-a", NewKind::Instructions)] {
            let dir = place.path().join(name);
            new(name, Some(dir.clone()), kind).unwrap();
            assert!(new(name, Some(dir.clone()), kind).is_err(), "it is there already");
            fs::create_dir(dir.join("__pycache__")).unwrap();
            fs::write(dir.join("__pycache__/x"), "x").unwrap();
            fs::create_dir(dir.join("data")).unwrap();
            fs::write(dir.join("data/x"), b"\xff").unwrap();
            let skill = read(&dir).unwrap();
            assert_eq!(skill.manifest().name, name);
            let shown = super::super::body(&skill);
            let copy = place.path().join(format!("{name}-copy"));
            write(&copy, &shown).unwrap();
            assert_eq!(read(&copy).unwrap(), skill);
        }
        assert!(new("A b", Some(place.path().join("x")), NewKind::Code).is_err());
        assert!(!place.path().join("x").exists());
    }
}
