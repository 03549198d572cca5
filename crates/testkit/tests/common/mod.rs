//! A plain ZMQ client for the test kernels, on ipc or tcp.
#![allow(dead_code)] // Not every test uses all of it.

use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use himalia_testkit::{binaries, patience::within};
use himalia_wire::{ConnectionFile, Limits, Parts, Signer, Socket as Of, Transport, build, header, zmq};
use serde_json::{Value, json};
use tempfile::TempDir;
use zeromq::{DealerSocket, ReqSocket, Socket, SocketOptions, SocketRecv, SocketSend, SubSocket, ZmqMessage};

/// A test kernel as a child process, and sockets to it.
pub(crate) struct Kernel {
    pub(crate) child: Child,
    pub(crate) shell: DealerSocket,
    pub(crate) control: DealerSocket,
    pub(crate) stdin: DealerSocket,
    pub(crate) iopub: SubSocket,
    pub(crate) heartbeat: ReqSocket,
    pub(crate) signer: Signer,
    pub(crate) file: ConnectionFile,
    _dir: TempDir,
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A received message.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) identities: Vec<Bytes>,
    pub(crate) msg_type: String,
    pub(crate) parent: Option<String>,
    pub(crate) parts: Parts,
}

impl Got {
    pub(crate) fn content(&self) -> Value {
        serde_json::from_slice(&self.parts.content).unwrap_or_default()
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Kernel {
    pub(crate) async fn start(binary: &str, transport: Transport, args: &[&str]) -> Self {
        let dir = tempfile::Builder::new().prefix("tk").tempdir_in("/tmp").unwrap();
        let mut file = ConnectionFile::new_ipc(dir.path(), "test-key").unwrap();
        if transport == Transport::Tcp {
            file.transport = transport;
            file.ip = "127.0.0.1".into();
            file.shell_port = free_port();
            file.control_port = free_port();
            file.stdin_port = free_port();
            file.iopub_port = free_port();
            file.hb_port = free_port();
        }
        let path = dir.path().join("connection.json");
        std::fs::write(&path, file.to_json().unwrap()).unwrap();
        let child = Command::new(binaries::path(binary).unwrap())
            .arg("-f")
            .arg(&path)
            .args(args)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();

        let dealer = || {
            let mut options = SocketOptions::default();
            options.peer_identity("the-client".parse().unwrap());
            DealerSocket::with_options(options)
        };
        let mut kernel = Self {
            child,
            shell: dealer(),
            control: dealer(),
            stdin: dealer(),
            iopub: SubSocket::new(),
            heartbeat: ReqSocket::new(),
            signer: file.signer().unwrap(),
            file: file.clone(),
            _dir: dir,
        };
        let connect = async {
            kernel.shell.connect(&file.endpoint(Of::Shell)).await.unwrap();
            kernel.control.connect(&file.endpoint(Of::Control)).await.unwrap();
            kernel.stdin.connect(&file.endpoint(Of::Stdin)).await.unwrap();
            kernel
                .heartbeat
                .connect(&file.endpoint(Of::Heartbeat))
                .await
                .unwrap();
            kernel.iopub.subscribe("").await.unwrap();
            kernel.iopub.connect(&file.endpoint(Of::Iopub)).await.unwrap();
        };
        within("connecting", connect).await.unwrap();
        kernel
    }

    /// Starts it and waits for its welcome.
    pub(crate) async fn ready(binary: &str, transport: Transport) -> Self {
        let mut kernel = Self::start(binary, transport, &[]).await;
        while kernel.output().await.msg_type != "iopub_welcome" {}
        kernel
    }

    fn frames(
        &self,
        number: u64,
        msg_type: &str,
        parent: Option<&[u8]>,
        content: &Value,
    ) -> (String, ZmqMessage) {
        let parts = build::message("session", msg_type, parent, content);
        let msg_id = header::peek(&parts.header).unwrap().msg_id.into_owned();
        let identity = Bytes::from(format!("hm.1.{number}"));
        (
            msg_id,
            zmq::encode(&[identity], &parts, &self.signer).try_into().unwrap(),
        )
    }

    /// Sends a request with the identity frame `hm.1.{number}`; the value is its id.
    pub(crate) async fn request(&mut self, number: u64, msg_type: &str, content: Value) -> String {
        let (msg_id, frames) = self.frames(number, msg_type, None, &content);
        self.shell.send(frames).await.unwrap();
        msg_id
    }

    pub(crate) async fn control(&mut self, msg_type: &str, content: Value) -> Got {
        self.send_control(msg_type, content).await;
        self.control_reply().await
    }

    pub(crate) async fn send_control(&mut self, msg_type: &str, content: Value) {
        let (_, frames) = self.frames(0, msg_type, None, &content);
        self.control.send(frames).await.unwrap();
    }

    pub(crate) async fn control_reply(&mut self) -> Got {
        let message = within("a control reply", self.control.recv())
            .await
            .unwrap()
            .unwrap();
        self.got(message)
    }

    pub(crate) async fn start_code(&mut self, number: u64, code: &str) -> String {
        self.request(number, "execute_request", json!({ "code": code }))
            .await
    }

    pub(crate) async fn answer(&mut self, question: &Got, value: &str) {
        let content = json!({ "status": "ok", "value": value });
        let (_, frames) = self.frames(0, "input_reply", Some(&question.parts.header), &content);
        self.stdin.send(frames).await.unwrap();
    }

    pub(crate) async fn reply(&mut self) -> Got {
        let message = within("a reply", self.shell.recv()).await.unwrap().unwrap();
        self.got(message)
    }

    pub(crate) async fn question(&mut self) -> Got {
        let message = within("a question", self.stdin.recv()).await.unwrap().unwrap();
        self.got(message)
    }

    pub(crate) async fn output(&mut self) -> Got {
        let message = self.raw_output().await;
        self.got(message)
    }

    pub(crate) async fn raw_output(&mut self) -> ZmqMessage {
        within("output", self.iopub.recv()).await.unwrap().unwrap()
    }

    /// Runs code; everything on iopub with this parent until idle, and the reply.
    pub(crate) async fn run(&mut self, number: u64, code: &str) -> (Vec<Got>, Got) {
        let msg_id = self.start_code(number, code).await;
        let output = self.until_idle(&msg_id).await;
        let reply = self.reply().await;
        assert_eq!(reply.parent.as_deref(), Some(&*msg_id));
        (output, reply)
    }

    pub(crate) async fn until_idle(&mut self, msg_id: &str) -> Vec<Got> {
        let mut all = Vec::new();
        loop {
            let got = self.output().await;
            if got.parent.as_deref() != Some(msg_id) {
                continue;
            }
            let idle = got.content()["execution_state"] == "idle";
            all.push(got);
            if idle {
                return all;
            }
        }
    }

    fn got(&self, message: ZmqMessage) -> Got {
        let incoming = zmq::decode(message.into_vec(), &self.signer, &Limits::KERNEL).unwrap();
        let msg_type = header::peek(&incoming.parts.header)
            .unwrap()
            .msg_type
            .into_owned();
        let parent = header::peek_parent(&incoming.parts.parent_header).unwrap();
        let parent = parent.map(|peek| peek.msg_id.into_owned());
        Got {
            identities: incoming.identities,
            msg_type,
            parent,
            parts: incoming.parts,
        }
    }
}

/// The text of all stream messages.
pub(crate) fn text(output: &[Got]) -> String {
    let streams = output.iter().filter(|got| got.msg_type == "stream");
    streams
        .map(|got| got.content()["text"].as_str().unwrap_or_default().to_owned())
        .collect()
}
