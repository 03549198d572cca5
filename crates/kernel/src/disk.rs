//! The space that kept files take, where nothing but a look now and then limits it.
//!
//! It is measured after executions and every 10 s. Over the limit, what runs is interrupted, and further executions are
//! refused with an error reply that says why. One whose first line says that it makes room ([`FREE_SPACE`]) is taken
//! all the same. What goes on growing is interrupted again, and then its process is ended.

use himalia_model::DiskUse;
use himalia_shim_protocol::{Command as ShimCommand, Stop};
use himalia_wire::Channel;
use serde::Deserialize;
use serde_json::json;

use super::core::Core;
use super::event::{Effect, Request};
use super::execution_records::execution_of;
use super::held::Held;
use super::ledger::RequestKind;
use super::life::Phase;
use super::lifecycle::LifecycleRecord;
use super::synthetic;

/// In the first line of an execution, in whatever way its language writes comments: it is going to delete files.
pub(super) const FREE_SPACE: &str = "himalia: free space";
/// What a refusal and a death for want of space are called.
const CODE: &str = "disk_quota_exceeded";
/// From one measurement to the next, microseconds: usually, and while it is over.
const EVERY: u64 = 10_000_000;
const EVERY_OVER: u64 = 2_000_000;
/// From one measurement to one after an execution, so that many short ones do not measure all the time, microseconds.
const APART: u64 = 1_000_000;
/// How long a measurement is waited for, microseconds. What is not known by then is as it was.
const WAIT: u64 = 30_000_000;
/// Growth above the limit that is none, bytes: a shell's history, a byte-compiled module.
const TOLERANCE: u64 = 1 << 20;
/// How often growth is answered with an interrupt before it is with the end of the process.
const INTERRUPTS: u32 = 2;

/// How a kernel stands with the limit on its files.
#[derive(Debug, Default)]
pub(super) struct DiskWatch {
    over: Option<Excess>,
    /// A measurement is under way; until when it is waited for, monotonic.
    asked: Option<u64>,
    /// When the next one is wanted, monotonic; `None` while one is under way and where none is wanted.
    due: Option<u64>,
    /// When the last one came, monotonic.
    measured: u64,
    /// An execution has ended since the last one was begun.
    stale: bool,
}

/// More than there may be.
#[derive(Clone, Copy, Debug)]
struct Excess {
    found: DiskUse,
    /// Above this it has grown, but for [`TOLERANCE`]. Bytes.
    mark: u64,
    /// How often it has grown.
    strikes: u32,
}

impl DiskWatch {
    /// Whether it is to be watched from now on.
    pub(super) fn set(&mut self, is_watched: bool, mono: u64) {
        *self = Self {
            due: is_watched.then_some(mono),
            ..Self::default()
        };
    }

    /// An execution has ended, whatever it did.
    pub(super) fn execution_ended(&mut self, mono: u64) {
        if self.due.is_none() && self.asked.is_none() {
            return;
        }
        self.stale = true;
        let at = if self.over.is_some() {
            mono
        } else {
            mono.max(self.measured.saturating_add(APART))
        };
        self.due = self.due.map(|due| due.min(at));
    }

    /// Another process: what the one before did is forgiven, but for the files that it left.
    pub(super) fn process_started(&mut self) {
        if let Some(over) = &mut self.over {
            over.strikes = 0;
            over.mark = over.found.used_bytes;
        }
    }

    fn deadline(&self) -> Option<u64> {
        self.asked.or(self.due)
    }
}

impl Core {
    /// When a measurement is due, or not waited for any more; monotonic microseconds.
    pub(super) fn disk_deadline(&self) -> Option<u64> {
        self.disk.deadline().filter(|_| self.life.phase == Phase::Running)
    }

    /// Asks for a measurement when it is time.
    pub(super) fn look_at_disk(&mut self, out: &mut Vec<Effect>) {
        let now = self.now.mono;
        if self.life.phase != Phase::Running {
            return;
        }
        if self.disk.asked.is_some_and(|until| until <= now) {
            self.disk.stale = false;
            self.disk_measured(None, out);
        }
        if self.disk.due.is_some_and(|due| due <= now) {
            self.disk.due = None;
            self.disk.stale = false;
            self.disk.asked = Some(now.saturating_add(WAIT));
            out.push(Effect::MeasureDisk);
        }
    }

    /// The answer to [`Effect::MeasureDisk`]; `None` if it could not be measured.
    pub(super) fn disk_measured(&mut self, found: Option<DiskUse>, out: &mut Vec<Effect>) {
        if self.disk.deadline().is_none() {
            return;
        }
        let now = self.now.mono;
        self.disk.asked = None;
        self.disk.measured = now;
        match found {
            Some(found) if found.is_over() => self.disk_over(found, out),
            Some(_) => self.disk.over = None,
            None => {}
        }
        let every = if self.disk.over.is_some() {
            EVERY_OVER
        } else {
            EVERY
        };
        let pause = match (self.disk.stale, self.disk.over.is_some()) {
            (true, true) => 0,
            (true, false) => APART,
            (false, _) => every,
        };
        self.disk.due = Some(now.saturating_add(pause));
        self.release();
    }

