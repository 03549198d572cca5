//! What every store promises.

use super::*;

pub(crate) async fn a_check_commits_until_the_store_is_closed<P: Fixture>() {
    let place = P::new().await;
    let store = place.open("main").await;
    store.check().await.unwrap();
    store.check().await.unwrap();
    place.close().await;
    assert!(store.check().await.is_err());
}

pub(crate) async fn a_kernel_is_kept_and_changed_and_forgotten<P: Fixture>() {
    let place = P::new().await;
    let store = place.open("main").await;
    store.insert_kernel(kernel(1)).await.unwrap();
    assert_eq!(store.kernel(Uuid::from_u128(1)).await.unwrap(), Some(kernel(1)));
    let error = store.insert_kernel(kernel(1)).await.unwrap_err();
    assert!(
        matches!(error, StoreError::Conflict { what: "kernel", .. }),
        "{error}"
    );

    let cause = Some("signal(9)".to_owned());
    assert!(
        store
            .set_kernel_life(Uuid::from_u128(1), KernelLife::Dead, 3, cause.clone())
            .await
            .unwrap()
    );
    let mut expected = kernel(1);
    (expected.life, expected.incarnation, expected.dead_cause) = (KernelLife::Dead, 3, cause);
    assert_eq!(store.kernels(Scope::Own).await.unwrap(), vec![expected.clone()]);

    expected.paths.sandbox_id = "other".into();
    assert!(store.update_kernel(expected.clone()).await.unwrap());
    place.close().await;
    let store = place.open("main").await;
    assert_eq!(store.take_kernels().await.unwrap().len(), 1);
    assert_eq!(store.kernel(Uuid::from_u128(1)).await.unwrap(), Some(expected));

    assert!(store.delete_kernel(Uuid::from_u128(1)).await.unwrap());
    assert!(!store.delete_kernel(Uuid::from_u128(1)).await.unwrap());
    assert!(!store.update_kernel(kernel(1)).await.unwrap());
    assert!(
        !store
            .set_kernel_life(Uuid::from_u128(1), KernelLife::Live, 1, None)
            .await
            .unwrap()
    );
    assert_eq!(store.kernel(Uuid::from_u128(1)).await.unwrap(), None);
}

pub(crate) async fn a_name_is_one_kernels_and_what_its_owner_may_change_is_kept<P: Fixture>() {
    let place = P::new().await;
    let store = place.open("main").await;
    let mut nameless = kernel(3);
    nameless.name = None;
    for row in [kernel(1), nameless.clone()] {
        store.insert_kernel(row).await.unwrap();
    }
    nameless.id = Uuid::from_u128(4);
    store.insert_kernel(nameless).await.unwrap();
    let mut taken = kernel(2);
    taken.name = kernel(1).name;
    assert!(store.insert_kernel(taken.clone()).await.is_err());
    taken.owner = "another".into();
    store.insert_kernel(taken).await.unwrap();

    let one = Uuid::from_u128(1);
    let terms = serde_json::json!({ "labels": { "a": "b" }, "idle_timeout": null, "expires_micros": 9 });
    assert!(store.amend_session(one, changes(&terms)).await.unwrap());
    let expected = KernelRecord {
        session: serde_json::json!({
            "template": "analysis",
            "start_reason": "another image",
            "sandbox": { "limits": { "memory_bytes": 5 } },
            "labels": { "a": "b" },
            "idle_timeout": null,
            "expires_micros": 9,
            "place": "here",
        }),
        ..kernel(1)
    };
    assert_eq!(store.kernel(one).await.unwrap(), Some(expected));
    let absent = store
        .amend_session(Uuid::from_u128(9), serde_json::Map::new())
        .await;
    assert!(!absent.unwrap());
}

