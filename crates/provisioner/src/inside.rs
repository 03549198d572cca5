//! Names and paths inside every sandbox that has its own root.

/// Work directory: kernels start there, and it is their home.
pub const WORK_DIR: &str = "/session";
/// Directory where clients of other services expect files: the work directory, mounted here too on request.
pub const DATA_DIR: &str = "/mnt/data";
/// The work directory where clients of E2B are served and nothing else has this path. [`WORK_DIR`] is a link to it then.
pub const USER_HOME: &str = "/home/user";
/// Directories where programs written for other services have their work: links to the work directory, where nothing else is.
pub const OTHER_HOMES: [&str; 2] = [USER_HOME, "/workspace"];
/// The directory of what is not the system's.
pub const OWN_DIR: &str = "/himalia";
/// The gateway's directory, read-only.
pub const GATEWAY_DIR: &str = "/himalia/gw";
/// The shim's private directory.
pub const RUNTIME_DIR: &str = "/himalia/run";
/// The shim, read-only.
pub const SHIM: &str = "/himalia/bin/himalia-shim";
/// The directory with the Python package `himalia_kernel`, read-only.
pub const KERNEL_DIR: &str = "/himalia/kernel";
/// Name of the host.
pub const HOSTNAME: &str = "kernel";
