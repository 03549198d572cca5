//! One line of the audit log.

use himalia_model::{CallOrigin, Principal};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use super::Effect;
use super::writer::AuditRecord;

/// One call, or one decision before any call.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) at: OffsetDateTime,
    pub(super) command: &'static str,
    pub(super) effect: Effect,
    pub(super) principal: Option<String>,
    pub(super) tenant: Option<String>,
    /// The session, or one of its kernels.
    pub(super) session: Option<String>,
    pub(super) jupyter_session: Option<String>,
    /// What else it is about.
    pub(super) object: Option<String>,
    pub(super) route: Option<String>,
    pub(super) peer: Option<String>,
    pub(super) credential: Option<String>,
    /// Of a sign-in: the person, as the identity provider names it.
    pub(super) subject: Option<String>,
    pub(super) request: Option<String>,
    pub(super) outcome: &'static str,
    pub(super) code: Option<String>,
    pub(super) millis: Option<u64>,
}

impl Entry {
    pub(super) fn new(
        command: &'static str,
        effect: Effect,
        principal: Option<&Principal>,
        via: Option<&CallOrigin>,
        outcome: &'static str,
    ) -> Self {
        Self {
            at: OffsetDateTime::now_utc(),
            command,
            effect,
            principal: principal.map(|one| one.name().to_owned()),
            tenant: principal.map(|one| one.owner().to_owned()),
            session: None,
            jupyter_session: None,
            object: None,
            route: None,
            peer: via.and_then(|via| via.peer).map(|peer| peer.to_string()),
            credential: via.and_then(|via| via.credential.clone()),
            subject: None,
            request: via.and_then(|via| via.request.clone()),
            outcome,
            code: None,
            millis: None,
        }
    }

    /// As it is written; members that are not known are left out.
    pub(super) fn to_record(&self) -> AuditRecord {
        let mut members = Map::new();
        let mut put = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                members.insert(name.to_owned(), Value::from(value));
            }
        };
        put("command", Some(self.command));
        put("effect", Some(self.effect.as_str()));
        put("principal", self.principal.as_deref());
        put("tenant", self.tenant.as_deref());
        put("session", self.session.as_deref());
        put("jupyter_session", self.jupyter_session.as_deref());
        put("object", self.object.as_deref());
        put("route", self.route.as_deref());
        put("peer", self.peer.as_deref());
        put("credential", self.credential.as_deref());
        put("subject", self.subject.as_deref());
        put("request_id", self.request.as_deref());
        put("outcome", Some(self.outcome));
        put("code", self.code.as_deref());
        if let Some(millis) = self.millis {
            members.insert("ms".to_owned(), Value::from(millis));
        }
        AuditRecord { at: self.at, members }
    }

    /// As a line of the gateway's log.
    pub(super) fn log(&self) {
        tracing::info!(
            target: "himalia::audit",
            command = self.command,
            effect = self.effect.as_str(),
            principal = self.principal,
            session = self.session,
            jupyter_session = self.jupyter_session,
            object = self.object,
            route = self.route,
            peer = self.peer,
            credential = self.credential,
            subject = self.subject,
            outcome = self.outcome,
            code = self.code,
            ms = self.millis,
        );
    }
}
