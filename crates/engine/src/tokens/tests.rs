use std::sync::atomic::{AtomicU64, Ordering};

use himalia_model::TimeSource;
use himalia_store::SqliteStore;
use tempfile::TempDir;

use super::*;

/// A clock that a test sets.
#[derive(Debug)]
struct Manual(AtomicU64);

impl TimeSource for Manual {
    fn wall_micros(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn boot_micros(&self) -> u64 {
        self.wall_micros()
    }
}

struct Fixture {
    dir: TempDir,
    time: Arc<Manual>,
    stop: CancellationToken,
    store: Option<Arc<dyn Store>>,
}

impl Fixture {
    fn new() -> Self {
        Self {
            dir: TempDir::new().unwrap(),
            time: Arc::new(Manual(AtomicU64::new(1_000_000_000))),
            stop: CancellationToken::new(),
            store: None,
        }
    }

    /// Opens the tokens of the store, which an earlier opening has closed.
    async fn open(&mut self, tenants: &[&str]) -> AccessTokens {
        if let Some(store) = self.store.take() {
            store.close().await.unwrap();
        }
        let store: Arc<dyn Store> =
            Arc::new(SqliteStore::open(&self.dir.path().join("himalia.db"), "main").unwrap());
        self.store = Some(Arc::clone(&store));
        let tenants = tenants.iter().map(|name| (*name).to_owned()).collect();
        let clock = Clock::of(Arc::clone(&self.time) as Arc<dyn TimeSource>);
        AccessTokens::open(store, tenants, clock, self.stop.clone())
            .await
            .unwrap()
    }

