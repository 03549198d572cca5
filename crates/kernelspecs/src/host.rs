//! The part of the gateway's own environment that is looked at.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Variables that a kernel at level `none` takes over from the gateway's host, beside every `LC_*`. Nothing else of the
/// gateway's environment reaches a kernel.
pub(crate) const ESSENTIALS: [&str; 9] = [
    "HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER",
];

/// `PATH` in a root of its own, and where the host has none.
pub(super) const PLAIN_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables of the gateway's process, as a value: read once, and given by tests.
#[derive(Clone, Debug, Default)]
pub struct HostEnvironment {
    variables: BTreeMap<String, OsString>,
}

impl HostEnvironment {
    /// Environment of this process. Variables whose names are not UTF-8 are left out.
    pub fn of_this_process() -> Self {
        let variables =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        Self {
            variables: variables.collect(),
        }
    }

    /// These and no others.
    #[cfg(test)]
    pub(crate) fn new<const N: usize>(variables: [(&str, &str); N]) -> Self {
        Self {
            variables: variables
                .map(|(name, value)| (name.to_owned(), value.into()))
                .into(),
        }
    }

    /// A variable that is set and not empty.
    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        self.variables
            .get(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    }

    /// A list of directories, such as `PATH`.
    pub(super) fn paths(&self, name: &str) -> Vec<PathBuf> {
        let value = self
            .variables
            .get(name)
            .map(OsString::as_os_str)
            .unwrap_or_default();
        std::env::split_paths(value)
            .filter(|path| path.is_absolute())
            .collect()
    }

    /// A text that is set, possibly empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.variables.get(name)?.to_str()
    }

    /// `HOME`, if it is absolute.
    pub fn home(&self) -> Option<PathBuf> {
        self.path("HOME").filter(|home| home.is_absolute())
    }

    /// The variables that a kernel on this host starts with: `ESSENTIALS` and `LC_*`, with a `PATH` and a UTF-8
    /// `LANG` if the host has none.
    pub fn essentials(&self) -> BTreeMap<String, String> {
        let wanted = |name: &str| ESSENTIALS.contains(&name) || name.starts_with("LC_");
        let mut essentials: BTreeMap<String, String> = self
            .variables
            .iter()
            .filter(|(name, _)| wanted(name))
            .filter_map(|(name, value)| Some((name.clone(), value.to_str()?.to_owned())))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        essentials
            .entry("PATH".to_owned())
            .or_insert_with(|| PLAIN_PATH.to_owned());
        let has_language = essentials.contains_key("LANG") || essentials.contains_key("LC_ALL");
        if !has_language {
            essentials.insert("LANG".to_owned(), "C.UTF-8".to_owned());
        }
        essentials
    }

    /// The variables that a kernel with a root of its own starts with. In a built root the host's language is right, and the
    /// system's directories of programs are; in a container both are the image's, which only the sandbox knows.
    pub fn inside(&self, container: bool) -> BTreeMap<String, String> {
        if container {
            return BTreeMap::new();
        }
        let mut inside = self.essentials();
        for name in ["LOGNAME", "USER", "SHELL", "TMPDIR"] {
            inside.remove(name);
        }
        inside.insert("HOME".to_owned(), super::SANDBOX_WORK_DIR.to_owned());
        inside.insert("PATH".to_owned(), PLAIN_PATH.to_owned());
        inside
    }

    /// Variables of a kernel in a container whose image says nothing of them.
    pub fn container_defaults() -> [(String, String); 3] {
        [
            ("PATH", PLAIN_PATH),
            ("LANG", "C.UTF-8"),
            ("HOME", super::SANDBOX_WORK_DIR),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
    }

    /// Default working directory of a kernel: the home directory, else `/`.
    pub(super) fn fallback_cwd(&self) -> PathBuf {
        self.home()
            .filter(|home| home.is_dir())
            .unwrap_or_else(|| Path::new("/").to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_essentials_pass() {
        let host = HostEnvironment::new([
            ("HIMALIA_TOKEN", "secret"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("LD_PRELOAD", "/lib/evil.so"),
            ("PYTHONPATH", "/gateway"),
            ("HOME", "/home/ada"),
            ("LC_NUMERIC", "de_DE.UTF-8"),
            ("TZ", ""),
        ]);
        let essentials = host.essentials();
        let names: Vec<_> = essentials.keys().map(String::as_str).collect();
        assert_eq!(names, ["HOME", "LANG", "LC_NUMERIC", "PATH"]);
        assert_eq!(essentials["LANG"], "C.UTF-8");
        assert_eq!(essentials["PATH"], PLAIN_PATH);
    }

    #[test]
    fn a_built_root_has_the_directories_of_the_system_not_those_of_the_gateways_user() {
        let host = HostEnvironment::new([
            ("HOME", "/home/ada"),
            ("LANG", "de_DE.UTF-8"),
            ("PATH", "/home/ada/venv/bin:/usr/bin"),
            ("USER", "ada"),
        ]);
        let inside = host.inside(false);
        let expected = [
            ("HOME", "/session"),
            ("LANG", "de_DE.UTF-8"),
            ("PATH", PLAIN_PATH),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(inside, BTreeMap::from(expected));
    }
}
