//! A WebSocket client for a kernel's channels, in both framings.

mod execution;
mod received;

use std::collections::VecDeque;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use himalia_wire::{Channel, Limits, Parts, build, header, legacy, v1};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

pub use execution::Execution;
pub use received::{Closed, Received};

use crate::patience::within;

/// Largest message that the client takes, in bytes.
const MAX_MESSAGE: usize = 512 << 20;

/// Which WebSocket framing a client asks for.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Framing {
    /// `v1.kernel.websocket.jupyter.org`
    V1,
    /// No subprotocol: JSON text, binary with buffers.
    Legacy,
}

/// Where and how to connect.
#[derive(Clone, Debug)]
pub struct Connect {
    /// `ws://host:port/…/api/kernels/{id}/channels`, without a query.
    pub url: String,
    /// Sent as `Authorization: token …`.
    pub token: Option<String>,
    /// `?session_id=`.
    pub session_id: Option<String>,
    /// More of the query, for example `after=12`.
    pub query: Option<String>,
    /// The framing to ask for.
    pub framing: Framing,
    /// More request headers.
    pub headers: Vec<(&'static str, String)>,
}

impl Connect {
    /// Without token and session, in v1.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            token: None,
            session_id: None,
            query: None,
            framing: Framing::V1,
            headers: Vec::new(),
        }
    }

    /// The handshake request.
    fn request(&self) -> Result<tungstenite::handshake::client::Request, tungstenite::Error> {
        let session = self.session_id.as_ref().map(|id| format!("session_id={id}"));
        let query: Vec<String> = session.into_iter().chain(self.query.clone()).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        let mut request = format!("{}{mark}{}", self.url, query.join("&")).into_client_request()?;
        let headers = request.headers_mut();
        let value = |text: &str| {
            HeaderValue::from_str(text).map_err(|error| tungstenite::Error::HttpFormat(error.into()))
        };
        if let Some(token) = &self.token {
            headers.insert("authorization", value(&format!("token {token}"))?);
        }
        if self.framing == Framing::V1 {
            headers.insert(
                "sec-websocket-protocol",
                HeaderValue::from_static(v1::SUBPROTOCOL),
            );
        }
        for (name, text) in &self.headers {
            headers.insert(*name, value(text)?);
        }
        Ok(request)
    }
}

/// A connected client.
#[derive(Debug)]
pub struct WsClient {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    framing: Framing,
    session: String,
    /// Messages for other requests, or for none, that arrived during a wait for something else.
    unclaimed: VecDeque<Received>,
}

impl WsClient {
    /// Connects. A refused handshake is `tungstenite::Error::Http` with the response.
    pub async fn connect(connect: &Connect) -> Result<Self, tungstenite::Error> {
        let mut config = WebSocketConfig::default();
        config.max_message_size = Some(MAX_MESSAGE);
        config.max_frame_size = Some(MAX_MESSAGE);
        let (socket, _) = connect_async_with_config(connect.request()?, Some(config), true).await?;
        let session = connect
            .session_id
            .clone()
            .unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        Ok(Self {
            socket,
            framing: connect.framing,
            session,
            unclaimed: VecDeque::new(),
        })
    }

    /// The HTTP status with which a handshake was refused; panics with the error if it was something else.
    ///
    /// # Panics
    /// When the handshake was not refused by HTTP.
    pub fn refusal(result: Result<Self, tungstenite::Error>) -> u16 {
        match result {
            Err(tungstenite::Error::Http(response)) => response.status().as_u16(),
            Err(error) => panic!("no HTTP refusal: {error}"),
            Ok(_) => panic!("the handshake was accepted"),
        }
    }

    /// The session in this client's headers.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Sends any WebSocket message.
    pub async fn send_raw(&mut self, message: Message) -> Result<()> {
        within("send", self.socket.send(message)).await?.context("send")
    }

    /// Sends a message in the client's framing.
    pub async fn send(&mut self, channel: Channel, parts: &Parts) -> Result<()> {
        let message = match self.framing {
            Framing::V1 => Message::Binary(v1::encode(channel, parts)),
            Framing::Legacy => match legacy::encode(channel, parts)? {
                legacy::Frame::Text(text) => Message::text(text),
                legacy::Frame::Binary(frame) => Message::Binary(frame),
            },
        };
        self.send_raw(message).await
    }

    /// Sends a request; the value is its `msg_id`.
    pub async fn request(&mut self, channel: Channel, msg_type: &str, content: &Value) -> Result<String> {
        let parts = build::message(&self.session, msg_type, None, content);
        let msg_id = header::peek(&parts.header)?.msg_id.into_owned();
        self.send(channel, &parts).await?;
        Ok(msg_id)
    }

    /// Sends an `execute_request` that allows input; the value is its `msg_id`.
    pub async fn start(&mut self, code: &str) -> Result<String> {
        let content = json!({
            "code": code,
            "silent": false,
            "store_history": true,
            "user_expressions": {},
            "allow_stdin": true,
            "stop_on_error": true,
        });
        self.request(Channel::Shell, "execute_request", &content).await
    }

