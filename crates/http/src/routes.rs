//! The one table of routes. The router is built from it; tests walk it.

use axum::Router;
use axum::http::Method;
use axum::routing::{MethodRouter, delete, get, patch, post, put};

use crate::app::App;
use crate::jupyter::{about, channels, kernels, kernelspecs, me, sessions};
use crate::{health, mounted, v1, viewer};

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anybody. Keep this list short: such a route says that the gateway lives, its version, how the viewer looks, and who signs
    /// in. Nothing of any kernel.
    Public,
    /// Anybody, from a page of any origin: what runs in the viewer's output frames, whose own origin is `null`.
    Anywhere,
    /// Holders of the token, and browsers that signed in with it.
    Token,
}

/// One route: a method on a path.
#[derive(Debug)]
pub struct Route {
    /// The method. `GET` serves `HEAD` too.
    pub method: Method,
    /// The path below the base URL, with `{parameters}`.
    pub path: &'static str,
    /// Who may call it.
    pub access: Access,
    /// Whether it is a WebSocket.
    pub websocket: bool,
    /// One line for the API description.
    pub summary: &'static str,
    handler: fn() -> MethodRouter<App>,
}

macro_rules! route {
    ($method:ident $path:literal $access:ident, $summary:literal, $handler:expr) => {
        Route {
            method: Method::$method,
            path: $path,
            access: Access::$access,
            websocket: false,
            summary: $summary,
            handler: || $handler,
        }
    };
    (WS $path:literal, $summary:literal, $handler:expr) => {
        Route {
            method: Method::GET,
            path: $path,
            access: Access::Token,
            websocket: true,
            summary: $summary,
            handler: || $handler,
        }
    };
}

