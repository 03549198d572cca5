//! Skills: named, versioned and typed pieces of instructions or code that agents share. Pure: nothing in here waits, or knows how a skill is
//! stored or run.
//!
//! ```text
//! a manifest   Manifest (manifest.rs): name, version, schemas, what it needs, tests; check.rs: whether it is valid
//! a skill      Skill (skill.rs): a valid manifest and its files, with the address of its content (digest.rs)
//! a folder     Skill::from_folder (folder.rs): skill.json and its files, or the SKILL.md format of agents
//! a run        run.rs, run.py: the code that a kernel runs, and its outputs against the schema
//! a draft      draft.rs: cells of a session as a function
//! ```

mod check;
mod digest;
mod draft;
mod folder;
mod indent;
mod manifest;
mod run;
mod skill;

pub use check::{Invalid, check_name};
pub use digest::address;
pub use draft::{Draft, draft};
pub use folder::{MANIFEST_FILE, SKILL_FILE};
pub use himalia_tools::Violation;
pub use manifest::{Kind, Manifest, TestCase, release_order};
pub use run::{MAX_INPUT_BYTES, MAX_OUTPUT_BYTES, OUTPUT_TYPE, code, outputs};
pub use semver::{Version, VersionReq};
pub use skill::{Files, MAIN_FILE, MAX_FILES, MAX_SKILL_BYTES, Skill};
