//! The command line.

#![allow(
    clippy::doc_markdown,
    reason = "the texts of the help are plain, not Markdown"
)]

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::settings::Settings;

const EXAMPLES: &str = "\
Examples:
  himalia up                          set up Python once, then serve on http://127.0.0.1:8888/
  himalia serve --listen 127.0.0.1:0  serve on a free port; the port is printed
  himalia serve --listen 0.0.0.0:8888 --token-file /run/secrets/himalia
                                      serve other machines; a token of your own is required
  himalia doctor                      what works on this machine, and what does not

Then attach JupyterLab with the command that `serve` prints. Every option of `serve` can also be an
environment variable (HIMALIA_LISTEN) or a line of a TOML file (listen = \"…\", see --config).
Flags win over variables, variables over the file.";

const SERVE_EXAMPLES: &str = "\
Examples:
  himalia serve
  himalia serve --listen 127.0.0.1:0 --data-dir ./himalia-data
  himalia serve --config himalia.toml --max-kernels 20 --cull-idle-timeout 1h
  HIMALIA_TOKEN_FILE=/run/secrets/himalia himalia serve --listen 0.0.0.0:8888

Scripts can wait for `GET /healthz` to answer 200.
Stop it with Ctrl-C (kernels end) or SIGTERM (kernels go on and the next gateway finds them again).";

/// A gateway to live Jupyter kernels: JupyterLab, notebooks and agents share kernels that outlive it.
#[derive(Debug, Parser)]
#[command(name = "himalia", version, after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
#[command(max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Set up what is missing (the Python environment, once), then serve
    #[command(after_help = SERVE_EXAMPLES)]
    Up {
        #[command(flatten)]
        settings: Settings,
        #[command(flatten)]
        build: BuildArgs,
    },
    /// Start the gateway and print how to attach to it
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Settings),
    /// The Python environment that the python3 kernel runs in
    #[command(subcommand)]
    Env(EnvCommand),
    /// Say what this machine can and cannot do; takes the options of `serve`
    Doctor(Settings),
}

#[derive(Debug, Subcommand)]
pub(crate) enum EnvCommand {
    /// Build it, if it is not there, from the list of packages and hashes in this program; prints its Python
    Build {
        #[command(flatten)]
        build: BuildArgs,
        /// Directory that holds environments [default: ~/.local/share/himalia/env]
        #[arg(long = "env-dir", value_name = "DIR", env = "HIMALIA_ENV_DIR")]
        dir: Option<PathBuf>,
    },
    /// Print the directory that it is, or would be, in
    Path {
        /// Directory that holds environments [default: ~/.local/share/himalia/env]
        #[arg(long = "env-dir", value_name = "DIR", env = "HIMALIA_ENV_DIR")]
        dir: Option<PathBuf>,
    },
}

/// How to build the Python environment.
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
    /// Build it anew even if it is there; kernels that run in it lose their files
    #[arg(long)]
    pub(crate) rebuild: bool,
}
