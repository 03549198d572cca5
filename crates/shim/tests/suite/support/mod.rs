//! A gateway as small as a test needs it: it listens, welcomes, stores in memory, acknowledges.
#![allow(
    dead_code,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    missing_docs,
    unreachable_pub,
    reason = "a test"
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use himalia_shim_protocol::{
    Command, Decoder, Event, GatewayLink, Hello, KernelSpec, Lane, LinkCheck, PerLane, RequestId, Start,
    Stats, Stop, ToGateway, ToShim, VersionRange, Welcome,
};
use himalia_wire::{Channel, Limits, Parts, build, header, v1};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;

mod helpers;
mod lanes;
mod seen;
pub use helpers::*;
pub use lanes::*;
pub use seen::*;

pub const KERNEL: u16 = 1;
/// A user without processes.
const ORDINARY_USER: u32 = 64_124;
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct World {
    pub root: Rc<TempDir>,
    listener: UnixListener,
    pub link: GatewayLink,
    pub lanes: PerLane<Option<Lanes>>,
    pub entries: Vec<Entry>,
    pub stats: Vec<Stats>,
    pub hello: Option<Hello>,
    pub versions: VersionRange,
    /// Absent for the link of a branch.
    pub shim: Option<Child>,
}

/// A program as a user; root may become any.
pub fn as_user(user: u32, program: impl AsRef<std::ffi::OsStr>) -> Process {
    if rustix::process::geteuid().as_raw() == user {
        return Process::new(program);
    }
    let mut command = Process::new("/usr/bin/setpriv");
    command.args([
        format!("--reuid={user}"),
        format!("--regid={user}"),
        "--clear-groups".to_owned(),
    ]);
    command.arg(program);
    command
}

impl World {
    /// A shim that has not been welcomed yet.
    pub fn spawn(options: &[&str]) -> Self {
        Self::spawn_as(options, |shim, _| shim)
    }

    /// The same with a zygote, and with the key in a descriptor.
    pub fn spawn_with_zygote(mode: &str, options: &[&str]) -> Self {
        Self::spawn_as(options, |shim, root| {
            let mut first = Process::new(himalia_testkit::binaries::fake_kernel().unwrap());
            first.arg("--become-shim").arg("--zygote-mode").arg(mode);
            first.arg("--key").arg(root.join("g/key")).arg("--");
            first.arg(shim.get_program()).args(shim.get_args());
            first
        })
    }

    /// The same, whose shim runs as a user without privileges; and which one.
    pub fn spawn_as_ordinary_user() -> (Self, u32) {
        let own = rustix::process::geteuid().as_raw();
        if own != 0 {
            return (Self::spawn(&[]), own);
        }
        let world = Self::spawn_as(&[], |shim, root| {
            // The build directory need not be open to others.
            let copy = root.join("himalia-shim");
            std::fs::copy(shim.get_program(), &copy).unwrap();
            for path in [
                root,
                &root.join("g"),
                &root.join("g/key"),
                &root.join("g/gw.sock"),
            ] {
                std::os::unix::fs::chown(path, Some(ORDINARY_USER), Some(ORDINARY_USER)).unwrap();
            }
            let mut command = as_user(ORDINARY_USER, copy);
            command.args(shim.get_args());
            command
        });
        (world, ORDINARY_USER)
    }

    fn spawn_as(options: &[&str], wrap: impl Fn(Process, &Path) -> Process) -> Self {
        let root = tempfile::Builder::new()
            .prefix("shim")
            .tempdir_in("/tmp")
            .unwrap();
        let gateway = root.path().join("g");
        std::fs::create_dir(&gateway).unwrap();
        std::fs::write(gateway.join("key"), "secret\n").unwrap();
        let listener = UnixListener::bind(gateway.join("gw.sock")).unwrap();
        let mut shim = Process::new(env!("CARGO_BIN_EXE_himalia-shim"));
        shim.arg("--gateway-dir")
            .arg(&gateway)
            .arg("--runtime-dir")
            .arg(root.path().join("r"))
            .args(options)
            .arg("--log=warn");
        let shim = wrap(shim, root.path())
            .env_clear()
            .env("LEAK", "this must not reach a kernel")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self::with(Rc::new(root), listener, Some(shim))
    }

    /// The gateway's side of a branch's link. Make it before the fork.
    pub fn branch(&self, socket: &str) -> Self {
        let listener = UnixListener::bind(self.root.path().join("g").join(socket)).unwrap();
        Self::with(Rc::clone(&self.root), listener, None)
    }

    fn with(root: Rc<TempDir>, listener: UnixListener, shim: Option<Child>) -> Self {
        Self {
            root,
            listener,
            link: GatewayLink::new(KERNEL, 1, PerLane::default()),
            lanes: PerLane {
                now: None,
                data: None,
            },
            entries: Vec::new(),
            stats: Vec::new(),
            hello: None,
            versions: VersionRange::OURS,
            shim,
        }
    }

