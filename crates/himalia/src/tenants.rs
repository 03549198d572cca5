//! The tokens of all callers: the gateway's own and those of tenants.

use anyhow::{Context as _, bail};
use himalia_http::Tokens;

use crate::config::{Config, TenantToken, Tenants};
use crate::token::{self, Token};

/// All tokens as the configuration and its files say now; the operator's also as such.
pub(crate) fn read(config: &Config) -> anyhow::Result<(Token, Tokens)> {
    let token = token::obtain(&config.token, &config.data_dir)?;
    if !config.listen.ip().to_canonical().is_loopback()
        && let Err(reason) = token::check_strength(&token.text.0)
    {
        bail!(
            "token: {} can be reached from other machines, and the token {reason}",
            config.listen
        );
    }
    let tokens = tokens(&token, &config.tenants)?;
    Ok((token, tokens))
}

/// Reads the files of tokens and puts all together. An error names the key, and no token.
fn tokens(operator: &Token, tenants: &Tenants) -> anyhow::Result<Tokens> {
    let mut tokens = Tokens::new(himalia_http::Token::new(&operator.text.0));
    for caller in &tenants.callers {
        let key = &caller.key;
        let token = match &caller.token {
            TenantToken::Text(text) => himalia_http::Token::new(&text.0),
            TenantToken::Digest(digest) => himalia_http::Token::of_digest(*digest),
            TenantToken::File(path) => {
                let text = token::read(path).with_context(|| key.clone())?;
                if let Err(reason) = token::check_strength(&text.0) {
                    bail!("{key}: the token in {} {reason}", path.display());
                }
                himalia_http::Token::new(&text.0)
            }
        };
        if let Err(other) = tokens.add(token, caller.principal.clone()) {
            bail!("{key}: is the token of {}, too", other.name());
        }
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use himalia_engine::Principal;

    use super::*;
    use crate::config::TenantCaller;
    use crate::settings::Secret;
    use crate::token::Origin;

    const OPERATORS: &str = "0123456789abcdef-canary";

    fn caller(name: &str, token: TenantToken) -> TenantCaller {
        TenantCaller {
            key: format!("tenants.acme.tokens.{name}"),
            principal: Principal::of_tenant("acme", name).unwrap(),
            token,
        }
    }

    fn put(callers: Vec<TenantCaller>) -> Result<Tokens, String> {
        let operator = Token {
            text: Secret(OPERATORS.into()),
            origin: Origin::Given,
        };
        let tenants = Tenants {
            limits: BTreeMap::new(),
            callers,
        };
        tokens(&operator, &tenants).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_token_is_one_callers() {
        let text = |text: &str| TenantToken::Text(Secret(text.into()));
        let other = "fedcba9876543210-canary";
        assert!(put(vec![caller("ada", text(other))]).is_ok());
        let said = put(vec![caller("ada", text(OPERATORS))]).unwrap_err();
        assert_eq!(said, "tenants.acme.tokens.ada: is the token of operator, too");
        let said = put(vec![caller("ada", text(other)), caller("bob", text(other))]).unwrap_err();
        assert_eq!(said, "tenants.acme.tokens.bob: is the token of acme/ada, too");
    }

    #[test]
    fn files_are_read_and_checked() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            TenantToken::File(path)
        };
        assert!(put(vec![caller("ada", file("good", "fedcba9876543210-canary\n"))]).is_ok());
        for (name, text) in [("empty", ""), ("short", "canary"), ("same", OPERATORS)] {
            let said = put(vec![caller("ada", file(name, text))]).unwrap_err();
            assert!(said.starts_with("tenants.acme.tokens.ada"), "{said}");
            assert!(!said.contains("canary"), "{said}");
        }
        let missing = TenantToken::File(dir.path().join("missing"));
        assert!(put(vec![caller("ada", missing)]).is_err());
    }
}
