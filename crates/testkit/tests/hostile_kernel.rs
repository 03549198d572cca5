//! The hostile kernel does what it says, seen by a plain ZMQ client. Attacks that abort a client of the
//! `zeromq` crate are looked at on the bytes.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Kernel, text};
use himalia_testkit::patience::patience;
use himalia_testkit::{assert_eventually, binaries};
use himalia_wire::{ConnectionFile, Limits, Transport, header, zmq};
use serde_json::json;

const HOSTILE: &str = "himalia-hostile-kernel";

#[tokio::test]
async fn plain_until_told_otherwise() {
    for transport in [Transport::Ipc, Transport::Tcp] {
        let mut kernel = Kernel::ready(HOSTILE, transport).await;
        kernel.request(1, "kernel_info_request", json!({})).await;
        assert_eq!(kernel.reply().await.content()["status"], "ok");
        let (output, reply) = kernel.run(2, "hello").await;
        assert_eq!(
            (text(&output).as_str(), &reply.content()["status"]),
            ("hello", &json!("ok"))
        );
        let reply = kernel.control("shutdown_request", json!({})).await;
        assert_eq!(reply.msg_type, "shutdown_reply");
        assert_eventually!(kernel.child.try_wait().unwrap().is_some());
    }
}

/// What the verifying side sees of an attack: messages that pass, and the reasons for which others do not.
async fn seen(kernel: &mut Kernel, code: &str) -> (Vec<String>, Vec<String>) {
    let id = kernel.start_code(1, code).await;
    let (mut passed, mut refused) = (Vec::new(), Vec::new());
    loop {
        let message = kernel.raw_output().await;
        let incoming = match zmq::decode(message.into_vec(), &kernel.signer, &Limits::KERNEL) {
            Ok(incoming) => incoming,
            Err(error) => {
                refused.push(error.to_string());
                continue;
            }
        };
        let Ok(peek) = header::peek(&incoming.parts.header) else {
            refused.push("header".to_owned());
            continue;
        };
        let parent = header::peek_parent(&incoming.parts.parent_header);
        let state = header::execution_state(&incoming.parts.content);
        if state.as_deref() == Some("idle") && parent.is_ok_and(|p| p.is_some_and(|p| p.msg_id == id)) {
            return (passed, refused);
        }
        passed.push(peek.msg_type.into_owned());
    }
}

#[tokio::test]
async fn attacks_with_messages() {
    let mut kernel = Kernel::ready(HOSTILE, Transport::Ipc).await;
    for (code, passes, refused, reason) in [
        ("attack wrong-hmac 8", 0, 8, "signature"),
        ("attack replay 5", 5, 0, ""),
        ("attack forged-status", 5, 0, ""),
        ("attack few-parts", 0, 8, ""),
        ("attack big-header", 0, 1, "header: "),
        ("attack many-parts", 0, 1, "buffers: 100000"),
        ("attack depth-bomb 10000", 3, 0, ""),
        ("attack invalid-utf8", 1, 1, "header"),
        ("attack wrong-channel", 2, 0, ""),
        ("attack flood 1000 50", 1000, 0, ""),
    ] {
        let (passed, why) = seen(&mut kernel, code).await;
        // Without the busy status.
        assert_eq!(
            (passed.len() - 1, why.len()),
            (passes, refused),
            "{code}: {passed:?} {why:?}"
        );
        assert!(why.iter().all(|why| why.starts_with(reason)), "{code}: {why:?}");
    }
}

#[tokio::test]
async fn forged_replies_come_with_guessed_numbers() {
    let mut kernel = Kernel::ready(HOSTILE, Transport::Ipc).await;
    kernel.run(1, "the other").await;
    kernel.start_code(2, "attack forged-replies 2").await;
    let mut identities = Vec::new();
    loop {
        let reply = kernel.reply().await;
        if reply.content()["forged"] != true {
            break;
        }
        identities.extend(reply.identities);
    }
    assert_eq!(
        identities[..5],
        ["hm.1.1", "hm.1.3", "hm.1.1", "hm.1.4", "hm.1.0"]
    );
}

