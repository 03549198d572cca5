//! Who may do what to which object: the one place that every command passes.
//!
//! Two questions. [`authorise`] asks what a principal may do at all; every command begins with it. Whose an object is, is asked where
//! it is looked up, by [`Principal::sees`]: an object of another tenant is not found, on the same path and with the same words
//! as one that never was, so that no answer tells that it is there.

use crate::{EngineError, JupyterSessionId, KernelId};

/// The owner of what the holder of the gateway's token makes. No tenant has this name.
const OPERATOR: &str = "operator";
/// Characters of the name of a tenant or of a caller.
pub const MAX_PRINCIPAL_CHARS: usize = 64;

/// On whose behalf a command runs: the operator, who sees and may do everything, or a caller of a tenant.
///
/// Kernels, sessions and all that is in them belong to the tenant whose caller made them; its callers share them. Among tenants
/// nothing is shared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    owner: String,
    name: String,
    read_only: bool,
}

impl Principal {
    /// The holder of the gateway's token.
    pub fn operator() -> Self {
        Self {
            owner: OPERATOR.into(),
            name: OPERATOR.into(),
            read_only: false,
        }
    }

    /// A caller of a tenant. Both names have 1 to 64 letters, digits, `.`, `_` and `-`, and neither is `operator`:
    /// [`EngineError::BadRequest`] on `tenant` or `caller`.
    pub fn of_tenant(tenant: &str, caller: &str) -> Result<Self, EngineError> {
        for (field, text) in [("tenant", tenant), ("caller", caller)] {
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
        }
        Ok(Self {
            owner: tenant.to_owned(),
            name: format!("{tenant}/{caller}"),
            read_only: false,
        })
    }

    /// The same, who may see what there is and change nothing.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self {
            read_only: true,
            ..self
        }
    }

    /// Whether it may change nothing.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// A stable name for logs, for the ownership of requests and as the `caller` of executions: `operator`, or
    /// `tenant/caller`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The owner of what it makes: its tenant, or `operator`.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Whether this is the operator.
    pub fn is_operator(&self) -> bool {
        self.owner == OPERATOR
    }

    /// Whether an object of this owner is there for it.
    pub(crate) fn sees(&self, owner: &str) -> bool {
        self.is_operator() || self.owner == owner
    }

    /// Who changes an object of this owner: what is made for the object belongs to its owner, also when the operator has it made.
    pub(crate) fn in_place_of(&self, owner: &str) -> Self {
        Self {
            owner: owner.to_owned(),
            name: self.name.clone(),
            read_only: self.read_only,
        }
    }
}

/// What a command does.
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
        }
    }
}

/// What a command acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Object<'a> {
    /// The gateway as a whole: its lists and its status. A list has what its reader sees.
    Gateway,
    /// What all tenants share and the operator keeps: pools, what is left of ended sessions.
    Upkeep,
    /// All kernels, for creating one.
    Kernels,
    /// One kernel.
    Kernel(KernelId),
    /// The list of kernelspecs, or one of them.
    Kernelspec(Option<&'a str>),
    /// All Jupyter sessions, for creating one.
    JupyterSessions,
    /// One Jupyter session.
    JupyterSession(JupyterSessionId),
}

/// Refuses what the principal may not do, whatever the object.
pub(crate) fn authorise(
    principal: &Principal,
    action: Action,
    object: Object<'_>,
) -> Result<(), EngineError> {
    let allowed = match object {
        _ if principal.is_read_only() && action != Action::Read => false,
        _ if principal.is_operator() => true,
        Object::Gateway | Object::Kernelspec(_) => action == Action::Read,
        Object::Kernels | Object::JupyterSessions => action == Action::Create,
        // Its own; others are not found.
        Object::Kernel(_) | Object::JupyterSession(_) => true,
        Object::Upkeep => false,
    };
    if allowed {
        return Ok(());
    }
    tracing::warn!(principal = principal.name(), ?action, ?object, "refused");
    Err(EngineError::Forbidden {
        action: action.as_str(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_its_own_things_and_leaves_the_gateway_alone() {
        let (operator, ada) = (
            Principal::operator(),
            Principal::of_tenant("acme", "ada").unwrap(),
        );
        let id = KernelId::random();
        let everything = [
            (Action::Read, Object::Gateway, true),
            (Action::Delete, Object::Gateway, false),
            (Action::Read, Object::Upkeep, false),
            (Action::Delete, Object::Upkeep, false),
            (Action::Create, Object::Kernels, true),
            (Action::Delete, Object::Kernel(id), true),
            (Action::Read, Object::Kernelspec(None), true),
            (Action::Update, Object::Kernelspec(Some("x")), false),
        ];
        for (action, object, allowed) in everything {
            assert!(authorise(&operator, action, object).is_ok());
            assert_eq!(
                authorise(&ada, action, object).is_ok(),
                allowed,
                "{action:?} {object:?}"
            );
        }
    }

    #[test]
    fn who_may_only_read_changes_nothing() {
        let id = KernelId::random();
        let reader = Principal::of_tenant("acme", "ada").unwrap().read_only();
        for action in [
            Action::Create,
            Action::Execute,
            Action::Interrupt,
            Action::Restart,
            Action::Update,
            Action::Fork,
            Action::Delete,
        ] {
            for object in [Object::Kernel(id), Object::Kernels, Object::JupyterSessions] {
                assert!(
                    authorise(&reader, action, object).is_err(),
                    "{action:?} {object:?}"
                );
            }
        }
        assert!(authorise(&reader, Action::Read, Object::Kernel(id)).is_ok());
        assert!(authorise(&reader, Action::Read, Object::Upkeep).is_err());
        assert!(reader.sees("acme") && !reader.sees("other"));
    }

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
    fn nobody_gets_the_operators_name() {
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
