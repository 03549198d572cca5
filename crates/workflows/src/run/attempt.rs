//! Attempts of steps, and what a run says.

use serde_json::{Map, Value};

/// Characters of the text of a failure.
const MAX_TEXT: usize = 2000;

/// Id of an attempt: its step, the item of a map, and the number of the attempt, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    pub step: String,
    /// The position of the item of a map; else 0.
    pub item: u32,
    /// 1 is the first.
    pub attempt: u32,
}

impl AttemptId {
    pub(crate) fn first(step: &str, item: u32) -> Self {
        Self {
            step: step.to_owned(),
            item,
            attempt: 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptStatus {
    /// It begins when it is due.
    Delayed,
    /// The skill runs, or is about to.
    Running,
    /// A person is asked.
    Waiting,
    /// A person has answered, and the run has not seen it yet.
    Answered,
    /// It has ended well.
    Succeeded,
    /// It has not.
    Failed,
    /// It was stopped.
    Cancelled,
}

impl AttemptStatus {
    pub const ALL: [Self; 7] = [
        Self::Delayed,
        Self::Running,
        Self::Waiting,
        Self::Answered,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Name in the API and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delayed => "delayed",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Answered => "answered",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns true if the attempt has ended.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }
}

/// An attempt of a step. Times are microseconds since 1970.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    pub place: AttemptId,
    pub status: AttemptStatus,
    pub outputs: Option<Value>,
    pub failure: Option<Failure>,
    pub session: Option<String>,
    pub execution: Option<String>,
    /// Answer of a person.
    pub answer: Option<String>,
    /// Person who answered.
    pub by: Option<String>,
    /// When a delayed one begins, or the question of one that waits expires.
    pub due: Option<i64>,
    /// When it began.
    pub begun: Option<i64>,
    /// When it ended.
    pub ended: Option<i64>,
}

impl Attempt {
    pub(crate) fn new(place: AttemptId, status: AttemptStatus) -> Self {
        Self {
            place,
            status,
            outputs: None,
            failure: None,
            session: None,
            execution: None,
            answer: None,
            by: None,
            due: None,
            begun: None,
            ended: None,
        }
    }

    pub(crate) fn fail(&mut self, failure: Failure) {
        self.status = AttemptStatus::Failed;
        self.due = None;
        self.failure = Some(failure);
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A stable name.
    pub code: String,
    /// One or more lines without control characters, at most 2,000 characters.
    pub message: String,
}

impl Failure {
    /// One with a text that may come from code.
    pub fn new(code: &str, message: &str) -> Self {
        let plain = message.chars().filter(|char| *char == '\n' || !char.is_control());
        Self {
            code: code.to_owned(),
            message: plain.take(MAX_TEXT).collect(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Outputs, which fit the schema.
    Done(Value),
    Failed {
        failure: Failure,
        /// True if another attempt may succeed.
        again: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunStatus {
    /// It continues.
    Running,
    /// All steps have succeeded.
    Succeeded,
    /// A step has not.
    Failed,
    /// It was ended.
    Cancelled,
}

impl RunStatus {
    pub const ALL: [Self; 4] = [Self::Running, Self::Succeeded, Self::Failed, Self::Cancelled];

    /// Name in the API and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct End {
    pub status: RunStatus,
    pub outputs: Option<Value>,
    pub failure: Option<Failure>,
    /// The step that failed.
    pub step: Option<String>,
    /// Item of the map that failed.
    pub item: Option<u32>,
}

impl End {
    pub(crate) fn of(status: RunStatus) -> Self {
        Self {
            status,
            outputs: None,
            failure: None,
            step: None,
            item: None,
        }
    }
}

/// Effect for the driver, to be executed in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Writes an attempt, in the place of the one that has its place.
    Write(Box<Attempt>),
    /// Runs the skill of a step with these inputs. The same place again is the same run of the skill.
    Start(AttemptId, Map<String, Value>),
    /// Ends what an attempt runs.
    Stop(AttemptId),
    /// Writes the end.
    End(Box<End>),
}
