use std::collections::HashMap;

use himalia_testkit::postgres::{Postgres, ServerCertificate};
use tempfile::TempDir;

use super::*;
use crate::tests::{Fixture as _, ended, everything, kernel, kernels_of};
use crate::*;

const LEASE: Duration = Duration::from_mins(2);

/// A database that replicas have open, and their data directories.
struct Shared {
    server: Arc<Postgres>,
    url: String,
    dir: TempDir,
    open: Mutex<Vec<Arc<PostgresStore>>>,
}

thread_local! {
    /// The server of the test that runs on this thread.
    static SERVER: std::cell::RefCell<Option<Arc<Postgres>>> = const { std::cell::RefCell::new(None) };
}

fn server() -> Arc<Postgres> {
    SERVER.with(|server| {
        let mut server = server.borrow_mut();
        Arc::clone(server.get_or_insert_with(|| Arc::new(Postgres::start(None).unwrap())))
    })
}

impl Shared {
    fn options(&self, replica: &str, lease: Duration) -> PostgresOptions {
        let data_dir = self.dir.path().join(replica);
        std::fs::create_dir_all(&data_dir).unwrap();
        PostgresOptions {
            url: self.url.parse().unwrap(),
            replica: replica.to_owned(),
            data_dir,
            lease,
        }
    }

    async fn try_open(&self, replica: &str, lease: Duration) -> Result<Arc<PostgresStore>, StoreError> {
        let store = Arc::new(PostgresStore::open(self.options(replica, lease)).await?);
        self.open.lock().push(Arc::clone(&store));
        Ok(store)
    }

    fn sql(&self, sql: &str) -> String {
        self.server.run(&self.url, sql).unwrap()
    }
}

impl crate::tests::Fixture for Shared {
    async fn new() -> Self {
        let server = server();
        Self {
            url: server.database().unwrap(),
            server,
            dir: TempDir::new().unwrap(),
            open: Mutex::default(),
        }
    }

    async fn open(&self, replica: &str) -> Arc<dyn Store> {
        self.try_open(replica, LEASE).await.unwrap()
    }

    async fn expire(&self, replica: &str) {
        self.sql(&format!(
            "UPDATE himalia.replicas SET lease_until = now() - interval '1 s' WHERE name = '{replica}'"
        ));
    }

    async fn close(&self) {
        let open = std::mem::take(&mut *self.open.lock());
        for store in open {
            store.close().await.unwrap();
        }
    }
}

/// In one process, which starts one server.
#[tokio::test]
async fn it_satisfies_the_contract_of_a_store() {
    crate::tests::with_contract!(crate::tests::run_contract, Shared);
}

#[tokio::test]
async fn replicas_learn_which_others_have_kernels_ready() {
    let place = Shared::new().await;
    let (a, b, c) = (
        place.open("a").await,
        place.open("b").await,
        place.open("c").await,
    );
    let names = async |most| {
        let found = a.ready_elsewhere("warm".into(), most).await.unwrap();
        let shown = |one: ReadyReplica| format!("{} {} {}", one.name, one.address, one.ready);
        found.into_iter().map(shown).collect::<Vec<String>>()
    };
    a.set_ready("warm", 9);
    b.set_ready("warm", 2);
    b.set_ready("other", 5);
    c.set_ready("warm", 3);
    c.set_address("c:1".into()).await.unwrap();
    himalia_testkit::assert_eventually!(names(9).await == ["c c:1 3"], "b has no address yet");
    b.set_address("b:1".into()).await.unwrap();
    himalia_testkit::assert_eventually!(names(9).await == ["c c:1 3", "b b:1 2"]);
    assert_eq!(names(1).await, ["c c:1 3"]);
    c.set_ready("warm", 0);
    himalia_testkit::assert_eventually!(names(9).await == ["b b:1 2"]);
    place.expire("b").await;
    assert!(names(9).await.is_empty());
    place.close().await;
}

