//! What a Python interpreter needs of the host's files.

use std::fs;
use std::path::{Path, PathBuf};

/// Directories that must be bound so that this interpreter runs with its libraries: the environment that it is in, and
/// the installation that this environment stands on, which may lie elsewhere (below somebody's home, say).
///
/// `python` is absolute. The environment is found by its layout (`<prefix>/bin/python`), the installation by the link
/// that the interpreter is. The result may hold system directories such as `/usr`; binding them again does nothing.
pub fn interpreter_binds(python: &Path) -> Vec<PathBuf> {
    let prefix = |path: &Path| path.parent().and_then(Path::parent).map(Path::to_owned);
    // A link to a link: an environment can be made from another environment.
    let mut found: Vec<PathBuf> = prefix(python).into_iter().collect();
    if let Ok(resolved) = fs::canonicalize(python) {
        found.extend(prefix(&resolved));
    }
    if let Some(home) = prefix(python).and_then(|prefix| home_of_environment(&prefix)) {
        found.push(home);
    }
    found.retain(|path| path.parent().is_some());
    found.sort_unstable();
    found.dedup();
    found
}

/// The prefix of the installation that an environment names in `pyvenv.cfg`.
fn home_of_environment(prefix: &Path) -> Option<PathBuf> {
    let config = fs::read_to_string(prefix.join("pyvenv.cfg")).ok()?;
    let home = config.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "home").then(|| PathBuf::from(value.trim()))
    })?;
    home.is_absolute().then(|| home.parent().map(Path::to_owned))?
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_environment_and_what_it_stands_on() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        let path = |name: &str| base.join(name);
        for name in ["install/bin", "env/bin"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        fs::write(path("install/bin/python3.11"), "").unwrap();
        symlink(path("install/bin/python3.11"), path("env/bin/python")).unwrap();
        assert_eq!(
            interpreter_binds(&path("env/bin/python")),
            [path("env"), path("install")]
        );
        let config = format!("home = {}\nversion = 3\n", path("other/bin").display());
        fs::write(path("env/pyvenv.cfg"), config).unwrap();
        assert_eq!(
            interpreter_binds(&path("env/bin/python")),
            [path("env"), path("install"), path("other")]
        );
        assert_eq!(interpreter_binds(Path::new("/python")), [] as [PathBuf; 0]);
    }
}
