//! The audit log: who did what to which session, from where, with which outcome. No content, no names of files, no tokens.
//!
//! [`Engine`](crate::Engine) notes each call of a command when it ends. Which calls are written is decided by their [`Effect`] and
//! outcome. The entries of one gateway go to one place ([`AuditTarget`], [`AuditSink`]). All but the log is written by a thread of its own
//! behind a bounded queue (`writer`): a slow disk does not slow commands, and what is lost is counted, noted and shown by `/readyz`.

mod entry;
mod writer;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use himalia_executions::PromptName;
use himalia_metrics::AuditCounts;
use himalia_model::{EngineError, JupyterSessionId, KernelId, Principal};

pub use writer::{AuditRecord, AuditSink};

use entry::Entry;
use writer::Writer;

/// What a command does to what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It makes, changes, runs or ends something. Always written.
    Change,
    /// It reads what is in a session: files, history, events, variables. Always written.
    Content,
    /// It reads states and lists, and results of executions, which clients ask for again and again. Written when it is denied, or
    /// with `reads`.
    Look,
}

impl Effect {
    /// Its spelling in entries and in the documentation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Content => "content",
            Self::Look => "look",
        }
    }
}

/// The object of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// No object of an owner.
    Gateway,
    /// An object of another kind, and its name or id.
    Named(&'static str, &'a str),
    /// A kernel, the first one of a session included.
    Kernel(KernelId),
    /// A Jupyter session.
    JupyterSession(JupyterSessionId),
}

impl<'a> Subject<'a> {
    /// The object of a command on a prompt.
    pub fn of_prompt(name: &'a PromptName) -> Self {
        match name {
            PromptName::Kernel(id) => Self::Kernel(id.kernel),
            PromptName::Step(id) => Self::Named("run", &id.run),
        }
    }
}

/// Where entries go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditTarget {
    /// The log of the gateway, target `himalia::audit`, level info.
    Log,
    /// Standard output, one JSON object a line.
    Stdout,
    /// A file, one JSON object a line, readable for its owner alone.
    File(PathBuf),
}

/// Something that was decided before any command: a sign-in, a refused request.
#[derive(Clone, Copy, Debug)]
pub struct Door<'a> {
    /// `sign_in`, `sign_out`, `request`.
    pub command: &'static str,
    /// Who, if that is known.
    pub principal: Option<&'a Principal>,
    /// Who an identity provider says that it is: the subject of its token.
    pub subject: Option<&'a str>,
    /// How it came; that of the principal is used where this is `None`.
    pub via: Option<&'a himalia_model::CallOrigin>,
    /// The method and the route of a request; no ids.
    pub route: Option<&'a str>,
    /// `ok`, `denied`, `failed`.
    pub outcome: &'static str,
    /// A status or a code that says why.
    pub code: Option<&'a str>,
}

/// Where commands are noted. Clones name the same.
#[derive(Clone)]
pub struct Audit(Arc<Inner>);

struct Inner {
    writer: Option<Writer>,
    reads: bool,
    counts: AuditCounts,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Audit")
    }
}

impl Audit {
    /// Entries are lines of the log.
    pub fn log(counts: AuditCounts) -> Self {
        Self(Arc::new(Inner {
            writer: None,
            reads: false,
            counts,
        }))
    }

    /// Entries go to this place; with `reads` those of commands that only look, too. A file that cannot be opened is an error.
    pub fn open(target: &AuditTarget, reads: bool, counts: AuditCounts) -> io::Result<Self> {
        let writer = match target {
            AuditTarget::Log => None,
            AuditTarget::Stdout => Some(Writer::stdout(counts.clone())?),
            AuditTarget::File(path) => Some(Writer::file(path, counts.clone())?),
        };
        Ok(Self(Arc::new(Inner {
            writer,
            reads,
            counts,
        })))
    }

    /// Entries go to this sink; `reads` as for [`Self::open`].
    pub fn send_to(sink: Box<dyn AuditSink>, reads: bool, counts: AuditCounts) -> io::Result<Self> {
        Ok(Self(Arc::new(Inner {
            writer: Some(Writer::sink(sink, counts.clone())?),
            reads,
            counts,
        })))
    }

    /// Opens the file again by its path, for one that was renamed. Entries that wait go to the new one.
    pub fn reopen(&self) {
        if let Some(writer) = &self.0.writer {
            writer.reopen();
        }
    }

    /// Whether entries cannot be written at present.
    pub fn is_failing(&self) -> bool {
        self.0.writer.as_ref().is_some_and(Writer::is_failing)
    }

    /// Waits until what was noted before is written, at most this long. Whether it is. Blocks.
    pub fn flush(&self, limit: Duration) -> bool {
        self.0.writer.as_ref().is_none_or(|writer| writer.flush(limit))
    }

    /// Notes what was decided before any command.
    pub fn door(&self, door: &Door<'_>) {
        let via = door.via.or_else(|| door.principal.and_then(Principal::via));
        self.write(Entry {
            code: door.code.map(str::to_owned),
            route: door.route.map(str::to_owned),
            subject: door.subject.map(str::to_owned),
            ..Entry::new(door.command, Effect::Change, door.principal, via, door.outcome)
        });
    }

    /// A call of a command begins. One that is dropped before its end was cancelled.
    pub(crate) fn call<'a>(
        &'a self,
        command: &'static str,
        effect: Effect,
        principal: &'a Principal,
        subject: Subject<'a>,
    ) -> Call<'a> {
        Call {
            audit: self,
            command,
            effect,
            principal,
            subject,
            begun: Instant::now(),
            ended: false,
        }
    }

    fn write(&self, entry: Entry) {
        self.0.counts.entries.inc();
        match &self.0.writer {
            Some(writer) => writer.write(entry),
            None => entry.log(),
        }
    }
}

/// A call of a command, until it is noted.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    audit: &'a Audit,
    command: &'static str,
    effect: Effect,
    principal: &'a Principal,
    subject: Subject<'a>,
    begun: Instant,
    ended: bool,
}

impl Call<'_> {
    /// The call has ended. `made` tells which kernel it made.
    pub(crate) fn end<T>(
        mut self,
        result: &Result<T, EngineError>,
        made: Option<fn(&T) -> Option<KernelId>>,
    ) {
        self.ended = true;
        match result {
            Ok(value) => {
                if let Some(id) = made.and_then(|made| made(value)) {
                    self.subject = Subject::Kernel(id);
                }
                self.note("ok", None);
            }
            Err(error @ EngineError::Forbidden { .. }) => self.note("denied", Some(error.code())),
            Err(error) => self.note("failed", Some(error.code())),
        }
    }

    fn note(&self, outcome: &'static str, code: Option<&'static str>) {
        let denied = outcome == "denied";
        if self.effect == Effect::Look && !denied && !self.audit.0.reads {
            return;
        }
        let mut entry = Entry::new(
            self.command,
            self.effect,
            Some(self.principal),
            self.principal.via(),
            outcome,
        );
        match self.subject {
            Subject::Gateway => {}
            Subject::Named(kind, name) => entry.object = Some(format!("{kind} {}", shown(name))),
            Subject::Kernel(id) => entry.session = Some(id.to_string()),
            Subject::JupyterSession(id) => entry.jupyter_session = Some(id.to_string()),
        }
        entry.code = code.map(str::to_owned);
        entry.millis = Some(u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX));
        self.audit.write(entry);
    }
}

/// The beginning of a text of a caller.
fn shown(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_debug).collect()
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.note("cancelled", None);
        }
    }
}