    /// A shim whose two lanes are welcomed.
    pub async fn connected(options: &[&str]) -> Self {
        let mut world = Self::spawn(options);
        world.connect().await;
        world
    }

    /// A shim with a fake kernel that has answered.
    pub async fn with_kernel(options: &[&str]) -> Self {
        let mut world = Self::connected(options).await;
        world.start(fake_spec(&[])).await;
        world.ready().await;
        world
    }

    pub fn runtime_dir(&self) -> PathBuf {
        self.root.path().join("r")
    }

    pub fn shim_pid(&self) -> i32 {
        i32::try_from(self.shim.as_ref().unwrap().id()).unwrap()
    }

    /// Listens where another gateway did, which keeps its socket: it is returned.
    pub fn listen_again(&mut self) -> UnixListener {
        let path = self.root.path().join("g/gw.sock");
        std::fs::remove_file(&path).unwrap();
        std::mem::replace(&mut self.listener, UnixListener::bind(path).unwrap())
    }

    /// Takes the next connection and its hello; no answer yet.
    pub async fn accept(&mut self) -> (Lanes, Hello) {
        let (stream, _) = within(self.listener.accept()).await.unwrap();
        let mut lane = Lanes {
            stream,
            decoder: Decoder::new(),
        };
        let ToGateway::Hello(hello) = lane.next().await.unwrap() else {
            panic!("no hello")
        };
        assert_eq!(hello.key, "secret");
        (lane, *hello)
    }

    /// Welcomes until both lanes are there.
    pub async fn connect(&mut self) {
        while self.lanes.now.is_none() || self.lanes.data.is_none() {
            self.connect_one().await;
        }
    }

    pub async fn connect_one(&mut self) -> Lane {
        let (mut connection, hello) = self.accept().await;
        let lane = hello.lane;
        let resumed = self.link.hello(lane, hello.kernel(KERNEL));
        assert_eq!((resumed.lost, resumed.rewound), (None, false));
        let protocol = self.versions.negotiate(hello.versions).unwrap();
        self.link.set_protocol(protocol);
        let resume = vec![resumed.resume];
        connection
            .send(&ToShim::Welcome(Welcome {
                protocol,
                epoch: self.link.epoch(),
                resume,
            }))
            .await;
        self.hello = Some(hello);
        self.lanes[lane] = Some(connection);
        self.write_ready(lane).await;
        lane
    }

    /// Dies as with kill -9: connections and everything unstored are gone; the next gateway has the next epoch.
    pub fn crash(&mut self) {
        self.lanes = PerLane {
            now: None,
            data: None,
        };
        let stored = PerLane {
            now: self.link.position(Lane::Now),
            data: self.link.position(Lane::Data),
        };
        self.link = GatewayLink::new(KERNEL, self.link.epoch() + 1, stored);
    }

    pub async fn command(&mut self, command: Command) -> RequestId {
        let id = self.link.command(&command).unwrap();
        self.write_ready(Lane::Now).await;
        id
    }

    pub async fn message(&mut self, channel: Channel, parts: &Parts) -> RequestId {
        let lane = if channel == Channel::Control {
            Lane::Now
        } else {
            Lane::Data
        };
        let id = self.link.message(lane, v1::encode(channel, parts)).unwrap();
        self.link.recorded(lane, id.number, id.number);
        self.write_ready(lane).await;
        id
    }

    async fn write_ready(&mut self, lane: Lane) {
        let Some(connection) = &mut self.lanes[lane] else {
            return;
        };
        while let Some(pending) = self.link.take_ready(lane) {
            connection.stream.write_all(&pending.head).await.unwrap();
            connection.stream.write_all(&pending.body).await.unwrap();
        }
    }

    pub async fn start(&mut self, spec: KernelSpec) -> RequestId {
        self.command(Command::Start(Box::new(Start { spec }))).await
    }

    pub async fn stop(&mut self, grace_ms: u64) -> RequestId {
        self.command(Command::Stop(Stop { grace_ms })).await
    }

    /// Waits until the kernel runs and answers.
    pub async fn ready(&mut self) {
        let starts = |world: &Self| {
            world
                .events()
                .filter(|event| matches!(event, Event::Started(_)))
                .count()
        };
        let ends = |world: &Self| {
            world
                .events()
                .filter(|event| matches!(event, Event::Exited(_)))
                .count()
        };
        self.until("started", |world| starts(world) > ends(world)).await;
        let id = self
            .message(Channel::Shell, &build::kernel_info_request("test"))
            .await;
        self.until_reply(id).await;
    }

    /// Executes and waits for reply and idle; gives the reply's status and what was printed.
    pub async fn run(&mut self, code: &str) -> (String, String) {
        let from = self.entries.len();
        let request = execute(code);
        let id = self.message(Channel::Shell, &request).await;
        self.until_done(&request, id).await;
        let status = self.reply(id).unwrap()["status"].as_str().unwrap().to_owned();
        (status, self.printed(from))
    }

