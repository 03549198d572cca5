//! The one table of routes. The router is built from it; tests walk it.

use axum::Router;
use axum::extract::{MatchedPath, State};
use axum::http::Method;
use axum::routing::{delete, get, patch, post, put};

use crate::app::App;
use crate::auth::Caller;
use crate::facades::{azure, e2b, mcp, mcp_body, openai};
use crate::jupyter::{about, channels, kernels, kernelspecs, me, merge, session_body, sessions};
use crate::labels::RouteLabel;
use crate::openapi::{codes, describe};
use crate::relay::PathParameter::{Execution, JupyterSession, Kernel, Prompt, Run, Session};
use crate::relay::Repeatability::{Always, If, Keyed, KeyedCall, Never};
use crate::relay::ServedAt::{All, Body, Events, First, Head, Here, Owner, OwnerOrStart, Start};
use crate::relay::StartBody;
use crate::route::{Access, Route};
use crate::v1::prompt_webhooks::PromptWebhook;
use crate::v1::schedules::{ChangeScheduleRequest, Schedule};
use crate::v1::triggers;
use crate::v1::webhooks::{ChangeWebhookRequest, Webhook};
use crate::{health, oidc, v1, viewer};

macro_rules! route {
    (V1 $method:ident $path:literal $id:ident, $at:expr, $summary:literal, $routing:ident($handler:path), [$($group:ident)*] $(, $repeatable:expr)?) => {
        Route {
            method: Method::$method,
            path: $path,
            access: Access::Token,
            websocket: false,
            served_at: $at,
            repeatable: route!(@repeatable $($repeatable)?),
            id: stringify!($id),
            summary: $summary,
            operation: Some(|operation| {
                describe(&$handler, operation);
                $(operation.errors(codes::$group);)*
            }),
            handler: || $routing($handler),
        }
    };
    ($method:ident $path:literal $access:ident, $at:expr, $summary:literal, $handler:expr $(, $repeatable:expr)?) => {
        Route {
            method: Method::$method,
            path: $path,
            access: Access::$access,
            websocket: false,
            served_at: $at,
            repeatable: route!(@repeatable $($repeatable)?),
            id: "",
            summary: $summary,
            operation: None,
            handler: || $handler,
        }
    };
    (WS $path:literal, $at:expr, $summary:literal, $handler:expr) => {
        Route {
            method: Method::GET,
            path: $path,
            access: Access::Token,
            websocket: true,
            served_at: $at,
            repeatable: Never,
            id: "",
            summary: $summary,
            operation: None,
            handler: || $handler,
        }
    };
    (@repeatable) => { Never };
    (@repeatable $repeatable:expr) => { $repeatable };
}

