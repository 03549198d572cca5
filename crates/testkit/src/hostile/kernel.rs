//! The plain half of the hostile kernel: sockets, and answers until an attack is asked for.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use himalia_wire::{ConnectionFile, Limits, Parts, Signer, Socket, header, zmq};
use serde_json::{Value, json};

use super::attack::Attack;
use super::listener::{Duplex, Listener};
use super::start::AtStart;
use super::zmtp;
use crate::fake::maker::Maker;
use crate::fake::requests;

/// How the hostile kernel behaves before its first message.
#[derive(Clone, Debug)]
pub struct Options {
    /// The connection file.
    pub connection_file: PathBuf,
    /// Attacks from the first byte.
    pub at_start: Option<AtStart>,
    /// On which socket (`shell`, `control`, `stdin`, `iopub`, `hb`); `None` is all.
    pub socket: Option<String>,
    /// Bytes of the banner in every `kernel_info_reply`; 0 is the usual one.
    pub banner: usize,
}

/// Requests that are remembered for forgeries.
const SEEN: usize = 1000;

/// What all connections share.
pub(super) struct State {
    pub(super) signer: Signer,
    pub(super) maker: Maker,
    iopub: Mutex<Vec<Box<dyn Duplex>>>,
    stdin: Mutex<Vec<Box<dyn Duplex>>>,
    seen: Mutex<Vec<(Vec<Bytes>, Bytes)>>,
    banner: usize,
}

/// A request and the connection that it came from.
pub(super) struct Asked<'a> {
    pub(super) state: &'a State,
    pub(super) peer: &'a mut dyn Duplex,
    pub(super) identities: &'a [Bytes],
    pub(super) parts: &'a Parts,
}

/// Serves until a `shutdown_request`.
pub fn run(options: &Options) -> Result<()> {
    let json = std::fs::read(&options.connection_file)
        .with_context(|| format!("cannot read {}", options.connection_file.display()))?;
    let file = ConnectionFile::parse(&json)?;
    let state = Arc::new(State {
        signer: file.signer()?,
        maker: Maker::new(),
        iopub: Mutex::default(),
        stdin: Mutex::default(),
        seen: Mutex::default(),
        banner: options.banner,
    });
    let sockets = [
        (Socket::Shell, "shell", "ROUTER"),
        (Socket::Control, "control", "ROUTER"),
        (Socket::Stdin, "stdin", "ROUTER"),
        (Socket::Iopub, "iopub", "XPUB"),
        (Socket::Heartbeat, "hb", "REP"),
    ];
    let mut threads = Vec::new();
    for (socket, name, socket_type) in sockets {
        let listener = Listener::bind(&file.endpoint(socket))?;
        let attacked = options.socket.as_deref().is_none_or(|only| only == name);
        let at_start = options.at_start.filter(|_| attacked);
        let state = Arc::clone(&state);
        threads.push(std::thread::spawn(move || {
            while let Ok(stream) = listener.accept() {
                let state = Arc::clone(&state);
                std::thread::spawn(move || {
                    let served = match at_start {
                        Some(attack) => attack.play(stream, socket_type),
                        None => state.serve(socket, stream, socket_type),
                    };
                    if let Err(error) = served {
                        eprintln!("hostile kernel: {name}: {error}");
                    }
                });
            }
        }));
    }
    for thread in threads {
        let _ = thread.join();
    }
    Ok(())
}

