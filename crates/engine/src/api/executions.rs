//! Commands on executions.

use std::path::PathBuf;

use himalia_outcome::{Excerpt, Page, Sink};
use tokio_util::sync::CancellationToken;

use super::Engine;
use super::ended::SessionLog;
use crate::executions::{ArtifactStore, Follower, catch_up, first, language, submission};
use crate::feed::LogReader;
use crate::history::{Detail, briefs, walk};
use crate::kernel::{Answer, Brief, Command, CommandError, Handle, Language, may_block, record};
use crate::{
    Action, Closed, EngineError, Execute, ExecutionBrief, ExecutionFeed, ExecutionId, ExecutionResult,
    KernelId, Object, OutputPage, Principal, Provenance, RemovedBy, StoredArtifact, Submitted,
};

/// Bytes of an answer to a question.
pub const MAX_INPUT_BYTES: usize = 1 << 20;

impl Engine {
    /// Takes an execution: when this returns it is in the log, and runs when its turn comes, whoever goes away meanwhile.
    ///
    /// Executions of one kernel run one at a time, in the order in which they came. One that the kernel drops because
    /// another client's code failed is sent again. Errors beside the usual ones: [`EngineError::QueueFull`],
    /// [`EngineError::IncarnationMismatch`], [`EngineError::FailureLimit`], [`EngineError::KernelDead`], [`EngineError::KeyReused`],
    /// [`EngineError::LanguageNotSupported`].
    pub async fn execute(
        &self,
        principal: &Principal,
        kernel: KernelId,
        wanted: Execute,
    ) -> Result<Submitted, EngineError> {
        self.allow(principal, Action::Execute, Object::Kernel(kernel))?;
        self.inner.check_open()?;
        let handle = self.handle(principal, kernel)?;
        let language = match &wanted.language {
            None => Language::Kernel,
            Some(name) => self.language(&handle, name).await?,
        };
        let submission = submission(principal, wanted, language)?;
        match self
            .command(&handle, Command::Submit(Box::new(submission)))
            .await?
        {
            Answer::Submitted { seq, repeated } => Ok(Submitted {
                id: ExecutionId { kernel, seq },
                repeated,
            }),
            _ => Err(EngineError::unavailable("the execution was not taken")),
        }
    }

    /// What came of an execution so far, at any later time.
    pub async fn execution(
        &self,
        principal: &Principal,
        id: ExecutionId,
    ) -> Result<ExecutionResult, EngineError> {
        let (result, _) = self.execution_with_provenance(principal, id).await?;
        Ok(result)
    }

    /// The same, and the environment that it ran in or will run in.
    pub async fn execution_with_provenance(
        &self,
        principal: &Principal,
        id: ExecutionId,
    ) -> Result<(ExecutionResult, Provenance), EngineError> {
        let begun = self.known(principal, id).await?;
        let mut follower = begun.follower(id, begun.excerpt());
        self.read_to_head(&begun, id, &mut follower).await?;
        if let Some(brief) = &begun.brief {
            follower.end_without_record(brief);
        }
        Ok((follower.result(), begun.source.provenance()))
    }

    /// What becomes of an execution, from its beginning; events up to the record `after` are not told.
    pub async fn follow_execution(
        &self,
        principal: &Principal,
        id: ExecutionId,
        after: Option<u64>,
    ) -> Result<ExecutionFeed, EngineError> {
        let begun = self.known(principal, id).await?;
        let mut follower = begun.follower(id, begun.excerpt());
        if let Some(brief) = begun.brief.as_ref().filter(|brief| brief.end.is_some()) {
            // Its last record may be gone too, and then no other will come.
            let mut whole = begun.follower(id, begun.excerpt());
            self.read_to_head(&begun, id, &mut whole).await?;
            if !whole.is_over() {
                whole.end_without_record(brief);
                follower = whole;
            }
        }
        Ok(ExecutionFeed::new(
            self.reader(&begun, id),
            follower,
            begun.artifacts(),
            after.unwrap_or(0),
        ))
    }

    /// At most `limit` bytes of an execution's text after `offset` bytes. Whole characters, at least one if there is one.
    /// While it runs, the last line of each stream may still change.
    pub async fn execution_output(
        &self,
        principal: &Principal,
        id: ExecutionId,
        offset: u64,
        limit: usize,
    ) -> Result<OutputPage, EngineError> {
        let begun = self.known(principal, id).await?;
        let mut follower = begun.follower(id, Page::new(offset, limit));
        self.read_to_head(&begun, id, &mut follower).await?;
        if let Some(brief) = &begun.brief {
            follower.end_without_record(brief);
        }
        let complete = follower.is_over();
        let page = follower.into_text();
        Ok(OutputPage {
            text: page.text().to_owned(),
            offset: page.offset(),
            next: page.next(),
            bytes_total: page.total(),
            complete,
        })
    }

