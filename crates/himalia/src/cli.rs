//! The command line.

#![allow(
    clippy::doc_markdown,
    reason = "the texts of the help are plain, not Markdown"
)]

#[cfg(test)]
mod reference;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use himalia_cli::GatewayCommand;
use himalia_cli::args::{gateway::GatewayArgs, mcp};

use crate::settings::Flags;
use crate::version;

const EXAMPLES: &str = "\
Examples:
  himalia up                          set up Python once, then serve on http://127.0.0.1:8888/
  himalia serve --listen 127.0.0.1:0  serve on a free port; the port is printed
  himalia serve --listen 0.0.0.0:8888 --token-file /run/secrets/himalia
                                      serve other machines; a token of your own is required
  himalia doctor                      check this machine for missing features
  himalia exec eda 'print(6 * 7)'     run code in session eda; start the session if it does not exist
  himalia connect eda                 let jupyter console and other clients attach to it
  himalia session ls                  the sessions of the running gateway

Then attach JupyterLab with the command that `serve` prints. Every option of `serve` can also be an
environment variable (HIMALIA_LISTEN) or a line of a TOML file (listen = \"…\", see --config).
Flags take precedence over variables, variables over the file.";

const SERVE_EXAMPLES: &str = "\
Examples:
  himalia serve
  himalia serve --listen 127.0.0.1:0 --data-dir ./himalia-data
  himalia serve --config himalia.toml --max-kernels 20 --cull-idle-timeout 1h
  HIMALIA_TOKEN_FILE=/run/secrets/himalia himalia serve --listen 0.0.0.0:8888

Scripts can wait until `GET /healthz` returns 200.
Stop it with Ctrl-C (kernels end) or SIGTERM (kernels continue and the next gateway adopts them).";

/// Live Jupyter kernels for agents, notebooks and JupyterLab. Kernels outlive the gateway.
#[derive(Debug, Parser)]
#[command(name = "himalia", version, long_version = version::long(), after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
#[command(max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Set up the Python environment if there is none, then serve
    #[command(after_help = SERVE_EXAMPLES)]
    Up {
        #[command(flatten)]
        settings: Flags,
        #[command(flatten)]
        build: BuildArgs,
    },
    /// Start the gateway and print how to attach to it
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Flags),
    /// The Python environment that the python3 kernel runs in, and the variables of E2B's clients
    #[command(subcommand)]
    Env(EnvCommand),
    #[command(flatten)]
    Gateway(GatewayCommand),
    /// Copy a data directory into one tar file, while its gateway runs or not
    ///
    /// The file has the database, logs, artifacts, kept files, the operator's token, the key of credentials, and sign-ins. The
    /// memory of kernels, volumes of Docker and files outside the data directory are not included.
    Backup {
        /// The new file; it contains secrets, and only you can read it
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
        /// The gateway's data directory [default: ~/.local/share/himalia/data]
        #[arg(long, value_name = "DIR", env = "HIMALIA_DATA_DIR")]
        data_dir: Option<PathBuf>,
    },
    /// Restore a backup to a new data directory, after a complete check of its file
    ///
    /// Sessions of /v1 continue with their next use, in a new sandbox. Other kernels are lost.
    Restore {
        /// The file of `himalia backup`
        backup: PathBuf,
        /// The data directory, which must not exist or be empty [default: ~/.local/share/himalia/data]
        #[arg(long, value_name = "DIR", env = "HIMALIA_DATA_DIR")]
        data_dir: Option<PathBuf>,
    },
    /// Serve MCP on standard input and output, for hosts that start their servers themselves
    #[command(after_help = mcp::EXAMPLES)]
    Mcp(mcp::McpArgs),
    /// Check this machine for missing features, or diagnose a session
    Doctor {
        /// Id or name of a session of the gateway that runs on this data directory
        session: Option<String>,
        /// Look at the cluster of [kubernetes] instead: permissions, quota, policies, and whether they are enforced. Starts two pods and deletes them
        #[arg(long, conflicts_with = "session")]
        kubernetes: bool,
        #[command(flatten)]
        settings: Flags,
        /// Print JSON: {"ok", "findings": [{"level", "topic", "text"}]}
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum EnvCommand {
    /// Build the environment from the lock file in this program if it does not exist, and print the path of its Python
    Build {
        #[command(flatten)]
        build: BuildArgs,
        /// Directory of environments [default: ~/.local/share/himalia/env]
        #[arg(long = "env-dir", value_name = "DIR", env = "HIMALIA_ENV_DIR")]
        dir: Option<PathBuf>,
    },
    /// Build the Docker image himalia-kernel with the same packages
    Image {
        /// The script docker/build-images.sh of the sources [default: below this directory or the ones above]
        #[arg(long, value_name = "FILE")]
        script: Option<PathBuf>,
    },
    /// Print the variables that point E2B's clients at a running gateway that serves them (--e2b): eval "$(himalia env e2b)"
    E2b {
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Print the directory of the environment, whether it exists or not
    Path {
        /// Directory of environments [default: ~/.local/share/himalia/env]
        #[arg(long = "env-dir", value_name = "DIR", env = "HIMALIA_ENV_DIR")]
        dir: Option<PathBuf>,
    },
}

/// Arguments of `env build`.
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// Python 3.11 or newer to build it with
    #[arg(
        long,
        value_name = "PROGRAM",
        env = "HIMALIA_PYTHON",
        default_value = "python3"
    )]
    pub(crate) python: PathBuf,
    /// Build it again even if it exists; running kernels lose their files in it
    #[arg(long)]
    pub(crate) rebuild: bool,
}
