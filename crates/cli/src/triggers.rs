//! Shared parts of the commands for schedules and for webhooks.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::args::gateway::GatewayArgs;
use crate::schedules::TargetArgs;
use crate::support::{connect, expect, print};
use crate::values::Seconds;

/// Skill or workflow that a new schedule or webhook starts.
pub(super) struct TriggerTarget {
    pub(super) target: TargetArgs,
    pub(super) version: Option<String>,
    pub(super) template: Option<String>,
    pub(super) timeout: Option<Seconds>,
    pub(super) callback: Option<String>,
}

impl TriggerTarget {
    /// Writes it into the body of a request.
    pub(super) fn write(self, body: &mut Value) {
        for (member, given) in [
            ("skill", self.target.skill),
            ("workflow", self.target.workflow),
            ("version", self.version),
        ] {
            if let Some(value) = given {
                body["target"][member] = value.into();
            }
        }
        for (member, given) in [
            ("template", self.template.map(Value::from)),
            ("timeout_s", self.timeout.map(|time| time.0.into())),
            ("callback", self.callback.map(Value::from)),
        ] {
            if let Some(value) = given {
                body[member] = value;
            }
        }
    }
}

/// Switches the one at a path on or off.
pub(super) async fn switch(
    gateway: &GatewayArgs,
    path: &str,
    enabled: bool,
    show: fn(&Value) -> String,
) -> anyhow::Result<ExitCode> {
    let reply = connect(gateway)?
        .patch(path, &json!({ "enabled": enabled }))
        .await?;
    print(gateway.json, &expect(&reply, 200)?, show)
}
