//! The kernel's process: takes requests, publishes busy, output and idle, and replies.

use std::collections::VecDeque;

use bytes::Bytes;
use himalia_shim_protocol::RequestId;
use himalia_wire::{Channel, Parts, v1};

use super::rng::Rng;

/// The content of a reply that belongs to no request.
pub(super) const STRAY: &str = r#"{"status":"error","stray":true}"#;

/// A request inside the kernel.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) id: RequestId,
    pub(super) channel: Channel,
    pub(super) key: String,
    pub(super) msg_type: String,
    /// Raw header.
    pub(super) header: Bytes,
}

/// Something that the kernel is about to send.
#[derive(Debug)]
pub(super) struct Emit {
    pub(super) channel: Channel,
    pub(super) answers: Option<RequestId>,
    pub(super) frame: Bytes,
    pub(super) droppable: bool,
}

/// One of the kernel's threads: shell or control.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) waiting: VecDeque<Job>,
    pub(super) present: Option<Job>,
    pub(super) steps: VecDeque<Emit>,
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) incarnation: u32,
    pub(super) shell: Thread,
    pub(super) control: Thread,
    pub(super) greeting: VecDeque<Emit>,
    echo: bool,
    next_message: u64,
}

impl Process {
    pub(super) fn new(incarnation: u32, echo: bool, welcome: bool) -> Self {
        let mut process = Self {
            incarnation,
            shell: Thread::default(),
            control: Thread::default(),
            greeting: VecDeque::new(),
            echo,
            next_message: 0,
        };
        if welcome {
            let hello = process.message(Channel::Iopub, "iopub_welcome", None, "{}");
            process.greeting.push_back(hello);
        }
        let starting = process.message(
            Channel::Iopub,
            "status",
            None,
            r#"{"execution_state":"starting"}"#,
        );
        process.greeting.push_back(starting);
        process
    }

    fn message(&mut self, channel: Channel, msg_type: &str, job: Option<&Job>, content: &str) -> Emit {
        self.next_message += 1;
        let (number, incarnation) = (self.next_message, self.incarnation);
        let header = format!(
            r#"{{"msg_id":"k{incarnation}-{number}","msg_type":"{msg_type}","session":"kernel-{incarnation}"}}"#
        );
        let parts = Parts {
            header: header.into(),
            parent_header: job.map_or_else(|| Bytes::from_static(b"{}"), |job| job.header.clone()),
            metadata: Bytes::from_static(b"{}"),
            content: Bytes::copy_from_slice(content.as_bytes()),
            buffers: Vec::new(),
        };
        let answers = job
            .filter(|_| self.echo && channel != Channel::Iopub)
            .map(|job| job.id);
        Emit {
            channel,
            answers,
            frame: v1::encode(channel, &parts),
            droppable: msg_type == "stream",
        }
    }

    /// What a job will make the kernel send.
    pub(super) fn begin(&mut self, job: &Job, rng: &mut Rng) -> VecDeque<Emit> {
        let mut steps = VecDeque::new();
        if job.channel == Channel::Stdin {
            return steps;
        }
        let status = |state: &str| format!(r#"{{"execution_state":"{state}"}}"#);
        steps.push_back(self.message(Channel::Iopub, "status", Some(job), &status("busy")));
        if job.msg_type == "execute_request" {
            for line in 0..rng.below(4) {
                let text = format!(r#"{{"name":"stdout","text":"{line}\n"}}"#);
                steps.push_back(self.message(Channel::Iopub, "stream", Some(job), &text));
            }
        }
        let idle = self.message(Channel::Iopub, "status", Some(job), &status("idle"));
        let Some(stem) = job.msg_type.strip_suffix("_request") else {
            steps.push_back(idle);
            return steps;
        };
        let reply = self.message(
            job.channel,
            &format!("{stem}_reply"),
            Some(job),
            r#"{"status":"ok"}"#,
        );
        let order = if rng.percent(50) {
            [reply, idle]
        } else {
            [idle, reply]
        };
        for step in order {
            if rng.percent(10) {
                steps.push_back(self.stray(job, rng));
            }
            steps.push_back(step);
        }
        if rng.percent(10) {
            let again = self.message(job.channel, &format!("{stem}_reply"), Some(job), STRAY);
            steps.push_back(again);
        }
        steps
    }

    /// A reply that is none to the job that it seems to answer.
    fn stray(&mut self, job: &Job, rng: &mut Rng) -> Emit {
        let execution = job.msg_type == "execute_request";
        let mut parent = job.clone();
        let msg_type = if execution && rng.percent(30) {
            "inspect_reply"
        } else {
            parent.header = Bytes::from_static(br#"{"msg_id":"nothing","session":"nowhere"}"#);
            "execute_reply"
        };
        self.message(job.channel, msg_type, Some(&parent), STRAY)
    }

    pub(super) fn is_idle(&self) -> bool {
        let idle = |thread: &Thread| thread.steps.is_empty() && thread.waiting.is_empty();
        self.greeting.is_empty() && idle(&self.shell) && idle(&self.control)
    }
}
