//! Who may do what to which object: the one place that every command passes.

use crate::{EngineError, JupyterSessionId, KernelId};

/// On whose behalf a command runs. Only the operator exists yet; tenants come later and change this file alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    name: String,
}

impl Principal {
    /// The holder of the gateway's token.
    pub fn operator() -> Self {
        Self {
            name: "operator".into(),
        }
    }

    /// A stable name for logs and for the ownership of requests.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether this is the operator.
    pub fn is_operator(&self) -> bool {
        self.name == "operator"
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
    /// The gateway as a whole: its lists and its status.
    Gateway,
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

/// Refuses what the principal may not do.
///
/// The operator may do everything; a principal of any other name can do nothing, so that a facade that forgets to
/// authenticate fails closed.
pub(crate) fn authorise(
    principal: &Principal,
    action: Action,
    object: Object<'_>,
) -> Result<(), EngineError> {
    if principal.is_operator() {
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
    fn strangers_may_do_nothing() {
        let stranger = Principal {
            name: "stranger".into(),
        };
        assert!(authorise(&stranger, Action::Read, Object::Gateway).is_err());
        assert!(authorise(&Principal::operator(), Action::Delete, Object::Kernels).is_ok());
    }
}
