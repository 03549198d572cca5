use himalia_journal::{Append, Journal, LogStore, Meta, NewRecord, Options, Read};
use himalia_metrics::Metrics;
use himalia_store::{
    EndedRecord, KernelLife, KernelRecord, PostgresOptions, PostgresStore, RuntimePaths, SessionStore as _,
    Store as _,
};
use himalia_testkit::patience::Deadline;
use himalia_testkit::postgres::Postgres;
use tempfile::TempDir;

use super::*;

const LOG: &str = "kernels/a";

/// Replicas with disks of their own, on one database and one directory of objects.
struct Cluster {
    server: Postgres,
    url: String,
    dir: TempDir,
}

struct Replica {
    store: PostgresStore,
    shared: ReplicaLogs,
    logs: LogStore,
}

impl Cluster {
    fn new() -> Self {
        let server = Postgres::start(None).unwrap();
        let url = server.database().unwrap();
        let dir = TempDir::new().unwrap();
        Self { server, url, dir }
    }

    async fn start(&self, name: &str, disk: &str) -> Replica {
        let data_dir = self.dir.path().join(disk);
        std::fs::create_dir_all(&data_dir).unwrap();
        let options = PostgresOptions {
            url: self.url.parse().unwrap(),
            replica: name.to_owned(),
            data_dir: data_dir.clone(),
            lease: Duration::from_secs(2),
        };
        let store = PostgresStore::open(options).await.unwrap();
        let objects =
            Objects::open(&format!("file://{}", self.objects().display()).parse().unwrap()).unwrap();
        let shared = ReplicaLogs::start(
            store.logs(),
            objects,
            store.lease().clone(),
            Metrics::new().replicas().clone(),
        );
        let logs = LogStore::new(data_dir).shared(Some(Arc::new(shared.clone())));
        Replica { store, shared, logs }
    }

    fn objects(&self) -> std::path::PathBuf {
        self.dir.path().join("objects")
    }

    fn count(&self, table: &str) -> usize {
        let sql = format!("SELECT count(*) FROM himalia.{table}");
        self.server.run(&self.url, &sql).unwrap().parse().unwrap()
    }
}

impl Replica {
    async fn open(&self, options: Options) -> io::Result<Journal> {
        self.open_log(LOG, options).await
    }

    async fn open_log(&self, name: &'static str, options: Options) -> io::Result<Journal> {
        let logs = self.logs.clone();
        let opened = tokio::task::spawn_blocking(move || logs.open(name, options));
        let opened = opened.await.unwrap();
        opened.map(|(journal, _)| journal).map_err(io::Error::other)
    }

    async fn stop(self) {
        assert!(self.shared.flush(Duration::from_mins(1)).await);
        self.store.close().await.unwrap();
    }
}

fn record(n: u64, bytes: usize) -> NewRecord {
    let mut body = vec![0; bytes.max(8)];
    body[..8].copy_from_slice(&n.to_le_bytes());
    NewRecord {
        kind: 1,
        meta: Meta::default(),
        body: body.into(),
    }
}

async fn append(journal: &Journal, n: u64, bytes: usize) {
    match journal.begin_batch(&[record(n, bytes)]).unwrap() {
        Append::Done(_) => panic!("the log is not shared"),
        Append::Pending(mut staged) => {
            (&mut staged.committed).await.unwrap();
            assert_eq!(journal.publish(staged), n..n + 1);
        }
    }
}

/// The numbers in all records from the first on, with their lengths.
async fn all(journal: &Journal) -> Vec<(u64, usize)> {
    let mut cursor = journal.cursor(0);
    let read = tokio::task::spawn_blocking(move || {
        let mut found = Vec::new();
        loop {
            match cursor.read(1000, 1 << 20).unwrap() {
                Read::Records(records) => {
                    found.extend(records.iter().map(|record| {
                        let number: [u8; 8] = record.body[..8].try_into().unwrap();
                        (u64::from_le_bytes(number), record.body.len())
                    }));
                }
                Read::Gap { from, to } => panic!("a gap {from}-{to}"),
                Read::UpToDate => return found,
            }
        }
    });
    read.await.unwrap()
}

