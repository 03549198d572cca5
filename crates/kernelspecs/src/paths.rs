//! The directories that hold kernelspecs, in order.

use std::path::{Path, PathBuf};

use super::host::HostEnvironment;

/// `<prefix>/share/jupyter/kernels` of the system's prefixes (`jupyter_core.paths.SYSTEM_JUPYTER_PATH`).
const SYSTEM: [&str; 2] = ["/usr/local/share/jupyter", "/usr/share/jupyter"];

/// The Jupyter path, each with `kernels` appended.
pub(super) fn jupyter_path(host: &HostEnvironment) -> Vec<PathBuf> {
    let explicit = host.paths("JUPYTER_PATH");
    let user: Vec<PathBuf> = user_data_dir(host).into_iter().collect();
    let environments: Vec<PathBuf> = prefixes(host)
        .into_iter()
        .map(|prefix| prefix.join("share/jupyter"))
        .collect();
    let system = SYSTEM.map(PathBuf::from);
    let ordered = if prefers_environment(host) {
        [explicit, environments, user, system.into()]
    } else {
        [explicit, user, environments, system.into()]
    };
    let ipython = host.home().map(|home| home.join(".ipython"));
    let mut found = Vec::new();
    for directory in ordered.into_iter().flatten().chain(ipython) {
        let kernels = directory.join("kernels");
        if !found.contains(&kernels) {
            found.push(kernels);
        }
    }
    found
}

/// The activated environments: a virtual environment lies in or on top of a conda environment.
pub(super) fn prefixes(host: &HostEnvironment) -> Vec<PathBuf> {
    ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(|name| host.path(name))
        .filter(|prefix| prefix.is_absolute())
        .collect()
}

/// The prefix whose `share/jupyter/kernels/<name>` this directory is.
pub(super) fn prefix_of(spec_dir: &Path) -> Option<&Path> {
    let kernels = spec_dir.parent()?;
    kernels
        .ends_with("share/jupyter/kernels")
        .then(|| kernels.ancestors().nth(3))
        .flatten()
}

fn user_data_dir(host: &HostEnvironment) -> Option<PathBuf> {
    host.path("JUPYTER_DATA_DIR")
        .or_else(|| host.path("XDG_DATA_HOME").map(|data| data.join("jupyter")))
        .or_else(|| host.home().map(|home| home.join(".local/share/jupyter")))
        .filter(|dir| dir.is_absolute())
}

/// `JUPYTER_PREFER_ENV_PATH` as `jupyter_core.paths.envset` reads it: set and not one of the words for no.
/// Not set: an activated environment is preferred.
fn prefers_environment(host: &HostEnvironment) -> bool {
    match host.text("JUPYTER_PREFER_ENV_PATH") {
        Some(text) => {
            !["", "n", "no", "f", "false", "0", "0.0", "off"].contains(&text.to_lowercase().as_str())
        }
        None => !prefixes(host).is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path<const N: usize>(variables: [(&str, &str); N]) -> Vec<String> {
        let found = jupyter_path(&HostEnvironment::new(variables));
        found.into_iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn the_order_is_that_of_jupyter() {
        let home = ("HOME", "/home/ada");
        let plain = [
            "/home/ada/.local/share/jupyter/kernels",
            "/usr/local/share/jupyter/kernels",
            "/usr/share/jupyter/kernels",
            "/home/ada/.ipython/kernels",
        ];
        assert_eq!(path([home]), plain);
        let found = path([
            home,
            ("JUPYTER_PATH", "/a:relative:/b"),
            ("XDG_DATA_HOME", "/data"),
        ]);
        assert_eq!(found[..3], ["/a/kernels", "/b/kernels", "/data/jupyter/kernels"]);
        let found = path([home, ("VIRTUAL_ENV", "/v"), ("CONDA_PREFIX", "/c")]);
        assert_eq!(
            found[..2],
            ["/v/share/jupyter/kernels", "/c/share/jupyter/kernels"]
        );
        let found = path([home, ("VIRTUAL_ENV", "/v"), ("JUPYTER_PREFER_ENV_PATH", "No")]);
        assert_eq!(found[..2], [plain[0], "/v/share/jupyter/kernels"]);
        assert_eq!(path([("JUPYTER_DATA_DIR", "/j")])[0], "/j/kernels");
    }

    #[test]
    fn a_prefix_is_known_from_the_place() {
        assert_eq!(
            prefix_of(Path::new("/v/share/jupyter/kernels/python3")),
            Some(Path::new("/v"))
        );
        assert_eq!(prefix_of(Path::new("/etc/kernels/python3")), None);
    }
}
