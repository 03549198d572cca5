//! Routes of the API.

use std::time::Duration;

use himalia_egress::Body;
use himalia_model::{CallTool, MAX_JSON_MEMORY, exceeds_json_memory};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use url::form_urlencoded;

use crate::answer::{Problem, json, problem};
use crate::door::MAX_BODY_BYTES;
use crate::{NAME, RunOfSkill, SessionApi, llm};

/// Tools of an answer, if the request does not say how many, and at most.
const LIMIT: usize = 10;
const MAX_LIMIT: usize = 100;

/// Longest wait of a request for the end of a prompt or a run.
const MAX_WAIT: Duration = Duration::from_mins(1);

const PATHS: &str = "GET /v1/servers, GET /v1/servers/{server}/tools?after=, GET /v1/tools?server=&query=&limit=, GET /v1/tools/{id}, POST /v1/calls, \
                     POST /v1/prompts, GET /v1/prompts/{id}?wait_s=, GET /v1/skills, GET /v1/skills/{name}?version=, \
                     POST /v1/skills/{name}/runs, GET /v1/runs/{id}?wait_s=, DELETE /v1/runs/{id}, \
                     and OpenAI's API below /llm/v1";

/// A call as it is sent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallBody {
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    #[serde(default)]
    timeout_s: Option<f64>,
    #[serde(default)]
    approval: Option<String>,
    #[serde(default)]
    approval_key: Option<String>,
    #[serde(default)]
    line: Option<u32>,
}

/// Answers a request, whatever it is.
pub(crate) async fn respond(api: &dyn SessionApi, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    if let Some(path) = llm_path(head.uri.path()) {
        return llm::respond(api, path, &head, body).await;
    }
    answer(api, &head, body)
        .await
        .unwrap_or_else(|error| problem(&error))
}

/// Returns true if a path is one of `OpenAI`'s API.
pub(crate) fn is_llm(path: &str) -> bool {
    llm_path(path).is_some()
}

fn llm_path(path: &str) -> Option<&str> {
    path.trim_matches('/').strip_prefix("llm/")
}

async fn answer(api: &dyn SessionApi, head: &Parts, body: Body) -> Result<Response<Body>, Problem> {
    let path = head.uri.path().trim_matches('/').to_owned();
    let parts: Vec<&str> = path.splitn(3, '/').collect();
    match (&head.method, &parts[..]) {
        (&Method::GET, ["v1", "servers"]) => Ok(json(&api.tool_servers().await?)),
        (&Method::GET, ["v1", "servers", rest]) => {
            let server = rest.strip_suffix("/tools").and_then(decode);
            let server = server.ok_or_else(no_path)?;
            let after = query(head, &["after"])?.pop().map(|(_, name)| name);
            Ok(json(
                &api.tools_of_server(server, after.unwrap_or_default()).await?,
            ))
        }
        (&Method::GET, ["v1", "tools"]) => {
            let query = query(head, &["server", "query", "limit"])?;
            let said = |name: &str| {
                query
                    .iter()
                    .find(|(key, _)| key == name)
                    .map(|(_, value)| value.clone())
            };
            let limit = match said("limit") {
                None => LIMIT,
                Some(text) => {
                    let number = text
                        .parse()
                        .ok()
                        .filter(|number| (1..=MAX_LIMIT).contains(number));
                    number.ok_or_else(|| Problem::member("limit", format_args!("is not 1 to {MAX_LIMIT}")))?
                }
            };
            let server = said("server").filter(|name| !name.is_empty());
            let words = said("query").unwrap_or_default();
            Ok(json(&api.search_tools(server, words, limit).await?))
        }
        (&Method::GET, ["v1", "tools", id]) => {
            let id = decode(id).ok_or_else(|| Problem::member("id", "is not UTF-8"))?;
            Ok(json(&api.tool_info(id).await?))
        }
        (&Method::POST, ["v1", "calls"]) => {
            let CallBody {
                tool,
                arguments,
                timeout_s,
                approval,
                approval_key,
                line,
            } = read(body).await?;
            let call = CallTool {
                tool,
                arguments,
                timeout_s,
                approval,
                approval_key,
                line,
            };
            Ok(json(&api.call_tool(call).await?))
        }
        (&Method::POST, ["v1", "prompts"]) => Ok(json(&api.ask(read(body).await?).await?)),
        (&Method::GET, ["v1", "prompts", id]) => {
            let wait = wait(head)?;
            Ok(json(&api.prompt((*id).to_owned(), wait).await?))
        }
        (&Method::GET, ["v1", "skills"]) => Ok(json(&api.skills().await?)),
        (&Method::GET, ["v1", "skills", name]) => {
            let query = query(head, &["version"])?;
            let version = query.into_iter().next().map(|(_, version)| version);
            Ok(json(&api.skill((*name).to_owned(), version).await?))
        }
        (&Method::POST, ["v1", "skills", rest]) if rest.ends_with("/runs") => {
            let name = rest.trim_end_matches("/runs").to_owned();
            let wanted: RunOfSkill = read(body).await?;
            let wait = match wanted.wait_s {
                None => Duration::ZERO,
                Some(seconds) => seconds_of_wait(Some(seconds))?,
            };
            Ok(json(&api.run_skill(name, wanted, wait).await?))
        }
        (&Method::GET, ["v1", "runs", id]) => {
            let wait = wait(head)?;
            Ok(json(&api.skill_run((*id).to_owned(), wait).await?))
        }
        (&Method::DELETE, ["v1", "runs", id]) => Ok(json(&api.stop_skill_run((*id).to_owned()).await?)),
        _ => Err(no_path()),
    }
}