    /// Every execution of a kernel that is not over, and the latest thousand that are, in the order in which they came. Of a
    /// session that is over those whose first record its log has still.
    pub async fn executions(
        &self,
        principal: &Principal,
        kernel: KernelId,
    ) -> Result<Vec<ExecutionBrief>, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(kernel))?;
        let log = self.log(principal, kernel)?;
        if let SessionLog::Live(handle) = &log {
            match self.command(handle, Command::ListExecutions).await {
                Ok(Answer::Executions(briefs)) => {
                    let brief = |brief| ExecutionBrief::new(kernel, brief);
                    return Ok(briefs.into_iter().map(brief).collect());
                }
                Ok(_) => return Ok(Vec::new()),
                // Its log tells, as that of any session that is over.
                Err(EngineError::SessionEnded(_)) => {}
                Err(other) => return Err(other),
            }
        }
        let read = tokio::task::spawn_blocking(move || {
            let cells = walk(log.journal(), Detail::Code)?;
            Ok(briefs(kernel, cells))
        });
        read.await
            .map_err(|error| EngineError::internal("reading a kernel's log", error))?
    }

    /// Interrupts an execution, up to three times, or takes it back if it did not run yet. The kernel's process and its
    /// variables stay. `false` if it was over already. Returns before it has stopped.
    pub async fn interrupt_execution(
        &self,
        principal: &Principal,
        id: ExecutionId,
    ) -> Result<bool, EngineError> {
        self.allow(principal, Action::Interrupt, Object::Kernel(id.kernel))?;
        let begun = self.known(principal, id).await?;
        let SessionLog::Live(handle) = &begun.source else {
            return Ok(false);
        };
        match self.command(handle, Command::StopExecution(id.seq)).await {
            Ok(answer) => Ok(matches!(answer, Answer::Stopping(true))),
            // And with its session it is over, too.
            Err(EngineError::SessionEnded(_)) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Answers what an execution asks. [`EngineError::Conflict`] if it asks nothing, [`EngineError::SessionEnded`] if nobody is
    /// there any more who could.
    pub async fn answer_execution(
        &self,
        principal: &Principal,
        id: ExecutionId,
        value: String,
    ) -> Result<(), EngineError> {
        self.allow(principal, Action::Execute, Object::Kernel(id.kernel))?;
        if value.len() > MAX_INPUT_BYTES {
            let reason = format!("is longer than {MAX_INPUT_BYTES} bytes");
            return Err(EngineError::bad_request("value", reason));
        }
        let begun = self.known(principal, id).await?;
        let SessionLog::Live(handle) = &begun.source else {
            return Err(self.inner.ended.absent(principal, id.kernel));
        };
        self.command(handle, Command::Input { seq: id.seq, value })
            .await
            .map(drop)
    }

    /// An artifact by its SHA-256 (64 lower-case hex digits), of any kernel that the principal sees, or of a session of those that
    /// is over and whose log is kept. Each log has artifacts of its own, so the hash of another tenant's finds nothing.
    pub async fn artifact(&self, principal: &Principal, sha256: &str) -> Result<StoredArtifact, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        let unknown = || EngineError::NotFound {
            what: "Artifact",
            id: sha256.chars().take(64).collect(),
        };
        if sha256.len() != 64
            || !sha256
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        {
            return Err(unknown());
        }
        let all = self.inner.registry.all_unordered();
        let mut logs: Vec<PathBuf> = all
            .into_iter()
            .filter(|handle| !handle.is_over() && principal.sees(&handle.facts().owner))
            .map(|handle| handle.journal.dir().to_owned())
            .collect();
        let kept = self.inner.ended.kept().into_iter();
        let kept = kept.filter(|row| principal.sees(&row.owner));
        logs.extend(kept.map(|row| self.inner.config.data_dir.join(row.session_dir)));
        let name = sha256.to_owned();
        let found = tokio::task::spawn_blocking(move || {
            logs.iter().find_map(|log| ArtifactStore::beside(log).get(&name))
        });
        let found = found
            .await
            .map_err(|error| EngineError::internal("reading an artifact", error))?;
        found.ok_or_else(unknown)
    }

    /// What the name of a language means for a kernel.
    async fn language(&self, handle: &Handle, name: &str) -> Result<Language, EngineError> {
        let kernelspec = handle.facts().name.clone();
        let spec = self.inner.catalog.get(&kernelspec).await.ok();
        language(spec.as_ref(), &kernelspec, name)
    }

    /// An execution of a kernel that is there, or whose log is kept. Its first record may be gone if its kernel remembers it.
    async fn known(&self, principal: &Principal, id: ExecutionId) -> Result<Begun, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(id.kernel))?;
        let unknown = || EngineError::no_execution(&id.to_string());
        let source = self.log(principal, id.kernel).map_err(|error| match error {
            EngineError::NotFound { .. } => unknown(),
            other => other,
        })?;
        let journal = source.journal();
        if id.seq < journal.first() && id.seq <= journal.head() {
            return self.remembered(source, id).await;
        }
        let record = may_block(|| record(journal, id.seq)).ok_or_else(unknown)?;
        let submission = first(&record).ok_or_else(unknown)?;
        Ok(Begun {
            source,
            language: submission.language,
            caller: submission.caller,
            text_chars: submission.text_chars,
            brief: None,
        })
    }

    /// An execution whose first record the quota took.
    async fn remembered(&self, source: SessionLog, id: ExecutionId) -> Result<Begun, EngineError> {
        let removed = || {
            EngineError::Removed {
            by: RemovedBy::Quota,
            reason: "the log of this session had reached its quota, and the records of this execution were removed"
                .into(),
        }
        };
        let SessionLog::Live(handle) = &source else {
            return Err(removed());
        };
        let briefs = match self.command(handle, Command::ListExecutions).await {
            Ok(Answer::Executions(briefs)) => briefs,
            Ok(_) | Err(EngineError::SessionEnded(_)) => return Err(removed()),
            Err(other) => return Err(other),
        };
        let brief = briefs.into_iter().find(|brief| brief.seq == id.seq);
        let brief = brief.ok_or_else(removed)?;
        Ok(Begun {
            source,
            language: brief.language,
            caller: brief.caller.clone(),
            text_chars: Execute::default().text_chars as u64,
            brief: Some(brief),
        })
    }

    async fn read_to_head<S: Sink + Clone>(
        &self,
        begun: &Begun,
        id: ExecutionId,
        follower: &mut Follower<S>,
    ) -> Result<(), EngineError> {
        let mut reader = self.reader(begun, id);
        let read = catch_up(&mut reader, follower, &begun.artifacts()).await;
        read.map_err(|error| closed(&error))
    }

    fn reader(&self, begun: &Begun, id: ExecutionId) -> LogReader {
        let draining = self.inner.draining.clone();
        match &begun.source {
            SessionLog::Live(handle) => {
                LogReader::new(handle, id.seq - 1, draining, CancellationToken::new())
            }
            SessionLog::Ended(journal, _) => LogReader::of_ended(journal, id.seq - 1),
        }
    }

    /// Gives an order, in the caller's terms.
    async fn command(&self, handle: &Handle, command: Command) -> Result<Answer, EngineError> {
        match handle.order(command).await {
            Some(Ok(answer)) => Ok(answer),
            None | Some(Err(CommandError::NotRunning)) => Err(self.inner.over(handle)),
            Some(Err(CommandError::QueueFull(queued))) => Err(EngineError::QueueFull { queued }),
            Some(Err(CommandError::Incarnation { expected, now })) => Err(EngineError::IncarnationMismatch {
                expected,
                incarnation: now,
            }),
            Some(Err(CommandError::FailureLimit(failures))) => Err(EngineError::FailureLimit { failures }),
            Some(Err(CommandError::KernelDead(cause))) => Err(EngineError::KernelDead { cause }),
            Some(Err(CommandError::KeyReused)) => Err(EngineError::KeyReused),
            Some(Err(error @ CommandError::NotAsked)) => Err(EngineError::Conflict {
                reason: error.to_string(),
            }),
            Some(Err(other)) => Err(EngineError::unavailable(other.to_string())),
        }
    }
}

/// An execution in the log of its kernel.
struct Begun {
    source: SessionLog,
    language: Language,
    /// The principal's name.
    caller: String,
    text_chars: u64,
    /// What its kernel remembers of it, if its first record is gone.
    brief: Option<Brief>,
}

impl Begun {
    fn artifacts(&self) -> ArtifactStore {
        ArtifactStore::beside(self.source.journal().dir())
    }

    fn excerpt(&self) -> Excerpt {
        Excerpt::new(usize::try_from(self.text_chars).unwrap_or(usize::MAX))
    }

    fn follower<S: Sink + Clone>(&self, id: ExecutionId, sink: S) -> Follower<S> {
        let follower = Follower::new(id, self.language, self.caller.clone(), self.text_chars, sink);
        match &self.brief {
            Some(brief) => follower.knowing(brief),
            None => follower,
        }
    }
}

/// Why a log could not be read to its end.
fn closed(closed: &Closed) -> EngineError {
    match closed {
        Closed::Storage => EngineError::Internal {
            context: "reading a kernel's log".into(),
        },
        _ => EngineError::unavailable("the gateway is stopping"),
    }
}
