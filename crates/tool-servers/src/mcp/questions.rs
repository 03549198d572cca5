//! Questions of a server that its client is sent as requests, up to revision 2025-11-25, and the persons of calls who answer them.
//!
//! A request in the response to a call is for the person of that call. One on another stream, or of a program, names no call: it is for the
//! person of the only call in progress, and is declined if there are several.

use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::person::{Form, Person};

/// Questions that wait for a person who answers another one. More are declined.
const WAITING: usize = 1;

/// A question on its way to a person.
#[derive(Debug)]
pub(super) struct OpenQuestion {
    form: Form,
    answer: oneshot::Sender<Value>,
}

/// The way to the person of a call.
#[derive(Clone, Debug)]
pub(super) struct Line(mpsc::Sender<OpenQuestion>);

impl Line {
    /// The answer of a person to a request of a server. Without a way to one, and if the form cannot be asked, it is declined.
    pub(super) async fn ask(line: Option<&Self>, form: Option<Form>) -> Value {
        let (answer, answered) = oneshot::channel();
        let is_asked = match (line, form) {
            (Some(Self(line)), Some(form)) => line.try_send(OpenQuestion { form, answer }).is_ok(),
            _ => false,
        };
        if !is_asked {
            return json!({"action": "decline"});
        }
        // The call may have ended without an answer.
        answered.await.unwrap_or_else(|_| json!({"action": "cancel"}))
    }
}

/// The persons of the calls in progress of one connection. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Questions(Arc<Mutex<Vec<Line>>>);

impl Questions {
    /// The way to the person of a call that begins. It ends with the receiver.
    pub(super) fn begin(&self) -> (Line, mpsc::Receiver<OpenQuestion>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let line = Line(sender);
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|line| !line.0.is_closed());
        lines.push(line.clone());
        (line, receiver)
    }

    /// The way to the person of the only call.
    pub(super) fn only(&self) -> Option<Line> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|line| !line.0.is_closed());
        lines.first().filter(|_| lines.len() == 1).cloned()
    }
}

/// Asks a person, one question after the other.
pub(super) async fn serve(
    mut questions: mpsc::Receiver<OpenQuestion>,
    person: &dyn Person,
    deadline: Instant,
) -> Infallible {
    while let Some(OpenQuestion { form, answer }) = questions.recv().await {
        let left = deadline.saturating_duration_since(Instant::now());
        let answered = person.ask(form.question.clone(), left).await;
        let _ = answer.send(form.response(answered));
    }
    pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_question_that_names_no_call_is_for_the_only_one() {
        let questions = Questions::default();
        assert!(questions.only().is_none());
        let (_line, first) = questions.begin();
        assert!(questions.only().is_some());
        let (_line, _second) = questions.begin();
        assert!(questions.only().is_none(), "it may be of either");
        drop(first);
        assert!(questions.only().is_some(), "the first has ended");
        assert_eq!(Line::ask(None, None).await, json!({"action": "decline"}));
    }
}