pub(crate) async fn a_kernel_moves_and_keeps_its_log_and_its_terms<P: Fixture>() {
    let place = P::new().await;
    let store = place.open("main").await;
    store.insert_kernel(kernel(1)).await.unwrap();
    let mut moved = kernel(1);
    moved.paths.sandbox_id = "another".into();
    moved.paths.sandbox_key_hash = [9; 32];
    moved.incarnation = 4;
    moved.session["sandbox"] = serde_json::json!({ "isolation": "container" });
    let asked = RuntimePaths {
        session_dir: "elsewhere".into(),
        ..moved.paths.clone()
    };
    let sandbox = serde_json::json!({ "sandbox": { "isolation": "container" } });
    let done = store.move_kernel(moved.id, asked, 4, changes(&sandbox)).await;
    assert!(done.unwrap());
    assert_eq!(store.kernel(moved.id).await.unwrap(), Some(moved));
    let absent = store
        .move_kernel(Uuid::from_u128(2), kernel(2).paths, 1, serde_json::Map::new())
        .await;
    assert!(!absent.unwrap());
}

pub(crate) async fn a_session_is_kept_and_changed_and_forgotten<P: Fixture>() {
    let place = P::new().await;
    let store = place.open("main").await;
    let mut session = JupyterSessionRecord {
        id: Uuid::from_u128(9),
        owner: "operator".into(),
        path: "a/ü b.ipynb".into(),
        name: "b".into(),
        kind: "notebook".into(),
        kernel_id: Uuid::from_u128(1),
        created_micros: -5,
    };
    store.insert_jupyter_session(session.clone()).await.unwrap();
    let again = store.insert_jupyter_session(session.clone()).await.unwrap_err();
    assert!(matches!(again, StoreError::Conflict { .. }));
    session.path = "c.ipynb".into();
    assert!(store.update_jupyter_session(session.clone()).await.unwrap());
    assert_eq!(
        store.jupyter_session(session.id).await.unwrap(),
        Some(session.clone())
    );
    assert_eq!(
        store.jupyter_sessions(Scope::Own).await.unwrap(),
        vec![session.clone()]
    );
    let gone = vec![session.id, Uuid::from_u128(10)];
    assert_eq!(store.delete_jupyter_sessions(gone).await.unwrap(), 1);
    assert!(!store.update_jupyter_session(session).await.unwrap());
}

pub(crate) async fn many_callers_at_once_are_all_served<P: Fixture>() {
    let place = P::new().await;
    let store: Arc<dyn Store> = place.open("main").await;
    let tasks: Vec<_> = (0..500_u128)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                store.insert_kernel(kernel(n)).await.unwrap();
                // Committed before the reply, so any read that starts now sees it.
                assert!(store.kernel(Uuid::from_u128(n)).await.unwrap().is_some());
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(store.kernels(Scope::Own).await.unwrap().len(), 500);
}

pub(crate) async fn a_kernel_that_has_ended_leaves_a_trace_until_it_is_forgotten<P: Fixture>() {
    let place = P::new().await;
    let store = place.open("main").await;
    store.insert_kernel(kernel(1)).await.unwrap();
    store.end_kernel(ended(1)).await.unwrap();
    store.end_kernel(ended(2)).await.unwrap();
    assert_eq!(store.kernel(Uuid::from_u128(1)).await.unwrap(), None);
    assert_eq!(
        store.ended_sessions(Scope::Own).await.unwrap(),
        [ended(1), ended(2)]
    );

    let removed = ["kernels/1".to_owned(), "kernels/none".to_owned()];
    assert_eq!(store.set_removed(removed.to_vec(), 50).await.unwrap(), 1);
    let gone = EndedRecord {
        removed_micros: Some(50),
        facts: serde_json::json!({}),
        ..ended(1)
    };
    assert_eq!(store.ended_sessions(Scope::Own).await.unwrap(), [gone, ended(2)]);
    assert_eq!(store.forget_ended(50).await.unwrap(), 0);
    assert_eq!(store.forget_ended(51).await.unwrap(), 1);
    assert_eq!(store.ended_sessions(Scope::Own).await.unwrap(), [ended(2)]);
}

