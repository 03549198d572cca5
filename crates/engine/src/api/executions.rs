//! Commands on executions.

use std::sync::Arc;

use crate::access::Object;
use himalia_budget::Pace;
use himalia_executions::{
    ArtifactStore, CachedExecution, Execute, ExecutionBrief, ExecutionFeed, ExecutionId, ExecutionResult,
    ExecutionText, Follower, LogReader, OutputPage, Provenance, SessionFeed, SubmittedExecution, briefs,
    first, language, scoped, submission,
};
use himalia_journal::may_block;
use himalia_kernel::{Answer, Brief, Command, CommandError, Language, Submission, record};
use himalia_model::{Action, EngineError, KernelId, Principal, RemovedBy};
use himalia_outcome::Excerpt;
use himalia_session::{SessionKernel, SharedCache, prompt_error};
use tokio_util::sync::CancellationToken;

use super::Commands;
use super::ended::SessionLog;

/// Bytes of an answer to a question.
pub const MAX_INPUT_BYTES: usize = 1 << 20;

impl Commands {
    pub(crate) async fn execute(
        &self,
        principal: &Principal,
        kernel: KernelId,
        wanted: Execute,
    ) -> Result<SubmittedExecution, EngineError> {
        self.may_execute(principal, kernel)?;
        let handle = self.handle(principal, kernel)?;
        self.execute_in(principal, &handle, wanted).await
    }

    /// Authorises an execution, while the gateway is not stopping.
    pub(super) fn may_execute(&self, principal: &Principal, kernel: KernelId) -> Result<(), EngineError> {
        self.allow(principal, Action::Execute, Object::Kernel(kernel))?;
        self.inner.check_open()
    }

    /// Takes an execution that is authorised ([`Self::may_execute`]).
    pub(super) async fn execute_in(
        &self,
        principal: &Principal,
        handle: &Arc<SessionKernel>,
        wanted: Execute,
    ) -> Result<SubmittedExecution, EngineError> {
        let kernel = handle.id();
        if let Some(cpu) = self.inner.budget.cpu(&handle.session().owner) {
            cpu.check()?;
        }
        if wanted.is_scoped() {
            let kernelspec = handle.session().kernelspec.clone();
            let spec = self.inner.catalog.get(&kernelspec).await.ok();
            scoped(spec.as_ref(), &kernelspec, &wanted)?;
        }
        let language = match &wanted.language {
            None => Language::Kernel,
            Some(name) => self.language(handle, name).await?,
        };
        let submission = submission(principal, wanted, language)?;
        match self.give(handle, submission).await? {
            Answer::Submitted { seq, repeated } => Ok(SubmittedExecution {
                id: ExecutionId { kernel, seq },
                repeated,
            }),
            _ => Err(EngineError::unavailable("the execution was not taken")),
        }
    }

    pub(crate) async fn execution(
        &self,
        principal: &Principal,
        id: ExecutionId,
    ) -> Result<ExecutionResult, EngineError> {
        let (result, _) = self.execution_with_provenance(principal, id).await?;
        Ok(result)
    }

    pub(crate) async fn execution_with_provenance(
        &self,
        principal: &Principal,
        id: ExecutionId,
    ) -> Result<(ExecutionResult, Provenance), EngineError> {
        let begun = self.known(principal, id).await?;
        let look = |known: &CachedExecution| {
            let packages = known.follower().packages().map(str::to_owned);
            (known.result(begun.brief.as_ref()), packages)
        };
        let (mut result, mut packages) = self.at_head(principal, &begun, id, look).await?;
        let artifacts = begun.artifacts();
        if !may_block(|| artifacts.has_all(&result)) {
            // Older ones were evicted. They are made again.
            begun.known.lock().await.begin_anew();
            (result, packages) = self.at_head(principal, &begun, id, look).await?;
        }
        let mut provenance = begun.source.provenance();
        provenance.packages_hash = packages;
        Ok((result, provenance))
    }

    pub(crate) async fn follow_execution(
        &self,
        principal: &Principal,
        id: ExecutionId,
        after: Option<u64>,
    ) -> Result<ExecutionFeed, EngineError> {
        let begun = self.known(principal, id).await?;
        let pace = self.inner.budget.paced_stream(principal)?;
        self.feed_after(principal, begun, id, after.unwrap_or(0), pace)
            .await
    }

    /// The events of an execution after the record `after`.
    pub(super) async fn feed_after(
        &self,
        principal: &Principal,
        begun: Begun,
        id: ExecutionId,
        after: u64,
        pace: Pace,
    ) -> Result<ExecutionFeed, EngineError> {
        let reads = begun.has_ended();
        let (known, blank) = self
            .at_head_if(reads, principal, &begun, id, |known| {
                (known.follower().clone(), known.blank().clone())
            })
            .await?;
        // If its last record is gone too, no other will come.
        let ends_here = reads && !known.is_over();
        let serves = known.seq() <= after || ends_here;
        let mut follower = if serves { known } else { blank };
        if ends_here {
            begun.end(&mut follower);
        }
        Ok(self.feed(&begun, id, follower, after, pace))
    }