/// All routes.
pub static ROUTES: &[Route] = &[
    route!(GET "/healthz" Public, "Whether the process lives", get(health::healthz)),
    route!(GET "/readyz" Public, "Whether new work is taken", get(health::readyz)),
    route!(GET "/" Public, "The viewer, a page for people", get(viewer::page)),
    route!(GET "/frame.html" Public, "The viewer's frame for output", get(viewer::frame_page)),
    route!(GET "/icon.svg" Public, "The viewer's icon", get(viewer::icon)),
    route!(GET "/assets/{file}" Public, "A file of the viewer", get(viewer::asset)),
    route!(GET "/frame/{file}" Anywhere, "A file of the viewer's frame", get(viewer::frame_file)),
    route!(POST "/viewer/sign-in" Public, "Sign a browser in", post(viewer::sign_in)),
    route!(POST "/viewer/sign-out" Public, "Sign a browser out", post(viewer::sign_out)),
    route!(GET "/api" Public, "Version", get(about::version)),
    route!(GET "/api/spec.yaml" Token, "This list", get(about::spec)),
    route!(GET "/api/status" Token, "Counts and times of the whole gateway", get(about::status)),
    route!(GET "/api/me" Token, "Who the caller is and what it may do", get(me::show)),
    route!(PATCH "/api/me" Token, "Not supported (501)", patch(me::change)),
    route!(GET "/api/kernels" Token, "All kernels", get(kernels::list)),
    route!(POST "/api/kernels" Token, "Start a kernel", post(kernels::start)),
    route!(GET "/api/kernels/{kernel_id}" Token, "One kernel", get(kernels::show)),
    route!(DELETE "/api/kernels/{kernel_id}" Token, "End a kernel", delete(kernels::shutdown)),
    route!(POST "/api/kernels/{kernel_id}/interrupt" Token, "Interrupt a kernel", post(kernels::interrupt)),
    route!(POST "/api/kernels/{kernel_id}/restart" Token, "Restart a kernel in place", post(kernels::restart)),
    route!(WS "/api/kernels/{kernel_id}/channels", "A kernel's messages", get(channels::open)),
    route!(GET "/api/kernelspecs" Token, "All kernelspecs", get(kernelspecs::list)),
    route!(GET "/api/kernelspecs/{name}" Token, "One kernelspec", get(kernelspecs::show)),
    route!(GET "/kernelspecs/{name}/{file}" Token, "A file of a kernelspec", get(kernelspecs::file)),
    route!(GET "/api/sessions" Token, "All sessions", get(sessions::list)),
    route!(POST "/api/sessions" Token, "Make a session, or find the one with this path", post(sessions::create)),
    route!(GET "/api/sessions/{session_id}" Token, "One session", get(sessions::show)),
    route!(PATCH "/api/sessions/{session_id}" Token, "Change a session", patch(sessions::change)),
    route!(DELETE "/api/sessions/{session_id}" Token, "End a session and its kernel", delete(sessions::end)),
    route!(GET "/v1/sessions" Token, "All sessions with their sandboxes", get(v1::sessions::list)),
    route!(POST "/v1/sessions" Token, "Start a session", post(v1::sessions::create)),
    route!(GET "/v1/sessions/{session_id}" Token, "One session with its sandbox", get(v1::sessions::show)),
    route!(GET "/v1/sessions/{session_id}/usage" Token, "What a session's sandbox uses now", get(v1::sessions::usage)),
    route!(PUT "/v1/sessions/{session_id}" Token, "The session of this name, started if there is none", put(v1::sessions::put)),
    route!(PATCH "/v1/sessions/{session_id}" Token, "Change a session's labels and lifetimes", patch(v1::sessions::change)),
    route!(DELETE "/v1/sessions/{session_id}" Token, "End a session", delete(v1::sessions::end)),
    route!(POST "/v1/sessions/{session_id}/fork" Token, "Branch a live session", post(v1::fork::fork)),
    route!(POST "/v1/sessions/{session_id}/interrupt" Token, "Interrupt what a session runs", post(v1::sessions::interrupt)),
    route!(POST "/v1/sessions/{session_id}/restart" Token, "Give a session a new process", post(v1::sessions::restart)),
    route!(GET "/v1/sessions/{session_id}/executions" Token, "The latest executions of a session", get(v1::executions::list)),
    route!(POST "/v1/sessions/{session_id}/executions" Token, "Run code in a session", post(v1::executions::create)),
    route!(GET "/v1/sessions/{session_id}/variables" Token, "The variables of a session", get(v1::variables::list)),
    route!(GET "/v1/sessions/{session_id}/variables/{name}" Token, "A part of one variable", get(v1::variables::show)),
    route!(GET "/v1/sessions/{session_id}/files" Token, "The files of a session", get(v1::files::list)),
    route!(GET "/v1/sessions/{session_id}/files/{*path}" Token, "One file", get(v1::files::show)),
    route!(PUT "/v1/sessions/{session_id}/files/{*path}" Token, "Write a file", put(v1::files::put)),
    route!(DELETE "/v1/sessions/{session_id}/files/{*path}" Token, "Remove a file or a directory", delete(v1::files::delete)),
    route!(POST "/v1/sessions/{session_id}/upload" Token, "Write the files of a tar archive", post(v1::files::upload)),
    route!(GET "/v1/sessions/{session_id}/archive" Token, "A directory as a tar archive", get(v1::files::archive)),
    route!(GET "/v1/sessions/{session_id}/history" Token, "What was run in a session", get(v1::history::list)),
    route!(GET "/v1/sessions/{session_id}/notebook.ipynb" Token, "What was run, as a notebook", get(v1::history::notebook)),
    route!(GET "/v1/sessions/{session_id}/script.py" Token, "What was run, as a Python file", get(v1::history::script)),
    route!(POST "/v1/sessions/{session_id}/complete" Token, "How code may go on", post(v1::code::complete)),
    route!(POST "/v1/sessions/{session_id}/inspect" Token, "What is known of an object in code", post(v1::code::inspect)),
    route!(GET "/v1/executions/{execution_id}" Token, "What came of an execution so far", get(v1::executions::show)),
    route!(GET "/v1/executions/{execution_id}/output" Token, "A part of its text", get(v1::executions::output)),
    route!(GET "/v1/executions/{execution_id}/events" Token, "Its events as a stream", get(v1::executions::events)),
    route!(POST "/v1/executions/{execution_id}/interrupt" Token, "Interrupt it", post(v1::executions::interrupt)),
    route!(POST "/v1/executions/{execution_id}/input" Token, "Answer what it asks", post(v1::executions::input)),
    route!(GET "/v1/artifacts/{sha256}" Token, "An image or another large value", get(v1::artifacts::show)),
    route!(POST "/v1/gc" Token, "Remove what is not kept any longer", post(v1::collect::collect)),
    route!(GET "/v1/pools" Token, "Kernels that are kept ready", get(v1::pools::list)),
    route!(GET "/v1/sessions/{session_id}/events" Token, "A kernel's log as an event stream", get(v1::events::stream)),
    route!(POST "/mcp" Token, "Tools for agents (Model Context Protocol)", post(mounted::mcp)),
];

/// The router over the table.
pub(crate) fn router() -> Router<App> {
    ROUTES.iter().fold(Router::new(), |router, route| {
        router.route(route.path, (route.handler)())
    })
}

/// Who may call a matched route; `None` for a method that it does not have. `OPTIONS` never comes here.
pub(crate) fn access(method: &Method, path: &str) -> Option<Access> {
    let method = if method == Method::HEAD {
        &Method::GET
    } else {
        method
    };
    ROUTES
        .iter()
        .find(|route| route.path == path && route.method == method)
        .map(|route| route.access)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_list_is_short() {
        let public: Vec<_> = ROUTES
            .iter()
            .filter(|r| r.access != Access::Token)
            .map(|r| r.path)
            .collect();
        let probes = ["/healthz", "/readyz"];
        let viewer = [
            "/",
            "/frame.html",
            "/icon.svg",
            "/assets/{file}",
            "/frame/{file}",
            "/viewer/sign-in",
            "/viewer/sign-out",
        ];
        assert_eq!(public, [&probes[..], &viewer, &["/api"]].concat());
    }

    #[test]
    fn access_is_per_method() {
        assert_eq!(access(&Method::HEAD, "/api"), Some(Access::Public));
        assert_eq!(access(&Method::POST, "/api"), None);
        assert_eq!(access(&Method::GET, "/api/kernels"), Some(Access::Token));
    }
}
