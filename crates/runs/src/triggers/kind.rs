//! Kinds of triggers.

/// A kind of trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerKind {
    /// A schedule.
    Schedule,
    /// A webhook.
    Webhook,
    /// A webhook to which prompts are posted, and which takes answers.
    Prompts,
}

impl TriggerKind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Webhook => "webhook",
            Self::Prompts => "prompt_webhook",
        }
    }

    /// The label of the sessions of its runs, with its id.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Schedule => "himalia.schedule",
            Self::Webhook => "himalia.webhook",
            Self::Prompts => "himalia.prompt_webhook",
        }
    }

    /// The noun in errors.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Schedule => "Schedule",
            Self::Webhook => "Webhook",
            Self::Prompts => "Prompt webhook",
        }
    }
}
