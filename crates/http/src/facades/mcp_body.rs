//! The body of `POST /mcp`, as far as it decides which replica serves the request: the arguments of a tool, the address of a resource.

use himalia_engine::{Origin, ResourceRef};
use serde::Deserialize;

use crate::relay::{BodyObjects, BodyReader, Start, execution, prompt};

/// The session, execution or prompt of a call.
pub(crate) const BODY: BodyReader = BodyReader {
    refuses_rebound: true,
    read,
};

#[derive(Deserialize)]
struct Call {
    method: Option<String>,
    id: Option<serde_json::Value>,
    params: Option<Params>,
}

#[derive(Deserialize)]
struct Params {
    /// The tool.
    name: Option<String>,
    arguments: Option<Arguments>,
    uri: Option<String>,
}

#[derive(Deserialize)]
struct Arguments {
    session: Option<String>,
    /// `session`, `op: create`: the name of one that there may be.
    name: Option<String>,
    /// `session`, `op: create`, without a name.
    idempotency_key: Option<String>,
    op: Option<String>,
    /// `session`, `op: create`: the template of the session.
    template: Option<String>,
    execution_id: Option<String>,
    /// `execute`: the execution or the prompt that is answered.
    input_for: Option<String>,
}

/// A call of a tool, or of a resource, is served at the owner of its session or execution.
fn read(bytes: &[u8]) -> BodyObjects {
    let Ok(Call { method, id, params }) = serde_json::from_slice(bytes) else {
        return BodyObjects::default();
    };
    // The answer to a question of a call, whose id has the session of the call behind an `@`.
    if method.is_none()
        && let Some((_, session)) = id.as_ref().and_then(|id| id.as_str()?.split_once('@'))
    {
        return BodyObjects {
            sought: vec![ResourceRef::Session(session.to_owned())],
            ..BodyObjects::default()
        };
    }
    let Some(params) = params.filter(|_| method.as_deref() != Some("resources/list")) else {
        return BodyObjects {
            lists: method.as_deref() == Some("resources/list"),
            ..BodyObjects::default()
        };
    };
    let (mut start, mut lists, mut key) = (None, false, None);
    let mut all = Vec::new();
    let of_sessions = params.name.as_deref() == Some("session");
    if let Some(arguments) = params.arguments {
        let op = arguments.op.as_deref();
        lists = of_sessions && op == Some("list") && arguments.session.is_none();
        let creates = op == Some("create");
        let ids = [arguments.execution_id, arguments.input_for];
        all.extend(
            ids.into_iter()
                .flatten()
                .filter_map(|id| execution(&id).or_else(|| prompt(&id))),
        );
        all.extend(arguments.session.map(ResourceRef::Session));
        if creates {
            key = arguments.idempotency_key.filter(|_| arguments.name.is_none());
            all.extend(arguments.name.map(ResourceRef::Session));
            start = of_sessions.then_some(Start {
                template: arguments.template,
                origin: Origin::V1,
            });
        }
    }
    let session = params.uri.and_then(|uri| {
        let rest = uri.strip_prefix("himalia://sessions/")?;
        Some(ResourceRef::Session(rest.split('/').next()?.to_owned()))
    });
    all.extend(session);
    BodyObjects {
        sought: all,
        start,
        lists,
        key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "11111111-2222-3333-4444-555555555555";

    fn session(text: &str) -> ResourceRef {
        ResourceRef::Session(text.into())
    }

    #[test]
    fn calls_of_tools_name_sessions_and_executions() {
        let kernel = ResourceRef::Kernel(ID.parse().unwrap());
        let execution = format!("exe_{}_7", ID.replace('-', ""));
        for (body, wanted) in [
            (
                r#"{"params": {"arguments": {"session": "eda", "code": "1"}}}"#.to_owned(),
                vec![session("eda")],
            ),
            (
                format!(r#"{{"params": {{"arguments": {{"execution_id": "{execution}"}}}}}}"#),
                vec![kernel],
            ),
            (
                r#"{"params": {"arguments": {"op": "create", "name": "eda"}}}"#.to_owned(),
                vec![session("eda")],
            ),
            (
                r#"{"params": {"uri": "himalia://sessions/eda/files/a.png"}}"#.to_owned(),
                vec![session("eda")],
            ),
            (
                r#"{"id": "ask_0a@eda", "result": {"action": "accept"}}"#.to_owned(),
                vec![session("eda")],
            ),
            (r#"{"method": "tools/list"}"#.to_owned(), vec![]),
            ("x".to_owned(), vec![]),
        ] {
            let about = read(body.as_bytes());
            assert_eq!((about.sought, about.start), (wanted, None), "{body}");
            assert!(!about.lists, "{body}");
        }
        let lists = |arguments: &str| {
            let body = format!(r#"{{"params": {{"name": "session", "arguments": {arguments}}}}}"#);
            read(body.as_bytes()).lists
        };
        assert!(lists(r#"{"op": "list"}"#));
        for body in [
            r#"{"method": "resources/list"}"#,
            r#"{"method": "resources/list", "params": {"_meta": {}}}"#,
        ] {
            assert!(read(body.as_bytes()).lists, "{body}");
        }
        // The executions of one.
        assert!(!lists(r#"{"op": "list", "session": "eda"}"#));
        let body = br#"{"params": {"name": "session", "arguments": {"op": "create", "template": "warm"}}}"#;
        let start = Some(Start {
            template: Some("warm".to_owned()),
            origin: Origin::V1,
        });
        assert_eq!(read(body).start, start);
        let body =
            br#"{"params": {"name": "session", "arguments": {"op": "create", "idempotency_key": "k"}}}"#;
        assert_eq!(read(body).key.as_deref(), Some("k"));
    }
}