pub static ROUTES: &[Route] = &[
    route!(GET "/healthz" Public, Here, "Whether the process lives", get(health::healthz)),
    route!(GET "/readyz" Public, Here, "Whether new work is taken", get(health::readyz)),
    route!(GET "/.well-known/oauth-protected-resource" Public, Here, "Tokens that MCP wants", get(mcp::metadata)),
    route!(GET "/.well-known/oauth-protected-resource/mcp" Public, Here, "Tokens that MCP wants", get(mcp::metadata)),
    route!(GET "/metrics" Token, Here, "Metrics of the gateway, for its operator", get(health::metrics)),
    route!(GET "/" Public, Here, "The viewer, a page for people", get(viewer::page)),
    route!(GET "/frame.html" Public, Here, "The viewer's frame for output", get(viewer::frame_page)),
    route!(GET "/icon.svg" Public, Here, "The viewer's icon", get(viewer::icon)),
    route!(GET "/assets/{file}" Public, Here, "A file of the viewer", get(viewer::asset)),
    route!(GET "/frame/{file}" Anywhere, Here, "A file of the viewer's frame", get(viewer::frame_file)),
    route!(GET "/viewer/sign-in" Public, Here, "The ways to sign a browser in", get(oidc::ways)),
    route!(GET "/viewer/oidc" Public, Here, "Sign in with the identity provider", get(oidc::start)),
    route!(GET "/viewer/oidc/callback" Public, Here, "Where the identity provider sends a browser back", get(oidc::callback)),
    route!(GET "/viewer/grant" Public, Here, "Where an authorization server sends a browser back", get(viewer::grant)),
    route!(POST "/viewer/sign-in" Public, Here, "Sign a browser in", post(viewer::sign_in)),
    route!(POST "/viewer/sign-out" Public, Here, "Sign a browser out", post(viewer::sign_out)),
    route!(GET "/api" Public, Here, "Version", get(about::version)),
    route!(GET "/api/spec.yaml" Token, Here, "This list", get(async |State(app): State<App>, _: Caller| about::spec(&app, ROUTES))),
    route!(GET "/api/status" Token, All(merge::STATUS), "Counts and times of the caller's kernels", get(about::status)),
    route!(GET "/api/me" Token, Here, "Who the caller is and what it may do", get(me::show)),
    route!(PATCH "/api/me" Token, Here, "Not supported (501)", patch(me::change)),
    route!(GET "/api/kernels" Token, All(merge::LISTS), "All kernels of the caller", get(kernels::list)),
    route!(POST "/api/kernels" Token, Start(StartBody::Kernel), "Start a kernel", post(kernels::start)),
    route!(GET "/api/kernels/{kernel_id}" Token, Owner(Kernel), "One kernel", get(kernels::show)),
    route!(DELETE "/api/kernels/{kernel_id}" Token, Owner(Kernel), "End a kernel", delete(kernels::shutdown)),
    route!(POST "/api/kernels/{kernel_id}/interrupt" Token, Owner(Kernel), "Interrupt a kernel", post(kernels::interrupt)),
    route!(POST "/api/kernels/{kernel_id}/restart" Token, Owner(Kernel), "Restart a kernel in place", post(kernels::restart)),
    route!(WS "/api/kernels/{kernel_id}/channels", Owner(Kernel), "A kernel's messages", get(channels::open)),
    route!(GET "/api/kernelspecs" Token, Here, "All kernelspecs", get(kernelspecs::list)),
    route!(GET "/api/kernelspecs/{name}" Token, Here, "One kernelspec", get(kernelspecs::show)),
    route!(GET "/kernelspecs/{name}/{file}" Token, Here, "A file of a kernelspec", get(kernelspecs::file)),
    route!(GET "/api/sessions" Token, All(merge::LISTS), "All sessions", get(sessions::list)),
    route!(POST "/api/sessions" Token, Body(session_body::BODY), "Make a session, or find the one with this path", post(sessions::create)),
    route!(GET "/api/sessions/{session_id}" Token, Owner(JupyterSession), "One session", get(sessions::show)),
    route!(PATCH "/api/sessions/{session_id}" Token, Owner(JupyterSession), "Change a session", patch(sessions::change)),
    route!(DELETE "/api/sessions/{session_id}" Token, Owner(JupyterSession), "End a session and its kernel", delete(sessions::end)),
    route!(V1 GET "/v1/sessions" list_sessions, All(v1::session_pages::MERGED), "List sessions", get(v1::sessions::list), []),
    route!(V1 POST "/v1/sessions" create_session, Start(StartBody::Session), "Start a session", post(v1::sessions::create), [START], Keyed),
    route!(V1 GET "/v1/sessions/{session_id}" get_session, Owner(Session), "Get a session", get(v1::sessions::show), [RETENTION]),
    route!(V1 GET "/v1/sessions/{session_id}/usage" get_session_usage, Owner(Session), "Get the resource use of a session's sandbox", get(v1::sessions::usage), [KERNEL]),
    route!(V1 PUT "/v1/sessions/{session_id}" put_session, OwnerOrStart(Session), "Get the session with this name, or start it", put(v1::sessions::put), [START KERNEL], Always),
    route!(V1 PATCH "/v1/sessions/{session_id}" update_session, Owner(Session), "Change a session's labels and lifetimes", patch(v1::sessions::change), [CHANGE KERNEL]),
    route!(V1 DELETE "/v1/sessions/{session_id}" end_session, Owner(Session), "End a session", delete(v1::sessions::end), [KERNEL]),
    route!(V1 POST "/v1/sessions/{session_id}/fork" fork_session, Owner(Session), "Branch a live session", post(v1::fork::fork), [FORK KERNEL]),
    route!(V1 POST "/v1/sessions/{session_id}/interrupt" interrupt_session, Owner(Session), "Interrupt the running code of a session", post(v1::sessions::interrupt), [KERNEL]),
    route!(V1 POST "/v1/sessions/{session_id}/restart" restart_session, Owner(Session), "Restart the kernel of a session", post(v1::sessions::restart), [KERNEL RESTART RETENTION]),
    route!(V1 GET "/v1/sessions/{session_id}/kernels" list_kernels, Owner(Session), "List the kernels of a session", get(v1::kernels::list), []),
    route!(V1 POST "/v1/sessions/{session_id}/kernels" create_kernel, Owner(Session), "Start an additional kernel in a session", post(v1::kernels::create), [ADDITIONAL KERNEL]),
    route!(V1 GET "/v1/sessions/{session_id}/kernels/{kernel_id}" get_kernel, Owner(Session), "Get a kernel of a session", get(v1::kernels::show), []),
    route!(V1 DELETE "/v1/sessions/{session_id}/kernels/{kernel_id}" end_kernel, Owner(Session), "End an additional kernel", delete(v1::kernels::end), [KERNEL]),
    route!(V1 POST "/v1/sessions/{session_id}/kernels/{kernel_id}/interrupt" interrupt_kernel, Owner(Session), "Interrupt a kernel", post(v1::kernels::interrupt), [KERNEL]),
    route!(V1 POST "/v1/sessions/{session_id}/kernels/{kernel_id}/restart" restart_kernel, Owner(Session), "Restart a kernel", post(v1::kernels::restart), [KERNEL RESTART]),
    route!(V1 GET "/v1/sessions/{session_id}/executions" list_executions, Owner(Session), "List the latest executions of a session", get(v1::executions::list), [LOG RETENTION]),
    route!(V1 POST "/v1/sessions/{session_id}/executions" execute, Owner(Session), "Run code in a session", post(v1::executions::create), [RUN KERNEL REMOVED RESTART], Keyed),
    route!(V1 GET "/v1/sessions/{session_id}/executions/events" stream_executions, Events(Session), "Stream the events of all executions of a session", get(v1::executions::session_events), [LOG RETENTION]),
    route!(V1 GET "/v1/sessions/{session_id}/variables" list_variables, Owner(Session), "List the variables of a session", get(v1::variables::list), [QUESTION KERNEL]),
    route!(V1 GET "/v1/sessions/{session_id}/variables/{name}" get_variable, Owner(Session), "Get a part of a variable", get(v1::variables::show), [QUESTION KERNEL]),
    route!(V1 GET "/v1/sessions/{session_id}/files" list_files, Owner(Session), "List the files of a session", get(v1::files::list), [FILES KERNEL RESTART]),
    route!(V1 GET "/v1/sessions/{session_id}/files/{*path}" read_file, Owner(Session), "Get a file", get(v1::files::show), [FILES RANGE KERNEL RESTART]),
    route!(V1 PUT "/v1/sessions/{session_id}/files/{*path}" write_file, Owner(Session), "Write a file", put(v1::files::put), [FILES WRITE KERNEL RESTART]),
    route!(V1 DELETE "/v1/sessions/{session_id}/files/{*path}" delete_file, Owner(Session), "Remove a file or a directory", delete(v1::files::delete), [FILES KERNEL RESTART]),
    route!(V1 POST "/v1/sessions/{session_id}/upload" upload_archive, Owner(Session), "Write files from a tar archive", post(v1::files::upload), [FILES WRITE KERNEL RESTART]),
    route!(V1 GET "/v1/sessions/{session_id}/archive" download_archive, Owner(Session), "Get a directory as a tar archive", get(v1::files::archive), [FILES KERNEL RESTART]),
    route!(V1 GET "/v1/sessions/{session_id}/artifacts" list_artifacts, Owner(Session), "List the artifacts of a session", get(v1::artifacts::list), [LOG RETENTION]),
    route!(V1 GET "/v1/sessions/{session_id}/tools/servers" list_tool_servers, Owner(Session), "List the servers of tools of a session", get(v1::tools::servers), [KERNEL]),
    route!(V1 GET "/v1/sessions/{session_id}/tools" search_tools, Owner(Session), "Search the tools of a session", get(v1::tools::search), [TOOLS KERNEL]),
    route!(V1 GET "/v1/sessions/{session_id}/tools/{tool}" get_tool, Owner(Session), "Get all about a tool", get(v1::tools::show), [TOOLS KERNEL]),
    route!(V1 POST "/v1/sessions/{session_id}/tools/calls" call_tool, Owner(Session), "Call a tool", post(v1::tools::call), [TOOLS CALL KERNEL]),
    route!(V1 GET "/v1/templates" list_templates, Here, "List what sessions can be started from", get(v1::templates::list), []),
    route!(V1 GET "/v1/sessions/{session_id}/history" list_history, Owner(Session), "List the history of a session", get(v1::history::list), [LOG RETENTION]),
    route!(V1 GET "/v1/sessions/{session_id}/notebook.ipynb" get_notebook, Owner(Session), "Get the history as a notebook", get(v1::history::notebook), [LOG RETENTION]),
    route!(V1 GET "/v1/sessions/{session_id}/script.py" get_script, Owner(Session), "Get the history as a Python file", get(v1::history::script), [LOG RETENTION]),
    route!(V1 POST "/v1/sessions/{session_id}/complete" complete_code, Owner(Session), "Complete code", post(v1::code::complete), [QUESTION KERNEL]),
    route!(V1 POST "/v1/sessions/{session_id}/inspect" inspect_code, Owner(Session), "Inspect an object in code", post(v1::code::inspect), [QUESTION KERNEL]),
    route!(V1 GET "/v1/executions/{execution_id}" get_execution, Owner(Execution), "Get the current result of an execution", get(v1::executions::show), [LOG REMOVED]),
    route!(V1 GET "/v1/executions/{execution_id}/output" get_execution_output, Owner(Execution), "Get a part of the text of an execution", get(v1::executions::output), [LOG REMOVED]),
    route!(V1 GET "/v1/executions/{execution_id}/events" stream_execution_events, Events(Execution), "Stream the events of an execution", get(v1::executions::events), [LOG REMOVED]),
    route!(V1 POST "/v1/executions/{execution_id}/interrupt" interrupt_execution, Owner(Execution), "Interrupt an execution", post(v1::executions::interrupt), [LOG REMOVED KERNEL]),
    route!(V1 POST "/v1/executions/{execution_id}/input" answer_execution, Owner(Execution), "Answer the prompt of an execution", post(v1::executions::input), [LOG REMOVED KERNEL]),
    route!(V1 GET "/v1/sessions/{session_id}/prompts" list_prompts, Owner(Session), "List what a person is asked in a session", get(v1::prompts::list), [KERNEL]),
    route!(V1 POST "/v1/sessions/{session_id}/prompts" create_prompt, Owner(Session), "Ask a person on behalf of a session", post(v1::prompts::create), [KERNEL PROMPTS]),
    route!(V1 GET "/v1/prompts" list_open_prompts, All(v1::prompt_pages::MERGED), "List what waits for an answer of a person", get(v1::prompts::open), []),
    route!(V1 GET "/v1/prompts/{prompt_id}" get_prompt, Owner(Prompt), "Get a prompt, or wait for its answer", get(v1::prompts::show), [KERNEL]),
    route!(V1 POST "/v1/prompts/{prompt_id}/answer" answer_prompt, Owner(Prompt), "Answer a prompt", post(v1::prompts::answer), [KERNEL]),
    route!(V1 GET "/v1/artifacts/{sha256}" get_artifact, First, "Get an image or another large value", get(v1::artifacts::show), [LOG RANGE]),
    route!(V1 POST "/v1/gc" collect_garbage, Here, "Collect garbage: remove expired data", post(v1::collect::collect), []),
    route!(V1 GET "/v1/usage" get_usage, Here, "Get what a tenant and its callers use", get(v1::usage::show), []),
    route!(V1 GET "/v1/tool-approvals" list_tool_approvals, Here, "List tools that are approved for later sessions", get(v1::tool_approvals::list), []),
    route!(V1 DELETE "/v1/tool-approvals/{approval_id}" revoke_tool_approval, Here, "Ask for each call of an approved tool again", delete(v1::tool_approvals::revoke), []),
    route!(V1 GET "/v1/tokens" list_tokens, Here, "List access tokens", get(v1::tokens::list), []),
    route!(V1 POST "/v1/tokens" create_token, Here, "Create an access token", post(v1::tokens::create), [TOKENS]),
    route!(V1 DELETE "/v1/tokens/{token_id}" revoke_token, Here, "Revoke an access token", delete(v1::tokens::revoke), []),
    route!(V1 GET "/v1/credentials" list_credentials, Here, "List credentials, without their secrets", get(v1::credentials::list), []),
    route!(V1 PUT "/v1/credentials/{credential}" set_credential, Here, "Set a credential", put(v1::credentials::set), [TOKENS STORED]),
    route!(V1 DELETE "/v1/credentials/{credential}" delete_credential, Here, "Delete a credential", delete(v1::credentials::delete), [TOKENS]),
    route!(V1 GET "/v1/skills" list_skills, Here, "List skills", get(v1::skills::list), []),
    route!(V1 POST "/v1/skills" publish_skill, Here, "Publish a version of a skill", post(v1::skills::publish), [CHANGE]),
    route!(V1 GET "/v1/skills/{skill}" get_skill, Here, "Get a skill with its files", get(v1::skills::show), []),
    route!(V1 DELETE "/v1/skills/{skill}" delete_skill, Here, "Delete a version of a skill, or all", delete(v1::skills::delete), []),
    route!(V1 POST "/v1/skills/{skill}/runs" run_skill, Head(v1::runs::start::target), "Run a skill", post(v1::runs::start::skill), [START RUN STORED], Keyed),
    route!(V1 GET "/v1/workflows" list_workflows, Here, "List workflows", get(v1::workflows::list), []),
    route!(V1 POST "/v1/workflows" publish_workflow, Here, "Publish a version of a workflow", post(v1::workflows::publish), [CHANGE]),
    route!(V1 GET "/v1/workflows/{workflow}" get_workflow, Here, "Get a workflow with its definition", get(v1::workflows::show), []),
    route!(V1 DELETE "/v1/workflows/{workflow}" delete_workflow, Here, "Delete a version of a workflow, or all", delete(v1::workflows::delete), []),
    route!(V1 POST "/v1/workflows/{workflow}/runs" run_workflow, Here, "Start a run of a workflow", post(v1::runs::start::workflow), [KEYED STORED], Keyed),
    route!(V1 GET "/v1/runs" list_runs, All(v1::runs::pages::MERGED), "List runs of skills and workflows", get(v1::runs::list), [TRIGGER]),
    route!(V1 GET "/v1/runs/{run_id}" get_run, Owner(Run), "Get a run, or wait for its end", get(v1::runs::show), [LOG REMOVED]),
    route!(V1 POST "/v1/runs/{run_id}/cancel" cancel_run, Owner(Run), "End a run", post(v1::runs::cancel), [LOG REMOVED KERNEL CHANGE]),
    route!(V1 GET "/v1/runs/{run_id}/events" stream_run_events, Events(Run), "Stream the states of a run", get(v1::runs::events::stream_of), [LOG REMOVED]),
    route!(V1 GET "/v1/runs/{run_id}/deliveries" list_run_deliveries, Owner(Run), "List deliveries of the result of a run", get(v1::deliveries::of_run), []),
    route!(V1 GET "/v1/runs/{run_id}/steps/{step}" get_run_step, Owner(Run), "Get a step of a run of a workflow", get(v1::runs::steps::step), []),
    route!(V1 POST "/v1/runs/{run_id}/steps/{step}/answer" answer_run_step, Owner(Run), "Answer a step that waits for a person", post(v1::runs::steps::answer), [CHANGE]),
    route!(V1 POST "/v1/sessions/{session_id}/skill" draft_skill, Owner(Session), "Make a skill of code in the history", post(v1::skills::draft), [LOG RETENTION UNSUPPORTED]),
    route!(V1 GET "/v1/schedules" list_schedules, Here, "List schedules", get(v1::schedules::list), []),
    route!(V1 POST "/v1/schedules" create_schedule, Here, "Create a schedule", post(v1::schedules::create), [SCHEDULED STORED]),
    route!(V1 GET "/v1/schedules/{schedule}" get_schedule, Here, "Get a schedule", get(triggers::show::<Schedule>), []),
    route!(V1 PATCH "/v1/schedules/{schedule}" update_schedule, Here, "Change a schedule", patch(triggers::change::<Schedule, ChangeScheduleRequest>), [SCHEDULED]),
    route!(V1 DELETE "/v1/schedules/{schedule}" delete_schedule, Here, "Delete a schedule", delete(triggers::delete::<Schedule>), []),
    route!(V1 GET "/v1/schedules/{schedule}/deliveries" list_schedule_deliveries, Here, "List deliveries of results of a schedule", get(triggers::deliveries::<Schedule>), []),
    route!(V1 GET "/v1/webhooks" list_webhooks, Here, "List webhooks", get(v1::webhooks::list), []),
    route!(V1 POST "/v1/webhooks" create_webhook, Here, "Create a webhook", post(v1::webhooks::create), [SCHEDULED STORED]),
    route!(V1 GET "/v1/webhooks/{webhook}" get_webhook, Here, "Get a webhook", get(triggers::show::<Webhook>), []),
    route!(V1 PATCH "/v1/webhooks/{webhook}" update_webhook, Here, "Change a webhook", patch(triggers::change::<Webhook, ChangeWebhookRequest>), [SCHEDULED]),
    route!(V1 DELETE "/v1/webhooks/{webhook}" delete_webhook, Here, "Delete a webhook", delete(triggers::delete::<Webhook>), []),
    route!(V1 GET "/v1/webhooks/{webhook}/deliveries" list_webhook_deliveries, Here, "List deliveries of results of a webhook", get(triggers::deliveries::<Webhook>), []),
    route!(V1 GET "/v1/prompt-webhooks" list_prompt_webhooks, Here, "List webhooks of prompts", get(v1::prompt_webhooks::list), []),
    route!(V1 POST "/v1/prompt-webhooks" create_prompt_webhook, Here, "Create a webhook of prompts", post(v1::prompt_webhooks::create), [TOKENS STORED]),
    route!(V1 DELETE "/v1/prompt-webhooks/{prompt_webhook}" delete_prompt_webhook, Here, "Delete a webhook of prompts", delete(triggers::delete::<PromptWebhook>), []),
    route!(V1 GET "/v1/prompt-webhooks/{prompt_webhook}/deliveries" list_prompt_deliveries, Here, "List deliveries of prompts", get(triggers::deliveries::<PromptWebhook>), []),
    route!(V1 POST "/v1/deliveries/{delivery}/retry" retry_delivery, Here, "Deliver a result again", post(v1::deliveries::retry), [CHANGE]),
    route!(POST "/hooks/{webhook_id}/prompts/{prompt_id}" Public, Here, "Take the signed answer to a prompt", post(v1::prompt_webhooks::receive)),
    route!(POST "/hooks/{webhook_id}" Public, Here, "Take a signed message that starts a run", post(v1::webhooks::receive)),
    route!(V1 POST "/v1/schedules/{schedule}/runs" run_schedule, Here, "Start a run of a schedule now", post(v1::runs::start::schedule), [CHANGE KEYED], Keyed),
    route!(V1 POST "/v1/credentials/{credential}/grant" begin_grant, Here, "Begin the grant of a person for a credential", post(v1::credentials::begin_grant), [TOKENS STORED ASKED]),
    route!(V1 DELETE "/v1/credentials/{credential}/grant" end_grant, Here, "End the grant of a credential", delete(v1::credentials::end_grant), [TOKENS STORED]),
    route!(V1 POST "/v1/grants" finish_grant, Here, "Finish the grant of a person", post(v1::credentials::finish_grant), [TOKENS STORED ASKED]),
    route!(V1 GET "/v1/openapi.json" get_description, Here, "Get this description", get(v1::description::show), []),
    route!(V1 GET "/v1/pools" list_pools, Here, "List pools of started kernels", get(v1::pools::list), []),
    route!(V1 GET "/v1/sessions/{session_id}/events" stream_session_events, Events(Session), "Stream the log of a kernel", get(v1::events::stream), [LOG RETENTION]),
    route!(POST "/mcp" Token, Body(mcp_body::BODY), "Tools for agents (Model Context Protocol)", post(mcp::answer), KeyedCall),
    route!(GET "/azure/{*path}" Token, Head(azure::target), "Azure: look at files", get(azure::answer)),
    route!(POST "/azure/{*path}" Token, Head(azure::target), "Azure: run code, write files", post(azure::answer)),
    route!(DELETE "/azure/{*path}" Token, Head(azure::target), "Azure: remove files, end sessions", delete(azure::answer)),
    route!(GET "/openai/{*path}" Token, Head(openai::target), "OpenAI: look at containers and their files", get(openai::answer)),
    route!(POST "/openai/{*path}" Token, Head(openai::target), "OpenAI: start containers, write files", post(openai::answer)),
    route!(DELETE "/openai/{*path}" Token, Head(openai::target), "OpenAI: end containers, remove files", delete(openai::answer)),
    route!(GET "/e2b/{*path}" Token, Head(e2b::target), "E2B: look at sandboxes", get(e2b::answer)),
    route!(POST "/e2b/{*path}" Token, Head(e2b::target), "E2B: start and change sandboxes", post(e2b::answer), If(e2b::is_keyed)),
    route!(PUT "/e2b/{*path}" Token, Head(e2b::target), "E2B: change sandboxes", put(e2b::answer)),
    route!(DELETE "/e2b/{*path}" Token, Head(e2b::target), "E2B: end sandboxes", delete(e2b::answer)),
    route!(GET "/e2b/health" Token, Head(e2b::target), "E2B: whether a sandbox runs", get(e2b::answer)),
    route!(GET "/e2b/files" Token, Head(e2b::target), "E2B: read a file", get(e2b::answer)),
    route!(POST "/e2b/files" Token, Head(e2b::target), "E2B: write files", post(e2b::answer)),
    route!(GET "/files" Token, Here, "E2B: read a file, signed", get(e2b::answer)),
    route!(POST "/files" Token, Here, "E2B: write files, signed", post(e2b::answer)),
    route!(POST "/e2b/execute" Token, Head(e2b::target), "E2B: run code", post(e2b::answer)),
    route!(GET "/e2b/contexts" Token, Head(e2b::target), "E2B: list contexts", get(e2b::answer)),
    route!(POST "/e2b/contexts" Token, Head(e2b::target), "E2B: start a context", post(e2b::answer)),
    route!(DELETE "/e2b/contexts/{context}" Token, Head(e2b::target), "E2B: end a context", delete(e2b::answer)),
    route!(POST "/e2b/contexts/{context}/restart" Token, Head(e2b::target), "E2B: restart a context", post(e2b::answer)),
    route!(POST "/e2b/filesystem.Filesystem/{method}" Token, Head(e2b::target), "E2B: work on files", post(e2b::answer)),
    route!(POST "/e2b/process.Process/{method}" Token, Head(e2b::target), "E2B: run commands", post(e2b::answer)),
];

