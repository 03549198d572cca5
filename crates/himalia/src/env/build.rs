//! Builds the environment, once.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail, ensure};

use super::{PythonEnv, embedded, packages};
use crate::cli::BuildArgs;
use crate::{lock, paths};

/// The oldest Python that the lock file is made for.
const OLDEST: (u32, u32) = (3, 11);

/// Builds the environment unless it is there. Of several processes one builds and the others wait.
pub(crate) fn build(env_dir: &Path, args: &BuildArgs) -> anyhow::Result<PythonEnv> {
    let env = PythonEnv::locate(env_dir);
    if !args.rebuild
        && let Some(env) = env.clone().ready()
    {
        env.refresh()?;
        return Ok(env);
    }
    paths::make_private(env_dir)?;
    let _lock = lock::wait(env_dir, || {
        eprintln!("Waiting for another process that builds an environment");
    })?;
    if !args.rebuild
        && let Some(env) = env.clone().ready()
    {
        env.refresh()?;
        return Ok(env);
    }
    let version = check_python(&args.python)?;
    let began = Instant::now();
    eprintln!(
        "Building the Python environment in {} (Python {version}); this is done once",
        env.dir.display()
    );
    make(&env, &args.python, &version)?;
    eprintln!("Built in {:.0} s", began.elapsed().as_secs_f64());
    Ok(env)
}

/// The version of a Python that is new enough and can make environments.
pub(crate) fn check_python(python: &Path) -> anyhow::Result<String> {
    let code = "import sys; print('%d.%d.%d' % sys.version_info[:3]); import venv, ensurepip";
    let output = Command::new(python)
        .args(["-c", code])
        .stdin(Stdio::null())
        .output();
    let output = output.with_context(|| format!("cannot run {}", python.display()))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let mut numbers = version.split('.').map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        bail!(
            "{} does not say its version: {}",
            python.display(),
            last_line(&output.stderr)
        );
    };
    ensure!(
        (major, minor) >= OLDEST,
        "{} is Python {version}; {}.{} or newer is needed: --python PROGRAM",
        python.display(),
        OLDEST.0,
        OLDEST.1
    );
    ensure!(
        output.status.success(),
        "{} cannot make environments ({}); on Debian: apt install python3-venv",
        python.display(),
        last_line(&output.stderr)
    );
    Ok(version)
}

fn make(env: &PythonEnv, python: &Path, version: &str) -> anyhow::Result<()> {
    if env.dir.exists() {
        // The mark goes first: a removal that is cut short must not leave something that looks complete.
        let _ = fs::remove_file(env.marker());
        fs::remove_dir_all(&env.dir).with_context(|| format!("cannot remove {}", env.dir.display()))?;
    }
    run(Command::new(python).args(["-m", "venv"]).arg(&env.dir))?;
    let own = env.dir.join("himalia");
    let lock = own.join("requirements.lock");
    fs::create_dir_all(&own)
        .and_then(|()| fs::write(&lock, embedded::LOCK))
        .with_context(|| format!("cannot write {}", lock.display()))?;
    packages::install(env, &lock)?;
    compile(env)?;
    env.refresh()?;
    let content = format!("python {version}\n");
    fs::write(env.marker(), content).with_context(|| format!("cannot write {}", env.marker().display()))
}

/// Makes the `.pyc` files, with all processors. Some packages carry files that are no valid Python on purpose, so
/// failures of single files count for nothing.
fn compile(env: &PythonEnv) -> anyhow::Result<()> {
    let mut command = Command::new(env.python());
    command
        .args(["-m", "compileall", "-qq", "-j", "0"])
        .arg(env.dir.join("lib"));
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.with_context(|| format!("cannot run {}", env.python().display()))?;
    Ok(())
}

pub(super) fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let what: Vec<_> = command.get_args().take(3).map(OsStr::to_string_lossy).collect();
    let what = what.join(" ");
    // Both outputs are shown as they come; standard output is kept for the result.
    let status = command.stdin(Stdio::null()).stdout(std::io::stderr()).status();
    let status = status.with_context(|| format!("cannot run {shown}"))?;
    ensure!(status.success(), "{shown} {what} failed: {status}");
    Ok(())
}

fn last_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .lines()
        .last()
        .unwrap_or("no message")
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::script;

    fn pretend(text: &str) -> anyhow::Result<String> {
        let dir = tempfile::tempdir().unwrap();
        let python = dir.path().join("python");
        script(&python, text);
        check_python(&python)
    }

    #[test]
    fn an_unfit_python_is_named_with_what_to_do() {
        assert_eq!(pretend("echo 3.12.1").unwrap(), "3.12.1");
        for (script, hint) in [
            ("echo 3.10.2", "3.11 or newer"),
            ("echo 2.7.18", "3.11 or newer"),
            (
                "echo 3.11.2; echo 'No module named ensurepip' >&2; exit 1",
                "apt install python3-venv",
            ),
            ("echo oops >&2; exit 3", "does not say its version: oops"),
        ] {
            let error = pretend(script).unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
        assert!(check_python(Path::new("/nonexistent/python")).is_err());
    }
}
