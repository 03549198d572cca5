//! Host paths that a kernel needs in a root that is built for it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use himalia_model::{EngineError, KernelSpec};

/// The name of the environment among [`Binds::names`].
pub(crate) const ENV: &str = "env";
/// Directories that every built root has.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];
/// Links from a program to the file behind it.
const MAX_LINKS: usize = 16;
/// Paths that a kernelspec may add in `metadata.himalia.binds`.
const MAX_EXTRA: usize = 64;

/// Host paths of a built root, in addition to the system.
#[derive(Debug)]
pub(super) struct Binds {
    /// Paths, in order, none below another.
    pub(super) paths: Vec<PathBuf>,
    /// The environment as `env` and the interpreter's prefix as `python`, where they are among the paths.
    pub(super) names: BTreeMap<&'static str, PathBuf>,
}

/// The program with the prefix that it lies in and those behind its links, the kernelspec's directory, directories on
/// its own `PYTHONPATH`, and what it adds itself. Looks at the disk.
///
/// A home directory is never bound because a program lies in its `bin`.
///
/// # Errors
/// [`EngineError::KernelStart`] when the kernelspec adds what cannot be bound.
pub(super) fn binds(program: &Path, spec: &KernelSpec, home: Option<&Path>) -> Result<Binds, EngineError> {
    let mut found = Vec::new();
    for file in chain(program) {
        found.push(prefix(&file, home).unwrap_or(file));
    }
    // The interpreter of a virtual environment finds its library through this file.
    let bases: Vec<PathBuf> = found.iter().filter_map(|dir| base_of(dir)).collect();
    for base in bases {
        found.extend(prefix(&base, home));
    }
    found.retain(|path| !is_system(path));
    let names = names(&found);
    found.push(spec.dir.clone());
    let python_path = spec
        .spec
        .env
        .get("PYTHONPATH")
        .map(String::as_str)
        .unwrap_or_default();
    found.extend(std::env::split_paths(python_path).filter(|dir| dir.is_absolute() && dir.is_dir()));
    found.extend(extra(spec)?);
    let real: Vec<PathBuf> = found.iter().filter_map(|path| path.canonicalize().ok()).collect();
    found.extend(real);
    found.retain(|path| path.parent().is_some() && !is_system(path));
    found.sort();
    found.dedup();
    let all = found.clone();
    found.retain(|path| !all.iter().any(|other| other != path && path.starts_with(other)));
    Ok(Binds { paths: found, names })
}

/// True if every built root has the path.
fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// The first virtual environment and the first other prefix of a Python among these.
fn names(prefixes: &[PathBuf]) -> BTreeMap<&'static str, PathBuf> {
    let mut names = BTreeMap::new();
    for prefix in prefixes {
        if prefix.join("pyvenv.cfg").is_file() {
            names.entry(ENV).or_insert_with(|| prefix.clone());
        } else if prefix.join("bin/python3").exists() {
            names.entry("python").or_insert_with(|| prefix.clone());
        }
    }
    names
}

/// A program and the files that its links name, one after another.
fn chain(program: &Path) -> Vec<PathBuf> {
    let mut files = vec![program.to_owned()];
    let mut file = program.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = std::fs::read_link(&file) else {
            break;
        };
        let target = match file.parent() {
            Some(dir) => normal(&dir.join(target)),
            None => break,
        };
        files.push(target.clone());
        file = target;
    }
    files
}

/// Without `.` and `..`, by the text alone.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// The prefix that a program in a `bin` lies in, if that is one: with a `lib` beside it, and no home directory.
fn prefix(file: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let bin = file.parent().filter(|dir| dir.ends_with("bin"))?;
    let prefix = bin.parent().filter(|prefix| prefix.parent().is_some())?;
    let is_home = home.is_some_and(|home| home.starts_with(prefix) || prefix == home.join(".local"));
    let has_library = prefix.join("lib").is_dir() || prefix.join("lib64").is_dir();
    (has_library && !is_home).then(|| prefix.to_owned())
}

/// The program that a virtual environment was made from, by its `pyvenv.cfg`.
fn base_of(prefix: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(prefix.join("pyvenv.cfg")).ok()?;
    let value = |line: &str| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == "home").then(|| Path::new(value.trim()).join("python3"))
    };
    text.lines()
        .take(64)
        .find_map(value)
        .filter(|file| file.is_absolute())
}

