//! What clients and callers do, and what happens by itself.

use bytes::Bytes;
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Parts};

use super::world::{InputQuestion, World, fingerprint, owner_of};
use crate::event::{Command, Event, Request};
use crate::requests::kind::{RequestKind, parent_key};

impl World {
    pub(super) fn ask(&mut self) {
        let Some(gateway) = &self.gateway else { return };
        let (channel, msg_type, kind) = match self.rng.below(8) {
            0 => (Channel::Control, "debug_request", RequestKind::Request),
            1 => (Channel::Shell, "comm_msg", RequestKind::Notice),
            2 => (Channel::Shell, "kernel_info_request", RequestKind::Request),
            3 => (Channel::Stdin, "input_reply", RequestKind::Notice),
            _ => (Channel::Shell, "execute_request", RequestKind::Execute),
        };
        if !gateway.core.takes_requests(channel) {
            return;
        }
        let client = self.rng.index(3);
        // Ids are unique per client only.
        let id = &mut self.next_id[client];
        *id += 1;
        let (msg_id, session) = (format!("m{id}"), format!("c{client}"));
        let header = format!(r#"{{"msg_id":"{msg_id}","msg_type":"{msg_type}","session":"{session}"}}"#);
        let parts = Parts {
            header: header.into(),
            parent_header: Bytes::from_static(b"{}"),
            metadata: Bytes::from_static(b"{}"),
            content: Bytes::from_static(b"{}"),
            buffers: Vec::new(),
        };
        let owner = owner_of(client);
        let parent = parent_key(&msg_id, &session);
        self.note(|| format!("client asks {session}/{msg_id} {msg_type}"));
        self.asked.insert(
            format!("{session}/{msg_id}"),
            InputQuestion {
                owner,
                epoch: self.epoch,
                replies: msg_type.ends_with("_request"),
            },
        );
        let frame = Frame::new(channel, &parts);
        self.step(Event::Request(Request {
            owner,
            kind,
            parent,
            frame,
            trace: None,
        }));
    }

    pub(super) fn order(&mut self) {
        if self.orders_left == 0 {
            return;
        }
        self.orders_left -= 1;
        let command = match self.rng.below(20) {
            0 => Command::Stop("killed_by_user"),
            1..10 => Command::Interrupt,
            _ => Command::Restart,
        };
        let waiter = self.next_waiter;
        self.next_waiter += 1;
        self.note(|| format!("order {command:?}"));
        if self.gateway.is_some() {
            self.waiters.insert(waiter);
        }
        self.step(Event::Command { waiter, command });
    }

    pub(super) fn tick(&mut self) {
        // It may also never be known, and a late answer is about nothing any more.
        if std::mem::take(&mut self.memory_asked) {
            let killed = self.rng.percent(50);
            self.step(Event::MemoryChecked { killed });
        }
        if self.rng.percent(20) {
            self.now.mono += self.rng.below(6_000_000);
        }
        self.step(Event::Tick);
    }

    pub(super) fn roll(&mut self) {
        let Some(gateway) = &self.gateway else { return };
        if gateway.core.is_written() {
            self.disk.checkpoint = Some(gateway.core.checkpoint());
            self.disk.covered = self.disk.records.len();
            self.note(|| "roll".to_owned());
        }
    }

    /// A reader that remembers its position reads some of what is new.
    pub(super) fn read_on(&mut self) {
        let from = self.read.len();
        self.read
            .extend(self.disk.records[from..].iter().map(|record| fingerprint(record)));
    }
}