    fn pass(&self, seconds: u64) {
        self.time.0.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
    }
}

fn new(tenant: Option<&str>, scope: Scope) -> NewToken {
    NewToken {
        tenant: tenant.map(str::to_owned),
        caller: "ci".to_owned(),
        scope,
        description: "nightly".to_owned(),
        lifetime: None,
    }
}

fn lasting(seconds: u64) -> NewToken {
    NewToken {
        lifetime: Some(Duration::from_secs(seconds)),
        ..new(None, Scope::Read)
    }
}

fn found(tokens: &AccessTokens, text: &str) -> Option<Principal> {
    let issued = tokens.issued();
    let now = tokens.clock.stored_micros();
    issued
        .borrow()
        .find(&hash(text), now)
        .map(|(_, holder)| holder.clone())
}

#[tokio::test]
async fn a_token_counts_until_it_is_revoked_and_outlives_the_process() {
    let mut fixture = Fixture::new();
    let tokens = fixture.open(&["acme"]).await;
    let (made, text) = tokens
        .create(&Principal::operator(), new(Some("acme"), Scope::Read))
        .await
        .unwrap();
    assert_eq!(text.len(), TOKEN_PREFIX.len() + 64);
    assert!(text.starts_with(TOKEN_PREFIX) && text == text.to_lowercase());
    let holder = Principal::of_tenant("acme", "ci").unwrap().read_only();
    assert_eq!(found(&tokens, &text), Some(holder.clone()));
    assert_eq!(found(&tokens, &text[..text.len() - 1]), None);
    let file = std::fs::read(fixture.dir.path().join("himalia.db-wal")).unwrap();
    let secret = text.strip_prefix(TOKEN_PREFIX).unwrap();
    assert!(
        !file.windows(64).any(|part| part == secret.as_bytes()),
        "only its hash is kept"
    );

    let tokens = fixture.open(&["acme"]).await;
    assert_eq!(found(&tokens, &text), Some(holder));
    assert_eq!(tokens.list(&Principal::operator()), std::slice::from_ref(&made));
    let mut changes = tokens.issued();
    changes.mark_unchanged();
    tokens.revoke(&Principal::operator(), made.id).await.unwrap();
    assert!(changes.has_changed().unwrap());
    assert_eq!(found(&tokens, &text), None);
    let again = tokens.revoke(&Principal::operator(), made.id).await;
    assert!(matches!(again, Err(EngineError::NotFound { .. })), "{again:?}");

    let tokens = fixture.open(&["acme"]).await;
    assert_eq!(found(&tokens, &text), None);
}

#[tokio::test]
async fn nothing_wider_than_its_maker_is_made() {
    let mut fixture = Fixture::new();
    let tokens = fixture.open(&["acme", "other"]).await;
    let admin = Principal::of_tenant("acme", "ada")
        .unwrap()
        .with_scope(Scope::Admin);
    let (made, text) = tokens.create(&admin, new(None, Scope::Admin)).await.unwrap();
    assert_eq!(
        (made.owner.as_str(), made.created_by.as_str()),
        ("acme", "acme/ada")
    );
    assert!(!found(&tokens, &text).unwrap().is_operator());
    tokens
        .create(&admin, new(Some("acme"), Scope::Read))
        .await
        .unwrap();
    for tenant in ["other", "operator", "unknown"] {
        let refused = tokens.create(&admin, new(Some(tenant), Scope::Read)).await;
        assert!(
            matches!(refused, Err(EngineError::Forbidden { .. })),
            "{tenant}: {refused:?}"
        );
    }
    let executes = admin.clone().with_scope(Scope::Execute);
    let refused = tokens.create(&executes, new(None, Scope::Admin)).await;
    assert!(
        matches!(refused, Err(EngineError::Forbidden { .. })),
        "{refused:?}"
    );
    let operator = Principal::operator();
    let refused = tokens.create(&operator, new(Some("unknown"), Scope::Read)).await;
    assert!(matches!(
        refused,
        Err(EngineError::BadRequest { field: "tenant", .. })
    ));
    let (own, text) = tokens.create(&operator, new(None, Scope::Read)).await.unwrap();
    let holder = found(&tokens, &text).unwrap();
    assert_eq!((own.owner.as_str(), holder.name()), ("operator", "operator/ci"));
    assert!(holder.is_operator() && holder.is_read_only());

    // A tenant sees and revokes its own alone.
    assert_eq!(tokens.list(&admin).len(), 2);
    assert_eq!(tokens.list(&operator).len(), 3);
    let foreign = tokens.revoke(&admin, own.id).await.unwrap_err();
    let unknown = tokens.revoke(&admin, Uuid::nil()).await.unwrap_err();
    assert_eq!(
        foreign.to_string().replace(&own.id.to_string(), ""),
        unknown.to_string().replace(&Uuid::nil().to_string(), "")
    );
}

#[tokio::test]
async fn a_token_expires_and_makes_none_that_lasts_longer() {
    let mut fixture = Fixture::new();
    let tokens = fixture.open(&[]).await;
    let operator = Principal::operator();
    let (made, text) = tokens
        .create(
            &operator,
            NewToken {
                scope: Scope::Admin,
                ..lasting(100)
            },
        )
        .await
        .unwrap();
    let holder = found(&tokens, &text).unwrap();
    let longer = tokens.create(&holder, lasting(101)).await;
    assert!(matches!(
        longer,
        Err(EngineError::BadRequest {
            field: "expires_in_s",
            ..
        })
    ));
    let (child, _) = tokens.create(&holder, new(None, Scope::Read)).await.unwrap();
    assert_eq!(child.expires, made.expires);
    fixture.pass(99);
    assert!(found(&tokens, &text).is_some());
    fixture.pass(1);
    // At once, before anything has removed it.
    assert_eq!(found(&tokens, &text), None);
    assert!(tokens.list(&operator).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_expiry_is_published_by_itself() {
    let mut fixture = Fixture::new();
    let tokens = fixture.open(&[]).await;
    tokens.create(&Principal::operator(), lasting(100)).await.unwrap();
    let mut changes = tokens.issued();
    changes.mark_unchanged();
    fixture.pass(100);
    changes.changed().await.unwrap();
    assert_eq!(changes.borrow().count(|_| true), 0);
    // After that, its row is removed.
    while !fixture.store.as_ref().unwrap().tokens().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_tenant_that_is_gone_has_no_tokens() {
    let mut fixture = Fixture::new();
    let tokens = fixture.open(&["acme"]).await;
    let operator = Principal::operator();
    let (_, text) = tokens
        .create(&operator, new(Some("acme"), Scope::Execute))
        .await
        .unwrap();
    assert!(found(&tokens, &text).is_some());
    let tokens = fixture.open(&[]).await;
    assert_eq!(found(&tokens, &text), None);
    let tokens = fixture.open(&["acme"]).await;
    assert!(found(&tokens, &text).is_some(), "it was not removed");
}

#[tokio::test]
async fn what_is_asked_for_has_bounds() {
    let mut fixture = Fixture::new();
    let tokens = fixture.open(&[]).await;
    let operator = Principal::operator();
    let described = |text: &str| NewToken {
        description: text.to_owned(),
        ..new(None, Scope::Read)
    };
    let most = "\u{fc}".repeat(MAX_DESCRIPTION_CHARS);
    tokens.create(&operator, described(&most)).await.unwrap();
    for (field, bad) in [
        ("description", described(&format!("{most}x"))),
        ("description", described("a\nb")),
        ("description", described("a\u{202e}b")),
        ("expires_in_s", lasting(0)),
        ("expires_in_s", lasting(MAX_TOKEN_LIFETIME.as_secs() + 1)),
        (
            "caller",
            NewToken {
                caller: "operator".to_owned(),
                ..lasting(1)
            },
        ),
        (
            "caller",
            NewToken {
                caller: "a/b".to_owned(),
                ..lasting(1)
            },
        ),
    ] {
        let refused = tokens.create(&operator, bad).await;
        assert!(
            matches!(&refused, Err(EngineError::BadRequest { field: at, .. }) if *at == field),
            "{field}: {refused:?}"
        );
    }
}

#[tokio::test]
async fn an_owner_has_so_many_and_leaves_others_theirs() {
    let mut fixture = Fixture::new();
    let tokens = fixture.open(&["acme"]).await;
    let admin = Principal::of_tenant("acme", "ada")
        .unwrap()
        .with_scope(Scope::Admin);
    for _ in 0..MAX_TOKENS_OF_OWNER {
        tokens.create(&admin, new(None, Scope::Read)).await.unwrap();
    }
    let refused = tokens.create(&admin, new(None, Scope::Read)).await;
    assert!(
        matches!(refused, Err(EngineError::Conflict { .. })),
        "{refused:?}"
    );
    tokens
        .create(&Principal::operator(), new(None, Scope::Read))
        .await
        .unwrap();
    let id = tokens.list(&admin)[0].id;
    tokens.revoke(&admin, id).await.unwrap();
    tokens.create(&admin, new(None, Scope::Read)).await.unwrap();
}

fn person(caller: &str) -> NewToken {
    NewToken {
        caller: caller.to_owned(),
        lifetime: Some(Duration::from_hours(1)),
        ..new(Some("acme"), Scope::Execute)
    }
}

#[tokio::test]
async fn a_sign_in_is_a_token_that_the_person_ends() {
    let mut fixture = Fixture::new();
    let tokens = fixture.open(&["acme"]).await;
    let (made, text) = tokens.sign_in(person("ada")).await.unwrap();
    assert_eq!((&*made.created_by, &*made.owner), ("oidc", "acme"));
    // Those of one moment are in the order of their ids.
    fixture.pass(1);
    let (ci, other) = tokens
        .create(&Principal::operator(), new(Some("acme"), Scope::Read))
        .await
        .unwrap();
    // Only a sign-in ends by its own text.
    tokens.sign_out(&hash(&other)).await.unwrap();
    tokens.sign_out(&hash("unknown")).await.unwrap();
    assert_eq!(tokens.list(&Principal::operator()), [made, ci]);
    tokens.sign_out(&hash(&text)).await.unwrap();
    assert_eq!(found(&tokens, &text), None);
    assert!(found(&tokens, &other).is_some());
    let (_, text) = tokens.sign_in(person("ada")).await.unwrap();
    fixture.pass(3600);
    assert_eq!(found(&tokens, &text), None);
    let unknown = NewToken {
        tenant: Some("other".to_owned()),
        ..person("ada")
    };
    assert!(tokens.sign_in(unknown).await.is_err());
}

#[tokio::test]
async fn the_oldest_sign_in_of_a_person_makes_room_and_tokens_are_not_counted() {
    let mut fixture = Fixture::new();
    let tokens = fixture.open(&["acme"]).await;
    let (_, bob) = tokens.sign_in(person("bob")).await.unwrap();
    let (_, token) = tokens
        .create(&Principal::operator(), new(Some("acme"), Scope::Read))
        .await
        .unwrap();
    let mut texts = Vec::new();
    for _ in 0..=MAX_SIGN_INS_OF_PERSON {
        fixture.pass(1);
        texts.push(tokens.sign_in(person("ada")).await.unwrap().1);
    }
    assert_eq!(found(&tokens, &texts[0]), None);
    for text in texts.iter().skip(1).chain([&bob, &token]) {
        assert!(found(&tokens, text).is_some());
    }
}