impl State {
    fn serve(&self, socket: Socket, mut stream: Box<dyn Duplex>, socket_type: &str) -> io::Result<()> {
        zmtp::handshake(&mut *stream, socket_type)?;
        match socket {
            Socket::Heartbeat => loop {
                let beat = zmtp::read_message(&mut *stream)?;
                stream.write_all(&zmtp::message(&beat))?;
            },
            Socket::Iopub => loop {
                let subscription = zmtp::read_message(&mut *stream)?;
                if subscription
                    .first()
                    .is_some_and(|frame| frame.first() == Some(&1))
                {
                    let content = json!({ "subscription": "" });
                    let welcome = self.maker.message("iopub_welcome", &Bytes::new(), &content);
                    // Under the lock: who has read the welcome misses nothing.
                    let mut subscribers = lock(&self.iopub);
                    stream.write_all(&zmtp::message(&zmq::encode(&[], &welcome, &self.signer)))?;
                    subscribers.push(stream.twin()?);
                }
            },
            Socket::Stdin => {
                lock(&self.stdin).push(stream.twin()?);
                loop {
                    zmtp::read_message(&mut *stream)?;
                }
            }
            Socket::Shell | Socket::Control => loop {
                let frames = zmtp::read_message(&mut *stream)?;
                match zmq::decode(frames, &self.signer, &Limits::KERNEL) {
                    Ok(request) => self.answer(&mut *stream, &request.identities, &request.parts)?,
                    Err(error) => eprintln!("hostile kernel: invalid message: {error}"),
                }
            },
        }
    }

    fn answer(&self, peer: &mut dyn Duplex, identities: &[Bytes], parts: &Parts) -> io::Result<()> {
        let parent = &parts.header;
        let Ok(peek) = header::peek(parent) else {
            return Ok(());
        };
        {
            let mut seen = lock(&self.seen);
            if seen.len() < SEEN {
                seen.push((identities.to_vec(), parent.clone()));
            }
        }
        self.status(parent, "busy");
        let content: Value = serde_json::from_slice(&parts.content).unwrap_or_default();
        let reply = match &*peek.msg_type {
            "execute_request" => {
                let code = content.get("code").and_then(Value::as_str).unwrap_or_default();
                if let Some(attack) = Attack::parse(code) {
                    attack.play(&mut Asked {
                        state: self,
                        peer,
                        identities,
                        parts,
                    })?;
                    if !attack.leaves_the_stream_whole() {
                        return Ok(());
                    }
                } else {
                    let text = json!({ "name": "stdout", "text": code });
                    self.publish(&[b"stream"], &self.maker.message("stream", parent, &text));
                }
                Some(json!({ "status": "ok", "execution_count": 1, "payload": [], "user_expressions": {} }))
            }
            "interrupt_request" | "shutdown_request" => Some(json!({ "status": "ok", "restart": false })),
            "kernel_info_request" if self.banner > 0 => {
                let mut info = requests::kernel_info();
                info["banner"] = "b".repeat(self.banner).into();
                Some(info)
            }
            other => requests::answer(other, &content),
        };
        if let (Some(reply), Some(kind)) = (reply, peek.msg_type.strip_suffix("_request")) {
            let reply = self.maker.message(&format!("{kind}_reply"), parent, &reply);
            peer.write_all(&zmtp::message(&zmq::encode(identities, &reply, &self.signer)))?;
        }
        self.status(parent, "idle");
        if peek.msg_type == "shutdown_request" {
            std::process::exit(0);
        }
        Ok(())
    }

    fn status(&self, parent: &Bytes, state: &str) {
        let content = json!({ "execution_state": state });
        self.publish(&[b"status"], &self.maker.message("status", parent, &content));
    }

    /// A signed message to all subscribers.
    pub(super) fn publish(&self, identities: &[&'static [u8]], parts: &Parts) {
        let identities: Vec<Bytes> = identities.iter().map(|id| Bytes::from_static(id)).collect();
        self.publish_raw(&zmtp::message(&zmq::encode(&identities, parts, &self.signer)));
    }

    /// Any bytes to all subscribers; `false` when none is left.
    pub(super) fn publish_raw(&self, bytes: &[u8]) -> bool {
        let mut subscribers = lock(&self.iopub);
        subscribers.retain_mut(|stream| stream.write_all(bytes).is_ok());
        !subscribers.is_empty()
    }

    /// Any bytes to all stdin connections.
    pub(super) fn ask_raw(&self, bytes: &[u8]) {
        lock(&self.stdin).retain_mut(|stream| stream.write_all(bytes).is_ok());
    }

    /// Requests that came so far: identities and headers.
    pub(super) fn seen(&self) -> Vec<(Vec<Bytes>, Bytes)> {
        lock(&self.seen).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
