//! Installs the locked packages of an environment: with `uv` where it is installed and understands the settings of pip, or else with pip.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use super::PythonEnv;
use super::build::run;
use crate::paths;

/// Installs what the lock file names, and nothing else.
pub(super) fn install(env: &PythonEnv, lock: &Path) -> anyhow::Result<()> {
    // A wheel puts it beside this program.
    if let Some(uv) = paths::program("uv")
        && let Some(settings) = settings_for_uv(&pip_settings(env))
    {
        let mut command = Command::new(uv);
        command
            .args(["pip", "install", "--quiet", "--require-hashes", "--python"])
            .arg(env.python())
            .arg("--requirement")
            .arg(lock);
        for (name, value) in settings {
            // The user's own setting of uv wins.
            if env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        match run(&mut command) {
            Ok(()) => return Ok(()),
            Err(error) => eprintln!("{error}; pip installs the packages"),
        }
    }
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
        "--no-compile",
        "--require-hashes",
        "--requirement",
    ];
    run(Command::new(env.python()).args(pip).arg(lock))
}

/// The lines of `pip config list`: files and variables of the user (index, proxy, certificates).
fn pip_settings(env: &PythonEnv) -> String {
    let mut command = Command::new(env.python());
    command.args(["-m", "pip", "config", "list"]);
    let output = command.stdin(Stdio::null()).output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

/// The settings of pip as variables of uv. `None`: uv has no such setting.
fn settings_for_uv(pip: &str) -> Option<Vec<(&'static str, String)>> {
    let mut settings = Vec::new();
    for line in pip.lines().filter(|line| !line.trim().is_empty()) {
        let (key, value) = line.split_once('=')?;
        let value = value.trim_matches('\'').to_owned();
        match key.rsplit('.').next()? {
            "index-url" => settings.push(("UV_DEFAULT_INDEX", value)),
            "find-links" => settings.push(("UV_FIND_LINKS", value)),
            "cert" => settings.push(("SSL_CERT_FILE", value)),
            "timeout"
            | "default-timeout"
            | "disable-pip-version-check"
            | "no-input"
            | "progress-bar"
            | "root-user-action" => {}
            _ => return None,
        }
    }
    Some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_pip_are_uv_s_or_pip_installs() {
        let known = "global.index-url='https://index.example/simple'\n:env:.cert='/etc/ca.crt'\nglobal.timeout='60'\n";
        let expected = vec![
            ("UV_DEFAULT_INDEX", "https://index.example/simple".to_owned()),
            ("SSL_CERT_FILE", "/etc/ca.crt".to_owned()),
        ];
        assert_eq!(settings_for_uv(known), Some(expected));
        assert_eq!(settings_for_uv(""), Some(Vec::new()));
        assert_eq!(
            settings_for_uv("global.proxy='http://proxy.example:3128'\n"),
            None
        );
    }
}
