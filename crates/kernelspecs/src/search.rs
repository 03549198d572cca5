//! One search of all directories.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use himalia_model::{KernelSpec, KernelSpecs};

use super::conda::Environment;
use super::host::HostEnvironment;
use super::{conda, paths, read};

/// Kernelspecs that are listed.
const MAX_SPECS: usize = 500;
/// Entries of one directory that are looked at.
const MAX_ENTRIES: usize = 1000;

/// Directories to search, and specs to show.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search {
    /// Directories with kernelspecs, before all others.
    pub(crate) first: Vec<PathBuf>,
    /// Also the Jupyter path and conda environments.
    pub(crate) everywhere: bool,
    /// Names to show; empty is all.
    pub(crate) allowed: Vec<String>,
    pub(crate) default: String,
    /// Home directory and environments.
    pub(crate) host: HostEnvironment,
}

impl Search {
    /// Looks everywhere. Blocks on the disk; never fails: what cannot be read is not there or has a problem.
    pub(super) fn run(&self) -> KernelSpecs {
        let path = self.host.essentials().remove("PATH").unwrap_or_default();
        let mut found = FoundSpec {
            specs: BTreeMap::new(),
            path,
        };
        for dir in &self.first {
            found.directory(dir);
        }
        if self.everywhere {
            for dir in paths::jupyter_path(&self.host) {
                found.directory(&dir);
            }
            for environment in conda::environments(&self.host) {
                found.environment(&environment);
            }
        }
        let mut specs = found.specs;
        if !self.allowed.is_empty() {
            specs.retain(|name, _| {
                self.allowed
                    .iter()
                    .any(|allowed| allowed.eq_ignore_ascii_case(name))
            });
        }
        KernelSpecs {
            default: self.choose_default(&specs),
            specs,
        }
    }

    /// The configured one; where that is missing one that works, Python first, else any.
    fn choose_default(&self, specs: &BTreeMap<String, KernelSpec>) -> String {
        let wanted = self.default.to_ascii_lowercase();
        if specs.contains_key(&wanted) || specs.is_empty() {
            return wanted;
        }
        let works = || specs.values().filter(|spec| spec.problem.is_none());
        let python = works().find(|spec| spec.spec.language.eq_ignore_ascii_case("python"));
        let spec = python
            .or_else(|| works().next())
            .or_else(|| specs.values().next());
        spec.map_or(wanted, |spec| spec.name.clone())
    }
}

struct FoundSpec {
    specs: BTreeMap<String, KernelSpec>,
    path: String,
}

impl FoundSpec {
    fn directory(&mut self, dir: &Path) {
        for (name, path) in entries(dir) {
            self.add(name, &path, |_| {});
        }
    }

    fn environment(&mut self, environment: &Environment) {
        for (name, path) in entries(&environment.kernels()) {
            let listed = environment.spec_name(&name);
            let taken = self.specs.contains_key(&listed);
            let listed = if taken {
                environment.second_spec_name(&name)
            } else {
                listed
            };
            self.add(listed, &path, |spec| environment.apply(spec));
        }
    }

    fn add(&mut self, name: String, dir: &Path, change: impl FnOnce(&mut KernelSpec)) {
        if self.specs.len() >= MAX_SPECS || self.specs.contains_key(&name) {
            return;
        }
        if let Some(mut spec) = read::read(&name, dir, &self.path) {
            change(&mut spec);
            self.specs.insert(name, spec);
        }
    }
}

/// The subdirectories whose names are those of kernelspecs, in lower case, sorted.
fn entries(dir: &Path) -> BTreeMap<String, PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().take(MAX_ENTRIES);
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let named = paths.filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        is_name(&name).then_some((name, path))
    });
    let mut found = BTreeMap::new();
    for (name, path) in named {
        // Two that differ in case only: the first in byte order, whatever the directory's order.
        let kept = found.entry(name).or_insert_with(|| path.clone());
        if path < *kept {
            *kept = path;
        }
    }
    found
}

/// `jupyter_client.kernelspec._is_valid_kernel_name`, bounded.
pub(super) fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    !name.is_empty() && name.len() <= 128 && name != "." && name != ".." && name.bytes().all(allowed)
}