#[tokio::test]
async fn a_replica_that_lost_a_run_writes_nothing_more_to_it() {
    let place = Shared::new().await;
    let (a, b) = (place.open("a").await, place.open("b").await);
    let quota = WorkflowRunQuota {
        running: 9,
        kept: 9,
        bytes: 1 << 20,
    };
    crate::tests::contract::publish_workflow(&*a, "acme").await;
    let run = crate::tests::contract::workflow_run("r1", "acme", 1, None);
    assert_eq!(
        a.add_workflow_run(run, quota, None).await.unwrap(),
        WorkflowRunAdded::Added
    );
    assert!(
        b.claim_workflow_runs().await.unwrap().is_empty(),
        "its process lives"
    );
    let step = crate::tests::contract::workflow_step("x", 0, "running");
    let write = async |store: &Arc<dyn Store>| {
        let written = store.write_workflow_steps("r1".into(), vec![step.clone()]);
        written.await.unwrap()
    };
    assert_eq!(write(&b).await, StepsWritten::Lost);
    place.expire("a").await;
    assert_eq!(b.claim_workflow_runs().await.unwrap(), ["r1"]);
    assert_eq!(write(&b).await, StepsWritten::Done);
    assert_eq!(write(&a).await, StepsWritten::Lost);
    assert!(a.claim_workflow_runs().await.unwrap().is_empty());
    // Only who has it gives it away, and only to a replica that lives.
    let c = place.open("c").await;
    let give = async |store: &Arc<dyn Store>, epoch: u64| {
        let given = store.hand_over_workflow_run("r1".into(), epoch);
        given.await.unwrap()
    };
    assert!(!give(&a, c.epoch()).await);
    assert!(!give(&b, c.epoch() + 100).await);
    assert!(give(&b, c.epoch()).await);
    assert!(b.claim_workflow_runs().await.unwrap().is_empty());
    assert_eq!(c.claim_workflow_runs().await.unwrap(), ["r1"]);
    assert!(give(&c, b.epoch()).await);
    let end = |status: &str| WorkflowRunEnd {
        status: status.into(),
        outputs: None,
        error: None,
        ended_micros: 1,
    };
    assert!(!a.end_workflow_run("r1".into(), end("failed")).await.unwrap());
    assert!(b.end_workflow_run("r1".into(), end("succeeded")).await.unwrap());
    place.close().await;
}

#[tokio::test]
async fn one_of_two_replicas_takes_each_kernel_of_a_dead_one() {
    let place = Shared::new().await;
    let (a, b, c) = (
        place.open("a").await,
        place.open("b").await,
        place.open("c").await,
    );
    for n in 1..=40 {
        a.insert_kernel(kernel(n)).await.unwrap();
    }
    let located = b.locate(Lookup::Kernel(kernel(1).id)).await.unwrap().unwrap();
    assert!(located.replica.live && located.replica.name == "a" && located.replica.address.is_none());
    assert_eq!(b.kernels(Scope::Own).await.unwrap(), []);
    assert_eq!(b.kernels(Scope::All).await.unwrap().len(), 40);
    assert_eq!(b.dead_replicas().await.unwrap(), []);
    assert!(b.take_over(everything()).await.unwrap().is_empty());
    assert_eq!(b.take_kernels().await.unwrap(), []);
    place.expire("a").await;
    let dead = b.dead_replicas().await.unwrap();
    assert_eq!(
        (dead.len(), &*dead[0].name, &dead[0].places[..]),
        (1, "a", &["here".to_owned()][..])
    );
    assert_eq!(dead[0].sandboxes, 40);
    let (by_b, by_c) = tokio::join!(b.take_over(everything()), c.take_over(everything()));
    let (by_b, by_c) = (by_b.unwrap(), by_c.unwrap());
    assert!(by_b.is_empty() || by_b.epoch > c.epoch());
    let (mut by_b, mut by_c) = (kernels_of(by_b), kernels_of(by_c));
    // One may have skipped what the other one was just looking at.
    by_b.extend(kernels_of(b.take_over(everything()).await.unwrap()));
    by_c.extend(kernels_of(c.take_over(everything()).await.unwrap()));
    assert_eq!(by_b.len() + by_c.len(), 40);
    let mut owners = HashMap::new();
    for (name, taken) in [("b", by_b), ("c", by_c)] {
        for kernel in taken {
            let owner = c.owner(kernel.id).await.unwrap().unwrap();
            assert_eq!((&*owner.replica, owner.epoch), (name, 2));
            assert_eq!(owners.insert(kernel.id, name), None);
        }
    }
    // The lease that others have used is not renewed.
    assert_eq!(
        place.sql("SELECT lease_until FROM himalia.replicas WHERE name = 'a'"),
        "-infinity"
    );
    let located = b.locate(Lookup::Kernel(kernel(1).id)).await.unwrap().unwrap();
    assert!(located.replica.live && located.replica.name != "a");
    let names: Vec<String> = b
        .replicas()
        .await
        .unwrap()
        .into_iter()
        .map(|one| one.name)
        .collect();
    assert_eq!(names, ["b", "c"]);
}