fn no_path() -> Problem {
    let message = format!("http://{NAME} has {PATHS}");
    Problem::new(StatusCode::NOT_FOUND, "not_found", &message)
}

/// The `wait_s` of a request.
fn wait(head: &Parts) -> Result<Duration, Problem> {
    let query = query(head, &["wait_s"])?;
    match query.first() {
        None => Ok(Duration::ZERO),
        Some((_, text)) => seconds_of_wait(text.parse().ok()),
    }
}

fn seconds_of_wait(seconds: Option<f64>) -> Result<Duration, Problem> {
    let wait = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let wait = wait.filter(|wait| *wait <= MAX_WAIT);
    wait.ok_or_else(|| Problem::member("wait_s", format_args!("is not 0 to {}", MAX_WAIT.as_secs())))
}

fn query(head: &Parts, known: &[&str]) -> Result<Vec<(String, String)>, Problem> {
    let pairs = form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes());
    let pairs: Vec<(String, String)> = pairs.into_owned().collect();
    match pairs.iter().find(|(key, _)| !known.contains(&key.as_str())) {
        Some((key, _)) => {
            let shown: String = key.chars().take(64).collect();
            Err(Problem::member(
                &shown,
                format_args!("is unknown; there are {}", known.join(", ")),
            ))
        }
        None => Ok(pairs),
    }
}

/// A part of a path without its percent signs.
fn decode(part: &str) -> Option<String> {
    // A plus is a plus in a path.
    let part = part.replace('+', "%2B");
    let mut decoded = form_urlencoded::parse(part.as_bytes());
    let (name, value) = decoded.next()?;
    // What has a `=` or `&` in it is no name of a tool.
    let whole = value.is_empty() && decoded.next().is_none() && !part.contains('=');
    (whole && !name.contains('\u{fffd}')).then(|| name.into_owned())
}

async fn read<T: DeserializeOwned>(body: Body) -> Result<T, Problem> {
    serde_json::from_slice(&whole(body).await?).map_err(|error| Problem::member("body", error))
}

/// All of the body of a request.
pub(crate) async fn whole(mut body: Body) -> Result<Vec<u8>, Problem> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::member("body", "ended early"))?;
        let data = frame.into_data().unwrap_or_default();
        if whole.len() + data.len() > MAX_BODY_BYTES {
            let message = format!("the request has more than {MAX_BODY_BYTES} bytes");
            return Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "request_too_large",
                &message,
            ));
        }
        whole.extend_from_slice(&data);
    }
    if exceeds_json_memory(&whole, MAX_JSON_MEMORY) {
        let message = format!(
            "the request has so many small values that they would take more than {} MiB of memory",
            MAX_JSON_MEMORY >> 20
        );
        return Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "request_too_large",
            &message,
        ));
    }
    Ok(whole)
}
