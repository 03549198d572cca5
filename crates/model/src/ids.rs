//! Identifiers that the engine issues.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::EngineError;

/// Identifies one kernel for its whole life, restarts included. On the wire a hyphenated lower-case UUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct KernelId(pub Uuid);

/// Identifies one session: a sandbox with its log and its kernels. Its first kernel has the same id; additional kernels have ids of
/// their own. On the wire a hyphenated lower-case UUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SessionId(pub Uuid);

impl SessionId {
    /// The session whose first kernel this is. Of an additional kernel it is the id of no session.
    pub fn of_first_kernel(kernel: KernelId) -> Self {
        Self(kernel.0)
    }

    /// The session's first kernel.
    pub fn first_kernel(self) -> KernelId {
        KernelId(self.0)
    }
}

/// Identifies one Jupyter REST session: a path bound to a kernel (`/api/sessions`). Not a wire session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JupyterSessionId(pub Uuid);

macro_rules! uuid_id {
    ($name:ident, $field:literal) => {
        impl $name {
            /// A new random identifier.
            pub fn random() -> Self {
                Self(Uuid::new_v4())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = EngineError;

            /// Accepts a hyphenated UUID only; anything else is [`EngineError::BadRequest`] naming the field.
            fn from_str(text: &str) -> Result<Self, EngineError> {
                match Uuid::try_parse(text) {
                    Ok(id) if text.len() == 36 => Ok(Self(id)),
                    _ => Err(EngineError::bad_request($field, "not a UUID")),
                }
            }
        }
    };
}

uuid_id!(KernelId, "kernel_id");
uuid_id!(SessionId, "session");
uuid_id!(JupyterSessionId, "session_id");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hyphenated_uuids_are_ids() {
        let id = KernelId::random();
        assert_eq!(id.to_string().parse::<KernelId>().unwrap(), id);
        for bad in [
            "",
            "zzz",
            "{67e55044-10b1-426f-9247-bb680e5fe0c8}",
            "67e5504410b1426f9247bb680e5fe0c8",
        ] {
            assert!(bad.parse::<KernelId>().is_err(), "{bad}");
        }
    }
}
