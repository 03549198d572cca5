//! `himalia skill`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::gateway::GatewayArgs;
use crate::values::Seconds;

pub const EXAMPLES: &str = "\
Examples:
  himalia skill new reconcile         a folder with a manifest, code and a test, to be edited
  himalia skill test reconcile        run its tests in a session
  himalia skill publish reconcile     add this version to those of the gateway
  himalia skill run reconcile --input month=2026-10
  himalia skill publish ./pdf-forms   a folder with a SKILL.md of an agent

A version never changes: publish a change as another version.";

/// Kind of a new skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NewKind {
    /// A function in Python
    Code,
    /// Text for a model
    Instructions,
}

#[derive(Debug, Subcommand)]
pub enum SkillCommand {
    /// Make a folder of a new skill
    New {
        /// Lower-case letters, digits and hyphens
        name: String,
        /// The folder [default: one of the name of the skill, in this directory]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        /// Kind of the skill
        #[arg(long, value_name = "KIND", default_value = "code")]
        kind: NewKind,
    },
    /// Check a folder and run the tests of its manifest in a session. The exit code is 1 if a test fails
    Test {
        /// The folder of the skill
        folder: PathBuf,
        /// Template of the session [default: that of the skill, or the gateway's default kernelspec]
        #[arg(long, value_name = "NAME")]
        template: Option<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Publish the folder of a skill. The same content again changes nothing
    Publish {
        /// The folder of the skill
        folder: PathBuf,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// List skills
    #[command(name = "ls")]
    List {
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Show a skill: its manifest and its text
    Show {
        /// Name of the skill
        name: String,
        /// Version of the skill [default: the latest]
        #[arg(long, value_name = "VERSION")]
        version: Option<String>,
        /// Write its folder to this directory, which must not exist
        #[arg(long, short, value_name = "DIR")]
        output: Option<PathBuf>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Run a skill in a session of its own, and print its outputs as JSON
    Run(Box<SkillRunArgs>),
    /// Delete a version of a skill, or all versions
    #[command(name = "rm")]
    Remove {
        /// Name of the skill
        name: String,
        /// Version of the skill [default: all versions]
        #[arg(long, value_name = "VERSION")]
        version: Option<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}

/// A run of a skill.
#[derive(Debug, Args)]
pub struct SkillRunArgs {
    /// Name of the skill
    pub(crate) name: String,
    /// Version of the skill [default: the latest]
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// An argument; a value that is not JSON is text; may be repeated
    #[arg(long = "input", value_name = "NAME=VALUE")]
    pub(crate) inputs: Vec<String>,
    /// Template of the session [default: that of the skill, or the gateway's default kernelspec]
    #[arg(long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// The time that it may take, if that is less than the skill says
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<Seconds>,
    /// URL to which the result is posted
    #[arg(long, value_name = "URL")]
    pub(crate) callback: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}