/// The router over the table.
pub(crate) fn router() -> Router<App> {
    ROUTES.iter().fold(Router::new(), |router, route| {
        router.route(route.path, (route.handler)())
    })
}

/// The route that a request matched; `None` for an unknown path, and for a method that a path does not have.
pub(crate) fn matched(method: &Method, path: &MatchedPath) -> Option<&'static Route> {
    find(method, path.as_str())
}

fn find(method: &Method, path: &str) -> Option<&'static Route> {
    let method = if method == Method::HEAD {
        &Method::GET
    } else {
        method
    };
    ROUTES
        .iter()
        .find(|route| route.path == path && route.method == method)
}

/// The label of the route that a request matched, whatever its method.
pub(crate) fn label(path: &MatchedPath) -> Option<RouteLabel> {
    let known = ROUTES.iter().find(|route| route.path == path.as_str());
    known.map(|route| RouteLabel(route.path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::METADATA;

    #[test]
    fn the_public_list_is_short() {
        let public: Vec<_> = ROUTES
            .iter()
            .filter(|r| r.access != Access::Token)
            .map(|r| r.path)
            .collect();
        let probes = ["/healthz", "/readyz"];
        let metadata = [METADATA.to_owned(), format!("{METADATA}/mcp")];
        let metadata = metadata.each_ref().map(String::as_str);
        let viewer = [
            "/",
            "/frame.html",
            "/icon.svg",
            "/assets/{file}",
            "/frame/{file}",
            "/viewer/sign-in",
            "/viewer/oidc",
            "/viewer/oidc/callback",
            "/viewer/grant",
            "/viewer/sign-in",
            "/viewer/sign-out",
        ];
        assert_eq!(
            public,
            [
                &probes[..],
                &metadata,
                &viewer,
                &[
                    "/api",
                    "/hooks/{webhook_id}/prompts/{prompt_id}",
                    "/hooks/{webhook_id}"
                ]
            ]
            .concat()
        );
    }

    #[test]
    fn every_route_of_the_native_api_is_described() {
        for route in ROUTES {
            let native = route.path.starts_with("/v1/");
            assert_eq!(
                route.operation.is_some(),
                native,
                "{} {}",
                route.method,
                route.path
            );
        }
    }

    #[test]
    fn access_is_per_method() {
        let access = |method, path| find(&method, path).map(|route| route.access);
        assert_eq!(access(Method::HEAD, "/api"), Some(Access::Public));
        assert_eq!(access(Method::POST, "/api"), None);
        assert_eq!(access(Method::GET, "/api/kernels"), Some(Access::Token));
    }

    /// A path whose first parameter names an object of one replica is served at its owner.
    #[test]
    fn routes_of_an_object_are_served_at_its_owner() {
        let of_one_replica = ["kernel_id", "session_id", "execution_id", "prompt_id", "run_id"];
        for route in ROUTES {
            let first = route.path.split(['{', '}']).nth(1).unwrap_or_default();
            let at_owner = matches!(route.served_at, Owner(_) | Events(_) | OwnerOrStart(_));
            assert_eq!(
                at_owner,
                of_one_replica.contains(&first),
                "{} {}",
                route.method,
                route.path
            );
            let streams = matches!(route.served_at, Events(_));
            assert_eq!(streams, route.path.ends_with("/events"), "{}", route.path);
        }
    }
}
