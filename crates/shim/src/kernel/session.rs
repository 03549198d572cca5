use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use himalia_wire::{Channel, ConnectionFile};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::sockets::{self, Heart, Outlets};
use super::{Kernel, heartbeat, reader};

/// After a kernel has died its last output is read for at most this long …
const DRAIN: Duration = Duration::from_millis(500);
/// … or until nothing has come for this long.
const QUIET: Duration = Duration::from_millis(50);

/// Progress of the output of one incarnation.
#[derive(Debug)]
pub(super) struct Flow {
    last: Cell<Instant>,
    open: Cell<usize>,
}

impl Flow {
    pub(super) fn new() -> Rc<Self> {
        Rc::new(Self {
            last: Cell::new(Instant::now()),
            open: Cell::new(0),
        })
    }

    /// A message has come.
    pub(super) fn touch(&self) {
        self.last.set(Instant::now());
    }

    /// A socket is read.
    fn opened(&self) {
        self.open.set(self.open.get().saturating_add(1));
    }

    /// A socket has nothing more to say.
    pub(super) fn ended(&self) {
        self.open.set(self.open.get().saturating_sub(1));
    }

    /// Waits for what the dead kernel had still sent.
    pub(super) async fn drained(&self) {
        let begin = Instant::now();
        while self.open.get() > 0 && begin.elapsed() < DRAIN {
            if self.last.get().max(begin).elapsed() >= QUIET {
                return;
            }
            sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Connects to the kernel and moves its messages for as long as it lives. Returns only when the sockets are of no use,
/// with the reason.
pub(super) async fn run(
    kernel: Rc<Kernel>,
    file: ConnectionFile,
    incarnation: u32,
    patience: Duration,
    flow: Rc<Flow>,
) -> String {
    let signer = match file.signer() {
        Ok(signer) => Rc::new(signer),
        Err(error) => return error.to_string(),
    };
    let identity = format!("himalia-{}-{incarnation}", kernel.number);
    let sockets = match timeout(patience, sockets::connect(&file, &identity, &kernel.linger)).await {
        Ok(Ok(sockets)) => sockets,
        Ok(Err(error)) => return error,
        Err(_) => return format!("its sockets were not ready within {} ms", patience.as_millis()),
    };
    let mut readers = JoinSet::new();
    let (shell, control, stdin) = (sockets.shell, sockets.control, sockets.stdin);
    let receivers = [
        (Channel::Iopub, sockets.iopub),
        (Channel::Shell, shell.1),
        (Channel::Control, control.1),
        (Channel::Stdin, stdin.1),
    ];
    for (channel, receiver) in receivers {
        flow.opened();
        let reader = reader::Reader {
            kernel: Rc::clone(&kernel),
            channel,
            incarnation,
            signer: Rc::clone(&signer),
            flow: Rc::clone(&flow),
            dropped: Cell::new(0),
        };
        readers.spawn_local(reader.run(receiver));
    }
    kernel.connected(Outlets {
        shell: shell.0,
        control: control.0,
        stdin: stdin.0,
        signer,
    });
    let heart = Heart::new(&file);
    tokio::select! {
        reason = readers.join_next() => match reason {
            Some(Ok(reason)) => reason,
            Some(Err(error)) => format!("a reader failed: {error}"),
            None => "no readers".into(),
        },
        () = heartbeat::watch(kernel, heart) => String::new(),
    }
}