pub(crate) async fn each_opening_is_an_epoch<P: Fixture>() {
    let place = P::new().await;
    for epoch in 1..=3 {
        let store = place.open("main").await;
        assert_eq!((store.epoch(), store.replica()), (epoch, "main"));
        place.close().await;
        assert!(matches!(store.kernels(Scope::Own).await, Err(StoreError::Closed)));
        let deleted = store.delete_kernel(Uuid::nil()).await;
        assert!(matches!(deleted, Err(StoreError::Closed)));
    }
}

fn owner(replica: &str, epoch: u64) -> Owner {
    let replica = replica.to_owned();
    Owner { replica, epoch }
}

pub(crate) async fn a_kernel_is_its_makers_until_another_replica_takes_it<P: Fixture>() {
    let place = P::new().await;
    let (a, b) = (place.open("a").await, place.open("b").await);
    let id = kernel(1).id;
    assert_eq!(a.owner(id).await.unwrap(), None);
    a.insert_kernel(kernel(1)).await.unwrap();
    for store in [&a, &b] {
        assert_eq!(store.owner(id).await.unwrap(), Some(owner("a", 1)));
    }
    place.expire("a").await;
    assert_eq!(kernels_of(b.take_over(everything()).await.unwrap()), [kernel(1)]);
    assert_eq!(b.owner(id).await.unwrap(), Some(owner("b", 2)));
    let a = place.open("a").await;
    place.expire("b").await;
    assert_eq!(kernels_of(a.take_over(everything()).await.unwrap()), [kernel(1)]);
    assert_eq!(a.owner(id).await.unwrap(), Some(owner("a", 3)));
    // The next process of the same replica takes it too.
    place.close().await;
    let next = place.open("a").await;
    assert_eq!(next.take_kernels().await.unwrap(), [kernel(1)]);
    assert_eq!(next.owner(id).await.unwrap(), Some(owner("a", 4)));
    assert!(next.delete_kernel(id).await.unwrap());
    assert_eq!(next.owner(id).await.unwrap(), None);
}

/// Every write to the kernel of number 1.
async fn writes(store: &dyn Store) -> Vec<Result<bool, StoreError>> {
    let id = kernel(1).id;
    vec![
        store.update_kernel(kernel(1)).await,
        store
            .move_kernel(id, kernel(1).paths, 0, changes(&kernel(1).session))
            .await,
        store.set_kernel_life(id, KernelLife::Starting, 0, None).await,
        store.amend_session(id, changes(&kernel(1).session)).await,
        store.end_kernel(ended(1)).await.map(|()| true),
        store.delete_kernel(id).await,
    ]
}

pub(crate) async fn a_replica_that_lost_a_kernel_writes_nothing_more_to_it<P: Fixture>() {
    let place = P::new().await;
    let (a, b) = (place.open("a").await, place.open("b").await);
    a.insert_kernel(kernel(1)).await.unwrap();
    place.expire("a").await;
    b.take_over(everything()).await.unwrap();
    for written in writes(&*a).await {
        let Err(StoreError::Fenced { held, current, .. }) = written else {
            panic!("{written:?}");
        };
        assert_eq!((held, current), (Some(1), 2));
    }
    assert_eq!(b.kernel(kernel(1).id).await.unwrap(), Some(kernel(1)));
    assert!(b.ended_sessions(Scope::Own).await.unwrap().is_empty());
    // All but the last, which finds that the one before has ended it.
    let written: Vec<bool> = writes(&*b).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(written, [true, true, true, true, true, false]);
    assert!(b.kernels(Scope::Own).await.unwrap().is_empty());
}

pub(crate) async fn who_never_took_a_kernel_writes_nothing_to_it<P: Fixture>() {
    let place = P::new().await;
    let (a, b) = (place.open("a").await, place.open("b").await);
    a.insert_kernel(kernel(1)).await.unwrap();
    for written in writes(&*b).await {
        assert!(
            matches!(written, Err(StoreError::Fenced { held: None, .. })),
            "{written:?}"
        );
    }
    assert_eq!(a.owner(kernel(1).id).await.unwrap(), Some(owner("a", 1)));
}

