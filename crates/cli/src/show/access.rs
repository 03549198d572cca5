//! Access tokens, credentials, and tools that are approved always.

use serde_json::Value;

use super::table::{Column, clean, listed, since, word};

/// A table of access tokens.
pub(crate) fn tokens(tokens: &[Value]) -> String {
    listed(tokens, &TOKENS, "no tokens")
}

/// Description of a new access token, without its secret.
pub(crate) fn created_token(token: &Value) -> String {
    format!(
        "token {} of {}/{}, scope {}, expires: {}; it is not shown again\n",
        word(token, "id"),
        word(token, "owner"),
        word(token, "caller"),
        word(token, "scope"),
        expires(token)
    )
}

fn expires(token: &Value) -> String {
    match token["expires"].as_str() {
        Some(date) => clean(date),
        None => "never".to_owned(),
    }
}

/// A table of tools that are approved for later sessions.
pub(crate) fn approvals(approvals: &[Value]) -> String {
    listed(approvals, &APPROVALS, "no approvals")
}

/// A table of credentials.
pub(crate) fn credentials(credentials: &[Value]) -> String {
    listed(credentials, &CREDENTIALS, "no credentials")
}

/// Description of a new grant.
pub(crate) fn granted(credential: &Value) -> String {
    let (name, tokens) = (word(credential, "name"), &credential["tokens"]);
    if let Some(problem) = tokens["problem"].as_str() {
        return format!("{name}: {}\n", clean(problem));
    }
    let scope = tokens["scope"].as_str();
    let scope = scope.map_or_else(String::new, |scope| format!(" with the scopes {}", clean(scope)));
    let expires = tokens["expires"].as_str().map_or_else(String::new, |expires| {
        format!(
            "; the first token is good until {}, and is replaced before",
            clean(expires)
        )
    });
    format!("{name} is granted{scope}{expires}\n")
}

const TOKENS: [Column; 8] = [
    ("ID", |token| word(token, "id")),
    ("OWNER", |token| word(token, "owner")),
    ("CALLER", |token| word(token, "caller")),
    ("SCOPE", |token| word(token, "scope")),
    ("AGE", |token| since(&token["created"])),
    ("EXPIRES", expires),
    ("CREATED BY", |token| word(token, "created_by")),
    ("DESCRIPTION", |token| word(token, "description")),
];

const APPROVALS: [Column; 7] = [
    ("ID", |approval| word(approval, "id")),
    ("OWNER", |approval| word(approval, "owner")),
    ("CALLER", |approval| word(approval, "caller")),
    ("TEMPLATE", |approval| word(approval, "template")),
    ("TOOL", |approval| word(approval, "tool")),
    ("AGE", |approval| since(&approval["approved"])),
    ("APPROVED BY", |approval| word(approval, "approved_by")),
];

const CREDENTIALS: [Column; 7] = [
    ("NAME", |credential| word(credential, "name")),
    ("OWNER", |credential| word(credential, "owner")),
    ("KIND", |credential| word(credential, "kind")),
    ("HOSTS", |credential| {
        let hosts = credential["hosts"].as_array().into_iter().flatten();
        let hosts: Vec<&str> = hosts.filter_map(Value::as_str).collect();
        clean(&hosts.join(","))
    }),
    ("SET BY", |credential| match credential["set_by"].as_str() {
        Some(by) => clean(by),
        None => "configuration".to_owned(),
    }),
    ("AGE", |credential| since(&credential["set"])),
    ("TOKENS", |credential| word(&credential["tokens"], "state")),
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_token_is_shown_without_its_secret() {
        let one = json!({"token": "himalia_canary", "id": "6f96", "owner": "acme", "caller": "ci", "scope": "read",
            "created": "", "expires": null, "created_by": "operator", "description": "x\u{1b}[31m"});
        let listed = tokens(std::slice::from_ref(&one));
        let row = listed.lines().nth(1).unwrap();
        assert_eq!(
            row, "6f96  acme   ci      read   -    never    operator    x[31m",
            "{listed}"
        );
        let said = created_token(&one);
        assert_eq!(
            said,
            "token 6f96 of acme/ci, scope read, expires: never; it is not shown again\n"
        );
        assert_eq!(tokens(&[]), "no tokens\n");
    }
}