fn small() -> Options {
    Options {
        tail_bytes: 1000,
        segment_bytes: 4000,
        ..Options::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_outlives_the_disk_of_its_replica() {
    let cluster = Cluster::new();
    let a = cluster.start("a", "disk1").await;
    let journal = a.open(small()).await.unwrap();
    let mut expected = Vec::new();
    for n in 1..=60 {
        // One is an object by itself.
        let bytes = if n == 7 { LARGE_BYTES + 1 } else { 300 };
        append(&journal, n, bytes).await;
        expected.push((n, bytes));
        if journal.roll_due() {
            journal.roll(&n.to_le_bytes()).unwrap();
        }
    }
    journal.positions().set(5, 17).unwrap();
    let flushed = journal.clone();
    tokio::task::spawn_blocking(move || flushed.sync().unwrap())
        .await
        .unwrap();
    assert_eq!(all(&journal).await, expected);
    drop(journal);
    a.stop().await;
    assert!(cluster.count("log_segments") >= 3, "rolled segments are objects");
    assert!(cluster.count("log_parts") < 30, "their parts are gone");

    std::fs::remove_dir_all(cluster.dir.path().join("disk1")).unwrap();
    let a = cluster.start("a", "disk2").await;
    let journal = a.open(small()).await.unwrap();
    assert_eq!(all(&journal).await, expected);
    assert_eq!(journal.positions().get(5), Some(17));
    append(&journal, 61, 10).await;
    expected.push((61, 10));
    assert_eq!(all(&journal).await, expected);
    journal.remove();
    drop(journal);
    a.stop().await;
    for table in ["logs", "log_parts", "log_segments"] {
        assert_eq!(cluster.count(table), 0, "{table}");
    }
    assert!(!cluster.objects().join(LOG).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_committed_is_not_seen_and_not_found_again() {
    let cluster = Cluster::new();
    let a = cluster.start("a", "disk").await;
    let journal = a.open(small()).await.unwrap();
    append(&journal, 1, 10).await;
    // Another process takes the log.
    let taken = "UPDATE himalia.logs SET epoch = epoch + 1";
    cluster.server.run(&cluster.url, taken).unwrap();
    let Append::Pending(staged) = journal.begin_batch(&[record(2, 10)]).unwrap() else {
        panic!("it is not shared");
    };
    staged.committed.await.unwrap_err();
    assert_eq!((journal.head(), all(&journal).await), (1, vec![(1, 10)]));
    drop((journal, a));
    // On the same disk, which has the batch.
    let a = cluster.start("a", "disk").await;
    let journal = a.open(small()).await.unwrap();
    assert_eq!(all(&journal).await, [(1, 10)]);
    append(&journal, 2, 20).await;
    assert_eq!(all(&journal).await, [(1, 10), (2, 20)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_has_one_writer() {
    let cluster = Cluster::new();
    let (a, b) = (
        cluster.start("a", "disk1").await,
        cluster.start("b", "disk2").await,
    );
    let journal = a.open(small()).await.unwrap();
    append(&journal, 1, 10).await;
    let refused = b.open(small()).await.unwrap_err().to_string();
    assert!(refused.contains("another gateway has the log"), "{refused}");
    // The next process of the same replica takes it.
    let next = cluster.start("a", "disk1").await;
    let taken = next.open(small()).await.unwrap();
    let Append::Pending(staged) = journal.begin_batch(&[record(2, 10)]).unwrap() else {
        panic!("it is not shared");
    };
    staged.committed.await.unwrap_err();
    append(&taken, 2, 20).await;
    assert_eq!(all(&taken).await, [(1, 10), (2, 20)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rolled_segments_wait_for_the_object_store() {
    let cluster = Cluster::new();
    let a = cluster.start("a", "disk1").await;
    let journal = a.open(small()).await.unwrap();
    // A file where the directory of the log would be.
    std::fs::write(cluster.objects().join("kernels"), "").unwrap();
    for n in 1..=20 {
        append(&journal, n, 500).await;
        if journal.roll_due() {
            journal.roll(b"checkpoint").unwrap();
        }
    }
    assert!(!a.shared.flush(Duration::from_millis(300)).await);
    assert_eq!(cluster.count("log_segments"), 0);
    std::fs::remove_file(cluster.objects().join("kernels")).unwrap();
    let deadline = Deadline::new();
    while cluster.count("log_segments") == 0 {
        assert!(!deadline.is_over(), "nothing is sealed");
    }
    assert_eq!(all(&journal).await.len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_logs_of_no_session_are_orphans() {
    let cluster = Cluster::new();
    let a = cluster.start("a", "disk1").await;
    for name in ["kernels/living", "kernels/ended", "kernels/pooled"] {
        append(&a.open_log(name, small()).await.unwrap(), 1, 10).await;
    }
    let id = |n| format!("00000000-0000-0000-0000-00000000000{n}").parse().unwrap();
    let living = KernelRecord {
        id: id(1),
        owner: "operator".into(),
        name: Some("living".into()),
        created_micros: 1,
        session: serde_json::json!({}),
        paths: RuntimePaths {
            session_dir: "kernels/living".into(),
            sandbox_id: "s".into(),
            sandbox_key_hash: [0; 32],
            socket: "s".into(),
        },
        incarnation: 1,
        life: KernelLife::Live,
        dead_cause: None,
    };
    a.store.insert_kernel(living).await.unwrap();
    let ended = EndedRecord {
        id: id(2),
        owner: "operator".into(),
        name: Some("ended".into()),
        session_dir: "kernels/ended".into(),
        created_micros: 1,
        ended_micros: 2,
        cause: "ttl".into(),
        removed_micros: None,
        facts: serde_json::json!({}),
    };
    a.store.end_kernel(ended).await.unwrap();
    a.shared.remove_orphans().await.unwrap();
    assert!(a.shared.flush(Duration::from_mins(1)).await);
    let left = cluster
        .server
        .run(&cluster.url, "SELECT name FROM himalia.logs ORDER BY name")
        .unwrap();
    assert_eq!(left, "kernels/ended\nkernels/living");
}
