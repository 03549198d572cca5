use himalia_credentials::{GivenSecrets, SecretText};
use himalia_model::credential::{CredentialKeys, ValueSource};
use himalia_store::SqliteStore;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

const OLD: [u8; 32] = [1; 32];
const NEW: [u8; 32] = [2; 32];

struct TestStore {
    dir: TempDir,
    store: Arc<dyn Store>,
}

impl TestStore {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&dir.path().join("x.db"), "a").unwrap();
        Self {
            store: Arc::new(store),
            dir,
        }
    }

    fn open(&self, keys: &[[u8; 32]], configured: Vec<ConfiguredCredential>) -> Credentials {
        // All bytes of a key of these tests are the same.
        let hex = |key: &[u8; 32]| format!("{:02x}", key[0]).repeat(32);
        let lines: Vec<String> = keys.iter().map(hex).collect();
        let settings = CredentialSettings {
            keys: (!keys.is_empty()).then(|| CredentialKeys(lines.join("\n"))),
            configured,
        };
        let metrics = himalia_metrics::Metrics::new();
        let tokens = TokenSettings::new(&EngineConfig::new("/nowhere"), metrics.tokens().clone(), false);
        Credentials::new(self.store.clone(), &settings, Clock::default(), tokens).unwrap()
    }
}

fn definition(value: Value) -> CredentialDefinition {
    serde_json::from_value(value).unwrap()
}

fn bearer() -> CredentialDefinition {
    definition(json!({"kind": "bearer", "hosts": ["api.test"]}))
}

fn value(text: &str) -> CredentialValue {
    let given = GivenSecrets {
        value: Some(SecretText::new(text.to_owned())),
        ..GivenSecrets::default()
    };
    CredentialValue::new(&CredentialKind::Bearer, given).unwrap()
}

async fn found(credentials: &Credentials, owner: &str, name: &str) -> Result<Option<String>, SourceError> {
    let found = credentials.find(owner, &[name.to_owned()]).await?;
    Ok(found.first().map(|one| one.value.value.expose().to_owned()))
}

#[tokio::test]
async fn a_tenant_has_its_own_and_those_of_the_operator_and_no_others() {
    let place = TestStore::new();
    let credentials = place.open(&[OLD], Vec::new());
    for (owner, text) in [("operator", "operators-secret"), ("acme", "secret-of-acme")] {
        credentials
            .set((owner, "api"), bearer(), &value(text), "operator")
            .await
            .unwrap();
    }
    assert_eq!(
        found(&credentials, "acme", "api").await,
        Ok(Some("secret-of-acme".to_owned()))
    );
    assert_eq!(
        found(&credentials, "other", "api").await,
        Ok(Some("operators-secret".to_owned()))
    );
    credentials
        .set(("acme", "own"), bearer(), &value("own-of-acme"), "acme/ada")
        .await
        .unwrap();
    assert_eq!(found(&credentials, "other", "own").await, Ok(None));
    assert_eq!(found(&credentials, "operator", "own").await, Ok(None));
    let listed = credentials.list(Some("acme")).await.unwrap();
    assert_eq!(
        listed.iter().map(|info| info.name.as_str()).collect::<Vec<_>>(),
        ["api", "own"]
    );
    assert_eq!(credentials.list(None).await.unwrap().len(), 3);
    credentials.delete("acme", "api").await.unwrap();
    assert_eq!(
        found(&credentials, "acme", "api").await,
        Ok(Some("operators-secret".to_owned()))
    );
    assert!(credentials.delete("acme", "api").await.is_err());
}

#[tokio::test]
async fn what_was_exchanged_in_the_store_does_not_open() {
    let place = TestStore::new();
    let credentials = place.open(&[OLD], Vec::new());
    credentials
        .set(("acme", "api"), bearer(), &value("secret-of-acme"), "acme/ada")
        .await
        .unwrap();
    let [row] = &place.store.credentials().await.unwrap()[..] else {
        panic!()
    };
    let elsewhere = definition(json!({"kind": "bearer", "hosts": ["evil.test"]}));
    let changed = [
        CredentialRecord {
            owner: "other".to_owned(),
            ..row.clone()
        },
        CredentialRecord {
            name: "api2".to_owned(),
            ..row.clone()
        },
        CredentialRecord {
            definition: serde_json::to_string(&elsewhere).unwrap(),
            ..row.clone()
        },
    ];
    for row in changed {
        let (owner, name) = (row.owner.clone(), row.name.clone());
        place
            .store
            .put_credential(row, PutCredential::Always)
            .await
            .unwrap();
        assert_eq!(found(&credentials, &owner, &name).await, Err(SourceError));
    }
    let text = std::fs::read(place.dir.path().join("x.db-wal")).unwrap();
    assert!(!text.windows(14).any(|part| part == b"secret-of-acme"));
}

#[tokio::test]
async fn a_key_is_exchanged_by_two_starts() {
    let place = TestStore::new();
    let set = place.open(&[OLD], Vec::new());
    set.set(("acme", "api"), bearer(), &value("secret-of-acme"), "acme/ada")
        .await
        .unwrap();
    let authority = set.authority().await.unwrap();
    let both = place.open(&[NEW, OLD], Vec::new());
    both.seal_again().await.unwrap();
    let new = place.open(&[NEW], Vec::new());
    assert_eq!(
        found(&new, "acme", "api").await,
        Ok(Some("secret-of-acme".to_owned()))
    );
    assert_eq!(new.authority().await.unwrap().key, authority.key);
    assert_eq!(found(&set, "acme", "api").await, Err(SourceError));
    // Nothing is lost if the key is missing.
    place.open(&[[3; 32]], Vec::new()).seal_again().await.unwrap();
    assert_eq!(
        found(&new, "acme", "api").await,
        Ok(Some("secret-of-acme".to_owned()))
    );
    let none = place.open(&[], Vec::new());
    assert_eq!(found(&none, "acme", "api").await, Err(SourceError));
    let refused = none
        .set(("acme", "b"), bearer(), &value("12345678"), "x")
        .await
        .unwrap_err();
    assert!(matches!(refused, EngineError::Unsupported { .. }), "{refused}");
}

#[tokio::test]
async fn one_of_the_configuration_is_read_each_time() {
    let place = TestStore::new();
    let file = place.dir.path().join("secret");
    let configured = ConfiguredCredential {
        name: "api".to_owned(),
        owner: "operator".to_owned(),
        definition: bearer(),
        value: Some(ValueSource::File(file.clone())),
        client_secret: None,
        session_token: None,
    };
    let credentials = place.open(&[OLD], vec![configured]);
    assert_eq!(found(&credentials, "acme", "api").await, Err(SourceError));
    for text in ["first-value", "second-value"] {
        std::fs::write(&file, format!("{text}\n")).unwrap();
        assert_eq!(
            found(&credentials, "acme", "api").await,
            Ok(Some(text.to_owned()))
        );
    }
    let refused = credentials
        .set(("operator", "api"), bearer(), &value("12345678"), "operator")
        .await;
    assert!(matches!(refused, Err(EngineError::Conflict { .. })));
    assert!(matches!(
        credentials.delete("operator", "api").await,
        Err(EngineError::Conflict { .. })
    ));
    let [listed] = &credentials.list(None).await.unwrap()[..] else {
        panic!()
    };
    assert_eq!(listed.set_by, None);
}
