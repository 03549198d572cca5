//! What a principal may do at all: the one place that every command passes. Whose an object is, is asked where it is looked up
//! ([`Principal::sees`]).

use himalia_model::{Action, EngineError, JupyterSessionId, KernelId, Principal, Scope};

/// Object of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Object<'a> {
    /// The gateway as a whole: its lists and its status. A list has what its reader sees.
    Gateway,
    /// Objects of the operator that all tenants share: pools and the data of ended sessions.
    Upkeep,
    /// Access tokens.
    Tokens,
    /// Credentials that sessions use.
    Credentials,
    /// Tools that a person has approved for later sessions.
    ToolApprovals,
    /// Skills of a tenant.
    Skills,
    /// Workflows of a tenant, and their runs.
    Workflows,
    /// Schedules and webhooks of a tenant, which start runs of skills.
    Schedules,
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
        Object::Tokens | Object::Credentials | Object::ToolApprovals => principal.scope() >= Scope::Admin,
        // A token that runs code does not approve what that code does.
        Object::Kernel(_) | Object::Workflows if action == Action::Approve => {
            principal.scope() >= Scope::Admin
        }
        // What all tenants share is changed by few.
        Object::Upkeep | Object::Gateway if action != Action::Read && principal.scope() < Scope::Admin => {
            false
        }
        _ if principal.is_operator() => true,
        Object::Gateway | Object::Kernelspec(_) => action == Action::Read,
        Object::Kernels | Object::JupyterSessions => action == Action::Create,
        // Its own; others are not found.
        Object::Skills
        | Object::Workflows
        | Object::Schedules
        | Object::Kernel(_)
        | Object::JupyterSession(_) => true,
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
    fn tokens_and_what_all_share_are_for_admins() {
        use Scope::{Admin, Execute, Read};
        let ada = Principal::of_tenant("acme", "ada").unwrap();
        let ci = Principal::of_operator("ci").unwrap();
        for (principal, most) in [(&ada, Execute), (&ci, Admin)] {
            assert_eq!(principal.scope(), most);
            for scope in [Read, Execute, Admin] {
                let principal = principal.clone().with_scope(scope);
                let may = |action, object| authorise(&principal, action, object).is_ok();
                for action in [Action::Read, Action::Create, Action::Delete] {
                    for object in [Object::Tokens, Object::Credentials, Object::ToolApprovals] {
                        assert_eq!(may(action, object), scope == Admin, "{scope:?} {action:?}");
                    }
                }
                let shared = principal.is_operator();
                assert_eq!(may(Action::Read, Object::Upkeep), shared);
                assert_eq!(may(Action::Delete, Object::Upkeep), shared && scope == Admin);
                assert_eq!(may(Action::Delete, Object::Gateway), shared && scope == Admin);
                assert_eq!(may(Action::Create, Object::Kernels), scope >= Execute);
                assert!(may(Action::Read, Object::Gateway));
            }
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
        // A caller who runs code approves nothing.
        let ada = reader.clone().with_scope(Scope::Execute);
        let approves =
            |principal: &Principal| authorise(principal, Action::Approve, Object::Kernel(id)).is_ok();
        assert!(approves(&Principal::operator()) && approves(&ada.clone().with_scope(Scope::Admin)));
        assert!(!approves(&ada) && !approves(&reader));
        let ada = ada.with_scope(Scope::Execute);
        assert!(authorise(&ada, Action::Execute, Object::Workflows).is_ok());
        assert!(authorise(&ada, Action::Approve, Object::Workflows).is_err());
        assert!(authorise(&ada.with_scope(Scope::Admin), Action::Approve, Object::Workflows).is_ok());
        assert!(reader.sees("acme") && !reader.sees("other"));
    }
}
