//! A socket in front of the engine that can be cut, or left without answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

use crate::fixture::engine;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mode {
    Through,
    /// As many new connections are carried, the others get no answer.
    Mute(usize),
    Cut,
}

pub(crate) struct Proxy {
    pub(crate) socket: PathBuf,
    mode: Arc<watch::Sender<Mode>>,
}

impl Proxy {
    pub(crate) fn new(dir: &Path) -> Self {
        let socket = dir.join("engine.sock");
        let proxy = Self {
            socket,
            mode: Arc::new(watch::Sender::new(Mode::Through)),
        };
        proxy.listen();
        proxy
    }

    /// After so many more connections, new ones are accepted and nothing comes back.
    pub(crate) fn mute_after(&self, connections: usize) {
        self.mode.send_replace(Mode::Mute(connections));
    }

    /// All connections end, and the socket is gone.
    pub(crate) fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
        std::fs::remove_file(&self.socket).unwrap();
    }

    /// New connections pass again.
    pub(crate) fn restore(&self) {
        let before = self.mode.send_replace(Mode::Through);
        if before == Mode::Cut {
            self.listen();
        }
    }

    fn listen(&self) {
        let listener = UnixListener::bind(&self.socket).unwrap();
        let (mut mode, sender) = (self.mode.subscribe(), Arc::clone(&self.mode));
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = mode.wait_for(|mode| *mode == Mode::Cut) => return,
                    accepted = listener.accept() => {
                        let (stream, _) = accepted.unwrap();
                        let mute = *sender.borrow() == Mode::Mute(0);
                        sender.send_if_modified(|mode| {
                            if let Mode::Mute(left) = mode {
                                *left = left.saturating_sub(1);
                            }
                            false
                        });
                        tokio::spawn(carry(stream, sender.subscribe(), mute));
                    }
                }
            }
        });
    }
}

async fn carry(mut stream: UnixStream, mut mode: watch::Receiver<Mode>, mute: bool) {
    if mute {
        let _ = mode.wait_for(|mode| !matches!(mode, Mode::Mute(_))).await;
        return;
    }
    let mut engine = UnixStream::connect(engine()).await.unwrap();
    tokio::select! {
        _ = mode.wait_for(|mode| *mode == Mode::Cut) => {}
        _ = tokio::io::copy_bidirectional(&mut stream, &mut engine) => {}
    }
}
