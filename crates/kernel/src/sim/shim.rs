//! The sandbox's side: the real [`ShimLink`] around a process.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use bytes::Bytes;
use himalia_shim_protocol::shim_link::{Accept, Placement, ProcessView, SpillStore, WindowLimits};
use himalia_shim_protocol::{
    Cause, Event, KernelExited, KernelStarted, KernelState, KernelStopped, Kind, Lane, Origin,
    PendingRequest, PerLane, RefusalKind, RequestId, RequestRefused, ShimLink, StartFailed, VersionRange,
};
use himalia_wire::{Channel, Limits, header, v1};

use super::process::{Job, Process, Thread};
use super::rng::Rng;

pub(super) const KERNEL: u16 = 1;

#[derive(Debug, Default)]
pub(super) struct Memory(Vec<u8>);

impl SpillStore for Memory {
    fn write(&mut self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.0.truncate(place(offset));
        for part in parts {
            self.0.extend_from_slice(part);
        }
        Ok(())
    }
    fn read(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let from = place(offset);
        into.copy_from_slice(&self.0[from..from + into.len()]);
        Ok(())
    }
    fn discard(&mut self, _: u64) {}
    fn clear(&mut self) {
        self.0.clear();
    }
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

/// What was sent under a link number: a message, or something else.
pub(super) type Sent = Option<Bytes>;

#[derive(Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "traits of a sandbox that a seed chooses"
)]
pub(super) struct SimShim {
    pub(super) link: ShimLink<Memory>,
    pub(super) process: Option<Process>,
    view: ProcessView,
    known: bool,
    echo: bool,
    welcome: bool,
    limits: PerLane<WindowLimits>,
    /// Everything that has a link number, in its order.
    pub(super) sent: PerLane<Vec<Sent>>,
    /// Link numbers of the data lane that were dropped for lack of room.
    pub(super) dropped: BTreeSet<u64>,
    /// Among them was more than output: even what may not be dropped did not fit any more.
    pub(super) dropped_all_kinds: bool,
    /// How often each request was begun.
    pub(super) begun: BTreeMap<String, u32>,
    /// Messages in the order in which they were accepted, with their lanes.
    pub(super) accepted: Vec<(Lane, String)>,
    /// Requests that were taken and lost with a process.
    pub(super) lost: BTreeSet<String>,
    /// Requests that were refused permanently.
    pub(super) refused: BTreeSet<String>,
    /// What the next message is refused for, even if there is a process to take it.
    pub(super) refuse_next: Option<RefusalKind>,
    pub(super) interrupts: u32,
    pub(super) deaths: u32,
}

impl SimShim {
    pub(super) fn new(rng: &mut Rng) -> Self {
        let limits = match rng.below(3) {
            0 => PerLane {
                now: WindowLimits {
                    memory: 4096,
                    spill: 1 << 20,
                },
                data: WindowLimits {
                    memory: 1500,
                    spill: 4000,
                },
            },
            1 => PerLane {
                now: WindowLimits {
                    memory: 2048,
                    spill: 1 << 20,
                },
                data: WindowLimits {
                    memory: 2048,
                    spill: 1 << 20,
                },
            },
            _ => WindowLimits::PER_LANE,
        };
        Self::with_room(limits, rng)
    }

    /// One whose windows are of this size.
    pub(super) fn with_room(limits: PerLane<WindowLimits>, rng: &mut Rng) -> Self {
        let spills = PerLane {
            now: Memory::default(),
            data: Memory::default(),
        };
        Self {
            link: ShimLink::new(VersionRange::OURS, spills),
            process: None,
            view: ProcessView::default(),
            known: false,
            echo: rng.percent(80),
            welcome: rng.percent(70),
            limits,
            sent: PerLane::default(),
            dropped: BTreeSet::new(),
            dropped_all_kinds: false,
            begun: BTreeMap::new(),
            accepted: Vec::new(),
            lost: BTreeSet::new(),
            refused: BTreeSet::new(),
            refuse_next: None,
            interrupts: 0,
            deaths: 0,
        }
    }

    /// What the model knows of requests to the sandbox before, all of which have ended.
    pub(super) fn remember(&mut self, before: &Self) {
        self.begun.clone_from(&before.begun);
        self.refused.clone_from(&before.refused);
        self.lost.clone_from(&before.lost);
        self.deaths = before.deaths + 1;
        if let Some(process) = &before.process {
            for thread in [&process.shell, &process.control] {
                let jobs = thread.waiting.iter().chain(&thread.present);
                self.lost.extend(jobs.map(|job| job.key.clone()));
            }
        }
    }

    /// A frame with a request number.
    pub(super) fn request(&mut self, lane: Lane, pending: &PendingRequest) -> Result<(), String> {
        if pending.kind == Kind::Start && !self.known {
            let spills = PerLane {
                now: Memory::default(),
                data: Memory::default(),
            };
            self.link
                .add_kernel(KERNEL, spills, self.limits)
                .map_err(|error| error.to_string())?;
            self.known = true;
        }
        let accepted = self
            .link
            .accept(lane, KERNEL, pending.number)
            .map_err(|error| error.to_string())?;
        let Accept::New(id) = accepted else { return Ok(()) };
        match pending.kind {
            Kind::Start => self.start(id),
            Kind::Restart => {
                self.end(Cause::Signal { signal: 15 }, true);
                self.start(id);
            }
            Kind::Stop => {
                self.end(Cause::Exit { code: 0 }, true);
                let incarnation = self.view.incarnation;
                self.event(Event::Stopped(KernelStopped {
                    incarnation,
                    killed: 0,
                    left: 0,
                    request: Some(id),
                }));
            }
            Kind::Interrupt => self.interrupts += 1,
            Kind::Message => self.message(lane, id, &pending.body),
            other => return Err(format!("a frame of kind {}", other.as_str())),
        }
        Ok(())
    }

