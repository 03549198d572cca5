//! Commands on executions.

use std::sync::Arc;

use himalia_outcome::{Excerpt, Page, Sink};
use tokio_util::sync::CancellationToken;

use super::Engine;
use crate::executions::{ArtifactStore, Follower, catch_up, first, language, submission};
use crate::feed::Reader;
use crate::kernel::{Answer, Command, CommandError, Handle, Language, Submission, may_block, record};
use crate::{
    Action, Closed, EngineError, Execute, ExecutionBrief, ExecutionFeed, ExecutionId, ExecutionResult,
    KernelId, Object, OutputPage, Principal, StoredArtifact, Submitted,
};

/// Bytes of an answer to a question.
const INPUT_BYTES: usize = 1 << 20;

impl Engine {
    /// Takes an execution: when this returns it is in the log, and runs when its turn comes, whoever goes away meanwhile.
    ///
    /// Executions of one kernel run one at a time, in the order in which they came. One that the kernel drops because
    /// another client's code failed is sent again. Errors beside the usual ones: [`EngineError::QueueFull`],
    /// [`EngineError::IncarnationMismatch`], [`EngineError::KernelDead`], [`EngineError::KeyReused`],
    /// [`EngineError::LanguageNotSupported`].
    pub async fn execute(
        &self,
        principal: &Principal,
        kernel: KernelId,
        wanted: Execute,
    ) -> Result<Submitted, EngineError> {
        self.allow(principal, Action::Execute, Object::Kernel(kernel))?;
        self.inner.check_open()?;
        let handle = self.handle(kernel)?;
        let language = match &wanted.language {
            None => Language::Kernel,
            Some(name) => self.language(&handle, name).await?,
        };
        let submission = submission(principal, wanted, language)?;
        match command(&handle, Command::Submit(Box::new(submission))).await? {
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
        let begun = self.begun(principal, id)?;
        let (mut reader, mut follower) = (self.reader(&begun, id), begun.follower(id, begun.excerpt()));
        catch_up(&mut reader, &mut follower, &begun.artifacts())
            .await
            .map_err(|error| closed(&error))?;
        Ok(follower.result())
    }

    /// What becomes of an execution, from its beginning; events up to the record `after` are not told.
    pub fn follow_execution(
        &self,
        principal: &Principal,
        id: ExecutionId,
        after: Option<u64>,
    ) -> Result<ExecutionFeed, EngineError> {
        let begun = self.begun(principal, id)?;
        let follower = begun.follower(id, begun.excerpt());
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
        let begun = self.begun(principal, id)?;
        let (mut reader, mut follower) = (
            self.reader(&begun, id),
            begun.follower(id, Page::new(offset, limit)),
        );
        catch_up(&mut reader, &mut follower, &begun.artifacts())
            .await
            .map_err(|error| closed(&error))?;
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

    /// Every execution of a kernel that is not over, and the latest thousand that are, in the order in which they came.
    pub async fn executions(
        &self,
        principal: &Principal,
        kernel: KernelId,
    ) -> Result<Vec<ExecutionBrief>, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(kernel))?;
        let handle = self.handle(kernel)?;
        let Answer::Executions(briefs) = command(&handle, Command::ListExecutions).await? else {
            return Ok(Vec::new());
        };
        Ok(briefs
            .into_iter()
            .map(|brief| ExecutionBrief::new(kernel, brief))
            .collect())
    }

    /// Interrupts an execution, up to three times, or takes it back if it did not run yet. The kernel's process and its
    /// variables stay. `false` if it was over already. Returns before it has stopped.
    pub async fn interrupt_execution(
        &self,
        principal: &Principal,
        id: ExecutionId,
    ) -> Result<bool, EngineError> {
        self.allow(principal, Action::Interrupt, Object::Kernel(id.kernel))?;
        let begun = self.begun(principal, id)?;
        let answer = command(&begun.handle, Command::StopExecution(id.seq)).await?;
        Ok(matches!(answer, Answer::Stopping(true)))
    }

