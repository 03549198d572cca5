//! What the gateway has stored, and how tests look it up.

use himalia_shim_protocol::{Event, Gap, RequestId};
use himalia_wire::{Channel, Parts, header};
use serde_json::Value;

use super::World;

/// Something that the gateway has stored.
#[derive(Clone, Debug)]
pub enum Entry {
    Message {
        channel: Channel,
        msg_type: String,
        answers: Option<RequestId>,
        incarnation: u32,
        parts: Parts,
    },
    Event(Event),
    Gap(Gap),
}

impl World {
    pub fn reply(&self, id: RequestId) -> Option<Value> {
        self.messages().find_map(|(msg_type, answers, parts)| {
            (answers == Some(id) && msg_type.ends_with("_reply"))
                .then(|| serde_json::from_slice(&parts.content).unwrap())
        })
    }

    pub fn idle(&self, parent: &str) -> bool {
        self.messages().any(|(msg_type, _, parts)| {
            msg_type == "status"
                && header::execution_state(&parts.content).as_deref() == Some("idle")
                && header::peek_parent(&parts.parent_header)
                    .unwrap()
                    .is_some_and(|head| head.msg_id == parent)
        })
    }

    pub fn messages(&self) -> impl Iterator<Item = (&str, Option<RequestId>, &Parts)> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Message {
                msg_type,
                answers,
                parts,
                ..
            } => Some((&msg_type[..], *answers, parts)),
            _ => None,
        })
    }

    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Event(event) => Some(event),
            _ => None,
        })
    }

    pub fn gaps(&self) -> impl Iterator<Item = &Gap> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Gap(gap) => Some(gap),
            _ => None,
        })
    }

    pub fn printed(&self, from: usize) -> String {
        let mut text = String::new();
        for entry in &self.entries[from..] {
            if let Entry::Message { msg_type, parts, .. } = entry
                && msg_type == "stream"
            {
                let content: Value = serde_json::from_slice(&parts.content).unwrap();
                text.push_str(content["text"].as_str().unwrap());
            }
        }
        text
    }
}
