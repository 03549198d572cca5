use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use himalia_model::{EngineError, InterruptMode, KernelSpec, KernelSpecs};
use tempfile::TempDir;

use super::search::Search;
use super::{Catalog, HostEnvironment, LaunchRequest, launch};

mod finding;
mod starting;

const GOOD: &str =
    r#"{"argv": ["/bin/sh", "-f", "{connection_file}"], "display_name": "A", "language": "sh"}"#;

/// A host's files below one directory.
struct TestFiles {
    dir: TempDir,
}

impl TestFiles {
    fn new() -> Self {
        Self {
            dir: TempDir::new().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn file(&self, name: &str, text: &str) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn program(&self, name: &str) -> &Self {
        self.file(name, "");
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn search(&self, first: &[&str], host: HostEnvironment) -> Search {
        let first = first.iter().map(|name| self.path(name)).collect();
        Search {
            first,
            everywhere: true,
            default: "python3".into(),
            host,
            ..Search::default()
        }
    }
}

fn names(specs: &KernelSpecs) -> Vec<&str> {
    specs.specs.keys().map(String::as_str).collect()
}

fn spec(json: &str) -> KernelSpec {
    let place = TestFiles::new();
    place.file("k/kernel.json", json);
    super::read::read("k", &place.path("k"), "/usr/bin:/bin").unwrap()
}
