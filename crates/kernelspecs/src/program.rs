//! Finds the program that a kernelspec's first word means.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::host::PLAIN_PATH;

/// First word of every problem with a program.
pub(super) const PROBLEM_BEGINS: &str = "argv[0]";

/// The file that `word` (argv[0]) starts.
///
/// A path is taken as it is. A bare `python…` of a kernelspec that lies below a prefix is that prefix's
/// interpreter: ipykernel's own kernelspec says only `python`, which Jupyter takes for the interpreter
/// that Jupyter itself runs in. Any other bare word is looked up on `path`: that of the kernelspec, the template or the
/// host, never that of a request.
pub(super) fn resolve(word: &str, prefix: Option<&Path>, path: &str) -> Result<PathBuf, String> {
    if word.contains('/') {
        let file = Path::new(word);
        if !file.is_absolute() {
            return Err(format!("argv[0] {word:?} is a relative path"));
        }
        return check(file).map(|()| file.to_owned());
    }
    if let Some(prefix) = prefix.filter(|_| is_python(word)) {
        let own = prefix.join("bin").join(word);
        if check(&own).is_ok() {
            return Ok(own);
        }
    }
    std::env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(word))
        .find(|file| check(file).is_ok())
        .ok_or_else(|| format!("argv[0] {word:?} is not on PATH"))
}

/// Puts the directory of a kernel's program first on `PATH`, so that commands find what is installed with it: the other programs of
/// its environment. A directory of the system keeps its place.
pub(super) fn find_first(dir: &str, env: &mut BTreeMap<String, String>) {
    let path = env.entry("PATH".to_owned()).or_default();
    if PLAIN_PATH.split(':').any(|system| system == dir) || path.split(':').next() == Some(dir) {
        return;
    }
    *path = format!("{dir}:{path}");
}

fn is_python(word: &str) -> bool {
    word.strip_prefix("python")
        .is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

fn check(file: &Path) -> Result<(), String> {
    let name = file.display();
    match file.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(format!("argv[0] {name} not found"))
        }
        Err(error) => Err(format!("argv[0] {name}: {error}")),
        Ok(meta) if !meta.is_file() => Err(format!("argv[0] {name} is not a file")),
        Ok(_) => accessat(CWD, file, Access::EXEC_OK, AtFlags::EACCESS)
            .map_err(|_| format!("argv[0] {name} is not executable")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_programs_of_an_environment_come_before_others() {
        let path = |dir: &str, before: &str| {
            let mut env = BTreeMap::from([("PATH".to_owned(), before.to_owned())]);
            find_first(dir, &mut env);
            env.remove("PATH").unwrap()
        };
        assert_eq!(path("/env/bin", "/usr/bin:/bin"), "/env/bin:/usr/bin:/bin");
        assert_eq!(path("/env/bin", "/a:/env/bin"), "/env/bin:/a:/env/bin");
        assert_eq!(path("/env/bin", "/env/bin:/bin"), "/env/bin:/bin");
        assert_eq!(path("/bin", "/own:/usr/bin"), "/own:/usr/bin");
    }

    #[test]
    fn the_prefix_comes_before_the_path_for_python_alone() {
        let dir = tempfile::tempdir().unwrap();
        for place in [
            "env/bin/python",
            "env/bin/tool",
            "path/python",
            "path/python3.12",
            "path/tool",
        ] {
            let file = dir.path().join(place);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let prefix = dir.path().join("env");
        let path = dir.path().join("path").display().to_string();
        let resolve = |word: &str| {
            let file = resolve(word, Some(&prefix), &path)?;
            Ok::<_, String>(file.strip_prefix(dir.path()).unwrap().display().to_string())
        };
        assert_eq!(resolve("python").unwrap(), "env/bin/python");
        assert_eq!(resolve("python3.12").unwrap(), "path/python3.12");
        assert_eq!(resolve("tool").unwrap(), "path/tool");
        assert_eq!(
            resolve("nothing").unwrap_err(),
            "argv[0] \"nothing\" is not on PATH"
        );
        assert!(resolve("bin/tool").unwrap_err().contains("relative"));
        assert!(resolve("/nonexistent/python").unwrap_err().ends_with("not found"));
        assert!(resolve("/tmp").unwrap_err().ends_with("not a file"));
        fs::set_permissions(dir.path().join("path/tool"), fs::Permissions::from_mode(0o644)).unwrap();
        let exact = dir.path().join("path/tool").display().to_string();
        assert!(
            super::resolve(&exact, None, "")
                .unwrap_err()
                .ends_with("not executable")
        );
    }
}
