//! Entries of the audit log for requests that reach no command: sign-ins, wrong tokens, refusals by a scope or a rate. The engine notes
//! commands itself.

use axum::http::{Method, StatusCode};
use axum::response::Response;
use himalia_engine::{CallOrigin, Door, Engine, Principal};

/// The details of a sign-in for the audit log, in the extensions of its response.
#[derive(Clone, Debug, Default)]
pub(crate) struct SignedIn {
    pub(crate) principal: Option<Principal>,
    /// The person, as an identity provider names it.
    pub(crate) subject: Option<String>,
    /// The sign-in, as later requests show it.
    pub(crate) credential: Option<String>,
    /// The reason of a failure.
    pub(crate) code: Option<&'static str>,
}

/// A request, as far as the log tells of it.
#[derive(Debug)]
pub(super) struct AuditedRequest {
    route: String,
    via: CallOrigin,
    command: &'static str,
}

impl AuditedRequest {
    /// `pattern` is the route's: the log has no ids and no query of a request that reaches no command.
    pub(super) fn new(method: &Method, pattern: Option<&str>, via: CallOrigin) -> Self {
        let pattern = pattern.unwrap_or("other");
        Self {
            route: format!("{method} {pattern}"),
            via,
            command: match pattern {
                "/viewer/sign-in" if method == Method::POST => "sign_in",
                "/viewer/oidc/callback" => "sign_in",
                "/viewer/sign-out" => "sign_out",
                _ => "request",
            },
        }
    }

    /// It was refused before any command.
    pub(super) fn refused(&self, engine: &Engine, principal: Option<&Principal>, status: StatusCode) {
        self.note(engine, principal, "denied", Some(status.as_str()), None);
    }

    /// A public route has answered. Only sign-ins and sign-outs are noted.
    pub(super) fn answered(mut self, engine: &Engine, response: &mut Response) {
        if self.command == "request" {
            return;
        }
        let status = response.status();
        let person = response.extensions_mut().remove::<SignedIn>().unwrap_or_default();
        if person.credential.is_some() {
            self.via.credential.clone_from(&person.credential);
        }
        let outcome = if status.is_success() || status.is_redirection() {
            "ok"
        } else {
            "denied"
        };
        let code = person.code.or((outcome == "denied").then(|| status.as_str()));
        self.note(
            engine,
            person.principal.as_ref(),
            outcome,
            code,
            person.subject.as_deref(),
        );
    }

    fn note(
        &self,
        engine: &Engine,
        principal: Option<&Principal>,
        outcome: &'static str,
        code: Option<&str>,
        subject: Option<&str>,
    ) {
        engine.audit().door(&Door {
            command: self.command,
            principal,
            via: Some(&self.via),
            route: Some(&self.route),
            outcome,
            code,
            subject,
        });
    }
}
