//! `himalia auth`: the grant of a person. The browser comes back to this program, on a port of this machine; or the person pastes the
//! address at which it has ended, if it runs on another one.

use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use url::Url;

use super::credentials;
use crate::args::gateway::GatewayArgs;
use crate::support::{connect, encoded, expect, print};

pub(crate) const EXAMPLES: &str = "\
Examples:
  himalia auth linear
  himalia auth linear --url https://gateway.example.org

The page can be opened in a browser on any machine. If that is not this one, it cannot come back by itself:
paste the address at which it ends here.";

/// A grant.
#[derive(Debug, Args)]
pub struct AuthArgs {
    /// The credential, of kind oauth2 with grant authorization_code
    pub(crate) name: String,
    /// Port of this machine that the browser comes back to, for clients that are registered with one [default: any]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Tenant of the configuration [default: that of the token]
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

/// Longest time to complete a grant.
const GRANT_TIME: Duration = Duration::from_mins(10);
/// Longest time for the head of the browser's request.
const HEAD_TIME: Duration = Duration::from_secs(10);
const HEAD_BYTES: usize = 16 * 1024;

/// Page for the browser. It does not show whether the grant succeeded: the gateway has not decided yet.
const PAGE: &str = "<!doctype html><meta charset=utf-8><title>Himalia</title><p>The answer has arrived. The terminal shows the result; this page can be closed.";

pub(super) async fn call(args: AuthArgs) -> anyhow::Result<ExitCode> {
    let client = connect(&args.gateway)?;
    let listener = TcpListener::bind(("127.0.0.1", args.port.unwrap_or(0)))
        .await
        .context("cannot listen on a port of this machine")?;
    let back = format!("http://127.0.0.1:{}/", listener.local_addr()?.port());
    let mut body = json!({ "redirect_uri": back });
    if let Some(tenant) = &args.tenant {
        body["tenant"] = tenant.as_str().into();
    }
    let path = format!("/v1/credentials/{}/grant", encoded(&args.name));
    let begun = expect(&client.post(&path, &body).await?, 200)?;
    let page = begun["url"].as_str().context("the gateway names no page")?;
    // Written anew, it has no character that controls a terminal.
    let page = Url::parse(page).context("the gateway names no page")?;
    eprintln!("Open this page and consent:\n");
    // Alone on standard output, for programs that open it.
    writeln!(std::io::stdout(), "{page}")?;
    eprintln!("\nWaiting. If the browser runs on another machine, paste the address at which it ends here.");
    let state = page
        .query_pairs()
        .find_map(|(name, value)| (name == "state").then(|| value.into_owned()))
        .context("the page has no state")?;
    let answer = timeout(GRANT_TIME, answered(&listener, &state)).await;
    let answer = answer.context("there was no answer within 10 minutes; begin again")??;
    let granted = expect(&client.post("/v1/grants", &answer).await?, 200)?;
    let is_ready = granted["tokens"]["state"] == "ready";
    print(args.gateway.json, &granted, credentials::granted)?;
    Ok(if is_ready {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The answer of the authorization server: with the browser, or pasted.
async fn answered(listener: &TcpListener, state: &str) -> anyhow::Result<Value> {
    let mut pasted = lines();
    loop {
        let address = tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted.context("cannot take a connection of the browser")?;
                // Anything on this machine can connect.
                timeout(HEAD_TIME, taken(stream)).await.ok().flatten()
            }
            Some(line) = pasted.recv() => Some(line),
        };
        let Some(answer) = address.as_deref().and_then(of_address) else {
            continue;
        };
        if answer["state"].as_str() == Some(state) {
            return Ok(answer);
        }
        eprintln!("That is the answer to another grant; waiting.");
    }
}

/// Reads the answer from an address, or from a path with a query; `None`: it has none.
fn of_address(address: &str) -> Option<Value> {
    let base = Url::parse("http://127.0.0.1/").ok()?;
    let url = base.join(address.trim()).ok()?;
    let mut answer = json!({});
    for (name, value) in url.query_pairs() {
        if ["state", "code", "error", "error_description", "iss"].contains(&&*name) {
            answer[&*name] = value.into_owned().into();
        }
    }
    answer.get("state").is_some().then_some(answer)
}

/// The path of a browser's request, which is answered.
async fn taken(mut stream: TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() >= HEAD_BYTES || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let line = String::from_utf8_lossy(&head);
    let path = line
        .lines()
        .next()?
        .strip_prefix("GET ")?
        .split(' ')
        .next()?
        .to_owned();
    let is_answer = of_address(&path).is_some();
    let (status, body) = if is_answer {
        ("200 OK", PAGE)
    } else {
        ("404 Not Found", "")
    };
    let response = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html\r\nreferrer-policy: no-referrer\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // A browser that has gone has brought the answer anyway.
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
    Some(path)
}

/// Lines of standard input. The thread ends with the program.
fn lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_from_an_address_or_a_path() {
        for address in [
            "/?state=s&code=a%2Bb",
            " http://127.0.0.1:41000/?code=a%2Bb&state=s&x=y\n",
            "https://gw.test/viewer/grant?code=a%2Bb&state=s",
        ] {
            assert_eq!(
                of_address(address),
                Some(json!({"state": "s", "code": "a+b"})),
                "{address}"
            );
        }
        for other in ["/favicon.ico", "", "y", "/?code=x"] {
            assert_eq!(of_address(other), None, "{other}");
        }
    }
}
