//! `himalia prompts`.

use clap::{Args, Subcommand};

use super::gateway::GatewayArgs;

pub const EXAMPLES: &str = "\
Examples:
  himalia prompts                        prompts that wait for a person
  himalia prompts show prm_…             one of them, with all arguments
  himalia prompts answer prm_…           asks you
  himalia prompts answer prm_… once      approve this call of a tool
  himalia prompts answer prs_… approve   a step of a workflow

A call of a tool is approved with once, for as long as its session lives with session, for later sessions of the same caller and
template too with always, and refused with deny. Approvals of calls and of steps need a token with the scope admin.";

/// Prompts that wait for a person.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PromptsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<PromptsCommand>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

#[derive(Debug, Subcommand)]
pub enum PromptsCommand {
    /// List prompts that wait for an answer, as without a subcommand
    #[command(name = "ls")]
    List {
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Show one of them with its whole text and all arguments
    Show {
        /// Id of the prompt
        prompt: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Answer one of them, once
    Answer {
        /// Id of the prompt
        prompt: String,
        /// One of its options, or a text if it has none [default: on a terminal you are asked, else the first line of standard input]
        value: Option<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}
