//! Lookup of the session that an argument names.

use anyhow::bail;
use serde_json::Value;

use crate::http::Client;
use crate::show::clean;
use crate::support::encoded;

/// A session by its name, its label `name`, its id or the beginning of its id.
pub(crate) async fn find(client: &Client, wanted: &str) -> anyhow::Result<String> {
    lookup(client, wanted).await?.ok_or_else(|| none(wanted))
}

/// The error about a session that does not exist.
pub(crate) fn none(wanted: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "no session has this id, this name or this label `name`: {wanted} (`himalia session ls` lists them, `himalia session \
         new NAME` starts one)",
        wanted = clean(wanted)
    )
}

/// The same; `None` if there is none.
pub(crate) async fn lookup(client: &Client, wanted: &str) -> anyhow::Result<Option<String>> {
    let body = client.list("/v1/sessions", "sessions").await?;
    let all: Vec<&Value> = body["sessions"].as_array().into_iter().flatten().collect();
    let named = |session: &&&Value| session["name"] == wanted || session["labels"]["name"] == wanted;
    let begins = |session: &&&Value| session["id"].as_str().is_some_and(|id| id.starts_with(wanted));
    let mut found: Vec<&&Value> = all.iter().filter(named).collect();
    if found.is_empty() && !wanted.is_empty() {
        found = all.iter().filter(begins).collect();
    }
    match found[..] {
        [one] => Ok(Some(one["id"].as_str().unwrap_or_default().to_owned())),
        [] => Ok(None),
        _ => bail!("more than one session begins with {}", clean(wanted)),
    }
}

/// The session of this name, started if there is none.
pub(crate) async fn start(client: &Client, name: &str, body: &Value) -> anyhow::Result<Value> {
    let path = format!("/v1/sessions/{}", encoded(name));
    let reply = client.put(&path, body).await?;
    if ![200, 201].contains(&reply.status) {
        bail!("{}", reply.problem());
    }
    reply.json()
}