    /// Sends code and waits until the kernel is at it.
    pub async fn begin(&mut self, request: &Parts) -> RequestId {
        let inputs = |world: &Self| {
            world
                .messages()
                .filter(|(msg_type, ..)| *msg_type == "execute_input")
                .count()
        };
        let before = inputs(self);
        let id = self.message(Channel::Shell, request).await;
        self.until("execute_input", |world| inputs(world) > before).await;
        id
    }

    pub async fn until_reply(&mut self, id: RequestId) {
        self.until("a reply", |world| world.reply(id).is_some()).await;
    }

    pub async fn until_done(&mut self, request: &Parts, id: RequestId) {
        let msg_id = header::peek(&request.header).unwrap().msg_id.into_owned();
        self.until("reply and idle", |world| {
            world.reply(id).is_some() && world.idle(&msg_id)
        })
        .await;
    }

    /// Receives until the condition holds.
    pub async fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !done(self) {
            assert!(
                Instant::now() < end,
                "not within {PATIENCE:?}: {what}; last {:?}",
                self.entries.last()
            );
            let _ = tokio::time::timeout(Duration::from_millis(200), self.receive()).await;
        }
    }

    /// Waits for one event that fits.
    pub async fn event<T>(&mut self, what: &str, fits: impl Fn(&Event) -> Option<T>) -> T {
        self.until(what, |world| world.events().any(|event| fits(event).is_some()))
            .await;
        self.events().find_map(fits).unwrap()
    }

    /// Receives from whichever lane is ready, stores, acknowledges. Cancel safe.
    pub async fn receive(&mut self) {
        let Self { lanes, .. } = self;
        let (now, data) = (&mut lanes.now, &mut lanes.data);
        let (lane, alive) = tokio::select! {
            alive = read(now) => (Lane::Now, alive),
            alive = read(data) => (Lane::Data, alive),
        };
        if !alive {
            self.lanes[lane] = None;
            return;
        }
        while let Some(frame) = self.lanes[lane]
            .as_mut()
            .and_then(|lane| lane.decoder.next().unwrap())
        {
            self.store(lane, ToGateway::parse(frame).unwrap());
        }
        if let Some(link) = self.link.take_ack(lane)
            && let Some(now) = &mut self.lanes.now
        {
            let mut frame = BytesMut::new();
            ToShim::Ack {
                kernel: KERNEL,
                lane,
                link,
            }
            .encode(&mut frame)
            .unwrap();
            // A shim that has just died needs no acknowledgement.
            let _ = now.stream.try_write(&frame);
        }
    }

    fn store(&mut self, lane: Lane, packet: ToGateway) {
        let (check, entry, link) = match packet {
            ToGateway::Message {
                link, origin, frame, ..
            } => {
                // A copy, as a journal makes one.
                let frame = Bytes::copy_from_slice(&frame);
                let (channel, parts) = v1::decode(&frame, &Limits::KERNEL).unwrap();
                // A hostile kernel may send anything: the gateway drops what has no header.
                let msg_type = header::peek(&parts.header)
                    .map_or_else(|_| String::new(), |head| head.msg_type.into_owned());
                let (answers, incarnation) = (origin.answers, origin.incarnation);
                let entry = Entry::Message {
                    channel,
                    msg_type,
                    answers,
                    incarnation,
                    parts,
                };
                (self.link.check(lane, link), entry, link)
            }
            ToGateway::Event { link, event, .. } => (self.link.check(lane, link), Entry::Event(event), link),
            ToGateway::Gap { gap, .. } => (self.link.check_gap(lane, &gap), Entry::Gap(gap), gap.to),
            ToGateway::Accepted { number, .. } => return self.link.accepted(lane, number),
            ToGateway::Stats { stats, .. } => return self.stats.push(stats),
            ToGateway::Heartbeat { .. } => return,
            ToGateway::Hello(_) => panic!("a second hello"),
        };
        match check {
            LinkCheck::Next => self.entries.push(entry),
            LinkCheck::Seen => {}
            LinkCheck::Hole { .. } => panic!("{check:?} on {lane}"),
        }
        self.link.stored(lane, link);
    }

    /// A command for the shim, or for this link as a whole.
    pub async fn command_to_shim(&mut self, command: Command) {
        let command = ToShim::Command {
            kernel: 0,
            number: 1,
            command,
        };
        self.lanes.now.as_mut().unwrap().send(&command).await;
    }

    /// Waits until the shim has closed both lanes.
    pub async fn until_closed(&mut self) {
        self.until("both lanes are closed", |world| {
            world.lanes.now.is_none() && world.lanes.data.is_none()
        })
        .await;
    }

    /// Waits for the end of the shim.
    pub async fn shim_ends(&mut self) -> i32 {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.shim.as_mut().unwrap().try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < end, "the shim continues");
            let _ = tokio::time::timeout(Duration::from_millis(20), self.receive()).await;
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(shim) = &mut self.shim {
            let _ = shim.kill();
            let _ = shim.wait();
        }
    }
}