pub(crate) async fn an_id_that_is_used_again_is_not_the_earlier_kernel<P: Fixture>() {
    let place = P::new().await;
    let (a, b) = (place.open("a").await, place.open("b").await);
    a.insert_kernel(kernel(1)).await.unwrap();
    assert!(a.delete_kernel(kernel(1).id).await.unwrap());
    b.insert_kernel(kernel(1)).await.unwrap();
    assert!(matches!(
        a.delete_kernel(kernel(1).id).await,
        Err(StoreError::Fenced {
            held: None,
            current: 1,
            ..
        })
    ));
}

pub(crate) async fn a_token_is_kept_until_it_is_revoked_or_expires<P: Fixture>() {
    let token = |n: u8, expires_micros| TokenRecord {
        id: Uuid::from_u128(n.into()),
        hash: [n; 32],
        owner: "acme".into(),
        caller: "ci".into(),
        scope: "read".into(),
        description: "nightly \u{fc}".into(),
        created_by: "operator".into(),
        created_micros: n.into(),
        expires_micros,
    };
    let place = P::new().await;
    let store = place.open("main").await;
    for row in [token(2, Some(50)), token(1, None), token(3, Some(51))] {
        store.insert_token(row).await.unwrap();
    }
    let mut other = token(4, None);
    other.hash = [1; 32];
    for taken in [token(1, None), other] {
        let error = store.insert_token(taken).await.unwrap_err();
        assert!(
            matches!(error, StoreError::Conflict { what: "token", .. }),
            "{error}"
        );
    }
    place.close().await;
    let store = place.open("main").await;
    let all = [token(1, None), token(2, Some(50)), token(3, Some(51))];
    assert_eq!(store.tokens().await.unwrap(), all);
    assert_eq!(store.delete_expired_tokens(50).await.unwrap(), 1);
    assert!(store.delete_token(Uuid::from_u128(1)).await.unwrap());
    assert!(!store.delete_token(Uuid::from_u128(1)).await.unwrap());
    assert_eq!(store.tokens().await.unwrap(), [token(3, Some(51))]);
}

pub(crate) async fn a_credential_is_its_owners_and_all_replicas_have_the_latest<P: Fixture>() {
    let row = |owner: &str, name: &str, n: u8| CredentialRecord {
        owner: owner.into(),
        name: name.into(),
        definition: "{\"\u{fc}\"}".into(),
        key_id: "k".into(),
        sealed: vec![n, 0, 255],
        set_by: "operator".into(),
        set_micros: n.into(),
    };
    let place = P::new().await;
    let (a, b) = (place.open("a").await, place.open("b").await);
    let always = PutCredential::Always;
    for record in [row("acme", "x", 1), row("acme", "y", 2), row("other", "x", 3)] {
        assert!(a.put_credential(record, always.clone()).await.unwrap());
    }
    let find = |owners: &[&str], names: &[&str]| {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        b.find_credentials(texts(owners), texts(names))
    };
    assert_eq!(find(&["acme"], &["x", "z"]).await.unwrap(), [row("acme", "x", 1)]);
    assert_eq!(find(&["acme", "other"], &["x"]).await.unwrap().len(), 2);
    assert!(find(&[], &["x"]).await.unwrap().is_empty());
    assert!(
        !a.put_credential(row("acme", "x", 9), PutCredential::Absent)
            .await
            .unwrap()
    );
    let holding = |n: u8| PutCredential::Holding(vec![n, 0, 255]);
    assert!(!a.put_credential(row("acme", "x", 9), holding(2)).await.unwrap());
    assert!(!a.put_credential(row("acme", "z", 9), holding(2)).await.unwrap());
    assert!(a.put_credential(row("acme", "x", 4), holding(1)).await.unwrap());
    assert!(
        a.put_credential(row("", "ca", 5), PutCredential::Absent)
            .await
            .unwrap()
    );
    assert!(a.put_credential(row("acme", "y", 6), always).await.unwrap());
    assert!(a.delete_credential("other".into(), "x".into()).await.unwrap());
    assert!(!a.delete_credential("other".into(), "x".into()).await.unwrap());
    let all = [row("", "ca", 5), row("acme", "x", 4), row("acme", "y", 6)];
    assert_eq!(b.credentials().await.unwrap(), all);
}

