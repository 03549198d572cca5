//! Connects the sockets, the clients and the gateway.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use himalia_wire::Transport;
use uuid::Uuid;

use crate::end::{End, Error, Report};
use crate::file::RuntimeFile;
use crate::hub::Hub;
use crate::link::{self, Dial};
use crate::listen::Sockets;

/// Settings of the bridge: addresses where clients find the kernel.
#[derive(Debug)]
pub struct Settings {
    /// `tcp` on 127.0.0.1, which every user of this machine can connect to, or `ipc`, which only this user can.
    pub transport: Transport,
    /// The directory of connection files; made (0700) if it is not there.
    pub runtime_dir: PathBuf,
    /// Name of the connection file. Clients look for `kernel-*.json`.
    pub file_name: String,
    /// Name of the kernelspec, for information.
    pub kernel_name: Option<String>,
}

/// The sockets and the connection file of one kernel. The file is removed when this is dropped.
pub struct Bridge {
    file: RuntimeFile,
    sockets: Sockets,
    hub: Arc<Hub>,
    report: Report,
}

impl std::fmt::Debug for Bridge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bridge")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

impl Bridge {
    /// Binds the sockets and writes the connection file, with a fresh key.
    pub async fn bind(settings: Settings, report: Report) -> Result<Self, Error> {
        let key = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let (sockets, mut file) = Sockets::bind(settings.transport, &key).await?;
        file.kernel_name = settings.kernel_name;
        let hub = Hub::new(file.signer()?, Uuid::new_v4().simple().to_string());
        let (dir, name) = (&settings.runtime_dir, &settings.file_name);
        let file = RuntimeFile::write(dir, name, &file.to_json()?).map_err(|source| Error::Io {
            what: dir.join(name).display().to_string(),
            source,
        })?;
        Ok(Self {
            file,
            sockets,
            hub: Arc::new(hub),
            report,
        })
    }

    pub fn file(&self) -> &Path {
        self.file.path()
    }

    /// Serves clients until `stop` is done, the session has ended, or the gateway is away for too long.
    pub async fn serve(self, dial: impl Dial, stop: impl Future<Output = ()>) -> Result<End, Error> {
        let report = Arc::clone(&self.report);
        tokio::select! {
            ended = link::run(&self.hub, &dial, &*report) => ended,
            () = self.sockets.serve(&self.hub, &report) => Ok(End::Stopped),
            () = stop => Ok(End::Stopped),
        }
    }
}
