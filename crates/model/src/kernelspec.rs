//! Kernelspecs as commands show them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// All kernelspecs that can be used, by name.
#[derive(Clone, Debug, Default)]
pub struct KernelSpecs {
    /// The one that is used when none is named; it is in `specs` unless `specs` is empty.
    pub default: String,
    /// By name.
    pub specs: BTreeMap<String, KernelSpec>,
}

/// One kernelspec.
#[derive(Clone, Debug)]
pub struct KernelSpec {
    /// Name of its directory; matches `[\w.\-%]+`.
    pub name: String,
    /// Content of `kernel.json`.
    pub spec: KernelJson,
    /// Key (`logo-64x64`, `kernel.js`) → file name within `dir`.
    pub resources: BTreeMap<String, String>,
    /// Directory on the host; only the engine uses it.
    pub dir: PathBuf,
    /// One line if it is known that it cannot be started.
    pub problem: Option<String>,
}

/// The contents of a `kernel.json`. Unknown keys are kept in `other`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelJson {
    /// Command line; `{connection_file}` and `{resource_dir}` are replaced.
    #[serde(default)]
    pub argv: Vec<String>,
    /// For people.
    #[serde(default)]
    pub display_name: String,
    /// Language name, `python`.
    #[serde(default)]
    pub language: String,
    /// Method to interrupt the kernel.
    #[serde(default)]
    pub interrupt_mode: InterruptMode,
    /// Variables; values may use `${NAME}`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Free; the engine reads `cull_idle_timeout` and `himalia`.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Additional members (`kernel_protocol_version` …), unchanged.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Method to interrupt a kernel (`interrupt_mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InterruptMode {
    /// SIGINT to its process group.
    #[default]
    Signal,
    /// `interrupt_request` on the control channel.
    Message,
}

/// A file of a kernelspec's directory.
#[derive(Clone, Debug)]
pub struct SpecFile {
    /// File name within the directory.
    pub name: String,
    /// At most 8 MiB.
    pub bytes: Bytes,
}
