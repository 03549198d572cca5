//! Bodies that start a session, as far as they decide which pool serves the start.

use himalia_engine::Origin;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The format of a body that starts a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartBody {
    /// `POST /api/kernels`.
    Kernel,
    /// `POST /v1/sessions`, `PUT /v1/sessions/{name}`.
    Session,
}

/// The members of a start that decide which pool serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// Name of a template or a kernelspec.
    pub(crate) template: Option<String>,
    pub(crate) origin: Origin,
}

#[derive(Deserialize)]
struct KernelMembers {
    name: Option<String>,
    kernel_id: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct SessionMembers {
    template: Option<String>,
    id: Option<IgnoredAny>,
    image: Option<IgnoredAny>,
    network: Option<IgnoredAny>,
}

impl StartBody {
    /// The start that a body requests. `None` if no pool can serve it, or if the body is invalid: the handler returns the error.
    pub(super) fn read(self, bytes: &[u8]) -> Option<Start> {
        let bytes = if bytes.trim_ascii().is_empty() {
            b"{}"
        } else {
            bytes
        };
        match self {
            Self::Kernel => {
                let members: KernelMembers = serde_json::from_slice(bytes).ok()?;
                members.kernel_id.is_none().then_some(Start {
                    template: members.name,
                    origin: Origin::Jupyter,
                })
            }
            Self::Session => {
                let members: SessionMembers = serde_json::from_slice(bytes).ok()?;
                let own = [members.id, members.image, members.network];
                own.iter().all(Option::is_none).then_some(Start {
                    template: members.template,
                    origin: Origin::V1,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_says_which_pool_can_serve_it() {
        let start = |template: Option<&str>, origin| {
            let template = template.map(str::to_owned);
            Some(Start { template, origin })
        };
        for (kind, body, wanted) in [
            (StartBody::Kernel, "", start(None, Origin::Jupyter)),
            (
                StartBody::Kernel,
                r#"{"name": "warm", "env": {}}"#,
                start(Some("warm"), Origin::Jupyter),
            ),
            (StartBody::Kernel, r#"{"kernel_id": "x"}"#, None),
            (
                StartBody::Session,
                r#"{"template": "warm", "labels": {"a": "b"}}"#,
                start(Some("warm"), Origin::V1),
            ),
            (
                StartBody::Session,
                r#"{"template": "warm", "id": null}"#,
                start(Some("warm"), Origin::V1),
            ),
            (
                StartBody::Session,
                r#"{"template": "warm", "image": "mine"}"#,
                None,
            ),
            (StartBody::Session, "[1]", None),
        ] {
            assert_eq!(kind.read(body.as_bytes()), wanted, "{body}");
        }
    }
}
