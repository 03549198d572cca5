//! On whose behalf a command runs, what it does, and what it acts on.
//!
//! Whose an object is, is asked where it is looked up, by [`Principal::sees`]: an object of another tenant is not found, on the same
//! path and with the same words as an unknown one, so that no answer tells that it is there.

use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;

use crate::{EngineError, HeldKernel, Session, TraceContext};

/// The owner of what the holder of the gateway's token makes. No tenant has this name.
pub const OPERATOR: &str = "operator";
/// Characters of the name of a tenant or of a caller.
pub const MAX_PRINCIPAL_CHARS: usize = 64;

/// Permission of a token. A scope includes those before it.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Read everything of its owner, and change nothing.
    Read,
    /// Run code, and start, change and end sessions.
    Execute,
    /// Manage access tokens. For the operator, also resources that all tenants share.
    Admin,
}

impl Scope {
    /// Name in the API and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Execute => "execute",
            Self::Admin => "admin",
        }
    }
}

impl std::str::FromStr for Scope {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<Self, EngineError> {
        [Self::Read, Self::Execute, Self::Admin]
            .into_iter()
            .find(|scope| scope.as_str() == text)
            .ok_or_else(|| EngineError::bad_request("scope", "must be one of read, execute, admin"))
    }
}

/// On whose behalf a command runs: the operator, who sees everything, or a caller of a tenant, within a [`Scope`].
///
/// Kernels, sessions and all that is in them belong to the tenant whose caller made them; its callers share them. Among tenants
/// nothing is shared.
///
/// A replica that relays a request states the principal to another one in its serialised form, which a gateway takes from
/// its replicas alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Principal {
    owner: String,
    name: String,
    scope: Scope,
    /// When its token expires, microseconds since 1970.
    expires_micros: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    via: Option<Box<CallOrigin>>,
}

/// Origin of a call, for logs. It has no influence on permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallOrigin {
    /// Address of the client, or of the proxy in front of it.
    pub peer: Option<SocketAddr>,
    /// Token or sign-in of the call: a name or a part of a hash, never a token.
    pub credential: Option<String>,
    /// Key under which sandbox tokens and sign-ins of this credential are stored. It does not reveal the credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// The id of the request.
    pub request: Option<String>,
    /// The span that the call is in, where calls are traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
    /// The kernel of a pool that a start of this call is to have, if it is held still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldKernel>,
}

/// Two calls of one caller are of the same principal, however they came.
impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        let key = |of: &Self| (of.scope, of.expires_micros);
        self.owner == other.owner && self.name == other.name && key(self) == key(other)
    }
}

impl Eq for Principal {}

impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.owner, &self.name, self.scope, self.expires_micros).hash(state);
    }
}

impl Principal {
    /// The holder of the gateway's token.
    pub fn operator() -> Self {
        Self {
            owner: OPERATOR.into(),
            name: OPERATOR.into(),
            scope: Scope::Admin,
            expires_micros: None,
            via: None,
        }
    }

    /// A caller with the operator's sight, `operator/caller`. Names as in [`Principal::of_tenant`].
    pub fn of_operator(caller: &str) -> Result<Self, EngineError> {
        check_name("caller", caller)?;
        Ok(Self {
            name: format!("{OPERATOR}/{caller}"),
            ..Self::operator()
        })
    }

    /// A caller of this owner of objects: of a tenant, or of the operator.
    pub fn of_owner(owner: &str, caller: &str) -> Result<Self, EngineError> {
        if owner == OPERATOR {
            Self::of_operator(caller)
        } else {
            Self::of_tenant(owner, caller)
        }
    }

    /// A caller of a tenant. Both names have 1 to 64 letters, digits, `.`, `_` and `-`, and neither is `operator`:
    /// [`EngineError::BadRequest`] on `tenant` or `caller`.
    pub fn of_tenant(tenant: &str, caller: &str) -> Result<Self, EngineError> {
        check_name("tenant", tenant)?;
        check_name("caller", caller)?;
        Ok(Self {
            owner: tenant.to_owned(),
            name: format!("{tenant}/{caller}"),
            scope: Scope::Execute,
            expires_micros: None,
            via: None,
        })
    }

    /// Principal for code in a session: the caller who started the session, with the permission to run code only.
    pub fn of_session(session: &Session) -> Self {
        let of_caller = Self::of_owner(&session.owner, &session.started_by);
        // The operator itself, or a caller that was not noted.
        let made = of_caller.unwrap_or_else(|_| Self::operator().in_place_of(&session.owner));
        made.with_scope(Scope::Execute)
    }

    /// The same, within this scope.
    #[must_use]
    pub fn with_scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// The same, by a token that expires then (microseconds since 1970). It makes no token that lasts longer.
    #[must_use]
    pub fn until(self, expires_micros: Option<i64>) -> Self {
        Self {
            expires_micros,
            ..self
        }
    }

    /// Permission of the principal.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// When its token expires, microseconds since 1970; `None`: never.
    pub fn expires_micros(&self) -> Option<i64> {
        self.expires_micros
    }

    /// The same, who may see what there is and change nothing.
    #[must_use]
    pub fn read_only(self) -> Self {
        self.with_scope(Scope::Read)
    }

