//! `himalia approval`: tools that were approved for later sessions.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::json;

use super::show;
use crate::args::approvals::ApprovalCommand;
use crate::support::{array, connect, encoded, print};

pub(super) async fn call(command: ApprovalCommand) -> anyhow::Result<ExitCode> {
    match command {
        ApprovalCommand::List { gateway } => {
            let body = connect(&gateway)?.list("/v1/tool-approvals", "approvals").await?;
            print(gateway.json, &body, |body| {
                show::approvals(array(&body["approvals"]))
            })
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