pub(crate) async fn what_was_used_adds_up_over_replicas_and_is_forgotten<P: Fixture>() {
    let place = P::new().await;
    let (a, b) = (place.open("a").await, place.open("b").await);
    let row = |owner: &str, caller: &str, n: i64| UsageRecord {
        owner: owner.into(),
        caller: caller.into(),
        cpu_ms: n,
        executions: 2 * n,
        execution_ms: 3 * n,
        network_sent_bytes: 4 * n,
        network_received_bytes: 5 * n,
    };
    a.add_usage(7, vec![row("acme", "", 1), row("acme", "acme/ada", 10)])
        .await
        .unwrap();
    b.add_usage(7, vec![row("other", "", 5), row("acme", "", 100)])
        .await
        .unwrap();
    a.add_usage(8, vec![row("acme", "", 1000)]).await.unwrap();
    a.add_usage(8, Vec::new()).await.unwrap();
    let all = [
        row("acme", "", 101),
        row("acme", "acme/ada", 10),
        row("other", "", 5),
    ];
    for store in [&a, &b] {
        assert_eq!(store.usage(7).await.unwrap(), all);
        assert_eq!(store.usage(8).await.unwrap(), [row("acme", "", 1000)]);
    }
    assert_eq!(a.forget_usage(8).await.unwrap(), 3);
    assert!(b.usage(7).await.unwrap().is_empty());
    assert_eq!(b.usage(8).await.unwrap().len(), 1);
    a.insert_kernel(kernel(1)).await.unwrap();
    b.insert_kernel(kernel(2)).await.unwrap();
    for store in [&a, &b] {
        assert_eq!(store.count_kernels("operator".into()).await.unwrap(), 2);
        assert_eq!(store.count_kernels("acme".into()).await.unwrap(), 0);
    }
}

fn jupyter_session(n: u128) -> JupyterSessionRecord {
    JupyterSessionRecord {
        id: Uuid::from_u128(n),
        owner: "operator".into(),
        path: format!("{n}.ipynb"),
        name: "b".into(),
        kind: "notebook".into(),
        kernel_id: Uuid::from_u128(1),
        created_micros: 5,
    }
}

pub(crate) async fn each_thing_is_found_with_the_replica_that_has_it<P: Fixture>() {
    let place = P::new().await;
    let (a, b) = (place.open("a").await, place.open("b").await);
    a.insert_kernel(kernel(1)).await.unwrap();
    a.end_kernel(ended(2)).await.unwrap();
    a.insert_jupyter_session(jupyter_session(3)).await.unwrap();
    a.set_address("127.0.0.1:9".into()).await.unwrap();
    let (owner, name) = ("operator".to_owned(), "session-1".to_owned());
    let path = "3.ipynb".to_owned();
    for (n, what) in [
        (1, Lookup::Kernel(Uuid::from_u128(1))),
        (
            1,
            Lookup::Name {
                owner: owner.clone(),
                name,
            },
        ),
        (2, Lookup::Ended(Uuid::from_u128(2))),
        (
            2,
            Lookup::EndedName {
                owner: owner.clone(),
                name: "session-2".to_owned(),
            },
        ),
        (3, Lookup::JupyterSession(Uuid::from_u128(3))),
        (
            3,
            Lookup::JupyterPath {
                owner: owner.clone(),
                path,
            },
        ),
    ] {
        for store in [&a, &b] {
            let found = store.locate(what.clone()).await.unwrap().unwrap();
            assert_eq!(
                (found.id, &*found.owner),
                (Uuid::from_u128(n), "operator"),
                "{what:?}"
            );
        }
        let found = a.locate(what).await.unwrap().unwrap().replica;
        assert_eq!(
            (found.address.as_deref(), found.epoch, found.live),
            (Some("127.0.0.1:9"), a.epoch(), true)
        );
    }
    let absent = Lookup::Name {
        owner: "another".into(),
        name: "session-1".into(),
    };
    for what in [
        Lookup::Kernel(Uuid::nil()),
        Lookup::Ended(Uuid::from_u128(1)),
        absent,
    ] {
        assert_eq!(a.locate(what).await.unwrap(), None);
    }
    let removed = a.set_removed(vec!["kernels/2".into()], 5).await;
    assert_eq!(removed.unwrap(), 1);
    assert_eq!(a.locate(Lookup::Ended(Uuid::from_u128(2))).await.unwrap(), None);
    assert!(
        a.replicas()
            .await
            .unwrap()
            .iter()
            .any(|replica| replica.name == "a" && replica.live)
    );
    assert!(a.lease().is_valid());
}