    fn message(&mut self, lane: Lane, id: RequestId, frame: &Bytes) {
        let (channel, parts) = v1::decode(frame, &Limits::KERNEL).unwrap();
        let header = header::peek(&parts.header).unwrap();
        let key = format!("{}/{}", header.session, header.msg_id);
        let tracked = channel != Channel::Stdin && header.msg_type.ends_with("_request");
        self.accepted.push((lane, key.clone()));
        let refusal = self.refuse_next.take();
        let Some(process) = self.process.as_mut().filter(|_| refusal.is_none()) else {
            let kind = refusal.unwrap_or(RefusalKind::NotRunning);
            // Input is for the process that asked for it.
            if kind == RefusalKind::Never || channel == Channel::Stdin {
                self.refused.insert(key);
            }
            self.event(Event::Refused(RequestRefused {
                request: id,
                lane,
                kind,
                reason: "told to".to_owned(),
            }));
            return;
        };
        if tracked {
            self.link.track(KERNEL, id);
        }
        let msg_type = header.msg_type.into_owned();
        let job = Job {
            id,
            channel,
            key,
            msg_type,
            header: parts.header.clone(),
        };
        let thread = if channel == Channel::Control {
            &mut process.control
        } else {
            &mut process.shell
        };
        thread.waiting.push_back(job);
    }

    fn start(&mut self, request: RequestId) {
        if self.process.is_some() {
            let reason = "the kernel is running".to_owned();
            self.event(Event::StartFailed(StartFailed {
                reason,
                stderr: String::new(),
                request,
            }));
            return;
        }
        let incarnation = self.view.incarnation + 1;
        self.process = Some(Process::new(incarnation, self.echo, self.welcome));
        self.set_view(ProcessView {
            incarnation,
            pid: Some(100),
            state: KernelState::Running,
            start_ms: 0,
            alive: true,
        });
        self.event(Event::Started(KernelStarted {
            pid: 100,
            incarnation,
            start_ms: 0,
            request,
            path: himalia_shim_protocol::StartPath::Cold,
        }));
    }

    /// The process ends, if there is one; what is inside of it is lost.
    pub(super) fn end(&mut self, cause: Cause, asked: bool) {
        let Some(process) = self.process.take() else {
            return;
        };
        self.deaths += 1;
        for thread in [process.shell, process.control] {
            self.lost.extend(thread.waiting.into_iter().map(|job| job.key));
            self.lost.extend(thread.present.map(|job| job.key));
        }
        self.set_view(ProcessView {
            pid: None,
            state: KernelState::Exited,
            ..self.view
        });
        self.event(Event::Exited(KernelExited {
            incarnation: process.incarnation,
            pid: 100,
            cause,
            asked,
            detail: String::new(),
            stderr_tail: String::new(),
            last_data: 0,
            usage: None,
            out_of_memory: false,
        }));
    }

    fn set_view(&mut self, view: ProcessView) {
        self.view = view;
        self.link.set_process(KERNEL, view);
    }

    fn event(&mut self, event: Event) {
        let placed = self.link.push_event(KERNEL, event).unwrap();
        assert_ne!(placed, Placement::Dropped, "the now lane has room");
        self.sent.now.push(None);
    }

    /// The kernel does one thing, if there is one to do.
    pub(super) fn kernel_step(&mut self, rng: &mut Rng) {
        let Some(process) = &mut self.process else { return };
        if let Some(emit) = process.greeting.pop_front() {
            return self.emit(emit);
        }
        let control = rng.percent(50);
        for control in [control, !control] {
            let Some(process) = &mut self.process else { return };
            let mut thread = std::mem::take(if control {
                &mut process.control
            } else {
                &mut process.shell
            });
            let emit = self.thread_step(&mut thread, rng);
            if let Some(process) = &mut self.process {
                *(if control {
                    &mut process.control
                } else {
                    &mut process.shell
                }) = thread;
            }
            if let Some(emit) = emit {
                return self.emit(emit);
            }
        }
    }

    fn thread_step(&mut self, thread: &mut Thread, rng: &mut Rng) -> Option<super::process::Emit> {
        if thread.steps.is_empty() {
            thread.present = thread.waiting.pop_front();
            if let (Some(job), Some(process)) = (&thread.present, &mut self.process) {
                *self.begun.entry(job.key.clone()).or_default() += 1;
                thread.steps = process.begin(job, rng);
            }
        }
        let emit = thread.steps.pop_front();
        if thread.steps.is_empty() {
            thread.present = None;
        }
        emit
    }

    fn emit(&mut self, emit: super::process::Emit) {
        let lane = if emit.channel == Channel::Control {
            Lane::Now
        } else {
            Lane::Data
        };
        if let Some(id) = emit.answers {
            self.link.finish(KERNEL, id);
        }
        let origin = Origin {
            incarnation: self.view.incarnation,
            answers: emit.answers,
        };
        let placed = self
            .link
            .push_message(KERNEL, lane, origin, emit.frame.clone(), emit.droppable)
            .unwrap();
        self.sent[lane].push(Some(emit.frame));
        if placed == Placement::Dropped {
            assert_eq!(lane, Lane::Data, "the now lane has room");
            self.dropped.insert(self.sent.data.len() as u64);
            self.dropped_all_kinds |= !emit.droppable;
        }
    }
}