    pub(crate) fn follow_executions(
        &self,
        principal: &Principal,
        kernel: KernelId,
        after: Option<u64>,
    ) -> Result<SessionFeed, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(kernel))?;
        let source = self.log(principal, kernel)?;
        let pace = self.inner.budget.paced_stream(principal)?;
        let after = after.unwrap_or_else(|| source.journal().head());
        let artifacts = ArtifactStore::beside(source.journal().dir());
        let draining = self.inner.draining.clone();
        let open = Box::new(move |after| reader(&source, &draining, after));
        Ok(SessionFeed::new(kernel, open, artifacts, after, pace))
    }

    pub(crate) async fn watch_execution(
        &self,
        principal: &Principal,
        id: ExecutionId,
    ) -> Result<ExecutionFeed, EngineError> {
        let begun = self.known(principal, id).await?;
        let pace = self.inner.budget.paced_stream(principal)?;
        self.feed_from_now(principal, begun, id, pace).await
    }

    /// The events of an execution from now on.
    pub(super) async fn feed_from_now(
        &self,
        principal: &Principal,
        begun: Begun,
        id: ExecutionId,
        pace: Pace,
    ) -> Result<ExecutionFeed, EngineError> {
        let mut known = self
            .at_head(principal, &begun, id, |known| known.follower().clone())
            .await?;
        let after = known.seq();
        begun.end(&mut known);
        Ok(self.feed(&begun, id, known, after, pace))
    }

    fn feed(
        &self,
        begun: &Begun,
        id: ExecutionId,
        follower: Follower,
        after: u64,
        pace: Pace,
    ) -> ExecutionFeed {
        let seq = follower.seq().max(id.seq - 1);
        ExecutionFeed::new(
            self.reader(&begun.source, seq),
            follower,
            begun.artifacts(),
            after,
            pace,
        )
    }

    pub(crate) async fn execution_output(
        &self,
        principal: &Principal,
        id: ExecutionId,
        offset: u64,
        limit: usize,
    ) -> Result<OutputPage, EngineError> {
        let begun = self.known(principal, id).await?;
        let mut part = self
            .at_head(principal, &begun, id, |known| known.part(offset))
            .await?;
        part.complete |= begun.has_ended();
        let reading = self.inner.budget.reading(principal, begun.source.journal());
        let mut reading = reading.await?;
        let mut reader = self.reader(&begun.source, part.seq());
        part.page(&mut reader, offset, limit, &mut reading).await
    }

    pub(crate) async fn execution_text(
        &self,
        principal: &Principal,
        id: ExecutionId,
        offset: u64,
    ) -> Result<ExecutionText, EngineError> {
        let begun = self.known(principal, id).await?;
        let pace = self.inner.budget.paced_stream(principal)?;
        let part = self
            .at_head(principal, &begun, id, |known| known.part(offset))
            .await?;
        let reader = self.reader(&begun.source, part.seq());
        Ok(part.text(reader, offset, pace))
    }

    pub(crate) async fn executions(
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
                // Its log tells, as that of any ended session.
                Err(EngineError::SessionEnded(_)) => {}
                Err(other) => return Err(other),
            }
        }
        self.past(principal, &log, |past| briefs(kernel, past.cells()))
            .await
    }

    pub(crate) async fn interrupt_execution(
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
            // And with its session it has ended, too.
            Err(EngineError::SessionEnded(_)) => Ok(false),
            Err(other) => Err(other),
        }
    }

    pub(crate) async fn answer_execution(
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
        let input = Command::Input {
            seq: id.seq,
            value,
            by: principal.name().to_owned(),
        };
        self.command(handle, input).await.map(drop)
    }

    /// What the name of a language means for a kernel.
    async fn language(&self, handle: &SessionKernel, name: &str) -> Result<Language, EngineError> {
        let kernelspec = handle.session().kernelspec.clone();
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
        self.known_in(principal, source, id).await
    }

    /// The same, in this log.
    pub(super) async fn known_in(
        &self,
        principal: &Principal,
        source: SessionLog,
        id: ExecutionId,
    ) -> Result<Begun, EngineError> {
        let unknown = || EngineError::no_execution(&id.to_string());
        let journal = source.journal();
        if id.seq < journal.first() && id.seq <= journal.head() {
            return self.remembered(principal, source, id).await;
        }
        let kept = &self.inner.executions;
        let known = if let Some(known) = kept.get(journal.dir(), id.seq, 0) {
            known
        } else {
            let record = may_block(|| record(journal, id.seq)).ok_or_else(unknown)?;
            let submission = first(&record).ok_or_else(unknown)?;
            let follower = follower(id, submission.language, submission.caller, submission.text_chars);
            kept.add(
                principal,
                journal.dir(),
                id.seq,
                0,
                CachedExecution::new(id, follower),
            )
        };
        Ok(Begun {
            source,
            known,
            brief: None,
        })
    }

    /// An execution whose first record the quota took.
    async fn remembered(
        &self,
        principal: &Principal,
        source: SessionLog,
        id: ExecutionId,
    ) -> Result<Begun, EngineError> {
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
        let (kept, journal) = (&self.inner.executions, source.journal());
        let oldest = journal.first();
        let known = kept.get(journal.dir(), id.seq, oldest).unwrap_or_else(|| {
            let chars = Execute::default().text_chars as u64;
            let follower = follower(id, brief.language, brief.caller.clone(), chars).knowing(&brief);
            kept.add(
                principal,
                journal.dir(),
                id.seq,
                oldest,
                CachedExecution::new(id, follower),
            )
        });
        Ok(Begun {
            source,
            known,
            brief: Some(brief),
        })
    }

    /// Reads on to where the log ends now, and looks at what is known then.
    async fn at_head<T>(
        &self,
        principal: &Principal,
        begun: &Begun,
        id: ExecutionId,
        look: impl FnOnce(&CachedExecution) -> T,
    ) -> Result<T, EngineError> {
        self.at_head_if(true, principal, begun, id, look).await
    }

    /// The same; what is known already is enough unless `reads`.
    async fn at_head_if<T>(
        &self,
        reads: bool,
        principal: &Principal,
        begun: &Begun,
        id: ExecutionId,
        look: impl FnOnce(&CachedExecution) -> T,
    ) -> Result<T, EngineError> {
        let mut known = begun.known.lock().await;
        let journal = begun.source.journal();
        if reads && !known.follower().is_over() && known.seq() < journal.head() {
            let mut reading = self.inner.budget.reading(principal, journal).await?;
            let mut reader = self.reader(&begun.source, known.seq());
            known
                .catch_up(&mut reader, &begun.artifacts(), &mut reading)
                .await?;
        }
        let (looked, bytes) = (look(&known), known.weight());
        self.inner
            .executions
            .weigh(journal.dir(), id.seq, &begun.known, bytes);
        Ok(looked)
    }

    fn reader(&self, source: &SessionLog, after: u64) -> LogReader {
        reader(source, &self.inner.draining, after)
    }

    /// Gives an execution to its kernel, which gets a new sandbox first if its own is gone.
    async fn give(&self, handle: &Arc<SessionKernel>, submission: Submission) -> Result<Answer, EngineError> {
        let order = || Command::Submit(Box::new(submission.clone()));
        match handle.order(order()).await {
            Some(Err(CommandError::SandboxLost(_))) => {}
            answered => return self.answered(handle, answered),
        }
        self.inner.resume(handle, None).await?;
        self.command(handle, order()).await
    }

    /// Gives an order, in the caller's terms.
    pub(super) async fn command(
        &self,
        handle: &SessionKernel,
        command: Command,
    ) -> Result<Answer, EngineError> {
        let answered = handle.order(command).await;
        self.answered(handle, answered)
    }

    fn answered(
        &self,
        handle: &SessionKernel,
        answered: Option<Result<Answer, CommandError>>,
    ) -> Result<Answer, EngineError> {
        match answered {
            Some(Ok(answer)) => Ok(answer),
            None | Some(Err(CommandError::NotRunning)) => Err(self.inner.over(handle)),
            Some(Err(CommandError::QueueFull(queued))) => Err(EngineError::QueueFull { queued }),
            Some(Err(CommandError::Incarnation { expected, now })) => Err(EngineError::IncarnationMismatch {
                expected,
                incarnation: now,
            }),
            Some(Err(CommandError::FailureLimit(failures))) => Err(EngineError::FailureLimit { failures }),
            Some(Err(CommandError::KernelDead(cause) | CommandError::SandboxLost(cause))) => {
                Err(EngineError::KernelDead { cause })
            }
            Some(Err(error @ CommandError::NotAsked)) => Err(EngineError::Conflict {
                reason: error.to_string(),
            }),
            Some(Err(other)) => Err(prompt_error(other)),
        }
    }
}