    /// Answers what an execution asks. [`EngineError::Conflict`] if it asks nothing.
    pub async fn answer_execution(
        &self,
        principal: &Principal,
        id: ExecutionId,
        value: String,
    ) -> Result<(), EngineError> {
        self.allow(principal, Action::Execute, Object::Kernel(id.kernel))?;
        if value.len() > INPUT_BYTES {
            let reason = format!("is longer than {INPUT_BYTES} bytes");
            return Err(EngineError::bad_request("value", reason));
        }
        let begun = self.begun(principal, id)?;
        command(&begun.handle, Command::Input { seq: id.seq, value })
            .await
            .map(drop)
    }

    /// An artifact by its SHA-256 (64 lower-case hex digits), of any kernel that the principal may read.
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
        let mine: Vec<Arc<Handle>> = all
            .into_iter()
            .filter(|handle| !handle.is_over())
            .filter(|handle| {
                self.allow(principal, Action::Read, Object::Kernel(handle.id()))
                    .is_ok()
            })
            .collect();
        let name = sha256.to_owned();
        let found = tokio::task::spawn_blocking(move || {
            mine.iter()
                .find_map(|handle| ArtifactStore::beside(handle.journal.dir()).get(&name))
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

    /// An execution whose first record is still there.
    fn begun(&self, principal: &Principal, id: ExecutionId) -> Result<Begun, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(id.kernel))?;
        let unknown = || EngineError::no_execution(&id.to_string());
        let handle = self.handle(id.kernel).map_err(|_| unknown())?;
        if id.seq < handle.journal.first() && id.seq <= handle.journal.head() {
            return Err(EngineError::Gone {
                reason: "the records of this execution are no longer kept".into(),
            });
        }
        let record = may_block(|| record(&handle.journal, id.seq)).ok_or_else(unknown)?;
        let submission = first(&record).ok_or_else(unknown)?;
        Ok(Begun { handle, submission })
    }

    fn reader(&self, begun: &Begun, id: ExecutionId) -> Reader {
        Reader::new(
            Arc::clone(&begun.handle),
            id.seq - 1,
            self.inner.draining.clone(),
            CancellationToken::new(),
        )
    }
}

/// An execution in the log of its kernel.
struct Begun {
    handle: Arc<Handle>,
    submission: Submission,
}

impl Begun {
    fn artifacts(&self) -> ArtifactStore {
        ArtifactStore::beside(self.handle.journal.dir())
    }

    fn excerpt(&self) -> Excerpt {
        Excerpt::new(usize::try_from(self.submission.text_chars).unwrap_or(usize::MAX))
    }

    fn follower<S: Sink + Clone>(&self, id: ExecutionId, sink: S) -> Follower<S> {
        Follower::new(id, &self.submission, sink)
    }
}

/// Gives an order, in the caller's terms.
async fn command(handle: &Handle, command: Command) -> Result<Answer, EngineError> {
    match handle.order(command).await {
        Some(Ok(answer)) => Ok(answer),
        None | Some(Err(CommandError::NotRunning)) => Err(EngineError::no_kernel(handle.id())),
        Some(Err(CommandError::QueueFull(queued))) => Err(EngineError::QueueFull { queued }),
        Some(Err(CommandError::Incarnation { expected, now })) => Err(EngineError::IncarnationMismatch {
            expected,
            incarnation: now,
        }),
        Some(Err(CommandError::KernelDead(cause))) => Err(EngineError::KernelDead { cause }),
        Some(Err(CommandError::KeyReused)) => Err(EngineError::KeyReused),
        Some(Err(error @ CommandError::NotAsked)) => Err(EngineError::Conflict {
            reason: error.to_string(),
        }),
        Some(Err(other)) => Err(EngineError::unavailable(other.to_string())),
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
