//! An engine over the local provisioner, with the fake kernel as its kernelspec. `HIMALIA_TEST_TRANSPORT=tls` runs the suite
//! over TLS.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test binary uses its part"
)]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use himalia_engine::{
    Ask, Attach, Attachment, Delivery, Drain, Engine, EngineConfig, ExecutionId, ExecutionResult, FeedClosed,
    KernelId, Principal, StartSession, WaitUntil,
};
use himalia_sandbox::{LocalConfig, LocalProvisioner};
use himalia_testkit::patience::within;
use himalia_testkit::{assert_eventually, binaries};
use himalia_wire::{Channel, Limits, Parts, build, header, v1};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The methods of a provisioner of a test that are those of another one, its field of this name.
macro_rules! passed_on {
    ($inner:ident) => {
        fn kind(&self) -> himalia_provisioner::ProvisionerKind {
            self.$inner.kind()
        }

        fn capabilities(&self) -> himalia_provisioner::Capabilities {
            self.$inner.capabilities()
        }

        fn limits(&self) -> himalia_provisioner::LimitReport {
            self.$inner.limits()
        }

        fn stop(
            &self,
            id: himalia_provisioner::SandboxId,
            grace: std::time::Duration,
        ) -> himalia_provisioner::BoxFuture<
            '_,
            Result<himalia_provisioner::SandboxExit, himalia_provisioner::SandboxError>,
        > {
            self.$inner.stop(id, grace)
        }

        fn list(
            &self,
        ) -> himalia_provisioner::BoxFuture<
            '_,
            Result<Vec<himalia_provisioner::SandboxInfo>, himalia_provisioner::SandboxError>,
        > {
            self.$inner.list()
        }

        fn note_process(
            &self,
            id: himalia_provisioner::SandboxId,
            pid: u32,
        ) -> himalia_provisioner::BoxFuture<'_, Result<bool, himalia_provisioner::SandboxError>> {
            self.$inner.note_process(id, pid)
        }

        fn sweep(
            &self,
            keep: Vec<himalia_provisioner::SandboxId>,
        ) -> himalia_provisioner::BoxFuture<
            '_,
            Result<Vec<himalia_provisioner::SandboxId>, himalia_provisioner::SandboxError>,
        > {
            self.$inner.sweep(keep)
        }
    };
}

pub mod over_tls;
use over_tls::OverTls;

/// Directories of one engine, and how to open it again.
pub struct TestEngine {
    pub data: TempDir,
    pub run: TempDir,
    pub specs: TempDir,
    /// Keys and certificates, where the suite runs over TLS.
    pub tls: TempDir,
    pub change: fn(&mut EngineConfig),
}

impl TestEngine {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: fn(&mut EngineConfig)) -> Self {
        let private = std::fs::Permissions::from_mode(0o700);
        let short = || {
            let mut builder = tempfile::Builder::new();
            builder
                .prefix("hm")
                .permissions(private.clone())
                .tempdir_in("/tmp")
                .unwrap()
        };
        let place = Self {
            data: short(),
            run: short(),
            specs: short(),
            tls: short(),
            change,
        };
        let fake = binaries::fake_kernel().unwrap();
        place.kernelspec(
            "fake",
            &json!({
                "argv": [fake, "-f", "{connection_file}"], "display_name": "Fake", "language": "script",
            }),
        );
        place.kernelspec("missing", &json!({
            "argv": ["/no/such/program", "{connection_file}"], "display_name": "Missing", "language": "script",
        }));
        for (name, more) in [
            ("late", &[][..]),
            ("deaf", &["--bind", "error"][..]),
            ("busy", &["--fork", "busy"][..]),
            ("hazardous", &["--fork", "hazard"][..]),
        ] {
            let mut argv = vec![fake.to_str().unwrap(), "-f", "{connection_file}"];
            argv.extend(more);
            place.kernelspec(
                name,
                &json!({
                    "argv": argv, "display_name": name, "language": "script", "metadata": {"himalia": {"late_bind": true}},
                }),
            );
        }
        place.kernelspec(
            "stillborn",
            &json!({
                "argv": [fake, "-f", "{connection_file}", "--exit-at-start", "3"],
                "display_name": "Stillborn", "language": "script",
            }),
        );
        place
    }

    pub fn kernelspec(&self, name: &str, spec: &Value) {
        let dir = self.specs.path().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("kernel.json"), spec.to_string()).unwrap();
    }

    pub async fn open(&self) -> Engine {
        if over_tls::is_wanted() {
            let shim = binaries::path("himalia-shim").unwrap();
            let (config, provisioner) = self.parts_with(over_tls::shim_program(self.tls.path(), &shim));
            let provisioner = Arc::new(OverTls::new(provisioner, self.tls.path()));
            return Engine::open(config, provisioner).await.unwrap();
        }
        let (config, provisioner) = self.parts();
        Engine::open(config, Arc::new(provisioner)).await.unwrap()
    }

    /// What an engine is opened with.
    pub fn parts(&self) -> (EngineConfig, LocalProvisioner) {
        self.parts_with(binaries::path("himalia-shim").unwrap())
    }

    fn parts_with(&self, shim: std::path::PathBuf) -> (EngineConfig, LocalProvisioner) {
        let provisioner = LocalProvisioner::new(LocalConfig::new(self.run.path(), shim)).unwrap();
        let mut config = EngineConfig::new(self.data.path());
        config.kernelspec_dirs = vec![self.specs.path().to_owned()];
        config.only_these_kernelspecs = true;
        config.default_kernel = "fake".into();
        // What ends is gone, unless a test is about what is kept.
        config.retention.time = std::time::Duration::ZERO;
        (self.change)(&mut config);
        (config, provisioner)
    }

    /// The next gateway, for which the retention time of everything that has ended has passed.
    pub async fn open_past_retention(&mut self, engine: Engine) -> Engine {
        engine.drain(&op(), Drain::StopKernels).await.unwrap();
        drop(engine);
        self.change = |config| config.retention.time = Duration::from_micros(1);
        self.open().await
    }

    /// Whether no sandbox and no log is left.
    pub fn is_clean(&self) -> bool {
        let empty =
            |path: &std::path::Path| std::fs::read_dir(path).is_ok_and(|mut dir| dir.next().is_none());
        let dirs = |path: &std::path::Path| {
            std::fs::read_dir(path)
                .unwrap()
                .flatten()
                .filter(|entry| entry.path().is_dir())
                .count()
        };
        empty(&self.data.path().join("kernels")) && dirs(self.run.path()) == 0
    }
}

