//! Values of credentials that the configuration names.

use himalia_credentials::{Credential, CredentialValue, GivenSecrets, SecretText, SourceError};
use himalia_model::credential::{ConfiguredCredential, ValueSource};
use zeroize::Zeroizing;

/// Reads a credential, as its value is now.
pub(super) fn read(one: &ConfiguredCredential) -> Result<Credential, SourceError> {
    let value = value(one).map_err(|reason| {
        tracing::error!(owner = one.owner, name = one.name, "credentials: {reason}");
        SourceError
    })?;
    Ok(Credential::new(one.name.clone(), one.definition.clone(), value))
}

/// Reads the value of a credential.
///
/// # Errors
/// What is wrong, without a part of the value.
pub(super) fn value(one: &ConfiguredCredential) -> Result<CredentialValue, String> {
    let read = |source: &Option<ValueSource>| source.as_ref().map(text).transpose();
    let given = GivenSecrets {
        value: read(&one.value)?,
        session_token: read(&one.session_token)?,
        client_secret: read(&one.client_secret)?,
    };
    CredentialValue::new(one.definition.kind(), given)
}

fn text(source: &ValueSource) -> Result<SecretText, String> {
    match source {
        ValueSource::File(path) => {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let text = Zeroizing::new(text);
            Ok(SecretText::new(text.trim_end_matches(['\r', '\n']).to_owned()))
        }
        ValueSource::Variable(name) => std::env::var(name)
            .map(SecretText::new)
            .map_err(|_| format!("the variable {name} is not set")),
    }
}