/// `metadata.himalia.binds`: a list of absolute paths that exist.
fn extra(spec: &KernelSpec) -> Result<Vec<PathBuf>, EngineError> {
    let bad = |what: String| EngineError::KernelStart {
        cause: format!("kernelspec {}: metadata.himalia.binds: {what}", spec.name),
        stderr_tail: String::new(),
    };
    let Some(binds) = spec
        .spec
        .metadata
        .get("himalia")
        .and_then(|ours| ours.get("binds"))
    else {
        return Ok(Vec::new());
    };
    let binds = binds
        .as_array()
        .filter(|binds| binds.len() <= MAX_EXTRA)
        .ok_or_else(|| bad(format!("is not a list of at most {MAX_EXTRA} paths")))?;
    let one = |bind: &serde_json::Value| {
        let path = bind.as_str().map(Path::new).filter(|path| path.is_absolute());
        let path = path.ok_or_else(|| bad(format!("{bind} is not an absolute path")))?;
        if path.parent().is_none() {
            return Err(bad("the root is never bound".to_owned()));
        }
        if !path.exists() {
            return Err(bad(format!("{} does not exist", path.display())));
        }
        Ok(path.to_owned())
    };
    binds.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::symlink;

    use himalia_model::KernelJson;
    use serde_json::json;

    use super::*;

    fn spec(dir: &Path, binds: &serde_json::Value) -> KernelSpec {
        let metadata = json!({"himalia": {"binds": binds}});
        KernelSpec {
            name: "k".to_owned(),
            spec: KernelJson {
                metadata: metadata.as_object().unwrap().clone(),
                ..KernelJson::default()
            },
            resources: BTreeMap::new(),
            dir: dir.to_owned(),
            problem: None,
        }
    }

    #[test]
    fn an_environment_its_base_and_nothing_of_the_home_around_it() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let home = root.join("home");
        for dir in [
            "home/venv/bin",
            "home/venv/lib",
            "home/bin",
            "home/lib",
            "opt/py/bin",
            "opt/py/lib",
            "spec",
            "data",
        ] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        fs::write(root.join("opt/py/bin/python3.11"), "").unwrap();
        symlink("python3.11", root.join("opt/py/bin/python3")).unwrap();
        symlink(root.join("opt/py/bin/python3"), home.join("venv/bin/python")).unwrap();
        symlink("../venv/bin/python", home.join("bin/python")).unwrap();
        let of = |program: &Path, extra: serde_json::Value| {
            let found = binds(program, &spec(&root.join("spec"), &extra), Some(&home)).unwrap();
            let short = |path: PathBuf| path.strip_prefix(&root).unwrap().display().to_string();
            found.paths.into_iter().map(short).collect::<Vec<_>>()
        };
        assert_eq!(
            of(&home.join("venv/bin/python"), json!([root.join("data")])),
            ["data", "home/venv", "opt/py", "spec"]
        );
        assert_eq!(
            of(&home.join("bin/python"), json!([])),
            ["home/bin/python", "home/venv", "opt/py", "spec"]
        );
        fs::write(
            home.join("venv/pyvenv.cfg"),
            format!("home = {}\n", root.join("opt/other/bin").display()),
        )
        .unwrap();
        fs::create_dir_all(root.join("opt/other/lib")).unwrap();
        assert!(of(&home.join("venv/bin/python"), json!([])).contains(&"opt/other".to_owned()));
        let spec_of_system = spec(Path::new("/usr/share/k"), &json!([]));
        let system = binds(Path::new("/usr/bin/env"), &spec_of_system, None).unwrap();
        assert!(system.paths.is_empty() && system.names.is_empty(), "{system:?}");
        let named = binds(&home.join("bin/python"), &spec_of_system, Some(&home)).unwrap();
        let expected = [("env", home.join("venv")), ("python", root.join("opt/py"))];
        assert_eq!(named.names, BTreeMap::from(expected));
    }

    #[test]
    fn what_a_kernelspec_adds_must_be_there() {
        for (added, words) in [
            (json!(["/"]), "root"),
            (json!(["relative"]), "absolute"),
            (json!("x"), "list"),
            (json!(["/nonexistent/x"]), "does not exist"),
        ] {
            let error = binds(
                Path::new("/usr/bin/env"),
                &spec(Path::new("/usr/share/k"), &added),
                None,
            )
            .unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
