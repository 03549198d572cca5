//! A skill as a folder: a manifest with files beside it, or the `SKILL.md` format of agents.
//!
//! `SKILL.md` begins with YAML between two lines `---`. Its `name` and `description` are read, and `version`, also below `metadata`. What else
//! is there stays in the file.

use semver::Version;
use serde::Deserialize;
use serde_json::Value;

use crate::check::Invalid;
use crate::manifest::{Kind, Manifest};
use crate::skill::{Files, Skill};

pub const MANIFEST_FILE: &str = "skill.json";
/// The file with instructions.
pub const SKILL_FILE: &str = "SKILL.md";
/// The version of instructions that say none.
const FIRST: Version = Version::new(1, 0, 0);
/// Bytes of front matter.
const MAX_FRONT: usize = 16 << 10;

impl Skill {
    /// From the files of a folder: with a `skill.json`, or with a `SKILL.md` alone.
    ///
    /// # Errors
    /// The first thing that is wrong, with the field.
    pub fn from_folder(mut files: Files) -> Result<Self, Invalid> {
        let manifest = match files.remove(MANIFEST_FILE) {
            Some(json) => serde_json::from_slice(&json)
                .map_err(|error| Invalid::new("manifest", format!("{MANIFEST_FILE}: {error}")))?,
            None => of_instructions(&files)?,
        };
        Self::new(manifest, files)
    }
}

#[derive(Debug, Deserialize)]
struct Front {
    name: Option<String>,
    description: Option<String>,
    version: Option<Value>,
    #[serde(default)]
    metadata: Option<Value>,
}

fn of_instructions(files: &Files) -> Result<Manifest, Invalid> {
    let missing = || {
        Invalid::new(
            "files",
            format!("neither {MANIFEST_FILE} nor {SKILL_FILE} is there"),
        )
    };
    let text = files.get(SKILL_FILE).ok_or_else(missing)?;
    let text =
        std::str::from_utf8(text).map_err(|_| Invalid::new("files", format!("{SKILL_FILE} is not UTF-8")))?;
    let front: Front = serde_saphyr::from_str(front(text)?).map_err(|error| {
        let error = error.to_string();
        let line = error.lines().next().unwrap_or_default();
        Invalid::new("manifest", format!("the front matter of {SKILL_FILE}: {line}"))
    })?;
    let of_metadata = || {
        front
            .metadata
            .as_ref()
            .and_then(|all| all.get("version"))
            .cloned()
    };
    let version = match front.version.clone().or_else(of_metadata) {
        None => FIRST,
        Some(Value::String(text)) => version(&text)?,
        Some(other) => version(&other.to_string())?,
    };
    let given = |field, text: Option<String>| {
        text.ok_or_else(|| Invalid::new(field, format!("is missing in the front matter of {SKILL_FILE}")))
    };
    Ok(Manifest {
        name: given("name", front.name)?,
        version,
        kind: Kind::Instructions,
        description: given("description", front.description)?.trim().to_owned(),
        inputs: None,
        outputs: None,
        template: None,
        environment: None,
        network: himalia_model::network::AllowList::default(),
        tools: Vec::new(),
        models: Vec::new(),
        skills: std::collections::BTreeMap::new(),
        timeout_s: None,
        tests: Vec::new(),
    })
}

/// `1` and `1.2` are what many write; they are read as `1.0.0` and `1.2.0`.
fn version(text: &str) -> Result<Version, Invalid> {
    let dots = text.matches('.').count();
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let full = match dots {
        0 if plain => format!("{text}.0.0"),
        1 if plain => format!("{text}.0"),
        _ => text.to_owned(),
    };
    Version::parse(&full).map_err(|error| Invalid::new("version", error.to_string()))
}

/// The YAML between the first line, `---`, and the next one.
fn front(text: &str) -> Result<&str, Invalid> {
    let bad = |reason: &str| Invalid::new("manifest", format!("{SKILL_FILE} {reason}"));
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    if first.trim_end() != "---" {
        return Err(bad("does not begin with front matter: a line ---"));
    }
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Ok(&rest[..end]);
        }
        end += line.len();
        if end > MAX_FRONT {
            break;
        }
    }
    Err(bad(
        "has front matter without an end: a second line --- within 16 KiB",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> Result<Skill, String> {
        let file = |(path, text): &(&str, &str)| ((*path).to_owned(), text.as_bytes().to_vec());
        Skill::from_folder(files.iter().map(file).collect()).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn a_folder_of_an_agent_is_instructions() {
        let text = "---\nname: pdf-forms\ndescription: >\n  Fill PDF forms.\n  Use for forms.\nlicense: MIT\n\
                    metadata:\n  version: \"1.2\"\n  author: x\nallowed-tools: [Read]\n---\n# Forms\n---\n";
        let skill = folder(&[("SKILL.md", text), ("scripts/fill.py", "print(1)")]).unwrap();
        let manifest = skill.manifest();
        assert_eq!(
            (manifest.name.as_str(), manifest.kind),
            ("pdf-forms", Kind::Instructions)
        );
        assert_eq!(manifest.version, Version::new(1, 2, 0));
        assert_eq!(manifest.description, "Fill PDF forms. Use for forms.");
        assert_eq!(skill.files().len(), 2);
        let plain = folder(&[("SKILL.md", "---\r\nname: a\r\ndescription: b\r\n---\r\ntext")]).unwrap();
        assert_eq!(plain.manifest().version, FIRST);
    }

    #[test]
    fn what_is_wrong_with_a_folder_is_named() {
        for (files, wanted) in [
            (vec![], "files: neither skill.json nor SKILL.md is there"),
            (
                vec![("SKILL.md", "# x")],
                "manifest: SKILL.md does not begin with front matter: a line ---",
            ),
            (
                vec![("SKILL.md", "---\nname: a\n")],
                "manifest: SKILL.md has front matter without an end",
            ),
            (
                vec![("SKILL.md", "---\nname: a\n---\n")],
                "description: is missing in the front matter of SKILL.md",
            ),
            (
                vec![("SKILL.md", "---\nname: A B\ndescription: x\n---\n")],
                "name: must be 1 to 64",
            ),
            (
                vec![("SKILL.md", "---\nname: [\n---\n")],
                "manifest: the front matter of SKILL.md: ",
            ),
            (
                vec![("SKILL.md", "---\nname: a\ndescription: x\nversion: one\n---\n")],
                "version: unexpected character",
            ),
            (vec![("skill.json", "{\"name\": 1}")], "manifest: skill.json: "),
        ] {
            let wrong = folder(&files).unwrap_err();
            assert!(wrong.starts_with(wanted), "{wrong}\nwanted {wanted}");
        }
    }
}
