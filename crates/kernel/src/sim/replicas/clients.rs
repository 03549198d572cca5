//! What clients do.

use bytes::Bytes;
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Parts};

use super::super::world::owner_of;
use super::world::World;
use crate::event::{Event, Request};
use crate::requests::kind::{RequestKind, parent_key};

/// A request on its way from a client to the owner of a kernel.
#[derive(Debug)]
pub(super) struct Relayed {
    process: u64,
    kernel: usize,
    request: Request,
}

impl World {
    /// A client sends a request through any replica.
    pub(super) fn ask(&mut self) {
        let kernel = self.rng.index(self.sandboxes.len());
        let running = self.running();
        if running.is_empty() {
            return;
        }
        let near = running[self.rng.index(running.len())];
        let owner = self.machines[self.database.owner(kernel)].process;
        let (Some(owner), true) = (owner, self.may_act(near)) else {
            return;
        };
        let client = self.rng.index(3);
        self.next_id[client] += 1;
        let (msg_id, session) = (format!("m{}", self.next_id[client]), format!("c{client}"));
        let (channel, msg_type, kind) = match self.rng.below(4) {
            0 => (Channel::Control, "debug_request", RequestKind::Request),
            1 => (Channel::Shell, "kernel_info_request", RequestKind::Request),
            _ => (Channel::Shell, "execute_request", RequestKind::Execute),
        };
        let header = format!(r#"{{"msg_id":"{msg_id}","msg_type":"{msg_type}","session":"{session}"}}"#);
        let parts = Parts {
            header: header.into(),
            parent_header: Bytes::from_static(b"{}"),
            metadata: Bytes::from_static(b"{}"),
            content: Bytes::from_static(b"{}"),
            buffers: Vec::new(),
        };
        self.note(|| format!("client asks {session}/{msg_id} of kernel {kernel} by process {near}"));
        self.asked[kernel].insert(format!("{session}/{msg_id}"));
        self.relayed.push(Relayed {
            process: owner,
            kernel,
            request: Request {
                owner: owner_of(client),
                kind,
                parent: parent_key(&msg_id, &session),
                frame: Frame::new(channel, &parts),
                trace: None,
            },
        });
    }

    /// A request gets to the owner, which takes it or not.
    pub(super) fn deliver(&mut self) -> Result<bool, String> {
        let relayed = std::mem::take(&mut self.relayed);
        let mut moved = false;
        for one in relayed {
            let waits = self.processes.contains_key(&one.process) && !self.runs(one.process);
            if waits || (!self.is_quiet && self.rng.percent(50)) {
                self.relayed.push(one);
                continue;
            }
            moved = true;
            let Relayed {
                process,
                kernel,
                request,
            } = one;
            let takes = self
                .actor(process, kernel)
                .is_some_and(|actor| actor.core.takes_requests(request.channel()));
            if takes {
                self.order(process, kernel, Event::Request(request))?;
            }
        }
        Ok(moved)
    }

    /// A client reads of a process what it has of a kernel.
    pub(super) fn read(&mut self) -> Result<(), String> {
        let running = self.running();
        if running.is_empty() {
            return Ok(());
        }
        let id = running[self.rng.index(running.len())];
        let kernel = self.rng.index(self.sandboxes.len());
        if !self.may_act(id) || !self.listens(id, kernel) {
            return Ok(());
        }
        let Some(process) = self.processes.get(&id) else {
            return Ok(());
        };
        let fenced = process.actors.get(&kernel).map(|actor| actor.fenced);
        if fenced.is_some_and(|fenced| self.database.has(process.me, fenced)) {
            return Ok(());
        }
        Err(format!(
            "process {id} answers for kernel {kernel}, which replica {} has taken",
            self.database.owner(kernel)
        ))
    }
}