    /// The same, whose call came this way.
    #[must_use]
    pub fn came(self, via: CallOrigin) -> Self {
        Self {
            via: Some(Box::new(via)),
            ..self
        }
    }

    /// The same, whose call is in this span.
    #[must_use]
    pub fn traced(mut self, trace: TraceContext) -> Self {
        self.via.get_or_insert_default().trace = Some(trace);
        self
    }

    /// The span that its call is in, where calls are traced.
    pub fn trace(&self) -> Option<TraceContext> {
        self.via.as_ref().and_then(|via| via.trace)
    }

    /// The same, whose call starts a session with this kernel of a pool.
    #[must_use]
    pub fn holding(mut self, held: HeldKernel) -> Self {
        self.via.get_or_insert_default().held = Some(held);
        self
    }

    /// The kernel of a pool that is held for its call.
    pub fn held(&self) -> Option<&HeldKernel> {
        self.via.as_ref().and_then(|via| via.held.as_ref())
    }

    /// Origin of the call, if known.
    pub fn via(&self) -> Option<&CallOrigin> {
        self.via.as_deref()
    }

    /// Returns true if the principal cannot change anything.
    pub fn is_read_only(&self) -> bool {
        self.scope == Scope::Read
    }

    /// A stable name for logs, for the ownership of requests and as the `caller` of executions: `operator`,
    /// `operator/caller` or `tenant/caller`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The last part of [`Self::name`]: of a caller, without its tenant.
    pub fn caller(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    /// The owner of what it makes: its tenant, or `operator`.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns true for the operator.
    pub fn is_operator(&self) -> bool {
        self.owner == OPERATOR
    }

    /// Returns true if objects of this owner are visible to the principal.
    pub fn sees(&self, owner: &str) -> bool {
        self.is_operator() || self.owner == owner
    }

    /// Principal that acts for this owner. Objects that the operator creates for a tenant belong to the tenant.
    #[must_use]
    pub fn in_place_of(&self, owner: &str) -> Self {
        Self {
            owner: owner.to_owned(),
            name: self.name.clone(),
            scope: self.scope,
            expires_micros: self.expires_micros,
            via: self.via.clone(),
        }
    }
}

fn check_name(field: &'static str, text: &str) -> Result<(), EngineError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if text.is_empty() || text.len() > MAX_PRINCIPAL_CHARS || !text.bytes().all(plain) {
        return Err(EngineError::bad_request(
            field,
            format!("a name has 1 to {MAX_PRINCIPAL_CHARS} letters, digits, '.', '_' and '-'"),
        ));
    }
    if text == OPERATOR {
        return Err(EngineError::bad_request(
            field,
            "is the name of the gateway's own principal",
        ));
    }
    Ok(())
}

/// Effect of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// See that it exists, and its state.
    Read,
    /// Make a new one.
    Create,
    /// Send requests to it and see its output.
    Execute,
    /// Interrupt it.
    Interrupt,
    /// Replace its process.
    Restart,
    /// Change its description.
    Update,
    /// Make branches of it.
    Fork,
    /// End it.
    Delete,
    /// Approve what its code wants to do.
    Approve,
}

impl Action {
    /// A verb phrase for error texts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read this",
            Self::Create => "create this",
            Self::Execute => "execute here",
            Self::Interrupt => "interrupt this",
            Self::Restart => "restart this",
            Self::Update => "change this",
            Self::Fork => "fork this",
            Self::Delete => "delete this",
            Self::Approve => "approve this",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_of_a_tenant_see_the_same_and_no_other_tenant_does() {
        let of = |tenant, caller| Principal::of_tenant(tenant, caller).unwrap();
        assert_eq!(of("acme", "ada").name(), "acme/ada");
        assert!(of("acme", "ada").sees("acme") && of("acme", "bob").sees("acme"));
        assert!(!of("other", "ada").sees("acme") && !of("acme", "ada").sees("operator"));
        assert!(Principal::operator().sees("acme"));
        let placed = Principal::operator().in_place_of("acme");
        assert!(!placed.is_operator() && !placed.sees("other") && placed.name() == "operator");
    }

    #[test]
    fn a_principal_is_the_same_however_its_call_came() {
        let via = CallOrigin {
            request: Some("r".to_owned()),
            ..CallOrigin::default()
        };
        let (ada, came) = (
            Principal::of_tenant("acme", "ada").unwrap(),
            Principal::of_tenant("acme", "ada").unwrap().came(via.clone()),
        );
        assert_eq!(ada, came);
        assert_eq!(came.in_place_of("other").via(), Some(&via));
        assert_ne!(ada, came.clone().read_only());
        let set: std::collections::HashSet<_> = [ada, came].into();
        assert_eq!(set.len(), 1);
    }

    #[test]
    fn no_tenant_gets_the_operators_name() {
        for (tenant, caller) in [
            ("operator", "x"),
            ("x", "operator"),
            ("", "x"),
            ("x", ""),
            ("a/b", "x"),
            ("a", "b/c"),
            ("\u{e4}", "x"),
            (&"x".repeat(65), "x"),
        ] {
            assert!(
                Principal::of_tenant(tenant, caller).is_err(),
                "{tenant:?} {caller:?}"
            );
        }
    }
}
