//! Shared parts of the commands: selection of the gateway, its refusals, and the output of replies.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use crate::args::gateway::GatewayArgs;
use crate::http::{Client, Reply};
use crate::target;

pub(crate) fn connect(gateway: &GatewayArgs) -> anyhow::Result<Client> {
    let target = target::find(gateway)?;
    Client::new(&target)
}

pub(crate) fn expect(reply: &Reply, status: u16) -> anyhow::Result<Value> {
    if reply.status != status {
        bail!("{}", reply.problem());
    }
    reply.json()
}

/// Deletes what is at a path, which has a name.
pub(crate) async fn delete(gateway: &GatewayArgs, path: &str, name: &str) -> anyhow::Result<ExitCode> {
    let reply = connect(gateway)?.delete(path).await?;
    if reply.status != 204 {
        bail!("{}", reply.problem());
    }
    print(gateway.json, &json!({ "deleted": name }), |_| String::new())
}

/// The reply as it is, or for people.
pub(crate) fn print(
    as_json: bool,
    body: &Value,
    show: impl Fn(&Value) -> String,
) -> anyhow::Result<ExitCode> {
    let text = if as_json {
        format!("{body:#}\n")
    } else {
        show(body)
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The items of a list; none, if it is no list.
pub(crate) fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A text as one segment of a path or one value in a query (RFC 3986 unreserved characters stand as they are).
pub(crate) fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}
