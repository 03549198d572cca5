//! The certificates that programs in a sandbox verify hosts by, where the gateway reads TLS: those of the gateway's machine, and that of
//! its own authority. They are files in the work directory, which variables name.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use himalia_kernel::Command;
use himalia_model::{EngineError, Session};
use himalia_shim_protocol::{FileTask, Open, StreamTask};
use tokio::time::timeout;

use crate::{FileUpload, SessionKernel, SessionManager, Transfer};

/// The file with all of them, in the work directory.
const FILE: &str = ".certificates/bundle.pem";
/// The same for Java.
const KEY_STORE: &str = ".certificates/trust.jks";
/// Time to write a file.
const WRITE_TIME: Duration = Duration::from_secs(25);

/// Variables that name the certificate file for programs: OpenSSL and Python, `requests`, curl and R, pip, Node, git, the SDKs of AWS, cargo, gRPC,
/// Deno.
const VARIABLES: &[&str] = &[
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "DENO_CERT",
];

/// The variables of a session whose TLS is read, in a sandbox with this work directory.
pub(crate) fn variables(work_dir: &Path, session: &Session) -> BTreeMap<&'static str, String> {
    if session.sandbox.intercept.is_none() {
        return BTreeMap::new();
    }
    let file = work_dir.join(FILE).to_string_lossy().into_owned();
    VARIABLES.iter().map(|name| (*name, file.clone())).collect()
}

/// The file of the certificates for Java, in a sandbox with this work directory, if TLS of the session is read.
pub(crate) fn key_store(work_dir: &Path, session: &Session) -> Option<String> {
    let is_read = !session.sandbox.intercept.is_none();
    is_read.then(|| work_dir.join(KEY_STORE).to_string_lossy().into_owned())
}

impl SessionManager {
    /// Writes the files into the sandbox of a kernel, if its programs need it.
    ///
    /// # Errors
    /// They cannot be written: programs would not reach a host with TLS.
    pub(crate) async fn put_certificates(&self, kernel: &SessionKernel) -> Result<(), EngineError> {
        if kernel.session().sandbox.intercept.is_none() {
            return Ok(());
        }
        let Some(trusted) = self.network.certificates.clone() else {
            return Ok(());
        };
        for (path, content) in [(FILE, trusted.bundle), (KEY_STORE, trusted.key_store)] {
            let written = timeout(WRITE_TIME, write(kernel, path, content)).await;
            written.unwrap_or(Err(EngineError::Timeout {
                what: "writing the certificates of the sandbox",
                seconds: WRITE_TIME.as_secs(),
            }))?;
        }
        Ok(())
    }
}

async fn write(kernel: &SessionKernel, path: &str, content: Bytes) -> Result<(), EngineError> {
    let gone = || EngineError::unavailable("the sandbox ended while its certificates were written");
    let permit = kernel.lease().transfers().clone().acquire_owned().await;
    let permit = permit.map_err(|_| gone())?;
    let expected = kernel.streams.expect();
    let task = FileTask::Put {
        path: path.to_owned(),
        max_bytes: u64::try_from(content.len()).unwrap_or(u64::MAX),
        metadata: BTreeMap::new(),
    };
    let open = Open {
        stream: expected.name().to_owned(),
        task: StreamTask::File(task),
        absolute: false,
    };
    match kernel.order(Command::Open(Box::new(open))).await {
        Some(Ok(_)) => {}
        Some(Err(error)) => return Err(EngineError::unavailable(error.to_string())),
        None => return Err(gone()),
    }
    let stream = expected.arrival().await.ok_or_else(gone)?;
    let mut upload = FileUpload::new(Transfer::new(stream, permit), false);
    upload.send(content).await?;
    upload.finish().await.map(drop)
}
