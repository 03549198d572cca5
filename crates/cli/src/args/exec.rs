//! `himalia exec`.

use std::path::PathBuf;

use clap::Args;

use super::gateway::GatewayArgs;
use crate::values::Seconds;

pub const EXAMPLES: &str = "\
Examples:
  himalia exec eda 'df = 6 * 7'       start session eda if it does not exist, and run code in it
  himalia exec eda 'print(df)'        variables stay for later calls
  himalia exec eda --upload sales.csv --file report.py --timeout 10m
  himalia exec eda --bash 'ls -l; nproc'
  echo 'print(1)' | himalia exec eda - --json

Plots are shown in terminals with graphics (Kitty, Ghostty, WezTerm, iTerm2). Other terminals save them to the working
directory; --plots always saves them. The path of each saved plot is printed. On a terminal input() and getpass() ask you;
elsewhere they raise.
Ctrl-C interrupts the code; a second Ctrl-C leaves it running.

Exit codes:
  0    the code completed
  1    the code raised, or was refused
  3    the kernel's process ended
  124  the code timed out
  130  the code was interrupted";

/// Code to run, and its session.
#[derive(Debug, Args)]
pub struct ExecArgs {
    /// A session: its id, a prefix of its id, its name, or its label `name`. A name that does not exist starts a
    /// session
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
    /// Upload this file to the session's work directory first; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) upload: Vec<PathBuf>,
    /// Fail if the session does not exist
    #[arg(long, conflicts_with = "template")]
    pub(crate) no_create: bool,
    /// Template or kernelspec of a session that is started [default: the gateway's default kernelspec]
    #[arg(long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// Write output to a terminal unchanged; by default a terminal gets only text, colours and line ends, and no
    /// sequences that set the clipboard, create links or move the cursor
    #[arg(long)]
    pub(crate) raw: bool,
    /// Save plots into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
    /// Interrupt the code after this run time: 90, 10m. Code that ignores three interrupts continues, and the command ends with 124
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<Seconds>,
    /// Run the code only in this kernel process
    #[arg(long, value_name = "NUMBER")]
    pub(crate) expect_incarnation: Option<u32>,
    /// Refuse the code after this many consecutive failures in the session (1 to 100)
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) max_failures: Option<u32>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}
