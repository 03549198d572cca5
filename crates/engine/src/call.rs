//! A call of a listed command: its entry in the audit log, and its span.

use himalia_model::{EngineError, KernelId, Principal};

use crate::Engine;
use crate::audit::{Call, Effect, Subject};
use crate::traced::CommandSpan;

/// The names under which the calls of a command are noted.
#[derive(Clone, Copy, Debug)]
pub struct CallNames {
    /// The name in the audit log.
    pub command: &'static str,
    /// The name of the span.
    pub span: &'static str,
}

/// A call of a command, until it has ended. One that is dropped before is noted as cancelled.
#[derive(Debug)]
pub struct CommandCall<'a> {
    call: Call<'a>,
    traced: Option<CommandSpan>,
    principal: &'a Principal,
}

impl Engine {
    /// Begins to note a call of a command. The list of commands of a crate does this for each of its entries.
    pub fn begin_call<'a>(
        &'a self,
        names: CallNames,
        effect: Effect,
        principal: &'a Principal,
        subject: Subject<'a>,
    ) -> CommandCall<'a> {
        CommandCall {
            call: self.audit.call(names.command, effect, principal, subject),
            traced: CommandSpan::begin(self, names.span, effect, principal, subject),
            principal,
        }
    }
}

impl CommandCall<'_> {
    /// The principal of the call; with the span of the call, if it is traced.
    pub fn principal(&self) -> &Principal {
        self.traced
            .as_ref()
            .map_or(self.principal, CommandSpan::principal)
    }

    /// Notes the end of the call. `made` returns the kernel that it made.
    pub fn end<T>(self, result: &Result<T, EngineError>, made: Option<fn(&T) -> Option<KernelId>>) {
        if let Some(traced) = self.traced {
            traced.end(result);
        }
        self.call.end(result, made);
    }
}
