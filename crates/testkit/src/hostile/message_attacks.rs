//! Attacks with whole messages.

use std::io;

use bytes::Bytes;
use himalia_wire::{Parts, zmq};
use serde_json::json;

use super::attack::Attack;
use super::kernel::Asked;
use super::zmtp;

pub(super) fn play(attack: Attack, asked: &mut Asked<'_>) -> io::Result<()> {
    match attack {
        Attack::WrongHmac(times) => wrong_hmac(asked, times),
        Attack::ForgedReplies(guesses) => return forged_replies(asked, guesses),
        Attack::StrayReplies(times) => return stray_replies(asked, times),
        Attack::ReplayReply(times) => {
            let content = json!({ "status": "error", "ename": "Replayed", "evalue": "", "traceback": [] });
            let reply = asked
                .state
                .maker
                .message("execute_reply", &asked.parts.header, &content);
            let frames = zmq::encode(asked.identities, &reply, &asked.state.signer);
            for _ in 0..times {
                asked.peer.write_all(&zmtp::message(&frames))?;
            }
        }
        Attack::ForgedStatus => {
            for state in ["dead", "restarting", "starting", "\u{0}", "dead\" or so"] {
                asked.publish("status", &json!({ "execution_state": state }).to_string(), false);
            }
        }
        Attack::Replay(times) => {
            let message = asked
                .state
                .maker
                .message("stream", &asked.parts.header, &text("replayed"));
            let frames = zmq::encode(&[], &message, &asked.state.signer);
            for _ in 0..times {
                asked.state.publish_raw(&zmtp::message(&frames));
            }
        }
        Attack::BigHeader(bytes) => {
            let mut message = asked
                .state
                .maker
                .message("stream", &asked.parts.header, &text("big header"));
            let header = String::from_utf8_lossy(&message.header).replacen('{', &long_field(bytes), 1);
            message.header = header.into();
            asked.state.publish(&[], &message);
        }
        Attack::BigReply(bytes) => {
            let content = json!({ "status": "ok", "protocol_version": "99.9", "banner": "b".repeat(bytes) });
            let reply = asked
                .state
                .maker
                .message("kernel_info_reply", &asked.parts.header, &content);
            return asked.reply(asked.identities, &reply);
        }
        Attack::ManyParts(parts) => {
            let mut message = asked
                .state
                .maker
                .message("stream", &asked.parts.header, &text("many parts"));
            message.buffers = vec![Bytes::new(); parts];
            asked.state.publish(&[], &message);
        }
        Attack::FewParts => few_parts(asked),
        Attack::InvalidUtf8 => {
            asked.publish_bytes(b"{\"name\":\"stdout\",\"text\":\"\xff\xfe\xc0\x80\"}");
            let mut message = asked
                .state
                .maker
                .message("stream", &asked.parts.header, &text("bad header"));
            message.header = [&message.header[..], b"\xff"].concat().into();
            asked.state.publish(&[], &message);
        }
        Attack::NotJson => not_json(asked),
        Attack::DepthBomb(depth) => {
            asked.publish("stream", &format!(r#"{{"x":{}}}"#, "[".repeat(depth)), true);
            let closed = format!(r#"{{"x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
            asked.publish("display_data", &closed, true);
            let mut message = asked
                .state
                .maker
                .message("stream", &asked.parts.header, &text("deep header"));
            let deep = format!(r#"{{"deep":{}{},"#, "[".repeat(8000), "]".repeat(8000));
            message.header = String::from_utf8_lossy(&message.header)
                .replacen('{', &deep, 1)
                .into();
            asked.state.publish(&[], &message);
        }
        Attack::WrongChannel => {
            let reply = json!({ "status": "ok", "execution_count": 666, "wrong": "channel" }).to_string();
            asked.publish("execute_reply", &reply, true);
            asked.publish("input_request", r#"{"prompt":"on iopub","password":true}"#, true);
            let stream = asked
                .state
                .maker
                .message("stream", &asked.parts.header, &text("on shell"));
            asked.reply(asked.identities, &stream)?;
            let status = json!({ "execution_state": "idle" });
            let idle = asked.state.maker.message("status", &asked.parts.header, &status);
            return asked.reply(asked.identities, &idle);
        }
        Attack::InputStorm(times) => {
            for number in 0..times {
                let content = json!({ "prompt": format!("<b>{number}</b>\u{1b}[31m"), "password": false });
                let question = asked
                    .state
                    .maker
                    .message("input_request", &asked.parts.header, &content);
                let frames = zmq::encode(asked.identities, &question, &asked.state.signer);
                asked.state.ask_raw(&zmtp::message(&frames));
            }
        }
        Attack::Flood { messages, bytes } => {
            for number in 0..messages {
                let content = format!(r#"{{"name":"stdout","text":"{number}{}\n"}}"#, "x".repeat(bytes));
                asked.publish("stream", &content, true);
            }
        }
        // The others are attacks on the stream.
        _ => {}
    }
    Ok(())
}

fn text(text: &str) -> serde_json::Value {
    json!({ "name": "stdout", "text": text })
}

fn long_field(bytes: usize) -> String {
    format!(r#"{{"padding":"{}","#, "p".repeat(bytes))
}

impl Asked<'_> {
    /// A signed message with any text as content.
    fn publish(&self, msg_type: &str, content: &str, with_parent: bool) {
        let parent = if with_parent {
            self.parts.header.clone()
        } else {
            Bytes::new()
        };
        self.state
            .publish(&[], &self.state.maker.raw(msg_type, &parent, content.to_owned()));
    }

    fn publish_bytes(&self, content: &'static [u8]) {
        let message = self.state.maker.raw("stream", &self.parts.header, content);
        self.state.publish(&[], &message);
    }

    /// A signed message on the shell connection.
    fn reply(&mut self, identities: &[Bytes], parts: &Parts) -> io::Result<()> {
        self.peer.write_all(&zmtp::message(&zmq::encode(
            identities,
            parts,
            &self.state.signer,
        )))
    }
}

fn wrong_hmac(asked: &Asked<'_>, times: usize) {
    let message = asked
        .state
        .maker
        .message("stream", &asked.parts.header, &text("forged"));
    let signed = zmq::encode(&[], &message, &asked.state.signer);
    let signatures: [&[u8]; 4] = [&[b'0'; 64], b"", &signed[1][1..], &[b'f'; 4096]];
    for signature in signatures.into_iter().cycle().take(times) {
        let mut frames = signed.clone();
        frames[1] = Bytes::copy_from_slice(signature);
        asked.state.publish_raw(&zmtp::message(&frames));
    }
}

/// Replies under the identity of the running request that are none to it.
fn stray_replies(asked: &mut Asked<'_>, times: usize) -> io::Result<()> {
    let error = json!({ "status": "error", "ename": "Stray", "evalue": "", "traceback": [] });
    let unknown = Bytes::from_static(br#"{"msg_id":"unknown","session":"x","msg_type":"execute_request"}"#);
    for number in 0..times {
        let parent = if number % 2 == 0 {
            unknown.clone()
        } else {
            Bytes::from_static(b"{}")
        };
        let reply = asked.state.maker.message("execute_reply", &parent, &error);
        asked.reply(asked.identities, &reply)?;
    }
    let other = asked
        .state
        .maker
        .message("inspect_reply", &asked.parts.header, &error);
    asked.reply(asked.identities, &other)
}

/// Replies and output for what others asked, and replies to request numbers that it guesses.
fn forged_replies(asked: &mut Asked<'_>, guesses: usize) -> io::Result<()> {
    let content = json!({ "status": "ok", "execution_count": 666, "forged": true });
    for (identities, header) in asked.state.seen() {
        if header == asked.parts.header {
            continue;
        }
        let reply = asked.state.maker.message("execute_reply", &header, &content);
        asked.reply(&identities, &reply)?;
        asked.state.publish(
            &[b"stream"],
            &asked.state.maker.message("stream", &header, &text("forged")),
        );
    }
    let own = asked
        .identities
        .last()
        .map(|id| String::from_utf8_lossy(id).into_owned())
        .unwrap_or_default();
    let (stem, number) = own.rsplit_once('.').unwrap_or((&own, "0"));
    let number: usize = number.parse().unwrap_or_default();
    let near = (1..=guesses).flat_map(|n| [number + n, number.saturating_sub(n)]);
    let mut forged: Vec<Bytes> = near.map(|n| Bytes::from(format!("{stem}.{n}"))).collect();
    forged.extend(
        [
            b"".as_slice(),
            b"hm",
            b"hm.x.y",
            b"hm.1.99999999999999999999",
            b"hm.-1.1",
            b"hm.1.1.1",
            b"\xff",
        ]
        .map(Bytes::from_static),
    );
    for identity in forged {
        let reply = asked
            .state
            .maker
            .message("execute_reply", &asked.parts.header, &content);
        asked.reply(&[identity], &reply)?;
    }
    Ok(())
}

fn few_parts(asked: &Asked<'_>) {
    let message = asked
        .state
        .maker
        .message("stream", &asked.parts.header, &text("few"));
    let whole = zmq::encode(&[], &message, &asked.state.signer);
    for keep in 1..whole.len() {
        asked.state.publish_raw(&zmtp::message(&whole[..keep]));
    }
    asked.state.publish_raw(&zmtp::message(&[Bytes::new()]));
    asked.state.publish_raw(&zmtp::message(&whole[1..]));
    asked
        .state
        .publish_raw(&zmtp::message(&vec![Bytes::from_static(b"id"); 1000]));
}

fn not_json(asked: &Asked<'_>) {
    let texts = [
        "",
        "{",
        "[]",
        "null",
        "{}{}",
        "{\"a\":NaN}",
        r#"{},"channel":"shell","x":{}"#,
    ];
    for text in texts.map(|text| Bytes::from_static(text.as_bytes())) {
        let message = || {
            asked
                .state
                .maker
                .message("stream", &asked.parts.header, &self::text("odd"))
        };
        let variants = [
            Parts {
                header: text.clone(),
                ..message()
            },
            Parts {
                parent_header: text.clone(),
                ..message()
            },
            Parts {
                metadata: text.clone(),
                ..message()
            },
            Parts {
                content: text.clone(),
                ..message()
            },
        ];
        for variant in variants {
            asked.state.publish(&[], &variant);
        }
    }
}