#[tokio::test]
async fn only_what_another_replica_can_use_is_taken_in_bounded_parts() {
    let place = Shared::new().await;
    let (a, b) = (place.open("a").await, place.open("b").await);
    let with = |n: u128, change: &dyn Fn(&mut KernelRecord)| {
        let mut row = kernel(n);
        change(&mut row);
        row
    };
    let elsewhere = with(5, &|row| row.session["place"] = "elsewhere".into());
    let unshared = with(6, &|row| {
        row.session.as_object_mut().unwrap().remove("place");
    });
    // Two kernels of one sandbox.
    let second = with(2, &|row| row.paths.sandbox_id = kernel(1).paths.sandbox_id);
    for row in [&kernel(1), &second, &kernel(3), &elsewhere, &unshared] {
        a.insert_kernel(row.clone()).await.unwrap();
    }
    for n in [7, 8] {
        a.end_kernel(ended(n)).await.unwrap();
    }
    let jupyter = JupyterSessionRecord {
        id: Uuid::from_u128(9),
        owner: "operator".into(),
        path: "x".into(),
        name: String::new(),
        kind: "notebook".into(),
        kernel_id: kernel(1).id,
        created_micros: 1,
    };
    a.insert_jupyter_session(jupyter.clone()).await.unwrap();
    // The log of one ended session is shared, and one that nothing has.
    place.sql("INSERT INTO himalia.logs (name, replica, epoch) VALUES ('sessions/1', 'a', 1), ('kernels/7', 'a', 1), ('kernels/pool', 'a', 1)");
    place.expire("a").await;
    let some = |most| TakeOver { most, ..everything() };
    let first = b.take_over(some(1)).await.unwrap();
    assert_eq!(
        first.kernels,
        [(kernel(1), "a".to_owned()), (second, "a".to_owned())]
    );
    assert!(first.epoch > b.epoch() && first.ended.is_empty() && first.orphans.is_empty());
    // Their logs come with them.
    assert_eq!(
        place.sql("SELECT epoch FROM himalia.logs WHERE replica = 'b' AND name = 'sessions/1'"),
        b.epoch().to_string()
    );
    let next = b.take_over(some(9)).await.unwrap();
    assert!(next.epoch > first.epoch && next.ended.is_empty() && next.orphans.is_empty());
    assert_eq!(kernels_of(next), [kernel(3)]);
    let rest = b.take_over(some(9)).await.unwrap();
    assert_eq!(
        (rest.ended, rest.orphans),
        (vec![ended(7)], vec!["kernels/pool".to_owned()])
    );
    // The log belongs to who has the session, and can be removed by it.
    assert_eq!(
        place.sql("SELECT count(*) FROM himalia.logs WHERE replica = 'b'"),
        "3"
    );
    assert!(b.take_over(some(9)).await.unwrap().is_empty());
    let dead = b.dead_replicas().await.unwrap();
    assert_eq!(dead[0].places, ["elsewhere"]);
    let given_up = TakeOver {
        given_up: vec!["a".into()],
        ..some(9)
    };
    assert_eq!(kernels_of(b.take_over(given_up).await.unwrap()), [elsewhere]);
    assert_eq!(b.dead_replicas().await.unwrap(), []);
    assert_eq!(b.owner(unshared.id).await.unwrap().unwrap().replica, "a");
    assert_eq!(b.take_jupyter_sessions(vec![kernel(3).id]).await.unwrap(), 0);
    assert_eq!(b.take_jupyter_sessions(vec![kernel(1).id]).await.unwrap(), 1);
    assert_eq!(b.jupyter_sessions(Scope::Own).await.unwrap(), [jupyter]);
}