impl Drop for TestEngine {
    /// A failed test leaves no processes: every one of a sandbox names the run directory.
    fn drop(&mut self) {
        let run = self.run.path().to_string_lossy().into_owned();
        for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = process
                .file_name()
                .to_string_lossy()
                .parse()
                .ok()
                .and_then(rustix::process::Pid::from_raw);
            let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            if let Some(pid) = pid
                && String::from_utf8_lossy(&command).contains(&run)
            {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

pub fn op() -> Principal {
    Principal::operator()
}

/// What a person may be asked.
pub fn question(text: &str) -> Ask {
    Ask {
        text: text.into(),
        options: Vec::new(),
        time: Duration::from_mins(1),
        key: None,
    }
}

pub async fn start(engine: &Engine) -> KernelId {
    let started = within("start", engine.start_kernel(&op(), StartSession::default()))
        .await
        .unwrap();
    started.unwrap().id
}

pub async fn stop(engine: Engine) {
    within("drain", engine.drain(&op(), Drain::StopKernels))
        .await
        .unwrap()
        .unwrap();
}

/// What came of an execution, once it is complete and written down.
pub async fn settled(engine: &Engine, principal: &Principal, id: ExecutionId) -> ExecutionResult {
    let mut feed = engine.follow_execution(principal, id, None).await.unwrap();
    within("the end of an execution", feed.wait(WaitUntil::Settled))
        .await
        .unwrap()
        .unwrap()
}

/// A client.
pub struct Client {
    pub session: String,
    pub attachment: Attachment,
    pub seen: Vec<Seen>,
    /// How many of `seen` were looked at by `until`.
    looked_at: usize,
}

/// A message that a client was shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub seq: u64,
    pub channel: Channel,
    pub msg_type: String,
    pub session: String,
    pub parent: Option<String>,
    pub content: Value,
}

impl Client {
    pub async fn attach(engine: &Engine, id: KernelId, session: &str) -> Self {
        Self::attach_after(engine, id, session, None).await
    }

    pub async fn attach_after(engine: &Engine, id: KernelId, session: &str, after: Option<u64>) -> Self {
        let principal = op();
        let attach = engine.attach(
            &principal,
            id,
            Attach {
                wire_session: session.into(),
                after,
            },
        );
        let attachment = within("attach", attach).await.unwrap().unwrap();
        Self {
            session: session.into(),
            attachment,
            seen: Vec::new(),
            looked_at: 0,
        }
    }

    /// Sends a message and gives back its id.
    pub async fn send(&mut self, channel: Channel, msg_type: &str, content: &Value) -> String {
        let parts = build::message(&self.session, msg_type, None, content);
        let msg_id = header::peek(&parts.header).unwrap().msg_id.into_owned();
        self.attachment
            .requests
            .send(v1::Frame::new(channel, &parts))
            .await
            .unwrap();
        msg_id
    }

    pub async fn execute(&mut self, code: &str) -> String {
        let content = json!({"code": code, "silent": false, "store_history": true, "user_expressions": {},
            "allow_stdin": true, "stop_on_error": true});
        self.send(Channel::Shell, "execute_request", &content).await
    }

    pub async fn answer(&mut self, request: &Seen, value: &str) {
        let _ = request;
        self.send(
            Channel::Stdin,
            "input_reply",
            &json!({"value": value, "status": "ok"}),
        )
        .await;
    }

    /// Reads until `found`, after what an earlier call found, and gives that message.
    pub async fn until(&mut self, what: &str, found: impl Fn(&Seen) -> bool) -> Seen {
        let looking = async {
            loop {
                while let Some(seen) = self.seen.get(self.looked_at) {
                    self.looked_at += 1;
                    if found(seen) {
                        return seen.clone();
                    }
                }
                let batch = self
                    .attachment
                    .feed
                    .next()
                    .await
                    .unwrap_or_else(|closed| panic!("{what}: {closed:?}"));
                self.seen.extend(batch.iter().map(understand));
                if let Some(last) = batch.last() {
                    self.attachment.feed.acknowledge(last.seq);
                }
            }
        };
        within(what, looking).await.unwrap()
    }

    /// Runs code to its end: reply and idle.
    pub async fn run(&mut self, code: &str) -> Seen {
        let id = self.execute(code).await;
        self.finish(&id).await
    }

    /// Waits for the reply and the idle of a request.
    pub async fn finish(&mut self, id: &str) -> Seen {
        let of = |seen: &Seen| seen.parent.as_deref() == Some(id);
        let replied = |seen: &Seen| of(seen) && seen.msg_type.ends_with("_reply");
        let idle = |seen: &Seen| of(seen) && seen.content["execution_state"] == "idle";
        loop {
            let reply = self.seen.iter().find(|seen| replied(seen)).cloned();
            if let Some(reply) = reply.filter(|_| self.seen.iter().any(&idle)) {
                return reply;
            }
            self.until("reply and idle", |seen| replied(seen) || idle(seen))
                .await;
        }
    }

    /// Forgets what was seen.
    pub fn reset(&mut self) {
        self.seen.clear();
        self.looked_at = 0;
    }

    /// Everything on stdout below a request.
    pub fn output(&self, id: &str) -> String {
        let mine = self
            .seen
            .iter()
            .filter(|seen| seen.parent.as_deref() == Some(id) && seen.msg_type == "stream");
        mine.filter_map(|seen| seen.content["text"].as_str()).collect()
    }

    /// Reads to the end of the feed.
    pub async fn closed(&mut self) -> FeedClosed {
        let end = async {
            loop {
                match self.attachment.feed.next().await {
                    Ok(batch) => self.seen.extend(batch.iter().map(understand)),
                    Err(closed) => return closed,
                }
            }
        };
        within("the end of the feed", end).await.unwrap()
    }

    /// What comes within a moment, which is nothing if all is well.
    pub async fn surprises(&mut self) -> Vec<Seen> {
        let next = tokio::time::timeout(Duration::from_millis(50), self.attachment.feed.next());
        next.await.map_or_else(
            |_| Vec::new(),
            |batch| batch.unwrap().iter().map(understand).collect(),
        )
    }
}

pub fn understand(delivery: &Delivery) -> Seen {
    let (channel, parts): (Channel, Parts) = v1::decode(&delivery.frame, &Limits::KERNEL).unwrap();
    assert_eq!(channel, delivery.channel);
    let head = header::peek(&parts.header).unwrap();
    let parent = header::peek_parent(&parts.parent_header).unwrap();
    Seen {
        seq: delivery.seq,
        channel,
        msg_type: head.msg_type.to_string(),
        session: head.session.to_string(),
        parent: parent.map(|parent| parent.msg_id.to_string()),
        content: serde_json::from_slice(&parts.content).unwrap(),
    }
}

pub fn state(engine: &Engine, id: KernelId) -> String {
    engine
        .kernel(&op(), id)
        .map_or("gone".into(), |model| model.execution_state.to_string())
}

pub async fn until_state(engine: &Engine, id: KernelId, wanted: &str) {
    assert_eventually!(
        state(engine, id) == wanted,
        "state {}, wanted {wanted}",
        state(engine, id)
    );
}

pub fn none() -> BTreeMap<String, String> {
    BTreeMap::new()
}

/// A message with this header and nothing else.
pub fn frame(channel: Channel, header: &str) -> v1::Frame {
    let header = Bytes::copy_from_slice(header.as_bytes());
    let parts = Parts {
        header,
        ..Parts::default()
    };
    v1::Frame::new(channel, &parts)
}

pub fn parent_of(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

pub fn kill(pid: i32) {
    use rustix::process::{Pid, Signal, kill_process};
    let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
}

/// Ends a kernel and its shim, as a host does that goes down.
pub fn kill_with_shim(pid: i32) {
    let shim = parent_of(pid);
    kill(shim);
    kill(pid);
}

/// The gateway ends, after it this kernel and its shim, and the next gateway finds the kernel dead.
pub async fn lose_while_away(place: &TestEngine, engine: Engine, id: KernelId, pid: i32) -> Engine {
    engine.drain(&op(), Drain::KeepKernels).await.unwrap();
    drop(engine);
    kill_with_shim(pid);
    let engine = place.open().await;
    until_state(&engine, id, "dead").await;
    engine
}
