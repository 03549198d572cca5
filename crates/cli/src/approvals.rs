//! `himalia approval`: tools that were approved for later sessions.

use std::process::ExitCode;

use anyhow::bail;
use clap::Subcommand;
use serde_json::{Value, json};

use crate::args::gateway::GatewayArgs;
use crate::show::{Column, listed, since, word};
use crate::support::{array, connect, encoded, print};

#[derive(Debug, Subcommand)]
pub enum ApprovalCommand {
    /// List tools that are called without a question, in sessions of one template that one caller starts
    #[command(name = "ls")]
    List(GatewayArgs),
    /// Ask a person again for each call
    Revoke {
        /// Ids of the approvals
        #[arg(required = true)]
        approvals: Vec<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}

pub(super) async fn call(command: ApprovalCommand) -> anyhow::Result<ExitCode> {
    match command {
        ApprovalCommand::List(gateway) => {
            let body = connect(&gateway)?.list("/v1/tool-approvals", "approvals").await?;
            print(gateway.json, &body, |body| approvals(array(&body["approvals"])))
        }
        ApprovalCommand::Revoke { approvals, gateway } => {
            let client = connect(&gateway)?;
            for approval in &approvals {
                let path = format!("/v1/tool-approvals/{}", encoded(approval));
                let reply = client.delete(&path).await?;
                if reply.status != 204 {
                    bail!("{}", reply.problem());
                }
            }
            print(gateway.json, &json!({ "revoked": approvals }), |_| String::new())
        }
    }
}

/// A table of tools that are approved for later sessions.
fn approvals(approvals: &[Value]) -> String {
    listed(approvals, APPROVALS, "no approvals")
}

const APPROVALS: &[Column] = &[
    ("ID", |approval| word(approval, "id")),
    ("OWNER", |approval| word(approval, "owner")),
    ("CALLER", |approval| word(approval, "caller")),
    ("TEMPLATE", |approval| word(approval, "template")),
    ("TOOL", |approval| word(approval, "tool")),
    ("AGE", |approval| since(&approval["approved"])),
    ("APPROVED BY", |approval| word(approval, "approved_by")),
];
