//! Installs the embedded package and kernelspec into an environment.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{PythonEnv, embedded, hash};

/// Name of the kernelspec.
const NAME: &str = "python3";

/// Installs what is missing or older. Each file appears whole: readers see the old one or the new one.
pub(super) fn install(env: &PythonEnv) -> anyhow::Result<()> {
    let package = package(env)?;
    let site = site_packages(env)?;
    write_if_changed(
        &site.join("himalia_kernel.pth"),
        format!("{}\n", from(&site, &package).display()).as_bytes(),
    )?;
    let spec = env.kernelspecs().join(NAME);
    fs::create_dir_all(&spec).with_context(|| format!("cannot make {}", spec.display()))?;
    write_if_changed(&spec.join("kernel.json"), &kernel_json(env)?)
}

/// The directory of this version of the package, written and compiled if it was not there.
pub(super) fn package(env: &PythonEnv) -> anyhow::Result<PathBuf> {
    place(&env.dir.join("himalia"), |fresh| compile(env, fresh))
}

/// As [`package`], in `parent` and for whatever Python will run it, so without compiling it.
pub(crate) fn install_package(parent: &Path) -> anyhow::Result<PathBuf> {
    place(parent, |_| {})
}

/// Writes the embedded package into a directory named by its content, unless it is there, and calls `finish` before it
/// appears. Everybody may read it: in sandboxes it is another user who does.
fn place(parent: &Path, finish: impl FnOnce(&Path)) -> anyhow::Result<PathBuf> {
    let parts = embedded::PACKAGE
        .iter()
        .flat_map(|(name, content)| [name.as_bytes(), content]);
    let dir = parent.join(&hash(parts)[..16]);
    if dir.is_dir() {
        return Ok(dir);
    }
    let fresh = dir.with_extension(std::process::id().to_string());
    for (name, content) in embedded::PACKAGE {
        let path = fresh.join(name);
        let dir = path.parent().unwrap_or(&fresh);
        fs::create_dir_all(dir)
            .and_then(|()| fs::write(&path, content))
            .and_then(|()| readable(&path, 0o644))
            .and_then(|()| readable(dir, 0o755))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    readable(&fresh, 0o755).with_context(|| format!("cannot write {}", fresh.display()))?;
    finish(&fresh);
    match fs::rename(&fresh, &dir) {
        Ok(()) => {}
        // Another process was faster; the content is the same.
        Err(_) if dir.is_dir() => drop(fs::remove_dir_all(&fresh)),
        Err(error) => return Err(error).with_context(|| format!("cannot make {}", dir.display())),
    }
    Ok(dir)
}

/// Sets the mode, whatever the umask was.
fn readable(path: &Path, mode: u32) -> std::io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Makes `.pyc` files, for a quicker start. They are checked against the content, as the directory is renamed after.
fn compile(env: &PythonEnv, dir: &Path) {
    let mut command = Command::new(env.python());
    command
        .args(["-m", "compileall", "-q", "--invalidation-mode", "checked-hash"])
        .arg(dir);
    let status = command
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    if !status.is_ok_and(|status| status.success()) {
        tracing::warn!(dir = %dir.display(), "the kernel's package is not compiled, its start takes longer");
    }
}

/// The path of the package from where `.pth` files are: in a sandbox the environment has another path than here.
fn from(site: &Path, package: &Path) -> PathBuf {
    let up = site.ancestors().find_map(|dir| {
        let below = package.strip_prefix(dir).ok()?;
        Some((site.strip_prefix(dir).ok()?.components().count(), below))
    });
    match up {
        Some((levels, below)) => PathBuf::from("../".repeat(levels)).join(below),
        None => package.to_owned(),
    }
}

fn site_packages(env: &PythonEnv) -> anyhow::Result<PathBuf> {
    let lib = env.dir.join("lib");
    let entries = fs::read_dir(&lib).with_context(|| format!("cannot read {}", lib.display()))?;
    let mut found = entries
        .flatten()
        .map(|entry| entry.path().join("site-packages"))
        .filter(|path| path.is_dir());
    found
        .next()
        .with_context(|| format!("no site-packages below {}", lib.display()))
}

/// The embedded kernelspec with this environment's interpreter.
fn kernel_json(env: &PythonEnv) -> anyhow::Result<Vec<u8>> {
    let mut spec: Value =
        serde_json::from_slice(embedded::KERNEL_JSON).context("the embedded kernel.json")?;
    let program = spec
        .pointer_mut("/argv/0")
        .context("the embedded kernel.json has no argv")?;
    ensure!(
        program.is_string(),
        "the embedded kernel.json: argv[0] is not a string"
    );
    *program = Value::from(
        env.python()
            .to_str()
            .context("the environment's path is not UTF-8")?,
    );
    let mut bytes = serde_json::to_vec_pretty(&spec).context("kernel.json")?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn write_if_changed(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    let fresh = path.with_extension(format!("new{}", std::process::id()));
    fs::write(&fresh, content)
        .and_then(|()| fs::rename(&fresh, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that looks like an environment; its interpreter does nothing.
    fn pretend() -> (tempfile::TempDir, PythonEnv) {
        let root = tempfile::tempdir().unwrap();
        let env = PythonEnv::locate(root.path());
        fs::create_dir_all(env.dir.join("lib/python3.99/site-packages")).unwrap();
        fs::create_dir_all(env.dir.join("bin")).unwrap();
        crate::env::script(&env.python(), "");
        (root, env)
    }

    #[test]
    fn package_and_kernelspec_are_installed_once() {
        let (_root, env) = pretend();
        install(&env).unwrap();
        let pth = env.dir.join("lib/python3.99/site-packages/himalia_kernel.pth");
        let package = fs::read_to_string(&pth).unwrap();
        assert!(package.starts_with("../../../himalia/"), "{package}");
        let package = pth.parent().unwrap().join(package.trim());
        for (name, content) in embedded::PACKAGE {
            assert_eq!(fs::read(package.join(name)).unwrap(), *content, "{name}");
        }
        let spec: Value =
            serde_json::from_slice(&fs::read(env.kernelspecs().join("python3/kernel.json")).unwrap())
                .unwrap();
        assert_eq!(spec["argv"][0], env.python().to_str().unwrap());
        let before = fs::metadata(&pth).unwrap().modified().unwrap();
        install(&env).unwrap();
        assert_eq!(fs::metadata(&pth).unwrap().modified().unwrap(), before);
        let left: Vec<_> = fs::read_dir(env.dir.join("himalia"))
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn the_package_can_be_had_without_an_environment() {
        let data = tempfile::tempdir().unwrap();
        let parent = data.path().join("kernel-package");
        let dir = install_package(&parent).unwrap();
        assert_eq!(install_package(&parent).unwrap(), dir);
        assert!(dir.join("himalia_kernel/__init__.py").is_file());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&dir), mode(&dir.join("himalia_kernel"))), (0o755, 0o755));
        assert_eq!(mode(&dir.join("himalia_kernel/__init__.py")), 0o644);
    }

    #[test]
    fn an_environment_is_ready_only_with_its_mark() {
        let (root, env) = pretend();
        assert!(PythonEnv::locate(root.path()).ready().is_none());
        fs::create_dir_all(env.dir.join("himalia")).unwrap();
        fs::write(env.marker(), "").unwrap();
        assert!(PythonEnv::locate(root.path()).ready().is_some());
        fs::remove_file(env.python()).unwrap();
        assert!(PythonEnv::locate(root.path()).ready().is_none());
    }
}
