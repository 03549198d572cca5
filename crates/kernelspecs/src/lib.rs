//! Kernelspecs: finding them on this host, serving their files, and turning one into a command line, an environment
//! and a working directory.
//!
//! # Where they come from
//! Directories are searched in this order; the first that has a name wins, names are compared in lower case:
//!
//! 1. the directories of the configuration, then `<data-dir>/kernelspecs`;
//! 2. the Jupyter path: `$JUPYTER_PATH`, the user's data directory (`$JUPYTER_DATA_DIR`, else
//!    `$XDG_DATA_HOME/jupyter`, else `~/.local/share/jupyter`), `$VIRTUAL_ENV` and `$CONDA_PREFIX`, `/usr/local/share`,
//!    `/usr/share`, `~/.ipython`; the environments come before the user's directory when `$JUPYTER_PREFER_ENV_PATH` says so
//!    or, if it is not set, when there is one (`jupyter_core.paths.jupyter_path`);
//! 3. conda environments that have their own kernels, as `conda-env-<environment>-<name>`.
//!
//! A kernelspec that cannot work is listed with its problem. It hides a later one of its name all the same, as it does
//! in Jupyter.
//!
//! # Freshness
//! A search is used for 5 s. A name that is not in it is searched for again at once, at most
//! once a second, so that a kernelspec can be used as soon as it is installed.

mod catalog;
mod conda;
mod cwd;
mod environment;
mod files;
mod host;
mod launch;
mod paths;
mod program;
mod read;
mod search;
mod shown;
mod template;

#[cfg(test)]
mod tests;

pub use catalog::Catalog;
pub use environment::check as check_variables;
pub use host::HostEnvironment;
pub use launch::{Launch, LaunchRequest, SANDBOX_WORK_DIR, is_ours, launch};
pub use shown::to_tenant;
