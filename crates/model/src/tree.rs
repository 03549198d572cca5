//! Trees of sessions: code in a session starts other sessions, whose code may start others. At the top is a session of a client.

use himalia_provisioner::{Isolation, Network};
use serde::{Deserialize, Serialize};

use crate::network::AllowList;
use crate::tool_policy::ToolPolicy;
use crate::{LlmPolicy, Session, SessionId};

/// Sessions below each other, unless the template says otherwise, and the most that it may say.
const DEPTH: u32 = 4;
const MAX_DEPTH: u32 = 16;
/// The same of sessions of a tree that live at once.
const SESSIONS: u32 = 32;
const MAX_SESSIONS: u32 = 1000;

/// Bounds of a tree of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeLimits {
    /// Sessions below each other, not counting the one at the top.
    pub depth: u32,
    /// Sessions that live at once, not counting the one at the top.
    pub sessions: u32,
}

impl Default for TreeLimits {
    fn default() -> Self {
        Self {
            depth: DEPTH,
            sessions: SESSIONS,
        }
    }
}

impl TreeLimits {
    /// From what is written in the configuration; `None`: the default.
    ///
    /// # Errors
    /// What is wrong, beginning with the name of the member.
    pub fn new(depth: Option<u32>, sessions: Option<u32>) -> Result<Self, String> {
        let made = Self {
            depth: depth.unwrap_or(DEPTH),
            sessions: sessions.unwrap_or(SESSIONS),
        };
        if made.depth > MAX_DEPTH {
            return Err(format!("tree_depth: is not 0 to {MAX_DEPTH}"));
        }
        if made.sessions > MAX_SESSIONS {
            return Err(format!("tree_sessions: is not 0 to {MAX_SESSIONS}"));
        }
        Ok(made)
    }

    /// Intersection of two bounds.
    #[must_use]
    pub fn within(self, other: Self) -> Self {
        Self {
            depth: self.depth.min(other.depth),
            sessions: self.sessions.min(other.sessions),
        }
    }
}

/// Position of a session in its tree. A session that a client started has none: it is the root, if there is a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreePlace {
    /// The session at the top.
    pub root: SessionId,
    /// Execution of the root session during which its code started the first session of this branch, as a number in its log. `None`: a
    /// request of a Jupyter client, or no execution.
    pub root_execution: Option<u64>,
    /// The session whose code has started this one.
    pub parent: SessionId,
    /// From 1: sessions above this one.
    pub depth: u32,
}

/// A session whose code starts another one. The new one may do nothing that this one may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starter {
    /// Position of the new session.
    pub place: TreePlace,
    /// Bounds of the tree.
    pub limits: TreeLimits,
    /// The level of its sandbox.
    pub isolation: Isolation,
    /// Network of the starting session.
    pub network: Network,
    /// With [`Network::Allow`]: what it may reach.
    pub allow: AllowList,
    /// Names of the credentials that it may use.
    pub credentials: Vec<String>,
    /// Tools that it may use.
    pub tools: ToolPolicy,
    /// Models that it may use.
    pub models: Box<LlmPolicy>,
}

impl Starter {
    /// A session in which this execution runs.
    pub fn new(id: SessionId, session: &Session, execution: Option<u64>) -> Self {
        let sandbox = &session.sandbox;
        let top = session.tree.map_or((id, execution, 0), |place| {
            (place.root, place.root_execution, place.depth)
        });
        let (root, root_execution, depth) = top;
        Self {
            place: TreePlace {
                root,
                root_execution,
                parent: id,
                depth: depth.saturating_add(1),
            },
            limits: session.tree_limits,
            isolation: sandbox.isolation,
            network: sandbox.network.clone(),
            allow: sandbox.allow.clone(),
            credentials: sandbox.credentials.clone(),
            tools: sandbox.tools.clone(),
            models: sandbox.models.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sessions_of_a_tree_name_its_top() {
        let (top, middle) = (SessionId::random(), SessionId::random());
        let first = Starter::new(top, &Session::default(), Some(7)).place;
        assert_eq!((first.root, first.parent, first.depth), (top, top, 1));
        let session = Session {
            tree: Some(first),
            ..Session::default()
        };
        let second = Starter::new(middle, &session, Some(9)).place;
        let wanted = TreePlace {
            root: top,
            root_execution: Some(7),
            parent: middle,
            depth: 2,
        };
        assert_eq!(second, wanted);
    }

    #[test]
    fn limits_name_their_member() {
        assert_eq!(TreeLimits::new(None, None), Ok(TreeLimits::default()));
        assert!(
            TreeLimits::new(Some(17), None)
                .unwrap_err()
                .starts_with("tree_depth: ")
        );
        assert!(
            TreeLimits::new(None, Some(1001))
                .unwrap_err()
                .starts_with("tree_sessions: ")
        );
        let (deep, wide) = (
            TreeLimits::new(Some(9), Some(1)).unwrap(),
            TreeLimits::new(Some(1), Some(9)).unwrap(),
        );
        assert_eq!(deep.within(wide), TreeLimits::new(Some(1), Some(1)).unwrap());
    }
}