    /// Answers an `input_request`.
    pub async fn answer(&mut self, question: &Received, value: &str) -> Result<()> {
        let content = json!({ "status": "ok", "value": value });
        let parts = build::message(
            &self.session,
            "input_reply",
            Some(&question.parts.header),
            &content,
        );
        self.send(Channel::Stdin, &parts).await
    }

    /// Runs code: everything that answers it, until its reply **and** its idle status have come.
    pub async fn execute(&mut self, code: &str) -> Result<Execution> {
        let msg_id = self.start(code).await?;
        self.finish(&msg_id).await
    }

    /// Collects what answers a request, until its reply and its idle status have come.
    pub async fn finish(&mut self, msg_id: &str) -> Result<Execution> {
        let mut execution = Execution::new(msg_id);
        // What came for it while something else was awaited.
        for received in std::mem::take(&mut self.unclaimed) {
            if let Some(other) = execution.take(received) {
                self.unclaimed.push_back(other);
            }
        }
        while !execution.is_done() {
            let received = self
                .read()
                .await
                .with_context(|| format!("after {}", execution.summary()))?;
            if let Some(other) = execution.take(received) {
                self.unclaimed.push_back(other);
            }
        }
        Ok(execution)
    }

    /// The next message, of any request.
    pub async fn next(&mut self) -> Result<Received> {
        match self.unclaimed.pop_front() {
            Some(received) => Ok(received),
            None => self.read().await,
        }
    }

    /// The next message that `wanted` accepts; those before it stay for [`WsClient::next`].
    pub async fn next_where(&mut self, what: &str, wanted: impl Fn(&Received) -> bool) -> Result<Received> {
        if let Some(found) = self.unclaimed.iter().position(&wanted)
            && let Some(received) = self.unclaimed.remove(found)
        {
            return Ok(received);
        }
        loop {
            let received = self.read().await.with_context(|| format!("waiting for {what}"))?;
            if wanted(&received) {
                return Ok(received);
            }
            self.unclaimed.push_back(received);
        }
    }

    /// Waits until the server closes; messages before that stay for [`WsClient::next`].
    pub async fn closed(&mut self) -> Result<Closed> {
        loop {
            match self.read_frame().await? {
                Ok(received) => self.unclaimed.push_back(received),
                Err(closed) => return Ok(closed),
            }
        }
    }

    /// Messages that were set aside.
    pub fn unclaimed(&self) -> impl Iterator<Item = &Received> {
        self.unclaimed.iter()
    }

    /// Closes as a browser does, with code 1000.
    pub async fn close(mut self) -> Result<()> {
        within("close", self.socket.close(None)).await?.context("close")
    }

    /// Sends no more and says no goodbye, as a client whose network broke; what was on its way to it can still be
    /// read by [`WsClient::closed`].
    pub async fn cut(&mut self) -> Result<()> {
        within("cut", self.socket.get_mut().shutdown())
            .await?
            .context("cut")
    }

    async fn read(&mut self) -> Result<Received> {
        match self.read_frame().await? {
            Ok(received) => Ok(received),
            Err(closed) => bail!("the server closed: {closed:?}"),
        }
    }

    async fn read_frame(&mut self) -> Result<Result<Received, Closed>> {
        loop {
            let Some(message) = within("a WebSocket message", self.socket.next()).await? else {
                return Ok(Err(Closed::default()));
            };
            match message {
                Ok(Message::Close(frame)) => return Ok(Err(Closed::from(frame))),
                Ok(Message::Text(text)) => {
                    return self
                        .received(legacy::decode_text(&text, &Limits::KERNEL)?)
                        .map(Ok);
                }
                Ok(Message::Binary(frame)) => return self.binary(&frame).map(Ok),
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
                Err(
                    tungstenite::Error::ConnectionClosed
                    | tungstenite::Error::AlreadyClosed
                    | tungstenite::Error::Io(_)
                    | tungstenite::Error::Protocol(
                        tungstenite::error::ProtocolError::ResetWithoutClosingHandshake,
                    ),
                ) => return Ok(Err(Closed::default())),
                Err(error) => return Err(error).context("WebSocket"),
            }
        }
    }

    fn binary(&self, frame: &Bytes) -> Result<Received> {
        match self.framing {
            Framing::V1 => {
                let (channel, parts) = v1::decode(frame, &Limits::KERNEL)?;
                self.received((Some(channel), parts))
            }
            Framing::Legacy => self.received(legacy::decode_binary(frame, &Limits::KERNEL)?),
        }
    }

    #[allow(clippy::unused_self)]
    fn received(&self, (channel, parts): (Option<Channel>, Parts)) -> Result<Received> {
        let channel = channel.context("the server named no channel")?;
        Received::new(channel, parts)
    }
}