#[tokio::test]
async fn unsolicited_questions() {
    let mut kernel = Kernel::ready(HOSTILE, Transport::Ipc).await;
    kernel.start_code(1, "attack input-storm 20").await;
    for number in 0..20 {
        let question = kernel.question().await;
        assert_eq!(question.content()["prompt"], format!("<b>{number}</b>\u{1b}[31m"));
    }
}

/// A process, its directory, and a raw connection to one of its sockets.
fn raw(args: &[&str], socket: himalia_wire::Socket) -> (std::process::Child, tempfile::TempDir, UnixStream) {
    let dir = tempfile::Builder::new().prefix("tk").tempdir_in("/tmp").unwrap();
    let file = ConnectionFile::new_ipc(dir.path(), "key").unwrap();
    let path = dir.path().join("connection.json");
    std::fs::write(&path, file.to_json().unwrap()).unwrap();
    let child = Command::new(binaries::hostile_kernel().unwrap())
        .arg("-f")
        .arg(&path)
        .args(args)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let endpoint = file.endpoint(socket);
    let deadline = himalia_testkit::patience::Deadline::new();
    let stream = loop {
        match UnixStream::connect(endpoint.trim_start_matches("ipc://")) {
            Ok(stream) => break stream,
            Err(error) => assert!(!deadline.is_over(), "{error}"),
        }
    };
    stream.set_read_timeout(Some(patience())).unwrap();
    (child, dir, stream)
}

#[test]
fn attacks_from_the_first_byte() {
    for (attack, begins) in [
        ("half-open", b"\xff\0\0\0\0\0\0\0\0\x7f\x03".to_vec()),
        ("silent", b"".to_vec()),
        ("bad-greeting", b"HTTP/1.1 200 OK".to_vec()),
        ("close", b"".to_vec()),
    ] {
        let (mut child, _dir, mut stream) = raw(&["--at-start", attack], himalia_wire::Socket::Iopub);
        let mut bytes = vec![0; begins.len()];
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, begins, "{attack}");
        if attack == "close" {
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        } else {
            stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            let rest = stream.read_to_end(&mut Vec::new());
            assert!(rest.is_err(), "{attack}: the connection stays open");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_ready_command_of_2_to_the_50() {
    let args = ["--at-start", "long-ready", "--socket", "shell"];
    let (mut child, _dir, mut stream) = raw(&args, himalia_wire::Socket::Shell);
    let mut bytes = [0; 73];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes[64..], [&[6_u8][..], &(1_u64 << 50).to_be_bytes()].concat());
    child.kill().unwrap();
    child.wait().unwrap();
}

// More threads, since this one blocks.
#[tokio::test(flavor = "multi_thread")]
async fn a_frame_of_2_to_the_50() {
    let mut kernel = Kernel::ready(HOSTILE, Transport::Ipc).await;
    // A second subscriber that reads bytes, since the first one would abort on them.
    let mut stream = UnixStream::connect(
        kernel
            .file
            .endpoint(himalia_wire::Socket::Iopub)
            .trim_start_matches("ipc://"),
    )
    .unwrap();
    stream.set_read_timeout(Some(patience())).unwrap();
    let mut greeting = [0; 64];
    greeting[0] = 0xff;
    greeting[9..11].copy_from_slice(&[0x7f, 3]);
    greeting[12..16].copy_from_slice(b"NULL");
    stream.write_all(&greeting).unwrap();
    stream
        .write_all(b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03SUB")
        .unwrap();
    stream.write_all(b"\0\x01\x01").unwrap();
    let mut seen = Vec::new();
    read_until(&mut stream, &mut seen, b"iopub_welcome");
    drop(std::mem::replace(&mut kernel.iopub, zeromq::Socket::new()));
    kernel.start_code(1, "attack long-frame").await;
    let announced = [&[2_u8][..], &(1_u64 << 50).to_be_bytes(), b"few"].concat();
    read_until(&mut stream, &mut seen, &announced);
}

fn read_until(stream: &mut UnixStream, seen: &mut Vec<u8>, wanted: &[u8]) {
    while !seen.windows(wanted.len()).any(|window| window == wanted) {
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).unwrap();
        assert!(read > 0, "the kernel closed");
        seen.extend_from_slice(&bytes[..read]);
    }
}
