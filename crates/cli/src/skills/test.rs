//! `himalia skill test`: the tests of a manifest, in one session.

use std::fmt::Write as _;
use std::process::ExitCode;

use himalia_skills::{OUTPUT_TYPE, Skill, TestCase, code, outputs};
use serde_json::{Value, json};

use super::WAIT_S;
use crate::args::gateway::GatewayArgs;
use crate::http::Client;
use crate::show;
use crate::support::{connect, encoded, expect, print};

/// Seconds that a test may take, if the skill does not say.
const TIMEOUT_S: u32 = 600;

pub(super) async fn test(
    gateway: &GatewayArgs,
    skill: &Skill,
    template: Option<String>,
) -> anyhow::Result<ExitCode> {
    let manifest = skill.manifest();
    if manifest.tests.is_empty() {
        return print(gateway.json, &json!({ "tests": [] }), |_| {
            "valid; no tests\n".to_owned()
        });
    }
    let client = connect(gateway)?;
    let mut session = json!({ "labels": { "himalia.skill": format!("{} test", manifest.name) } });
    // As a run of it would have.
    session["network"] = if manifest.network.is_empty() {
        "none".into()
    } else {
        json!({ "allow": manifest.network })
    };
    if let Some(template) = template.or_else(|| manifest.template.clone()) {
        session["template"] = template.into();
    }
    let session = expect(&client.post("/v1/sessions", &session).await?, 201)?;
    let id = session["id"].as_str().unwrap_or_default().to_owned();
    let done = run_all(&client, &id, skill).await;
    client.delete(&format!("/v1/sessions/{}", encoded(&id))).await?;
    let results = done?;
    let failed = results.iter().any(|result| !result["reason"].is_null());
    print(gateway.json, &json!({ "tests": results }), |body| {
        let mut text = String::new();
        for result in body["tests"].as_array().into_iter().flatten() {
            let name = show::clean(result["name"].as_str().unwrap_or_default());
            let _ = match result["reason"].as_str() {
                None => writeln!(text, "ok      {name}"),
                Some(reason) => writeln!(text, "FAILED  {name}: {}", show::clean(reason)),
            };
        }
        text
    })?;
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

async fn run_all(client: &Client, session: &str, skill: &Skill) -> anyhow::Result<Vec<Value>> {
    let mut results = Vec::new();
    for test in &skill.manifest().tests {
        let execution = execute(client, session, skill, test).await?;
        let shown = shown(client, &execution).await?;
        let reason = judge(skill, test, &execution, shown.as_ref().and_then(outputs));
        results.push(json!({ "name": test.name, "reason": reason }));
    }
    Ok(results)
}

async fn execute(client: &Client, session: &str, skill: &Skill, test: &TestCase) -> anyhow::Result<Value> {
    let body = json!({
        "code": code(skill, &test.inputs)?,
        "timeout_s": skill.manifest().timeout_s.unwrap_or(TIMEOUT_S),
        "wait_s": WAIT_S,
    });
    let reply = client
        .post(&format!("/v1/sessions/{}/executions", encoded(session)), &body)
        .await?;
    if ![200, 202].contains(&reply.status) {
        anyhow::bail!("{}", reply.problem());
    }
    let mut execution = reply.json()?;
    while ["queued", "running"].contains(&execution["status"].as_str().unwrap_or_default()) {
        let id = execution["id"].as_str().unwrap_or_default();
        let path = format!("/v1/executions/{}?wait_s={WAIT_S}", encoded(id));
        execution = expect(&client.get(&path).await?, 200)?;
    }
    Ok(execution)
}

/// Outputs that the execution displayed.
async fn shown(client: &Client, execution: &Value) -> anyhow::Result<Option<Value>> {
    let all = execution["outputs"].as_array().into_iter().flatten();
    let Some(shown) = all
        .rev()
        .map(|output| &output["data"][OUTPUT_TYPE])
        .find(|data| !data.is_null())
    else {
        return Ok(None);
    };
    let artifact = shown["artifact"]
        .as_str()
        .and_then(|text| text.strip_prefix("sha256:"));
    match artifact {
        None => Ok(Some(shown.clone())),
        Some(sha256) => {
            let reply = client.get(&format!("/v1/artifacts/{}", encoded(sha256))).await?;
            expect(&reply, 200).map(Some)
        }
    }
}

/// Reason why a test has failed; `None`: it has passed.
fn judge(skill: &Skill, test: &TestCase, execution: &Value, outputs: Option<&Value>) -> Option<String> {
    let raised = &execution["error"];
    let name = raised["name"].as_str();
    if let Some(wanted) = &test.error {
        return match name {
            Some(name) if name == wanted => None,
            Some(name) => Some(format!("raised {name}, not {wanted}")),
            None => Some(format!("raised nothing, not {wanted}")),
        };
    }
    if let Some(name) = name {
        return Some(format!(
            "{name}: {}",
            raised["value"].as_str().unwrap_or_default()
        ));
    }
    let Some(outputs) = outputs else {
        let status = execution["status"].as_str().unwrap_or_default();
        return Some(format!("has no outputs: {status}"));
    };
    let wrong = skill.check_outputs(outputs).ok()?;
    if let Some(wrong) = wrong.first() {
        return Some(format!("outputs{}: {}", wrong.path, wrong.text));
    }
    match &test.outputs {
        Some(wanted) if wanted != outputs => Some(format!("outputs are {outputs}, not {wanted}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use himalia_skills::Files;

    use super::*;

    #[test]
    fn a_test_passes_only_as_its_manifest_says() {
        let manifest = json!({"name": "a", "version": "1.0.0", "kind": "code", "description": "d",
            "inputs": {"type": "object"}, "outputs": {"type": "integer"}});
        let files: Files = [("main.py".to_owned(), b"def main():\n    return 1\n".to_vec())].into();
        let skill = Skill::new(serde_json::from_value(manifest).unwrap(), files).unwrap();
        let test = |outputs: Option<i64>, error: Option<&str>| TestCase {
            name: "t".into(),
            inputs: serde_json::Map::new(),
            outputs: outputs.map(Value::from),
            error: error.map(str::to_owned),
        };
        let ok = json!({"status": "ok", "error": null});
        let raised = json!({"status": "error", "error": {"name": "ValueError", "value": "no"}});
        for (test, execution, outputs, wanted) in [
            (test(None, None), &ok, Some(json!(1)), None),
            (test(Some(1), None), &ok, Some(json!(1)), None),
            (
                test(Some(2), None),
                &ok,
                Some(json!(1)),
                Some("outputs are 1, not 2"),
            ),
            (
                test(None, None),
                &ok,
                Some(json!("x")),
                Some("outputs: \"x\" is not of type \"integer\""),
            ),
            (test(None, None), &ok, None, Some("has no outputs: ok")),
            (test(None, None), &raised, None, Some("ValueError: no")),
            (test(None, Some("ValueError")), &raised, None, None),
            (
                test(None, Some("KeyError")),
                &raised,
                None,
                Some("raised ValueError, not KeyError"),
            ),
            (
                test(None, Some("KeyError")),
                &ok,
                Some(json!(1)),
                Some("raised nothing, not KeyError"),
            ),
        ] {
            assert_eq!(
                judge(&skill, &test, execution, outputs.as_ref()).as_deref(),
                wanted
            );
        }
    }
}
