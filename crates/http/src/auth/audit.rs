//! What the audit log tells of requests that reach no command: sign-ins, wrong tokens, what a scope or a rate refuses. The engine notes
//! commands itself.

use axum::http::{Method, StatusCode};
use himalia_engine::{Door, Engine, Principal, Via};

/// A request, as far as the log tells of it.
#[derive(Debug)]
pub(super) struct Asked {
    route: String,
    via: Via,
    command: &'static str,
}

impl Asked {
    /// `pattern` is the route's: the log has no ids and no query of a request that reaches no command.
    pub(super) fn new(method: &Method, pattern: Option<&str>, via: Via) -> Self {
        let pattern = pattern.unwrap_or("other");
        Self {
            route: format!("{method} {pattern}"),
            via,
            command: match pattern {
                "/viewer/sign-in" => "sign_in",
                "/viewer/sign-out" => "sign_out",
                _ => "request",
            },
        }
    }

    /// It was refused before any command.
    pub(super) fn refused(&self, engine: &Engine, principal: Option<&Principal>, status: StatusCode) {
        self.note(engine, principal, "denied", Some(status));
    }

    /// A public route has answered. Only sign-ins and sign-outs are noted.
    pub(super) fn answered(&self, engine: &Engine, status: StatusCode) {
        if self.command == "request" {
            return;
        }
        let outcome = if status.is_success() || status.is_redirection() {
            "ok"
        } else {
            "denied"
        };
        self.note(engine, None, outcome, (outcome == "denied").then_some(status));
    }

    fn note(
        &self,
        engine: &Engine,
        principal: Option<&Principal>,
        outcome: &'static str,
        status: Option<StatusCode>,
    ) {
        engine.audit().door(&Door {
            command: self.command,
            principal,
            via: Some(&self.via),
            route: Some(&self.route),
            outcome,
            code: status.as_ref().map(StatusCode::as_str),
        });
    }
}