#[tokio::test]
async fn what_was_taken_without_an_answer_is_found_by_the_next_call() {
    let place = Shared::new().await;
    let b = place.try_open("b", LEASE).await.unwrap();
    b.insert_kernel(kernel(1)).await.unwrap();
    let taken = kernel(2);
    b.insert_kernel(taken.clone()).await.unwrap();
    b.claims.remove(taken.id);
    assert!(
        b.take_over(everything()).await.unwrap().is_empty(),
        "it was started here"
    );
    place.sql(&format!(
        "UPDATE himalia.kernels SET fence = 2 WHERE id = '{}'",
        taken.id
    ));
    assert_eq!(
        kernels_of(b.take_over(everything()).await.unwrap()),
        std::slice::from_ref(&taken)
    );
    // If the statement is done late, by then the process may write under this epoch.
    assert_eq!(b.owner(taken.id).await.unwrap().unwrap().epoch, 2);
    assert!(b.take_over(everything()).await.unwrap().is_empty());
    assert!(b.delete_kernel(taken.id).await.unwrap());
}

#[tokio::test]
async fn a_replica_whose_name_another_process_has_writes_nothing_more() {
    let place = Shared::new().await;
    let a = place.open("a").await;
    a.insert_kernel(kernel(1)).await.unwrap();
    // The same data directory: its earlier process is known to have ended, so nothing is waited for.
    let next = place.open("a").await;
    for written in [
        a.insert_kernel(kernel(2)).await.map(|()| true),
        a.delete_kernel(kernel(1).id).await,
        a.set_address("x".into()).await.map(|()| true),
    ] {
        assert!(matches!(written, Err(StoreError::LeaseLost)), "{written:?}");
    }
    assert_eq!(next.kernels(Scope::All).await.unwrap(), [kernel(1)]);
    assert_eq!(next.take_kernels().await.unwrap(), [kernel(1)]);
    assert!(next.delete_kernel(kernel(1).id).await.unwrap());
}

#[tokio::test]
async fn a_lease_that_cannot_be_renewed_is_lost_after_half_of_it() {
    let place = Shared::new().await;
    let a = place.try_open("a", Duration::from_secs(3)).await.unwrap();
    a.insert_kernel(kernel(1)).await.unwrap();
    place.server.pause(true).unwrap();
    let reason = a.lease().lost().await;
    assert!(reason.contains("1.5 s"), "{reason}");
    let refused = a.insert_kernel(kernel(2)).await;
    assert!(matches!(refused, Err(StoreError::LeaseLost)), "{refused:?}");
    place.server.pause(false).unwrap();
    assert!(!a.lease().is_valid());
}

/// A way to a server that can be cut.
struct Way {
    address: std::net::SocketAddr,
    is_cut: Arc<std::sync::atomic::AtomicBool>,
    passing: Arc<Mutex<Vec<tokio::task::AbortHandle>>>,
    refused: Arc<AtomicUsize>,
}

impl Way {
    async fn to(port: u16) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let way = Self {
            address: listener.local_addr().unwrap(),
            is_cut: Arc::default(),
            passing: Arc::default(),
            refused: Arc::default(),
        };
        let (is_cut, passing) = (Arc::clone(&way.is_cut), Arc::clone(&way.passing));
        let refused = Arc::clone(&way.refused);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                if is_cut.load(Ordering::Relaxed) {
                    refused.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                let mut server = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let pass = async move { tokio::io::copy_bidirectional(&mut client, &mut server).await };
                passing.lock().push(tokio::spawn(pass).abort_handle());
            }
        });
        way
    }

    /// Ends all connections, and refuses others from now on.
    fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
        self.passing.lock().drain(..).for_each(|one| one.abort());
    }
}

#[tokio::test]
async fn a_renewal_that_fails_is_tried_again_after_a_pause() {
    let place = Shared::new().await;
    let way = Way::to(place.server.port()).await;
    let (_, database) = place.url.rsplit_once('/').unwrap();
    let options = PostgresOptions {
        url: format!("postgres://himalia@{}/{database}", way.address)
            .parse()
            .unwrap(),
        ..place.options("a", Duration::from_secs(3))
    };
    let a = PostgresStore::open(options).await.unwrap();
    way.cut();
    let reason = a.lease().lost().await;
    assert!(reason.contains("1.5 s"), "{reason}");
    // 250 ms apart, for at most 1.5 s.
    let tries = way.refused.load(Ordering::Relaxed);
    assert!((1..=7).contains(&tries), "{tries} tries");
}

