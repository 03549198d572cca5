//! Code in a sandbox can call the gateway's socket of its own sandbox. Without the key it costs the gateway next to nothing.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use himalia_testkit::assert_eventually;

use crate::common::{forget_peak, gateway, peak, resident};

/// Memory that the gateway may gain, in MiB.
const GROWTH: u64 = 64;
/// Threads of the attacker.
const THREADS: usize = 4;
/// Connections that the gateway has to see before the test looks at what they cost.
const CALLS: u64 = 200;

/// The socket on which the gateway waits for the only sandbox.
fn socket(run: &Path) -> PathBuf {
    let mut dirs = vec![run.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            if entry.file_name() == "gw.sock" {
                return entry.path();
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(entry.path());
            }
        }
    }
    panic!("no gw.sock below {}", run.display());
}

/// Threads that do the same again and again, until it is dropped.
struct Attack {
    calls: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Attack {
    fn begin(threads: usize, socket: &Path, call: fn(UnixStream)) -> Self {
        let (calls, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let threads = (0..threads).map(|_| {
            let (calls, stop, socket) = (Arc::clone(&calls), Arc::clone(&stop), socket.to_owned());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Ok(stream) = UnixStream::connect(&socket) else {
                        // The gateway is away.
                        std::thread::sleep(Duration::from_millis(1));
                        continue;
                    };
                    // So that a thread sees the end of the test.
                    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
                    call(stream);
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        let threads = threads.collect();
        Self { calls, stop, threads }
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

/// The head of a message of 256 MiB, then zeros for as long as they are taken.
fn endless_message(mut stream: UnixStream) {
    let mut head = (256_u32 << 20).to_le_bytes().to_vec();
    head.extend([4, 0, 0]);
    head.extend([0; 8]);
    let zeros = vec![0; 1 << 20];
    if stream.write_all(&head).is_ok() {
        while stream.write_all(&zeros).is_ok() {}
    }
}

/// Says nothing until the gateway hangs up.
fn silence(mut stream: UnixStream) {
    match stream.read(&mut [0]) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_without_the_key_takes_no_memory() {
    let gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let mut client = gateway.connect(&kernel).await.unwrap();
    client.execute("set x 1").await.unwrap();
    let pid = gateway.pid().unwrap();
    let before = resident(pid);
    forget_peak(pid);
    let attack = Attack::begin(THREADS, &socket(&gateway.file("run")), endless_message);
    assert_eventually!(
        attack.calls() >= CALLS,
        "{} calls, peak {} MiB",
        attack.calls(),
        peak(pid)
    );
    assert_eq!(client.execute("get x").await.unwrap().stdout(), "1\n");
    drop(attack);
    let most = peak(pid);
    assert!(most < before + GROWTH, "from {before} to {most} MiB");
    let warnings = gateway.log().matches("without its key").count();
    assert_eq!(warnings, 1, "one line a minute is enough:\n{}", gateway.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_say_nothing_keep_no_shim_from_coming_back() {
    let mut gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    gateway
        .connect(&kernel)
        .await
        .unwrap()
        .execute("set x 1")
        .await
        .unwrap();
    let attack = Attack::begin(64, &socket(&gateway.file("run")), silence);
    for _ in 0..3 {
        gateway.crash().await.unwrap();
        let mut client = gateway.connect(&kernel).await.unwrap();
        assert_eq!(client.execute("get x").await.unwrap().stdout(), "1\n");
    }
    drop(attack);
}
