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
        tool_calls: 6 * n,
        model_input_tokens: 7 * n,
        model_output_tokens: 8 * n,
        model_spend_nanos: 9 * n,
        returned_chars: 10 * n,
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

pub(crate) async fn a_tool_is_approved_for_its_sessions_alone_and_once<P: Fixture>() {
    let row = |owner: &str, caller: &str, template: &str, tool: &str| ToolApprovalRecord {
        id: Uuid::new_v4(),
        owner: owner.into(),
        caller: caller.into(),
        template: template.into(),
        tool: tool.into(),
        definition: "1".into(),
        approved_by: "acme/boss".into(),
        approved_micros: 7,
    };
    let place = P::new().await;
    let (a, b) = (place.open("a").await, place.open("b").await);
    let first = row("acme", "ada", "tools", "orders.delete");
    let added = a.add_tool_approval(first.clone(), 2).await.unwrap();
    assert_eq!(added, ToolApprovalAdded::Added);
    let again = row("acme", "ada", "tools", "orders.delete");
    let added = b.add_tool_approval(again, 2).await.unwrap();
    assert_eq!(added, ToolApprovalAdded::Present);
    let has = |owner: &str, caller: &str, template: &str, tool: &str| {
        b.has_tool_approval(
            owner.into(),
            caller.into(),
            template.into(),
            tool.into(),
            "1".into(),
        )
    };
    assert!(has("acme", "ada", "tools", "orders.delete").await.unwrap());
    for (owner, caller, template, tool) in [
        ("other", "ada", "tools", "orders.delete"),
        ("acme", "eve", "tools", "orders.delete"),
        ("acme", "ada", "python3", "orders.delete"),
        ("acme", "ada", "tools", "orders.create"),
    ] {
        assert!(
            !has(owner, caller, template, tool).await.unwrap(),
            "{owner} {caller}"
        );
    }
    let second = row("acme", "eve", "tools", "orders.delete");
    let added = a.add_tool_approval(second.clone(), 2).await.unwrap();
    assert_eq!(added, ToolApprovalAdded::Added);
    let third = row("acme", "ada", "tools", "orders.create");
    let added = a.add_tool_approval(third, 2).await.unwrap();
    assert_eq!(added, ToolApprovalAdded::Full);
    let foreign = row("other", "x", "tools", "orders.create");
    let added = a.add_tool_approval(foreign.clone(), 2).await.unwrap();
    assert_eq!(added, ToolApprovalAdded::Added);
    let listed = b.tool_approvals(Some("acme".into())).await.unwrap();
    assert_eq!(listed, [first.clone(), second.clone()]);
    assert_eq!(b.tool_approvals(None).await.unwrap().len(), 3);
    // Another definition is not approved; when it is, the first one no longer is.
    let changed = |definition: &str| {
        let [owner, caller, template, tool] = ["acme", "eve", "tools", "orders.delete"].map(str::to_owned);
        b.has_tool_approval(owner, caller, template, tool, definition.into())
    };
    assert!(changed("1").await.unwrap() && !changed("2").await.unwrap());
    let mut second = second;
    (second.id, second.definition) = (Uuid::new_v4(), "2".to_owned());
    let added = a.add_tool_approval(second.clone(), 2).await.unwrap();
    assert_eq!(added, ToolApprovalAdded::Added);
    assert!(!changed("1").await.unwrap() && changed("2").await.unwrap());
    let delete = |owner: Option<&str>, id: Uuid| b.delete_tool_approval(owner.map(str::to_owned), id);
    assert!(!delete(Some("acme"), foreign.id).await.unwrap());
    assert!(delete(Some("acme"), first.id).await.unwrap());
    assert!(!delete(Some("acme"), first.id).await.unwrap());
    assert!(!has("acme", "ada", "tools", "orders.delete").await.unwrap());
    assert!(delete(None, foreign.id).await.unwrap());
    assert_eq!(a.tool_approvals(None).await.unwrap(), [second]);
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
    let quota = VersionQuota {
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
        assert_eq!(a.add_skill(record, quota).await.unwrap(), VersionAdded::Added);
    }
    let present = VersionAdded::Present("sha256:1.0.0".into());
    let mut other = row("acme", "x", "1.0.0", 1);
    other.brief.digest = "sha256:other".into();
    assert_eq!(b.add_skill(other, quota).await.unwrap(), present);
    let too_big = row("acme", "y", "1.0.0", 4);
    assert_eq!(b.add_skill(too_big, quota).await.unwrap(), VersionAdded::Full);
    let fits = row("acme", "y", "1.0.0", 3);
    assert_eq!(
        b.add_skill(fits.clone(), quota).await.unwrap(),
        VersionAdded::Added
    );
    let too_many = row("acme", "z", "1.0.0", 0);
    assert_eq!(a.add_skill(too_many, quota).await.unwrap(), VersionAdded::Full);
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

pub(crate) async fn a_workflow_is_there_once_and_within_its_owners_quota<P: Fixture>() {
    let row = |owner: &str, name: &str, version: &str, bytes: i64| WorkflowRecord {
        brief: WorkflowBrief {
            owner: owner.into(),
            name: name.into(),
            version: version.into(),
            description: "d\u{fc}".into(),
            digest: format!("sha256:{version}"),
            bytes,
            published_by: "acme/ada".into(),
            published_micros: bytes,
        },
        definition: "{\"\u{fc}\"}".into(),
    };
    let quota = VersionQuota {
        versions: 2,
        bytes: 10,
    };
    let place = P::new().await;
    let (a, b) = (place.open("a").await, place.open("b").await);
    for record in [row("acme", "x", "1.0.0", 4), row("other", "x", "1.0.0", 9)] {
        assert_eq!(a.add_workflow(record, quota).await.unwrap(), VersionAdded::Added);
    }
    let mut other = row("acme", "x", "1.0.0", 1);
    other.brief.digest = "sha256:other".into();
    let present = VersionAdded::Present("sha256:1.0.0".into());
    assert_eq!(b.add_workflow(other, quota).await.unwrap(), present);
    let too_big = row("acme", "y", "1.0.0", 7);
    assert_eq!(b.add_workflow(too_big, quota).await.unwrap(), VersionAdded::Full);
    let fits = row("acme", "y", "1.0.0", 6);
    assert_eq!(
        b.add_workflow(fits.clone(), quota).await.unwrap(),
        VersionAdded::Added
    );
    let too_many = row("acme", "z", "1.0.0", 0);
    assert_eq!(a.add_workflow(too_many, quota).await.unwrap(), VersionAdded::Full);
    let one = |owner: &str, name: &str| a.workflow(owner.into(), name.into(), "1.0.0".into());
    assert_eq!(one("acme", "y").await.unwrap(), Some(fits.clone()));
    assert_eq!(one("other", "y").await.unwrap(), None);
    let listed = a.workflows("acme".into(), None).await.unwrap();
    assert_eq!(listed, [row("acme", "x", "1.0.0", 4).brief, fits.brief]);
    assert_eq!(
        a.workflows("acme".into(), Some("y".into())).await.unwrap().len(),
        1
    );
    let delete = |name: &str, version: Option<&str>| {
        b.delete_workflow("acme".into(), name.into(), version.map(str::to_owned))
    };
    assert_eq!(delete("x", Some("2.0.0")).await.unwrap(), 0);
    assert_eq!(delete("x", None).await.unwrap(), 1);
    assert_eq!(a.workflows("other".into(), None).await.unwrap().len(), 1);
}

pub(crate) async fn publish_workflow(store: &dyn Store, owner: &str) {
    let brief = WorkflowBrief {
        owner: owner.into(),
        name: "monthly".into(),
        version: "1.0.0".into(),
        description: "d".into(),
        digest: "sha256:x".into(),
        bytes: 2,
        published_by: "acme/ada".into(),
        published_micros: 1,
    };
    let record = WorkflowRecord {
        brief,
        definition: "{}".into(),
    };
    let quota = VersionQuota {
        versions: 9,
        bytes: 99,
    };
    assert_eq!(
        store.add_workflow(record, quota).await.unwrap(),
        VersionAdded::Added
    );
}

pub(crate) fn workflow_run(
    id: &str,
    owner: &str,
    created_micros: i64,
    key: Option<&str>,
) -> WorkflowRunRecord {
    WorkflowRunRecord {
        brief: WorkflowRunBrief {
            id: id.into(),
            owner: owner.into(),
            workflow: "monthly".into(),
            version: "1.0.0".into(),
            digest: "sha256:x".into(),
            status: RUNNING.into(),
            error: None,
            started_by: "acme/ada".into(),
            cancelled_by: None,
            created_micros,
            ended_micros: None,
        },
        principal: "{\"\u{fc}\": 1}".into(),
        start_key: key.map(str::to_owned),
        start_print: format!("print of {id}"),
        inputs: "{\"month\": \"\\u0000\"}".into(),
        outputs: None,
    }
}

pub(crate) fn workflow_step(step: &str, item: i64, status: &str) -> WorkflowStepRecord {
    WorkflowStepRecord {
        step: step.into(),
        item,
        attempt: 1,
        status: status.into(),
        outputs: None,
        error: None,
        session: None,
        execution: None,
        answer: None,
        answered_by: None,
        due_micros: Some(item),
        begun_micros: None,
        ended_micros: None,
        prompt: None,
    }
}

/// A step that begins to wait for a person.
fn asking_step(step: &str, begun_micros: i64) -> WorkflowStepRecord {
    WorkflowStepRecord {
        begun_micros: Some(begun_micros),
        prompt: Some(format!("question of {step}")),
        ..workflow_step(step, 0, WAITING)
    }
}

pub(crate) async fn steps_that_wait_are_listed_in_pages_fairly_by_owner<P: Fixture>() {
    let quota = WorkflowRunQuota {
        running: 9,
        kept: 9,
        bytes: 1 << 20,
    };
    let place = P::new().await;
    let a = place.open("a").await;
    for owner in ["acme", "other"] {
        publish_workflow(&*a, owner).await;
    }
    for (id, owner) in [("r1", "acme"), ("r2", "acme"), ("r3", "other")] {
        let added = a.add_workflow_run(workflow_run(id, owner, 1, None), quota, None);
        assert_eq!(added.await.unwrap(), WorkflowRunAdded::Added);
    }
    let write = async |run: &str, steps: Vec<WorkflowStepRecord>| {
        let written = a.write_workflow_steps(run.into(), steps).await.unwrap();
        assert_eq!(written, StepsWritten::Done);
    };
    // Many of one owner, and then one of another.
    write(
        "r1",
        vec![
            workflow_step("x", 0, "running"),
            asking_step("B", 10),
            asking_step("a", 10),
        ],
    )
    .await;
    write("r2", vec![asking_step("c", 11)]).await;
    write("r3", vec![asking_step("d", 20)]).await;
    let list = async |owner: Option<&str>, after: Option<&StepPromptRecord>, limit| {
        let after = after.map(|last| StepPromptPlace {
            turn: last.turn,
            begun_micros: last.begun_micros,
            run: last.run.clone(),
            step: last.step.clone(),
        });
        let owner = owner.map(str::to_owned);
        a.step_prompts(StepPromptFilter { owner, after, limit })
            .await
            .unwrap()
    };
    let names = |found: &[StepPromptRecord]| found.iter().map(|one| one.step.clone()).collect::<Vec<_>>();
    // All pages of one, of two, of all.
    for limit in [1, 2, 9] {
        for (owner, wanted) in [
            (Some("acme"), vec!["B", "a", "c"]),
            (Some("other"), vec!["d"]),
            (Some("unknown"), vec![]),
            (None, vec!["B", "d", "a", "c"]),
        ] {
            let (mut all, mut last) = (Vec::new(), None);
            loop {
                let page = list(owner, last.as_ref(), limit).await;
                assert!(page.len() <= usize::try_from(limit).unwrap());
                let Some(end) = page.last() else { break };
                last = Some(end.clone());
                all.extend(names(&page));
            }
            assert_eq!(all, wanted, "{owner:?} {limit}");
        }
    }
    let one = a.step_prompt("r1".into(), "B".into()).await.unwrap().unwrap();
    let wanted = StepPromptRecord {
        run: "r1".into(),
        step: "B".into(),
        owner: "acme".into(),
        turn: 0,
        prompt: "question of B".into(),
        status: WAITING.into(),
        begun_micros: 10,
        due_micros: Some(0),
        answer: None,
        answered_by: None,
        error: None,
    };
    assert_eq!(one, wanted);
    assert_eq!(
        a.step_prompt("r1".into(), "x".into()).await.unwrap(),
        None,
        "it asks nothing"
    );
    // Each is posted once.
    assert_eq!(names(&a.untold_step_prompts(2).await.unwrap()), ["B", "d"]);
    a.set_told(vec![("r1".into(), "B".into()), ("r3".into(), "d".into())])
        .await
        .unwrap();
    assert_eq!(names(&a.untold_step_prompts(9).await.unwrap()), ["a", "c"]);
    // An end of the wait takes it out of the lists, and leaves its question.
    let given = StepAnswer {
        run: "r1".into(),
        step: "a".into(),
        answer: "yes".into(),
        by: "acme/bob".into(),
    };
    assert_eq!(a.step_answers("r1".into()).await.unwrap(), []);
    assert!(a.answer_workflow_step(given.clone()).await.unwrap());
    assert_eq!(a.step_answers("r1".into()).await.unwrap(), [given]);
    let over = WorkflowStepRecord {
        status: "failed".into(),
        error: Some("late".into()),
        prompt: None,
        ..asking_step("B", 10)
    };
    write("r1", vec![over]).await;
    assert!(!a.run_asks("r1".into()).await.unwrap() && a.run_asks("r2".into()).await.unwrap());
    assert_eq!(names(&list(None, None, 9).await), ["d", "c"]);
    assert_eq!(names(&a.untold_step_prompts(9).await.unwrap()), ["c"]);
    let held = a.step_prompt("r1".into(), "B".into()).await.unwrap().unwrap();
    assert_eq!(
        (held.prompt, held.error),
        ("question of B".into(), Some("late".into()))
    );
    let held = a.step_prompt("r1".into(), "a".into()).await.unwrap().unwrap();
    assert_eq!((held.answer, held.status), (Some("yes".into()), ANSWERED.into()));
    // Its place is that of its beginning, whatever has ended before.
    assert_eq!(list(Some("acme"), None, 9).await[0].turn, 2);
}

pub(crate) async fn a_run_of_a_workflow_is_its_process_and_an_answer_counts_once<P: Fixture>() {
    let quota = WorkflowRunQuota {
        running: 2,
        kept: 3,
        bytes: 1 << 20,
    };
    let place = P::new().await;
    let a = place.open("a").await;
    let early = workflow_run("r0", "acme", 1, None);
    let added = a.add_workflow_run(early, quota, None).await.unwrap();
    assert_eq!(added, WorkflowRunAdded::NoDefinition);
    for owner in ["acme", "other"] {
        publish_workflow(&*a, owner).await;
    }
    let (one, two) = (
        workflow_run("r1", "acme", 1, Some("k")),
        workflow_run("r2", "acme", 2, None),
    );
    for record in [
        one.clone(),
        workflow_run("r9", "other", 1, Some("k")),
        two.clone(),
    ] {
        assert_eq!(
            a.add_workflow_run(record, quota, None).await.unwrap(),
            WorkflowRunAdded::Added
        );
    }
    let present = WorkflowRunAdded::Present {
        id: "r1".into(),
        print: "print of r1".into(),
    };
    let of_key = async |owner: &str, key: &str| {
        let found = a.workflow_run_of(owner.into(), key.into()).await.unwrap();
        found.map(|record| (record.brief.id, record.start_print))
    };
    assert_eq!(
        of_key("acme", "k").await,
        Some(("r1".into(), "print of r1".into()))
    );
    assert_eq!(of_key("other", "k").await.unwrap().0, "r9");
    assert_eq!(of_key("acme", "l").await, None);
    assert_eq!(
        a.add_workflow_run(workflow_run("r3", "acme", 3, Some("k")), quota, None)
            .await
            .unwrap(),
        present
    );
    let third = workflow_run("r3", "acme", 3, None);
    assert_eq!(
        a.add_workflow_run(third.clone(), quota, None).await.unwrap(),
        WorkflowRunAdded::Full
    );
    assert_eq!(a.workflow_run("r1".into()).await.unwrap(), Some(one.clone()));
    assert_eq!(a.claim_workflow_runs().await.unwrap(), ["r1", "r9", "r2"]);

    let steps = |run: &str| a.workflow_steps(run.into());
    let mut sleeps = workflow_step("b", 1, "running");
    let asks = workflow_step("ask", 0, WAITING);
    let written = a.write_workflow_steps("r1".into(), vec![sleeps.clone(), asks.clone()]);
    assert_eq!(written.await.unwrap(), StepsWritten::Done);
    sleeps.status = "succeeded".into();
    sleeps.outputs = Some("{\"a\": \"\\u0000\"}".into());
    (sleeps.session, sleeps.execution, sleeps.ended_micros) = (Some("s".into()), Some("e".into()), Some(7));
    assert_eq!(
        a.write_workflow_steps("r1".into(), vec![sleeps.clone()])
            .await
            .unwrap(),
        StepsWritten::Done
    );
    assert_eq!(steps("r1").await.unwrap(), [asks.clone(), sleeps.clone()]);
    let answer = |answer: &str| {
        a.answer_workflow_step(StepAnswer {
            run: "r1".into(),
            step: "ask".into(),
            answer: answer.into(),
            by: "acme/bob".into(),
        })
    };
    assert!(answer("yes").await.unwrap());
    assert!(!answer("no").await.unwrap(), "it counts once");
    let mut expired = asks.clone();
    expired.status = "failed".into();
    let late = a.write_workflow_steps("r1".into(), vec![expired]);
    assert_eq!(late.await.unwrap(), StepsWritten::Stale);
    let answered = steps("r1").await.unwrap().swap_remove(0);
    let held = (
        answered.status.as_str(),
        answered.answer.as_deref(),
        answered.answered_by.as_deref(),
    );
    assert_eq!(held, (ANSWERED, Some("yes"), Some("acme/bob")));
    let seen = WorkflowStepRecord {
        status: "succeeded".into(),
        ..answered
    };
    assert_eq!(
        a.write_workflow_steps("r1".into(), vec![seen]).await.unwrap(),
        StepsWritten::Done
    );

    // Another process continues with it.
    place.close().await;
    let b = place.open("b").await;
    assert_eq!(b.claim_workflow_runs().await.unwrap(), ["r1", "r9", "r2"]);
    assert_eq!(b.workflow_steps("r1".into()).await.unwrap().len(), 2);
    assert!(
        b.cancel_workflow_run("r2".into(), "acme/eve".into())
            .await
            .unwrap()
    );
    let two = b.workflow_run("r2".into()).await.unwrap().unwrap();
    assert_eq!(two.brief.cancelled_by.as_deref(), Some("acme/eve"));
    let end = |status: &str, ended_micros: i64| WorkflowRunEnd {
        status: status.into(),
        outputs: Some("{}".into()),
        error: None,
        ended_micros,
    };
    assert!(
        b.end_workflow_run("r2".into(), end("cancelled", 10))
            .await
            .unwrap()
    );
    assert!(!b.end_workflow_run("r2".into(), end("failed", 11)).await.unwrap());
    assert!(
        !b.cancel_workflow_run("r2".into(), "acme/eve".into())
            .await
            .unwrap()
    );
    let late = b.write_workflow_steps("r2".into(), vec![asks.clone()]);
    assert_eq!(late.await.unwrap(), StepsWritten::Lost, "it has ended");
    assert_eq!(
        b.add_workflow_run(third, quota, None).await.unwrap(),
        WorkflowRunAdded::Added
    );

    let list = |filter: WorkflowRunFilter| {
        let b = &b;
        async move {
            let found = b.workflow_runs("acme".into(), filter).await.unwrap();
            found.into_iter().map(|run| run.id).collect::<Vec<_>>()
        }
    };
    let all = WorkflowRunFilter {
        limit: 10,
        ..WorkflowRunFilter::default()
    };
    assert_eq!(list(all.clone()).await, ["r3", "r2", "r1"]);
    let after = WorkflowRunFilter {
        after: Some((3, "r3".into())),
        limit: 1,
        ..all.clone()
    };
    assert_eq!(list(after).await, ["r2"]);
    let status = WorkflowRunFilter {
        status: Some("cancelled".into()),
        ..all.clone()
    };
    assert_eq!(list(status).await, ["r2"]);
    let workflow = WorkflowRunFilter {
        workflow: Some("other".into()),
        ..all.clone()
    };
    assert_eq!(list(workflow).await, [""; 0]);
    assert!(
        b.end_workflow_run("r1".into(), end("succeeded", 20))
            .await
            .unwrap()
    );
    // A definition is kept as long as a workflow or a run has it.
    let defined = async || {
        let found = b
            .workflow_definition("acme".into(), "sha256:x".into())
            .await
            .unwrap();
        found.as_deref() == Some("{}")
    };
    assert_eq!(
        b.delete_workflow("acme".into(), "monthly".into(), None)
            .await
            .unwrap(),
        1
    );
    assert!(defined().await);
    assert_eq!(b.forget_workflow_runs(20).await.unwrap(), 1);
    assert_eq!(b.forget_workflow_runs(21).await.unwrap(), 1);
    assert_eq!(list(all).await, ["r3"]);
    assert!(defined().await);
    assert!(
        b.end_workflow_run("r3".into(), end("succeeded", 30))
            .await
            .unwrap()
    );
    assert_eq!(b.forget_workflow_runs(31).await.unwrap(), 1);
    assert!(!defined().await);
    assert!(
        b.workflow_definition("other".into(), "sha256:x".into())
            .await
            .unwrap()
            .is_some()
    );
    assert!(b.workflow_steps("r1".into()).await.unwrap().is_empty());
}

pub(crate) async fn bytes_of_rows_are_counted_by_owner<P: Fixture>() {
    let quota = WorkflowRunQuota {
        running: 9,
        kept: 9,
        bytes: 1 << 20,
    };
    let place = P::new().await;
    let a = place.open("a").await;
    let held = async |owner: &str| a.owner_bytes(owner.into()).await.unwrap();
    assert_eq!(held("acme").await, 0);
    let brief = SkillBrief {
        owner: "acme".into(),
        name: "x".into(),
        version: "1.0.0".into(),
        kind: "code".into(),
        description: "d".into(),
        digest: "sha256:s".into(),
        bytes: 9,
        published_by: "acme/ada".into(),
        published_micros: 1,
    };
    let skill = SkillRecord {
        brief,
        manifest: "{\"\u{fc}\"}".into(),
        files: vec![0; 100],
    };
    let many = VersionQuota {
        versions: 9,
        bytes: 99,
    };
    a.add_skill(skill, many).await.unwrap();
    assert_eq!(held("acme").await, 106, "bytes, not characters");
    publish_workflow(&*a, "acme").await;
    publish_workflow(&*a, "other").await;
    assert_eq!((held("acme").await, held("other").await), (108, 2));
    // The same definition again is there once, another one counts.
    for (version, digest, bytes) in [("1.1.0", "sha256:x", 108), ("1.2.0", "sha256:y", 110)] {
        let mut record = a
            .workflow("acme".into(), "monthly".into(), "1.0.0".into())
            .await
            .unwrap()
            .unwrap();
        (record.brief.version, record.brief.digest) = (version.into(), digest.into());
        assert_eq!(a.add_workflow(record, many).await.unwrap(), VersionAdded::Added);
        assert_eq!(held("acme").await, bytes);
    }
    let gone = a.delete_workflow("acme".into(), "monthly".into(), Some("1.2.0".into()));
    assert_eq!(gone.await.unwrap(), 1);
    assert_eq!(held("acme").await, 108);
    let run = workflow_run("r1", "acme", 1, None);
    let of_run = i64::try_from(run.inputs.len() + run.principal.len()).unwrap();
    a.add_workflow_run(run, quota, None).await.unwrap();
    assert_eq!(held("acme").await, 108 + of_run);
    let mut step = asking_step("s", 1);
    let question = i64::try_from(step.prompt.as_ref().unwrap().len()).unwrap();
    a.write_workflow_steps("r1".into(), vec![step.clone()])
        .await
        .unwrap();
    assert_eq!(held("acme").await, 108 + of_run + question);
    step.status = "succeeded".into();
    step.outputs = Some("x".repeat(1000));
    a.write_workflow_steps("r1".into(), vec![step.clone()])
        .await
        .unwrap();
    a.write_workflow_steps("r1".into(), vec![step]).await.unwrap();
    assert_eq!(held("acme").await, 1108 + of_run + question);
    let end = WorkflowRunEnd {
        status: "succeeded".into(),
        outputs: Some("y".repeat(500)),
        error: None,
        ended_micros: 10,
    };
    assert!(a.end_workflow_run("r1".into(), end).await.unwrap());
    assert_eq!(held("acme").await, 1608 + of_run + question);
    // The triggers of an owner, their runs, and the deliveries of these.
    let before = held("acme").await;
    let record = trigger(1, "acme", "t");
    let of_trigger = i64::try_from(record.definition.len() + record.sealed.len()).unwrap();
    a.insert_trigger(record, 9).await.unwrap();
    let mut row = trigger_run(2, 1, 5);
    row.owner = "acme".into();
    let of_row = i64::try_from(row.key.len() + row.detail.len()).unwrap();
    a.add_trigger_run(row.clone()).await.unwrap();
    assert_eq!(held("acme").await, before + of_trigger + of_row);
    assert!(a.claim_trigger_run(row.id, String::new()).await.unwrap());
    let delivery = DeliveryRecord {
        id: Uuid::from_u128(3),
        trigger: Uuid::from_u128(1),
        run: row.id,
        created_micros: 1,
        next_micros: None,
        detail: "z".repeat(70),
        claim: String::new(),
    };
    row.detail = "d".repeat(30);
    let of_row = i64::try_from(row.key.len()).unwrap() + 30;
    assert!(a.change_trigger_run(row, false, Some(delivery)).await.unwrap());
    assert_eq!(held("acme").await, before + of_trigger + of_row + 70);
    assert!(a.delete_trigger(Uuid::from_u128(1)).await.unwrap());
    assert_eq!(held("acme").await, before);
    // Access tokens and credentials.
    let token = TokenRecord {
        id: Uuid::from_u128(5),
        hash: [5; 32],
        owner: "acme".into(),
        caller: "ci".into(),
        scope: "read".into(),
        description: "d".repeat(40),
        created_by: "acme/ada".into(),
        created_micros: 1,
        expires_micros: None,
    };
    a.insert_token(token).await.unwrap();
    assert_eq!(held("acme").await, before + 50);
    for bytes in [7_u8, 9] {
        let record = CredentialRecord {
            owner: "acme".into(),
            name: "x".into(),
            definition: "{}".into(),
            key_id: "k".into(),
            sealed: vec![0; bytes.into()],
            set_by: "acme/ada".into(),
            set_micros: 1,
        };
        a.put_credential(record, PutCredential::Always).await.unwrap();
        assert_eq!(held("acme").await, before + 52 + i64::from(bytes));
    }
    // All goes, and nothing is left; others keep theirs, and the next process knows the same.
    assert!(a.delete_token(Uuid::from_u128(5)).await.unwrap());
    assert!(a.delete_credential("acme".into(), "x".into()).await.unwrap());
    assert_eq!(held("acme").await, before);
    a.delete_workflow("acme".into(), "monthly".into(), None)
        .await
        .unwrap();
    a.delete_skill("acme".into(), "x".into(), None).await.unwrap();
    assert_eq!(a.forget_workflow_runs(11).await.unwrap(), 1);
    place.close().await;
    let b = place.open("b").await;
    assert_eq!(b.owner_bytes("acme".into()).await.unwrap(), 0);
    assert_eq!(b.owner_bytes("other".into()).await.unwrap(), 2);
}

pub(crate) async fn the_runs_that_ended_first_are_forgotten_for_the_bytes_of_others<P: Fixture>() {
    let quota = WorkflowRunQuota {
        running: 9,
        kept: 9,
        bytes: 3000,
    };
    let place = P::new().await;
    let a = place.open("a").await;
    for owner in ["acme", "other"] {
        publish_workflow(&*a, owner).await;
    }
    let add = async |id: &str, owner: &str| {
        let added = a
            .add_workflow_run(workflow_run(id, owner, 1, None), quota, None)
            .await;
        assert_eq!(added.unwrap(), WorkflowRunAdded::Added);
    };
    let end = async |id: &str, ended_micros: i64| {
        let step = WorkflowStepRecord {
            outputs: Some("x".repeat(50)),
            ..workflow_step("s", 0, "succeeded")
        };
        a.write_workflow_steps(id.into(), vec![step]).await.unwrap();
        let end = WorkflowRunEnd {
            status: "succeeded".into(),
            outputs: Some("y".repeat(920)),
            error: None,
            ended_micros,
        };
        assert!(a.end_workflow_run(id.into(), end).await.unwrap());
    };
    let kept = async |owner: &str| {
        let filter = WorkflowRunFilter {
            limit: 10,
            ..WorkflowRunFilter::default()
        };
        let found = a.workflow_runs(owner.into(), filter).await.unwrap();
        found.into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    for (id, at) in [("r1", 30), ("r2", 10), ("r3", 20)] {
        add(id, "acme").await;
        end(id, at).await;
    }
    add("r9", "other").await;
    assert_eq!(
        kept("acme").await,
        ["r3", "r2", "r1"],
        "nothing is forgotten while there is room"
    );
    add("r4", "acme").await;
    // One that continues stays.
    assert_eq!(kept("acme").await, ["r4", "r3", "r1"]);
    assert!(a.workflow_steps("r2".into()).await.unwrap().is_empty());
    end("r4", 40).await;
    add("r5", "acme").await;
    assert_eq!(kept("acme").await, ["r5", "r4", "r1"]);
    assert_eq!(kept("other").await, ["r9"]);
}

/// A callback of the run `n`, whose id is `name` for its caller.
fn callback(n: u128, owner: &str, name: &str) -> NewCallback {
    NewCallback {
        trigger: TriggerRecord {
            kind: "run".into(),
            next_micros: None,
            ..trigger(n, owner, name)
        },
        run: TriggerRun {
            owner: owner.into(),
            state: TriggerRunState::Running,
            ..trigger_run(n, n, 7)
        },
        quota: CallbackQuota { open: 2, kept: 3 },
    }
}

pub(crate) async fn a_callback_is_added_with_its_run_and_goes_with_it<P: Fixture>() {
    let place = P::new().await;
    let store = place.open("main").await;
    let quota = WorkflowRunQuota {
        running: 9,
        kept: 9,
        bytes: 1 << 20,
    };
    publish_workflow(&*store, "acme").await;
    let of_flow = |n: u128, id: &str| {
        let record = workflow_run(id, "acme", 1, Some(id));
        store.add_workflow_run(record, quota, Some(callback(n, "acme", id)))
    };
    let has_room =
        || store.has_callback_room("acme".into(), "run".into(), CallbackQuota { open: 2, kept: 3 });
    let ids = async |owner: &str| {
        let all = store.triggers(Some(owner.into()), "run".into()).await.unwrap();
        all.into_iter().map(|one| one.id.as_u128()).collect::<Vec<_>>()
    };
    // With a run of a workflow, or with an execution that has begun.
    assert_eq!(of_flow(1, "r1").await.unwrap(), WorkflowRunAdded::Added);
    let present = of_flow(9, "r1").await.unwrap();
    assert!(
        matches!(&present, WorkflowRunAdded::Present { id, .. } if id == "r1"),
        "{present:?}"
    );
    let of_skill = callback(2, "acme", "e2");
    assert_eq!(
        store.add_callback(of_skill.clone()).await.unwrap(),
        CallbackAdded::Added
    );
    assert_eq!(
        store.add_callback(of_skill.clone()).await.unwrap(),
        CallbackAdded::Present
    );
    assert_eq!(ids("acme").await, [2, 1]);
    let open = store.open_trigger_runs(0, TEN).await.unwrap();
    assert_eq!(open.len(), 2);
    let found = open.iter().find(|one| one.run == of_skill.run);
    assert_eq!(found.map(|one| one.kind.as_str()), Some("run"), "{open:?}");

    // Two are open: there is no place for another one, and a run is not added without its own.
    assert!(!has_room().await.unwrap());
    assert_eq!(of_flow(3, "r3").await.unwrap(), WorkflowRunAdded::NoCallback);
    assert_eq!(store.workflow_run("r3".into()).await.unwrap(), None);
    assert_eq!(
        store.add_callback(callback(3, "acme", "e3")).await.unwrap(),
        CallbackAdded::Full
    );
    assert_eq!(
        store.add_callback(callback(4, "other", "e3")).await.unwrap(),
        CallbackAdded::Added
    );

    // One whose run has ended is open until its delivery has ended.
    let id = of_skill.run.id;
    let told = DeliveryRecord {
        id: Uuid::from_u128(21),
        trigger: id,
        run: id,
        created_micros: 5,
        next_micros: Some(60),
        detail: "{}".into(),
        claim: String::new(),
    };
    assert!(store.claim_trigger_run(id, String::new()).await.unwrap());
    let over = TriggerRun {
        state: TriggerRunState::Over,
        ..of_skill.run
    };
    assert!(store.change_trigger_run(over, false, Some(told)).await.unwrap());
    assert!(!has_room().await.unwrap());
    let forget = |before: i64| store.forget_callbacks("run".into(), before);
    assert_eq!(forget(100).await.unwrap(), 0);
    let [due] = store.due_deliveries(60, TEN).await.unwrap().try_into().unwrap();
    let claimed = store.claim_delivery(due.record.clone()).await.unwrap().unwrap();
    let delivered = DeliveryRecord {
        next_micros: None,
        ..claimed
    };
    assert!(store.change_delivery(delivered).await.unwrap());
    assert!(has_room().await.unwrap());

    // It is kept as long as the session of its run, and then its log.
    store.insert_kernel(kernel(2)).await.unwrap();
    assert_eq!(forget(100).await.unwrap(), 0);
    store.end_kernel(ended(2)).await.unwrap();
    assert_eq!(forget(100).await.unwrap(), 0);
    assert_eq!(store.set_removed(vec!["kernels/2".into()], 8).await.unwrap(), 1);
    assert_eq!(forget(7).await.unwrap(), 0, "it is new");
    assert_eq!(forget(8).await.unwrap(), 1);
    assert_eq!(ids("acme").await, [1]);
    assert_eq!(store.trigger_run(id).await.unwrap(), None);
    assert_eq!(store.deliveries(id, 10).await.unwrap(), []);

    // The other one goes with the run of its workflow.
    let id = Uuid::from_u128(1);
    assert!(store.claim_trigger_run(id, String::new()).await.unwrap());
    let over = TriggerRun {
        state: TriggerRunState::Over,
        ..callback(1, "acme", "r1").run
    };
    assert!(store.change_trigger_run(over, false, None).await.unwrap());
    assert_eq!(forget(100).await.unwrap(), 0);
    let end = WorkflowRunEnd {
        status: "succeeded".into(),
        outputs: None,
        error: None,
        ended_micros: 10,
    };
    assert!(store.end_workflow_run("r1".into(), end).await.unwrap());
    assert_eq!(store.forget_workflow_runs(11).await.unwrap(), 1);
    assert_eq!(forget(100).await.unwrap(), 1);
    assert_eq!(ids("acme").await, [0_u128; 0]);
    // That of another owner has a run that continues.
    assert_eq!(ids("other").await, [4]);
}

/// As many rows as a test has.
const TEN: FairBatch = FairBatch { of_one: 10, all: 10 };

fn trigger(n: u128, owner: &str, name: &str) -> TriggerRecord {
    TriggerRecord {
        id: Uuid::from_u128(n),
        kind: "schedule".into(),
        owner: owner.into(),
        name: name.into(),
        definition: "{\"\u{fc}\": 1}".into(),
        key_id: String::new(),
        sealed: vec![0, 255],
        next_micros: Some(i64::try_from(n).unwrap() * 100),
        version: 1,
        created_micros: 7,
    }
}

fn trigger_run(n: u128, trigger: u128, due_micros: i64) -> TriggerRun {
    TriggerRun {
        id: Uuid::from_u128(n),
        trigger: Uuid::from_u128(trigger),
        owner: "acme".into(),
        key: due_micros.to_string(),
        due_micros,
        state: TriggerRunState::Due,
        not_before_micros: 0,
        detail: "{}".into(),
        claim: String::new(),
    }
}

pub(crate) async fn a_due_time_makes_one_run_by_any_replica<P: Fixture>() {
    let place = P::new().await;
    let (a, b) = (place.open("a").await, place.open("b").await);
    let add = |record: TriggerRecord| a.insert_trigger(record, 2);
    assert_eq!(add(trigger(1, "acme", "x")).await.unwrap(), TriggerAdded::Added);
    assert_eq!(add(trigger(2, "acme", "x")).await.unwrap(), TriggerAdded::Taken);
    assert_eq!(add(trigger(2, "other", "x")).await.unwrap(), TriggerAdded::Added);
    assert_eq!(add(trigger(3, "acme", "y")).await.unwrap(), TriggerAdded::Added);
    assert_eq!(add(trigger(4, "acme", "z")).await.unwrap(), TriggerAdded::Full);
    let ids = |all: Vec<TriggerRecord>| all.into_iter().map(|one| one.id.as_u128()).collect::<Vec<_>>();
    assert_eq!(ids(b.due_triggers(200, 10).await.unwrap()), [1, 2]);
    assert_eq!(
        ids(b.triggers(Some("acme".into()), "schedule".into()).await.unwrap()),
        [1, 3]
    );
    assert_eq!(ids(b.triggers(None, "schedule".into()).await.unwrap()), [1, 3, 2]);
    assert_eq!(
        ids(b.triggers(None, "webhook".into()).await.unwrap()),
        [0_u128; 0]
    );

    // Both replicas have seen version 1.
    let due = TriggerRecord {
        next_micros: Some(900),
        ..trigger(1, "acme", "x")
    };
    let [first, second] =
        [&a, &b].map(|store| store.change_trigger(due.clone(), Some(trigger_run(11, 1, 100))));
    assert!(first.await.unwrap());
    assert!(!second.await.unwrap(), "the second one saw what is no more");
    let changed = a.trigger(due.id).await.unwrap();
    assert_eq!(
        changed,
        Some(TriggerRecord {
            version: 2,
            ..due.clone()
        })
    );
    let page = |of: TriggerRunsOf, after: Option<(i64, u128)>, limit: i64| {
        let after = after.map(|(due, id)| (due, Uuid::from_u128(id)));
        b.trigger_runs(TriggerRunFilter { of, after, limit })
    };
    let of_one = || TriggerRunsOf::Trigger(due.id);
    assert_eq!(page(of_one(), None, 10).await.unwrap(), [trigger_run(11, 1, 100)]);
    let stopped = TriggerRecord {
        next_micros: None,
        version: 2,
        ..due.clone()
    };
    assert!(b.change_trigger(stopped, None).await.unwrap());
    assert_eq!(ids(a.due_triggers(1000, 10).await.unwrap()), [2, 3]);

    // A key is one run.
    let again = TriggerRun {
        id: Uuid::from_u128(99),
        ..trigger_run(11, 1, 100)
    };
    assert_eq!(
        b.add_trigger_run(again).await.unwrap(),
        Some(trigger_run(11, 1, 100))
    );
    assert_eq!(b.add_trigger_run(trigger_run(12, 1, 200)).await.unwrap(), None);
    assert_eq!(b.count_open_trigger_runs(due.id).await.unwrap(), 2);
    // Pages have the latest first, each run once, and the runs of one owner.
    let (older, newer) = (trigger_run(11, 1, 100), trigger_run(12, 1, 200));
    let of_owner = |owner: &str| TriggerRunsOf::Owner(owner.to_owned());
    for of in [of_one(), of_owner("acme")] {
        assert_eq!(
            page(of.clone(), None, 10).await.unwrap(),
            [newer.clone(), older.clone()]
        );
        assert_eq!(
            page(of.clone(), None, 1).await.unwrap(),
            std::slice::from_ref(&newer)
        );
        for after in [(200, 12), (150, 0), (100, 12)] {
            assert_eq!(
                page(of.clone(), Some(after), 10).await.unwrap(),
                std::slice::from_ref(&older)
            );
        }
        assert_eq!(page(of, Some((100, 11)), 10).await.unwrap(), []);
    }
    assert_eq!(page(of_owner("other"), None, 10).await.unwrap(), []);
    let among = [11, 12, 99, 1].map(Uuid::from_u128);
    let mut found = b.trigger_runs_among(among.to_vec()).await.unwrap();
    found.sort_unstable();
    assert_eq!(found, among[..2]);
    let last = a
        .last_trigger_runs(Some("acme".into()), "schedule".into())
        .await
        .unwrap();
    assert_eq!(last, [trigger_run(12, 1, 200)]);
    assert_eq!(a.last_trigger_runs(None, "schedule".into()).await.unwrap(), last);
    assert_eq!(
        a.last_trigger_runs(Some("other".into()), "schedule".into())
            .await
            .unwrap(),
        []
    );

    assert!(a.delete_trigger(due.id).await.unwrap());
    assert!(!a.delete_trigger(due.id).await.unwrap());
    assert_eq!(a.trigger_run(Uuid::from_u128(11)).await.unwrap(), None);
}

/// An owner with many is not before one with few, and a URL of an owner not before its others.
pub(crate) async fn owners_take_turns_in_what_is_due<P: Fixture>() {
    let place = P::new().await;
    let store = place.open("main").await;
    let number = |n: u128| i64::try_from(n).unwrap();
    // Six of one owner are due before the one of another.
    for n in 1..=7 {
        let owner = if n == 7 { "other" } else { "acme" };
        let new = trigger(n, owner, &format!("t{n}"));
        assert_eq!(store.insert_trigger(new, 9).await.unwrap(), TriggerAdded::Added);
        let run = TriggerRun {
            owner: owner.into(),
            ..trigger_run(10 + n, n, number(n))
        };
        assert_eq!(store.add_trigger_run(run.clone()).await.unwrap(), None);
    }
    let triggers = store.due_triggers(1000, 2).await.unwrap();
    assert_eq!(
        triggers.iter().map(|one| one.id.as_u128()).collect::<Vec<_>>(),
        [1, 7]
    );
    let most = FairBatch { of_one: 3, all: 9 };
    let runs = store.open_trigger_runs(0, most).await.unwrap();
    assert_eq!(
        runs.iter().map(|one| one.run.id.as_u128()).collect::<Vec<_>>(),
        [11, 17, 12, 13]
    );

    for OpenRun { run, .. } in store.open_trigger_runs(0, TEN).await.unwrap() {
        assert!(store.claim_trigger_run(run.id, String::new()).await.unwrap());
        let n = run.trigger.as_u128();
        // Five go to a server that does not answer, and the sixth elsewhere.
        let url = if n < 6 { "http://slow/" } else { "http://good/" };
        let told = DeliveryRecord {
            id: Uuid::from_u128(20 + n),
            trigger: run.trigger,
            run: run.id,
            created_micros: 5,
            next_micros: Some(number(n)),
            detail: format!("{{\"url\": \"{url}\"}}"),
            claim: String::new(),
        };
        let over = TriggerRun {
            state: TriggerRunState::Over,
            ..run
        };
        assert!(store.change_trigger_run(over, false, Some(told)).await.unwrap());
    }
    let due = store.due_deliveries(100, most).await.unwrap();
    let found: Vec<_> = due
        .iter()
        .map(|one| (one.owner.as_str(), one.record.id.as_u128()))
        .collect();
    assert_eq!(found, [("acme", 21), ("other", 27), ("acme", 26), ("acme", 22)]);
}

pub(crate) async fn a_run_is_in_one_hand_until_that_process_is_gone<P: Fixture>() {
    let place = P::new().await;
    let store = place.open("main").await;
    assert_eq!(
        store.insert_trigger(trigger(1, "acme", "x"), 9).await.unwrap(),
        TriggerAdded::Added
    );
    for n in [11, 12] {
        let due = i64::try_from(n).unwrap();
        assert_eq!(store.add_trigger_run(trigger_run(n, 1, due)).await.unwrap(), None);
    }
    let open = |store: Arc<dyn Store>, micros: i64| async move {
        let found = store.open_trigger_runs(micros, TEN).await.unwrap();
        found
            .into_iter()
            .map(|open| open.run.id.as_u128())
            .collect::<Vec<_>>()
    };
    assert_eq!(open(store.clone(), 0).await, [11, 12]);
    let id = Uuid::from_u128(11);
    assert!(!store.claim_trigger_run(id, "other/1".into()).await.unwrap());
    assert!(store.claim_trigger_run(id, String::new()).await.unwrap());
    assert!(
        !store.claim_trigger_run(id, String::new()).await.unwrap(),
        "it is claimed"
    );
    assert_eq!(open(store.clone(), 0).await, [12]);

    // Written as long as it is claimed.
    let running = TriggerRun {
        state: TriggerRunState::Running,
        detail: "{\"a\": 1}".into(),
        ..trigger_run(11, 1, 11)
    };
    assert!(
        store
            .change_trigger_run(running.clone(), true, None)
            .await
            .unwrap()
    );
    let unclaimed = store.change_trigger_run(trigger_run(12, 1, 12), false, None);
    assert!(!unclaimed.await.unwrap());
    // One that waits is free when it may be tried.
    assert!(
        store
            .claim_trigger_run(Uuid::from_u128(12), String::new())
            .await
            .unwrap()
    );
    let later = TriggerRun {
        not_before_micros: 50,
        ..trigger_run(12, 1, 12)
    };
    assert!(
        store
            .change_trigger_run(later.clone(), false, None)
            .await
            .unwrap()
    );
    assert_eq!(open(store.clone(), 49).await, [0_u128; 0]);
    assert_eq!(open(store.clone(), 50).await, [12]);

    // The next process has what this one had.
    place.close().await;
    let store = place.open("main").await;
    assert_eq!(open(store.clone(), 0).await, [11]);
    let held = store.trigger_run(id).await.unwrap().unwrap();
    assert_eq!(
        TriggerRun {
            claim: String::new(),
            ..held.clone()
        },
        running
    );
    assert!(
        !store
            .change_trigger_run(running.clone(), true, None)
            .await
            .unwrap(),
        "not claimed anew"
    );
    assert!(store.claim_trigger_run(id, held.claim).await.unwrap());

    // Its end and the delivery of it are one change, once.
    let over = TriggerRun {
        state: TriggerRunState::Over,
        ..running
    };
    let told = DeliveryRecord {
        id: Uuid::from_u128(21),
        trigger: Uuid::from_u128(1),
        run: id,
        created_micros: 5,
        next_micros: Some(60),
        detail: "{}".into(),
        claim: String::new(),
    };
    assert!(
        store
            .change_trigger_run(over.clone(), false, Some(told.clone()))
            .await
            .unwrap()
    );
    let again = DeliveryRecord {
        id: Uuid::from_u128(22),
        ..told.clone()
    };
    assert!(
        !store
            .change_trigger_run(over.clone(), false, Some(again))
            .await
            .unwrap()
    );
    assert!(
        !store.claim_trigger_run(id, String::new()).await.unwrap(),
        "it has ended"
    );
    assert_eq!(
        store.deliveries(told.trigger, 10).await.unwrap(),
        std::slice::from_ref(&told)
    );

    assert_eq!(store.due_deliveries(59, TEN).await.unwrap(), []);
    let [due] = store.due_deliveries(60, TEN).await.unwrap().try_into().unwrap();
    let claimed = store.claim_delivery(due.record.clone()).await.unwrap().unwrap();
    assert_eq!((due.owner.as_str(), due.kind.as_str()), ("acme", "schedule"));
    assert_eq!(
        store.claim_delivery(due.record).await.unwrap(),
        None,
        "it is claimed"
    );
    assert_eq!(store.due_deliveries(60, TEN).await.unwrap(), [], "it is claimed");
    let done = DeliveryRecord {
        next_micros: None,
        detail: "{\"status\": 200}".into(),
        ..claimed
    };
    assert!(store.change_delivery(done.clone()).await.unwrap());
    assert!(
        !store.change_delivery(done.clone()).await.unwrap(),
        "its claim has ended"
    );
    assert_eq!(store.due_deliveries(1000, TEN).await.unwrap(), []);
    let kept = store.delivery(told.id).await.unwrap();
    assert_eq!(
        kept,
        Some(DeliveryRecord {
            claim: String::new(),
            ..done
        })
    );

    // What has ended and old goes, with its deliveries.
    for n in 30..35 {
        assert_eq!(
            store
                .add_trigger_run(trigger_run(n, 1, 100 + i64::try_from(n).unwrap()))
                .await
                .unwrap(),
            None
        );
    }
    assert_eq!(
        store.forget_trigger_runs(5, 11).await.unwrap(),
        0,
        "it is not older"
    );
    assert_eq!(
        store.forget_trigger_runs(7, 1000).await.unwrap(),
        0,
        "it is among the latest"
    );
    assert_eq!(
        store.forget_trigger_runs(5, 1000).await.unwrap(),
        1,
        "the other one has not ended"
    );
    assert_eq!(store.delivery(told.id).await.unwrap(), None);
}

pub(crate) async fn a_message_that_has_answered_a_prompt_is_known_to_its_webhook_alone<P: Fixture>() {
    let place = P::new().await;
    let store = place.open("main").await;
    let known = async |hook: u128, message: &str| {
        let found = store
            .has_prompt_answer(Uuid::from_u128(hook), message.into())
            .await;
        found.unwrap()
    };
    for hook in [1, 2] {
        let record = trigger(hook, "acme", &format!("t{hook}"));
        store.insert_trigger(record, 9).await.unwrap();
    }
    for (hook, message, micros) in [(1, "a", 10), (1, "a", 11), (1, "b", 20), (2, "b", 20)] {
        let noting = store.note_prompt_answer(Uuid::from_u128(hook), message.into(), micros);
        noting.await.unwrap();
    }
    assert!(known(1, "a").await && known(1, "b").await && known(2, "b").await);
    assert!(!known(2, "a").await);
    store.forget_trigger_runs(5, 15).await.unwrap();
    assert!(!known(1, "a").await && known(1, "b").await);
    assert!(store.delete_trigger(Uuid::from_u128(1)).await.unwrap());
    assert!(!known(1, "b").await && known(2, "b").await);
}
