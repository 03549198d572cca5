//! `himalia session`.

use clap::Subcommand;

use super::gateway::GatewayArgs;
use crate::values::Seconds;

#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// Start a session, or find the one with this name
    New {
        /// Lower-case letters, digits and hyphens
        name: String,
        /// Template or kernelspec [default: the gateway's default kernelspec]
        #[arg(long, value_name = "NAME")]
        template: Option<String>,
        /// A label of a new session; may be given several times
        #[arg(long = "label", value_name = "NAME=VALUE")]
        labels: Vec<String>,
        /// End it after this time without activity: 90, 10m
        #[arg(long, value_name = "TIME")]
        idle_timeout: Option<Seconds>,
        /// End it after this time, even if it is active
        #[arg(long, value_name = "TIME")]
        lifetime: Option<Seconds>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// List sessions: state, age, time without activity, memory in use
    Ls {
        /// Only sessions with this label, or this label and value; may be given several times
        #[arg(long = "label", value_name = "NAME[=VALUE]")]
        labels: Vec<String>,
        /// Also show full ids, kernelspec, isolation, start path, parent, owner and labels
        #[arg(long)]
        wide: bool,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Fork a session: the new sessions have its variables, and a copy of its files
    Fork {
        /// Id of the session, a prefix of it, or the session's name
        session: String,
        /// Number of branches, at most 16
        #[arg(long, value_name = "NUMBER", default_value_t = 1)]
        count: u32,
        /// strict: refuse if a fork may break something; report: refuse only if it would, and report the rest
        #[arg(long, value_name = "POLICY", default_value = "strict")]
        policy: String,
        /// copy or share
        #[arg(long, value_name = "FILES", default_value = "copy")]
        files: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// End sessions with everything in them
    Rm {
        /// Ids or names of the sessions
        #[arg(required = true)]
        sessions: Vec<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}