pub(crate) async fn a_version_of_a_skill_is_there_once_and_within_its_owners_quota<P: Fixture>() {
    let row = |owner: &str, name: &str, version: &str, bytes: i64| SkillRecord {
        brief: SkillBrief {
            owner: owner.into(),
            name: name.into(),
            version: version.into(),
            kind: "code".into(),
            description: "d\u{fc}".into(),
            digest: format!("sha256:{version}"),
            bytes,
            published_by: "acme/ada".into(),
            published_micros: bytes,
        },
        manifest: "{\"\u{fc}\"}".into(),
        files: vec![0, 255],
    };
    let quota = SkillQuota {
        versions: 3,
        bytes: 10,
    };
    let place = P::new().await;
    let (a, b) = (place.open("a").await, place.open("b").await);
    for record in [
        row("acme", "x", "1.0.0", 4),
        row("acme", "x", "1.1.0", 3),
        row("other", "x", "1.0.0", 9),
    ] {
        assert_eq!(a.add_skill(record, quota).await.unwrap(), SkillAdded::Added);
    }
    let present = SkillAdded::Present("sha256:1.0.0".into());
    let mut other = row("acme", "x", "1.0.0", 1);
    other.brief.digest = "sha256:other".into();
    assert_eq!(b.add_skill(other, quota).await.unwrap(), present);
    let too_big = row("acme", "y", "1.0.0", 4);
    assert_eq!(b.add_skill(too_big, quota).await.unwrap(), SkillAdded::Full);
    let fits = row("acme", "y", "1.0.0", 3);
    assert_eq!(b.add_skill(fits.clone(), quota).await.unwrap(), SkillAdded::Added);
    let too_many = row("acme", "z", "1.0.0", 0);
    assert_eq!(a.add_skill(too_many, quota).await.unwrap(), SkillAdded::Full);
    let one = |owner: &str, name: &str, version: &str| a.skill(owner.into(), name.into(), version.into());
    assert_eq!(one("acme", "y", "1.0.0").await.unwrap(), Some(fits.clone()));
    assert_eq!(one("other", "y", "1.0.0").await.unwrap(), None);
    let listed = a.skills("acme".into(), None).await.unwrap();
    let briefs =
        [row("acme", "x", "1.0.0", 4), row("acme", "x", "1.1.0", 3), fits].map(|record| record.brief);
    assert_eq!(listed, briefs);
    assert_eq!(
        a.skills("acme".into(), Some("x".into())).await.unwrap(),
        briefs[..2]
    );
    let delete = |name: &str, version: Option<&str>| {
        b.delete_skill("acme".into(), name.into(), version.map(str::to_owned))
    };
    assert_eq!(delete("x", Some("1.1.0")).await.unwrap(), 1);
    assert_eq!(delete("x", Some("1.1.0")).await.unwrap(), 0);
    assert_eq!(delete("x", None).await.unwrap(), 1);
    assert_eq!(a.skills("acme".into(), None).await.unwrap(), briefs[2..]);
    assert_eq!(a.skills("other".into(), None).await.unwrap().len(), 1);
}
