//! `interrupt`: interrupts running code, and keeps the variables.

use rmcp::model::Tool;
use serde::Deserialize;
use serde_json::json;

use super::entry::{Effects, ToolEntry, tool};
use crate::call::{Answer, Call, answer};
use crate::failure::Failure;
use crate::{arguments, sessions};

pub(super) const TOOL: ToolEntry = ToolEntry {
    name: "interrupt",
    describe,
    run: |call| Box::pin(run(call)),
};

fn describe(name: &'static str) -> Tool {
    let effects = Effects {
        read_only: false,
        destructive: false,
        idempotent: true,
        open_world: false,
    };
    let schema = json!({
        "type": "object",
        "properties": {
            "session": {"type": "string", "description": "the code that runs in it"},
            "execution_id": {"type": "string"}
        }
    });
    let description = "Interrupt running code: give one of the two. Variables stay.";
    tool(name, "Interrupt", description, schema, &effects)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    session: Option<String>,
    execution_id: Option<String>,
}

async fn run(mut call: Call) -> Answer {
    let wanted: Arguments = arguments::read(call.take_arguments())?;
    let stopping = match (wanted.session, wanted.execution_id) {
        (Some(session), None) => {
            let session = sessions::find(&call, &session)?;
            call.engine.interrupt_kernel(&call.principal, session).await?;
            true
        }
        (None, Some(id)) => {
            let id = id.parse()?;
            let stopping = call.engine.interrupt_execution(&call.principal, id).await?;
            call.subject.is_execution(id);
            stopping
        }
        _ => {
            return Err(Failure::Arguments(
                "give session or execution_id, one of the two".into(),
            ));
        }
    };
    let text = if stopping {
        "the interrupt is on its way"
    } else {
        "it had already ended"
    };
    Ok(answer(json!({ "stopping": stopping }), text.into()).into())
}
