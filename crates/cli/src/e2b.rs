//! `himalia env e2b`: the variables that point E2B's clients at a gateway.

use std::io::Write as _;
use std::process::ExitCode;

use crate::args::gateway::GatewayArgs;
use crate::target;

/// Prints what points E2B's clients at a gateway, for a shell to evaluate.
pub(crate) fn print_variables(args: &GatewayArgs) -> anyhow::Result<ExitCode> {
    let target = target::find(args)?;
    let url = format!("{}/e2b", target.url.trim_end_matches('/'));
    let variables = [
        ("E2B_API_KEY", target.token.0.as_str()),
        ("E2B_API_URL", &url),
        ("E2B_SANDBOX_URL", &url),
        // Some versions of the clients refuse keys of another form than E2B's.
        ("E2B_VALIDATE_API_KEY", "false"),
    ];
    let mut out = std::io::stdout().lock();
    if args.json {
        let object: serde_json::Map<_, _> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).into()))
            .collect();
        writeln!(out, "{}", serde_json::Value::from(object))?;
    } else {
        for (name, value) in variables {
            writeln!(out, "export {name}={}", quoted(value))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_shell_is_one_word() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