    fn disk_over(&mut self, found: DiskUse, out: &mut Vec<Effect>) {
        let used = found.used_bytes;
        let known = self.disk.over;
        let grown = known.is_none_or(|known| used > known.mark.saturating_add(TOLERANCE));
        let excess = Excess {
            found,
            mark: match known {
                Some(known) if !grown => known.mark.min(used),
                _ => used,
            },
            strikes: known.map_or(0, |known| known.strikes) + u32::from(grown),
        };
        self.disk.over = Some(excess);
        if !grown || self.life.phase != Phase::Running || self.life.exit.is_some() {
            return;
        }
        let runs = self.stopwatch.is_running();
        // What grows without an execution is a thread or a process that one has left, which no interrupt reaches.
        let allowed = if runs { INTERRUPTS } else { INTERRUPTS + 1 };
        let step = match excess.strikes {
            strikes if strikes > allowed => "kill",
            _ if runs => "interrupt",
            _ => "refuse",
        };
        tracing::warn!(
            used,
            limit = found.limit_bytes,
            step,
            "the files of a session take more space than they may"
        );
        self.decide(&LifecycleRecord::DiskQuota {
            used_bytes: used,
            limit_bytes: found.limit_bytes,
            step: step.to_owned(),
        });
        let what = match step {
            "kill" => "The process is ended",
            "interrupt" => "This execution is interrupted",
            _ => return,
        };
        self.notice(&format!("[himalia: {}. {what}. {}]\n", reason(&found), advice()));
        if step == "kill" {
            self.end_process(CODE.to_owned(), out);
        } else {
            // Refused when too much waits for the shim: it is measured again soon.
            let _ = self.order(&ShimCommand::Interrupt, out);
        }
    }

    /// Whether shell requests wait until it is known whether there is room: what ran may have made some.
    pub(super) fn disk_is_unsure(&self) -> bool {
        let unsure = self.disk.asked.is_some() || self.disk.stale || self.ledger.executes();
        self.disk.over.is_some() && unsure
    }

    /// Why a request is not taken, if it is not.
    pub(super) fn disk_refuses(&self, request: &Request) -> Option<DiskUse> {
        let over = self.disk.over.filter(|_| request.kind == RequestKind::Execute)?;
        let makes_room = Asked::of(request.frame.content()).makes_room();
        (!makes_room).then_some(over.found)
    }

    /// Answers an execution that is not taken, as a kernel would whose code has failed.
    pub(super) fn refuse_for_disk(&mut self, held: &Held, found: &DiskUse) {
        let request = &held.request;
        let reason = format!("{}. {}", reason(found), advice());
        let error = json!({"ename": CODE, "evalue": reason, "traceback": [format!("{CODE}: {reason}")]});
        let mut reply = error.clone();
        reply["status"] = "error".into();
        // No execution has no number; clients want one.
        reply["execution_count"] = 0.into();
        reply["user_expressions"] = json!({});
        let silent = Asked::of(request.frame.content()).silent;
        let state = |state: &str| json!({"execution_state": state});
        let native = execution_of(request.owner);
        let all = [
            (Channel::Iopub, "status", state("busy")),
            (Channel::Iopub, "error", error),
            (Channel::Shell, "execute_reply", reply),
            (Channel::Iopub, "status", state("idle")),
        ];
        for (channel, msg_type, content) in all {
            if silent && msg_type == "error" {
                continue;
            }
            let frame = synthetic::answer(
                &self.kernel_session,
                channel,
                msg_type,
                request.frame.header(),
                &content,
            );
            let owner = if channel == Channel::Shell || native.is_some() {
                request.owner
            } else {
                0
            };
            self.push_synthetic(channel, owner, frame);
        }
        if let Some(seq) = native {
            self.native_not_taken(seq);
        }
        if held.again != 0 {
            self.decide(&LifecycleRecord::Refused {
                reason: CODE.to_owned(),
                record: held.again,
                again: false,
            });
        }
    }

    /// Ends the kernel's process, as the rules for a crash say.
    pub(super) fn end_process(&mut self, cause: String, out: &mut Vec<Effect>) {
        self.stopwatch.reset();
        self.crashed(cause, out);
        if self.life.phase == Phase::Dead {
            // It was not replaced, so it still runs.
            let ordered = self.order(&ShimCommand::Stop(Stop { grace_ms: 0 }), out);
            self.stopwatch.stopping(ordered.is_ok());
        }
    }
}

/// What of an `execute_request` matters here.
#[derive(Debug, Default, Deserialize)]
struct Asked {
    #[serde(default)]
    code: String,
    #[serde(default)]
    silent: bool,
}

impl Asked {
    fn of(content: &[u8]) -> Self {
        serde_json::from_slice(content).unwrap_or_default()
    }

    fn makes_room(&self) -> bool {
        // A script in Bash begins below its magic.
        let mut lines = self.code.lines().skip_while(|line| *line == "%%bash");
        lines.next().is_some_and(|line| line.contains(FREE_SPACE))
    }
}

fn reason(found: &DiskUse) -> String {
    let limit = mebibytes(found.limit_bytes);
    if found.uncounted {
        return format!(
            "disk quota exceeded: this session has more files, or deeper directories, than can be counted; its limit is {limit}"
        );
    }
    format!(
        "disk quota exceeded: the files of this session take {}, the limit is {limit}",
        mebibytes(found.used_bytes)
    )
}

fn advice() -> String {
    format!(
        "Until there is room, only executions that begin with the line `# {FREE_SPACE}` are taken: delete files in one"
    )
}

/// With one digit, never rounded down: what is over its limit looks so.
fn mebibytes(bytes: u64) -> String {
    let tenths = (u128::from(bytes) * 10).div_ceil(1 << 20);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}
