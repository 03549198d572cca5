//! Conda environments that have kernels of their own.

use std::collections::BTreeSet;
use std::fs;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use himalia_model::KernelSpec;

use super::host::HostEnvironment;

/// Environments that are looked at.
const MAX_ENVIRONMENTS: usize = 200;
/// Bytes of `environments.txt` that are read.
const MAX_LIST_BYTES: u64 = 1 << 20;

/// An environment with a `python` and a name.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Environment {
    pub(super) prefix: PathBuf,
    /// As people call it: the directory's name, `base` for the root.
    pub(super) name: String,
}

impl Environment {
    pub(super) fn kernels(&self) -> PathBuf {
        self.prefix.join("share/jupyter/kernels")
    }

    /// The name of one of its kernelspecs in our list.
    pub(super) fn spec_name(&self, spec: &str) -> String {
        format!("conda-env-{}-{spec}", plain(&self.name))
    }

    /// The same where that name is taken: a mark of the environment's place, which stays the same.
    pub(super) fn second_spec_name(&self, spec: &str) -> String {
        format!(
            "conda-env-{}-{:08x}-{spec}",
            plain(&self.name),
            fnv1a(self.prefix.as_os_str().as_encoded_bytes())
        )
    }

    /// Applies the changes of an activation to a kernel, and a title with the name of the environment.
    pub(super) fn apply(&self, spec: &mut KernelSpec) {
        spec.spec.display_name = format!("{} [conda env:{}]", spec.spec.display_name, self.name);
        let prefix = self.prefix.to_string_lossy();
        let variables = [
            ("CONDA_PREFIX", prefix.clone().into_owned()),
            ("CONDA_DEFAULT_ENV", self.name.clone()),
            ("PATH", format!("{prefix}/bin:${{PATH}}")),
        ];
        for (name, value) in variables {
            spec.spec.env.entry(name.to_owned()).or_insert(value);
        }
    }
}

/// The environments that conda knows of: the active one, the root, its `envs`, and `~/.conda/environments.txt`.
pub(super) fn environments(host: &HostEnvironment) -> Vec<Environment> {
    let root = root(host);
    let mut prefixes: Vec<PathBuf> = host.path("CONDA_PREFIX").into_iter().collect();
    prefixes.extend(root.clone());
    prefixes.extend(root.iter().flat_map(|root| children(&root.join("envs"))));
    prefixes.extend(
        host.home()
            .into_iter()
            .flat_map(|home| listed(&home.join(".conda/environments.txt"))),
    );
    let mut seen = BTreeSet::new();
    prefixes
        .into_iter()
        .filter(|prefix| prefix.is_absolute())
        .filter_map(|prefix| prefix.canonicalize().ok())
        .filter(|prefix| seen.insert(prefix.clone()))
        .take(MAX_ENVIRONMENTS)
        .filter(|prefix| prefix.join("bin/python").exists() && prefix.join("share/jupyter/kernels").is_dir())
        .filter_map(|prefix| {
            let name = if is_root(&prefix) {
                "base"
            } else {
                prefix.file_name()?.to_str()?
            }
            .to_owned();
            Some(Environment { prefix, name })
        })
        .collect()
}

/// The installation: `$CONDA_ROOT`, `$MAMBA_ROOT_PREFIX`, or where `$CONDA_EXE` (`<root>/bin/conda`) lies.
fn root(host: &HostEnvironment) -> Option<PathBuf> {
    host.path("CONDA_ROOT")
        .or_else(|| host.path("MAMBA_ROOT_PREFIX"))
        .or_else(|| {
            let program = host.path("CONDA_EXE")?;
            Some(program.parent()?.parent()?.to_owned())
        })
}

/// Only an installation has `condabin`.
fn is_root(prefix: &Path) -> bool {
    prefix.join("condabin").is_dir()
}

fn children(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().take(MAX_ENVIRONMENTS);
    let mut found: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.sort();
    found
}

fn listed(file: &Path) -> Vec<PathBuf> {
    let mut text = String::new();
    let read = File::open(file).and_then(|file| file.take(MAX_LIST_BYTES).read_to_string(&mut text));
    if read.is_err() {
        return Vec::new();
    }
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(PathBuf::from)
        .collect()
}

/// The name with everything that a kernelspec's name cannot have made a dash.
fn plain(name: &str) -> String {
    let keep = |c: char| {
        if c.is_ascii_alphanumeric() || "._-".contains(c) {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    name.chars().map(keep).collect()
}

/// FNV-1a: short, and the same in every run.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}