#[tokio::test]
async fn a_lease_that_has_ended_in_the_store_is_lost() {
    let place = Shared::new().await;
    let a = place.try_open("a", Duration::from_secs(3)).await.unwrap();
    place.expire("a").await;
    let reason = a.lease().lost().await;
    assert!(reason.contains("has ended in the store"), "{reason}");
    let b = place.open("b").await;
    // It renews its own.
    let first = place.sql("SELECT lease_until FROM himalia.replicas WHERE name = 'b'");
    let deadline = himalia_testkit::patience::Deadline::new();
    while place.sql("SELECT lease_until FROM himalia.replicas WHERE name = 'b'") == first {
        assert!(!deadline.is_over(), "it is not renewed");
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(b.lease().is_valid());
    place.close().await;
    assert_eq!(
        place.sql("SELECT count(*) FROM himalia.replicas WHERE lease_until > now()"),
        "0"
    );
}

#[tokio::test]
async fn a_data_directory_and_a_replica_belong_together() {
    let place = Shared::new().await;
    let a = place.open("a").await;
    a.insert_kernel(kernel(1)).await.unwrap();
    a.close().await.unwrap();
    let reason = |error: StoreError| match error {
        StoreError::Mismatch { reason, .. } => reason,
        other => panic!("{other}"),
    };
    let options = |replica: &str, dir: &str| PostgresOptions {
        data_dir: place.options(dir, LEASE).data_dir,
        ..place.options(replica, LEASE)
    };
    // Another name, a new directory, another database.
    let error = PostgresStore::open(options("b", "a")).await.unwrap_err();
    assert!(reason(error).contains("belongs to replica a"));
    let error = PostgresStore::open(options("a", "new")).await.unwrap_err();
    assert!(reason(error).contains("logs of 1 sessions"));
    let other = Shared::new().await;
    let elsewhere = PostgresOptions {
        url: other.url.parse().unwrap(),
        ..options("a", "a")
    };
    let error = PostgresStore::open(elsewhere).await.unwrap_err();
    assert!(reason(error).contains("another database"));
    let own = options("c", "c");
    std::fs::write(own.data_dir.join("himalia.db"), "").unwrap();
    let error = PostgresStore::open(own).await.unwrap_err();
    assert!(reason(error).contains("store of its own"));
    let again = place.open("a").await;
    assert_eq!(again.take_kernels().await.unwrap(), [kernel(1)]);
}

#[tokio::test]
async fn a_name_has_one_living_process() {
    let place = Shared::new().await;
    let short = Duration::from_secs(2);
    let first = place.try_open("a", short).await.unwrap();
    let elsewhere = || PostgresOptions {
        data_dir: place.options("other", short).data_dir,
        ..place.options("a", short)
    };
    let error = PostgresStore::open(elsewhere()).await.unwrap_err();
    assert!(matches!(error, StoreError::ReplicaInUse { .. }), "{error}");
    // Dropped as by a kill: the lease ends by itself, and the start waits for that.
    place.open.lock().clear();
    drop(first);
    let next = PostgresStore::open(elsewhere()).await.unwrap();
    assert!(next.lease().is_valid());
}

#[tokio::test]
async fn a_schema_of_this_version_is_brought_up_to_the_next_and_keeps_its_rows() {
    let place = Shared::new().await;
    place.open("a").await.insert_kernel(kernel(1)).await.unwrap();
    place.close().await;
    // A version that does not exist. The step runs once, however often it opens the database.
    let mut steps = MIGRATIONS.to_vec();
    steps.push(
        "ALTER TABLE himalia.kernels ADD COLUMN step text NOT NULL DEFAULT 'next'; UPDATE himalia.kernels SET incarnation = incarnation + 1",
    );
    for _ in 0..2 {
        let store = PostgresStore::open_with(place.options("a", LEASE), &steps)
            .await
            .unwrap();
        let mut expected = kernel(1);
        expected.incarnation += 1;
        assert_eq!(store.kernels(Scope::Own).await.unwrap(), [expected]);
        store.close().await.unwrap();
    }
    assert_eq!(place.sql("SELECT step FROM himalia.kernels").trim(), "next");
    let error = PostgresStore::open(place.options("a", LEASE)).await.unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::NewerSchema {
                found: 2,
                supported: 1,
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_step_that_fails_leaves_the_version_that_there_was() {
    let place = Shared::new().await;
    place.open("a").await.insert_kernel(kernel(1)).await.unwrap();
    place.close().await;
    let mut steps = MIGRATIONS.to_vec();
    steps.push("DELETE FROM himalia.kernels; SELECT 1 / 0");
    assert!(
        PostgresStore::open_with(place.options("a", LEASE), &steps)
            .await
            .is_err()
    );
    assert_eq!(
        place.open("a").await.kernels(Scope::Own).await.unwrap(),
        [kernel(1)]
    );
    place.close().await;
}

#[tokio::test]
async fn a_database_of_a_development_build_is_refused_and_left_as_it_was() {
    let place = Shared::new().await;
    place.sql(
        "CREATE SCHEMA himalia; CREATE TABLE himalia.meta (key text PRIMARY KEY, value text NOT NULL);
         INSERT INTO himalia.meta VALUES ('schema_version', '16'), ('gateway_epoch', '7')",
    );
    let error = PostgresStore::open(place.options("a", LEASE)).await.unwrap_err();
    assert!(matches!(error, StoreError::DevelopmentSchema { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("schema 16 of") && text.contains("schema 1 of"),
        "{text}"
    );
    assert_eq!(
        place.sql("SELECT string_agg(key, ',') FROM himalia.meta").trim(),
        "schema_version,gateway_epoch"
    );
}

#[tokio::test]
async fn an_absent_server_is_refused() {
    let place = Shared::new().await;
    let mut absent = place.options("a", LEASE);
    absent.url = "postgres://u:canary@127.0.0.1:1/x".parse().unwrap();
    let error = PostgresStore::open(absent).await.unwrap_err().to_string();
    assert!(
        error.contains("postgres://127.0.0.1:1/x") && !error.contains("canary"),
        "{error}"
    );
}

#[tokio::test]
async fn replicas_that_start_at_once_make_one_schema() {
    let place = Shared::new().await;
    let opened = ["a", "b", "c", "d"].map(|name| place.try_open(name, LEASE));
    let opened = futures_util::future::join_all(opened).await;
    let mut epochs: Vec<u64> = opened.into_iter().map(|store| store.unwrap().epoch()).collect();
    epochs.sort_unstable();
    assert_eq!(epochs, [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_broken_connection_is_made_again() {
    let place = Shared::new().await;
    let a = place.open("a").await;
    a.insert_kernel(kernel(1)).await.unwrap();
    place.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'himalia'");
    let deadline = himalia_testkit::patience::Deadline::new();
    // What is asked before the end of the connection is noticed fails.
    while a.kernel(kernel(1).id).await.is_err() {
        assert!(!deadline.is_over());
    }
    a.insert_kernel(kernel(2)).await.unwrap();
    assert!(a.lease().is_valid());
}

#[tokio::test]
async fn the_certificate_of_the_server_is_verified() {
    let mut authority = rcgen::CertificateParams::default();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let authority_cert = authority.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let leaf = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = leaf.signed_by(&key, &issuer).unwrap();
    let server = Postgres::start(Some(ServerCertificate {
        certificate: &certificate.pem(),
        key: &key.serialize_pem(),
    }))
    .unwrap();
    server.database().unwrap();
    let dir = TempDir::new().unwrap();
    let root = dir.path().join("root.pem");
    std::fs::write(&root, authority_cert.pem()).unwrap();
    let open = async |host: &str, query: &str| {
        let options = PostgresOptions {
            url: format!("postgres://himalia@{host}:{}/test0?{query}", server.port())
                .parse()
                .unwrap(),
            replica: "a".into(),
            data_dir: dir.path().to_owned(),
            lease: LEASE,
        };
        PostgresStore::open(options)
            .await
            .map_err(|error| error.to_string())
    };
    let trusted = format!("sslmode=verify-full&sslrootcert={}", root.display());
    let error = open("localhost", "sslmode=verify-full").await.unwrap_err();
    assert!(error.contains("UnknownIssuer"), "{error}");
    let error = open("127.0.0.1", &trusted).await.unwrap_err();
    assert!(error.contains("not valid for name"), "{error}");
    let store = open("localhost", &trusted).await.unwrap();
    store.insert_kernel(kernel(1)).await.unwrap();
    let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE application_name = 'himalia'";
    assert_eq!(server.run("/test0", encrypted).unwrap(), "t");
}
