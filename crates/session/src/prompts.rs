//! Errors of prompts in terms of a caller.

use himalia_kernel::CommandError;
use himalia_model::EngineError;

/// Error for a command about a prompt, or one with a key, that was not carried out. Other reasons are [`EngineError::Unavailable`].
pub fn prompt_error(error: CommandError) -> EngineError {
    match error {
        CommandError::KeyReused => EngineError::KeyReused,
        CommandError::UnknownPrompt => EngineError::no_prompt(""),
        CommandError::PromptEnded | CommandError::TooManyPrompts => EngineError::Conflict {
            reason: error.to_string(),
        },
        CommandError::NotAnOption(_) => EngineError::bad_request("value", error.to_string()),
        other => EngineError::unavailable(other.to_string()),
    }
}
