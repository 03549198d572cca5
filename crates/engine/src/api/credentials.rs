//! Credentials that sessions use.

use crate::access::Object;
use himalia_model::credential::{CredentialDefinition, CredentialFields, CredentialInfo};
use himalia_model::{Action, EngineError, Principal};
use himalia_session::{CredentialValue, GivenSecrets, GrantAnswer, StartedGrant};
use zeroize::Zeroizing;

use super::Commands;

/// A credential that a caller sets.
#[derive(Clone, Debug)]
pub struct NewCredential {
    /// The tenant that it is for; `None`: that of the caller.
    pub tenant: Option<String>,
    /// What it is.
    pub definition: CredentialFields,
    /// Its secrets.
    pub secrets: GivenSecrets,
}

impl Commands {
    pub(crate) async fn set_credential(
        &self,
        principal: &Principal,
        name: &str,
        new: NewCredential,
    ) -> Result<CredentialInfo, EngineError> {
        self.allow(principal, Action::Create, Object::Credentials)?;
        let owner = self.credential_owner(principal, new.tenant.as_deref())?;
        let definition = CredentialDefinition::try_from(new.definition).map_err(|reason| bad(&reason))?;
        let value = CredentialValue::new(definition.kind(), new.secrets);
        let value = value.map_err(|reason| bad(&reason))?;
        let _room = self.room(&owner, stored_bytes(&definition, &value)?).await?;
        let credentials = &self.inner.credentials;
        credentials
            .set((&owner, name), definition, &value, principal.name())
            .await
    }

    pub(crate) async fn credentials(
        &self,
        principal: &Principal,
        tenant: Option<&str>,
    ) -> Result<Vec<CredentialInfo>, EngineError> {
        self.allow(principal, Action::Read, Object::Credentials)?;
        let owner = match tenant {
            None if principal.is_operator() => None,
            tenant => Some(self.credential_owner(principal, tenant)?),
        };
        self.inner.credentials.list(owner.as_deref()).await
    }

    pub(crate) async fn delete_credential(
        &self,
        principal: &Principal,
        name: &str,
        tenant: Option<&str>,
    ) -> Result<(), EngineError> {
        self.allow(principal, Action::Delete, Object::Credentials)?;
        let owner = self.credential_owner(principal, tenant)?;
        self.inner.credentials.delete(&owner, name).await
    }

    pub(crate) async fn begin_grant(
        &self,
        principal: &Principal,
        name: &str,
        tenant: Option<&str>,
        redirect_uri: &str,
    ) -> Result<StartedGrant, EngineError> {
        self.allow(principal, Action::Create, Object::Credentials)?;
        let owner = self.credential_owner(principal, tenant)?;
        let credentials = &self.inner.credentials;
        credentials
            .begin_grant(&owner, name, principal.name(), redirect_uri)
            .await
    }

    pub(crate) async fn finish_grant(
        &self,
        principal: &Principal,
        answer: GrantAnswer,
    ) -> Result<CredentialInfo, EngineError> {
        self.allow(principal, Action::Create, Object::Credentials)?;
        let credentials = &self.inner.credentials;
        // Of a tenant that the principal may not manage, no matter who began it.
        let owner = credentials.owner_of_grant(&answer.state)?;
        self.credential_owner(principal, Some(&owner))?;
        credentials.finish_grant(principal.name(), answer).await
    }

    pub(crate) async fn end_grant(
        &self,
        principal: &Principal,
        name: &str,
        tenant: Option<&str>,
    ) -> Result<(), EngineError> {
        self.allow(principal, Action::Delete, Object::Credentials)?;
        let owner = self.credential_owner(principal, tenant)?;
        self.inner.credentials.end_grant(&owner, name).await
    }

    /// Whose it is: the caller's tenant, or the operator chooses one.
    fn credential_owner(&self, principal: &Principal, tenant: Option<&str>) -> Result<String, EngineError> {
        match tenant {
            None => Ok(principal.owner().to_owned()),
            Some(tenant) if tenant == principal.owner() => Ok(tenant.to_owned()),
            // The same for a tenant that there is and for one that there is not.
            Some(_) if !principal.is_operator() => Err(EngineError::Forbidden {
                action: "manage credentials of another tenant",
            }),
            Some(tenant) if self.inner.config.tenants.contains_key(tenant) => Ok(tenant.to_owned()),
            Some(_) => Err(EngineError::bad_request("tenant", "names no tenant in [tenants]")),
        }
    }
}

/// Bytes of a credential in the database, but for those that sealing adds.
fn stored_bytes(definition: &CredentialDefinition, value: &CredentialValue) -> Result<usize, EngineError> {
    let not_written = |error| EngineError::internal("cannot write a credential", error);
    let definition = serde_json::to_vec(definition).map_err(not_written)?;
    let value = Zeroizing::new(serde_json::to_vec(value).map_err(not_written)?);
    Ok(definition.len().saturating_add(value.len()))
}

/// A reason that begins with the name of its member.
fn bad(reason: &str) -> EngineError {
    const MEMBERS: [&str; 20] = [
        "kind",
        "hosts",
        "base_url",
        "header",
        "prefix",
        "parameter",
        "user",
        "access_key",
        "region",
        "service",
        "value",
        "session_token",
        "grant",
        "issuer",
        "resource",
        "authorization_url",
        "token_url",
        "client_id",
        "scope",
        "client_secret",
    ];
    let (member, rest) = reason.split_once(": ").unwrap_or(("", reason));
    let field = MEMBERS.into_iter().find(|known| *known == member);
    EngineError::bad_request(field.unwrap_or("credential"), rest)
}
