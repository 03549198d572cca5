//! A skill: a manifest and files that are valid together.

use std::collections::BTreeMap;

use himalia_tools::Violation;
use serde_json::{Map, Value};

use crate::check::{self, Invalid};
use crate::digest;
use crate::manifest::{Kind, Manifest};

pub const MAX_FILES: usize = 64;
/// Bytes of all files of a skill.
pub const MAX_SKILL_BYTES: usize = 384 << 10;
/// The file of a code skill that defines `main`.
pub const MAIN_FILE: &str = "main.py";

/// Contents of files by their relative paths.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A valid skill. It never changes: a change is another version.
#[derive(Clone, Debug, PartialEq)]
pub struct Skill {
    manifest: Manifest,
    files: Files,
    digest: String,
}

impl Skill {
    /// A skill of this manifest and these files.
    ///
    /// # Errors
    /// The first thing that is wrong, with the field.
    pub fn new(manifest: Manifest, files: Files) -> Result<Self, Invalid> {
        check::check(&manifest, &files)?;
        Ok(Self::stored(manifest, files))
    }

    /// A skill that was published, and checked then.
    pub fn stored(manifest: Manifest, files: Files) -> Self {
        let digest = digest::digest(&manifest, &files);
        Self {
            manifest,
            files,
            digest,
        }
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The address of its content: `sha256:` and 64 hexadecimal digits. Two skills with the same one are the same.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Bytes of its files.
    pub fn bytes(&self) -> usize {
        self.files.values().map(Vec::len).sum()
    }

    /// Checks the inputs of a run; an empty list: the run may start.
    ///
    /// # Errors
    /// The skill is not code, so it cannot run.
    pub fn check_inputs(&self, inputs: &Map<String, Value>) -> Result<Vec<Violation>, Invalid> {
        self.of_code()?;
        let schema = check::schema("inputs", self.manifest.inputs.as_ref())?;
        Ok(schema.violations(&Value::Object(inputs.clone())))
    }

    /// Checks the outputs of a run.
    ///
    /// # Errors
    /// The skill is not code.
    pub fn check_outputs(&self, outputs: &Value) -> Result<Vec<Violation>, Invalid> {
        self.of_code()?;
        Ok(check::schema("outputs", self.manifest.outputs.as_ref())?.violations(outputs))
    }

    pub(crate) fn of_code(&self) -> Result<(), Invalid> {
        match self.manifest.kind {
            Kind::Code => Ok(()),
            Kind::Instructions => Err(Invalid::new("kind", "instructions are read, they do not run")),
        }
    }
}
