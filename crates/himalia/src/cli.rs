//! The command line.

#![allow(
    clippy::doc_markdown,
    reason = "the texts of the help are plain, not Markdown"
)]

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::settings::{Seconds, Secret, Settings};

const EXAMPLES: &str = "\
Examples:
  himalia up                          set up Python once, then serve on http://127.0.0.1:8888/
  himalia serve --listen 127.0.0.1:0  serve on a free port; the port is printed
  himalia serve --listen 0.0.0.0:8888 --token-file /run/secrets/himalia
                                      serve other machines; a token of your own is required
  himalia doctor                      what works on this machine, and what does not
  himalia exec eda 'print(6 * 7)'     run code in the session eda, which is started if there is none
  himalia session ls                  the sessions of the running gateway

Then attach JupyterLab with the command that `serve` prints. Every option of `serve` can also be an
environment variable (HIMALIA_LISTEN) or a line of a TOML file (listen = \"…\", see --config).
Flags win over variables, variables over the file.";

const EXEC_EXAMPLES: &str = "\
Examples:
  himalia exec eda 'df = 6 * 7'       start session eda if there is none, and run code in it
  himalia exec eda 'print(df)'        variables stay for later calls
  himalia exec eda --upload sales.csv --file report.py --timeout 10m
  himalia exec eda --bash 'ls -l; nproc'
  echo 'print(1)' | himalia exec eda - --json

Plots are shown in terminals that can (Kitty, Ghostty, WezTerm, iTerm2) and saved into the working directory
in others; --plots saves them anywhere. Each saved plot is named with its path. In a terminal input() and getpass() ask you; elsewhere they raise.
Ctrl-C interrupts the code; a second Ctrl-C leaves it running.

Exit codes:
  0    it ran to its end
  1    it raised, or was refused
  3    the kernel's process ended
  124  its time was over
  130  it was interrupted";

const MCP_EXAMPLES: &str = "\
Examples:
  claude mcp add himalia -- himalia mcp
  himalia mcp --url http://127.0.0.1:8888/ --token-file ~/.himalia-token

It needs a running gateway and has the tools of that gateway's /mcp.";

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
    /// Sessions of a running gateway
    #[command(subcommand)]
    Session(SessionCommand),
    /// Run code in a session and show what it prints
    #[command(after_help = EXEC_EXAMPLES)]
    Exec(ExecArgs),
    /// Remove what is left of sessions that ended too long ago, and what belongs to no session
    ///
    /// The running gateway does it, as it does by itself every ten minutes, a part each time. One that starts
    /// does the same to what belongs to nobody.
    Gc {
        /// Only say what would go
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Serve MCP on standard input and output, for hosts that start their servers themselves
    #[command(after_help = MCP_EXAMPLES)]
    Mcp {
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Say what this machine can and cannot do, or what is the matter with a session; takes the options of `serve`
    Doctor {
        /// Id or name of a session of the gateway that runs on this data directory
        session: Option<String>,
        #[command(flatten)]
        settings: Settings,
        /// Print JSON: {"ok", "findings": [{"level", "topic", "text"}]}
        #[arg(long)]
        json: bool,
    },
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
    /// Build the Docker image himalia-kernel with the same packages
    Image {
        /// The script docker/build-images.sh of the sources [default: below this directory or the ones above]
        #[arg(long, value_name = "FILE")]
        script: Option<PathBuf>,
    },
    /// Print the directory that it is, or would be, in
    Path {
        /// Directory that holds environments [default: ~/.local/share/himalia/env]
        #[arg(long = "env-dir", value_name = "DIR", env = "HIMALIA_ENV_DIR")]
        dir: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// The session of this name, started if there is none
    New {
        /// Lower-case letters, digits and hyphens
        name: String,
        /// Template or kernelspec [default: the gateway's default kernelspec]
        #[arg(long, value_name = "NAME")]
        template: Option<String>,
        /// A label of a new session; may be given several times
        #[arg(long = "label", value_name = "NAME=VALUE")]
        labels: Vec<String>,
        /// End it after it was idle for so long: 90, 10m
        #[arg(long, value_name = "TIME")]
        idle_timeout: Option<Seconds>,
        /// End it after so long, whatever it does
        #[arg(long, value_name = "TIME")]
        lifetime: Option<Seconds>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// List them: state, age, time without activity, memory in use
    Ls {
        /// Those with this label, or with this label and value; may be given several times
        #[arg(long = "label", value_name = "NAME[=VALUE]")]
        labels: Vec<String>,
        /// Show also whole ids, kernelspec, isolation, how each was started, its parent, owner and labels
        #[arg(long)]
        wide: bool,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Branch one: the new sessions have its variables, and a copy of its files
    Fork {
        /// Its id, the beginning of its id, or its name
        session: String,
        /// How many branches, at most 16
        #[arg(long, value_name = "NUMBER", default_value_t = 1)]
        count: u32,
        /// strict refuses whatever a fork may break; report refuses what it would break, and reports the rest
        #[arg(long, value_name = "POLICY", default_value = "strict")]
        policy: String,
        /// copy or share
        #[arg(long, value_name = "FILES", default_value = "copy")]
        files: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// End them, with everything in them
    Rm {
        /// Their ids or names
        #[arg(required = true)]
        sessions: Vec<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}

/// What to run, and where.
#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// A session: its id, the beginning of its id, its name, or its label `name`. If there is none, one of this name is started
    pub(crate) session: String,
    /// The code; `-`, or nothing, reads it from standard input
    #[arg(conflicts_with = "file")]
    pub(crate) code: Option<String>,
    /// File with the code
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The code is a Bash script
    #[arg(long)]
    pub(crate) bash: bool,
    /// File to put into the session's work directory first; may be given again
    #[arg(long, value_name = "FILE")]
    pub(crate) upload: Vec<PathBuf>,
    /// Refuse to start a session
    #[arg(long, conflicts_with = "template")]
    pub(crate) no_create: bool,
    /// Template or kernelspec of a session that is started [default: the gateway's default kernelspec]
    #[arg(long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// Write output to a terminal as it is; otherwise a terminal gets text, colours and line ends only, and nothing
    /// that sets the clipboard, makes links or moves the cursor
    #[arg(long)]
    pub(crate) raw: bool,
    /// Save plots into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
    /// Interrupt it after it has run so long: 90, 10m
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<Seconds>,
    /// Run it in this kernel process only
    #[arg(long, value_name = "NUMBER")]
    pub(crate) expect_incarnation: Option<u32>,
    /// Refuse it when so many executions of the session in a row have failed (1 to 100)
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) max_failures: Option<u32>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

/// Which gateway, and how to get in.
#[derive(Clone, Debug, Args)]
pub(crate) struct GatewayArgs {
    /// Its address [default: that of the gateway that runs on --data-dir]
    #[arg(long, value_name = "URL", env = "HIMALIA_URL")]
    pub(crate) url: Option<String>,
    /// Its token; visible in `ps`, so prefer --token-file
    #[arg(long, value_name = "TOKEN", env = "HIMALIA_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<Secret>,
    /// File whose first line is the token
    #[arg(long, value_name = "FILE", env = "HIMALIA_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The gateway's data directory, where it says its address [default: ~/.local/share/himalia/data]
    #[arg(long, value_name = "DIR", env = "HIMALIA_DATA_DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print the gateway's reply as JSON
    #[arg(long)]
    pub(crate) json: bool,
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
