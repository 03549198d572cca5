//! The span of a command: below that of the request, and above what the command does.

use himalia_model::{EngineError, Principal};
use himalia_traces::{Span, SpanKind};

use crate::Engine;
use crate::audit::{Effect, Subject};

#[derive(Debug)]
pub(crate) struct CommandSpan {
    span: Span,
    principal: Principal,
}

impl CommandSpan {
    /// A command begins. `None` unless it changes something and its call is in a trace: those that only look are not worth a span.
    pub(crate) fn begin(
        engine: &Engine,
        name: &'static str,
        effect: Effect,
        principal: &Principal,
        subject: Subject<'_>,
    ) -> Option<Self> {
        let parent = principal.trace().filter(|_| effect == Effect::Change)?;
        let mut span = engine.traces().begin(name, SpanKind::Internal, Some(parent))?;
        span.set("himalia.tenant", principal.owner().to_owned());
        match subject {
            Subject::Gateway | Subject::Named(..) => {}
            Subject::Kernel(id) => span.set("himalia.kernel.id", id.to_string()),
            Subject::JupyterSession(id) => span.set("himalia.jupyter_session.id", id.to_string()),
        }
        let principal = principal.clone().traced(span.context());
        Some(Self { span, principal })
    }

    /// On whose behalf it runs: what it does is below its span.
    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }

    pub(crate) fn end<T>(mut self, result: &Result<T, EngineError>) {
        if let Err(error) = result {
            self.span.fail(error.code());
        }
    }
}