/// An execution in the log of its kernel.
pub(super) struct Begun {
    source: SessionLog,
    /// What was read of it.
    known: SharedCache<CachedExecution>,
    /// What its kernel remembers of it, if its first record is gone.
    brief: Option<Brief>,
}

impl Begun {
    fn artifacts(&self) -> ArtifactStore {
        ArtifactStore::beside(self.source.journal().dir())
    }

    /// The end of what was read to the log's head, if its kernel remembers one that the log does not have any more.
    fn end(&self, follower: &mut Follower) {
        if let Some(brief) = &self.brief {
            follower.end_without_record(brief);
        }
    }

    /// Its kernel remembers its end, which the log may not have any more.
    fn has_ended(&self) -> bool {
        self.brief.as_ref().is_some_and(|brief| brief.end.is_some())
    }
}

fn reader(source: &SessionLog, draining: &CancellationToken, after: u64) -> LogReader {
    match source {
        SessionLog::Live(handle) => {
            LogReader::new(handle.handle(), after, draining.clone(), CancellationToken::new())
        }
        SessionLog::Ended(journal, _) => LogReader::of_ended(journal, after),
    }
}

fn follower(id: ExecutionId, language: Language, caller: String, text_chars: u64) -> Follower {
    let excerpt = Excerpt::new(usize::try_from(text_chars).unwrap_or(usize::MAX));
    Follower::new(id, language, caller, text_chars, excerpt)
}
