//! Local sandboxes whose shims listen for the gateway, with mutual TLS, instead of dialing its sockets.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use himalia_authority::Authority;
use himalia_link::{CA_FILE, CERT_FILE, CERT_KEY_FILE, Endpoint, TlsClient, TlsEndpoint};
use himalia_provisioner::{
    BoxFuture, DiskUse, FixedLimit, Isolation, LimitChange, LimitReport, Provisioner, SandboxError,
    SandboxHandle, SandboxId, SandboxInfo, SandboxSpec,
};
use himalia_sandbox::LocalProvisioner;

/// The variable that runs the whole suite over TLS.
pub const VARIABLE: &str = "HIMALIA_TEST_TRANSPORT";
/// What all shims of a test are certified as: their provisioner makes them by one command line.
const NAME: &str = "sandbox.test";
const PORT: u16 = 7007;

/// Whether [`VARIABLE`] asks for TLS.
pub fn is_wanted() -> bool {
    match std::env::var(VARIABLE).as_deref() {
        Err(_) | Ok("unix") => false,
        Ok("tls") => true,
        Ok(other) => panic!("{VARIABLE}={other} is neither unix nor tls"),
    }
}

/// Writes what shims prove themselves with into `dir`, and a program that starts one there.
pub fn shim_program(dir: &Path, shim: &Path) -> std::path::PathBuf {
    let authority = Authority::open(&dir.join("authority")).unwrap();
    let pair = authority.sandbox(NAME).unwrap();
    for (name, text) in [
        (CA_FILE, authority.cert()),
        (CERT_FILE, &pair.cert),
        (CERT_KEY_FILE, &pair.key),
    ] {
        std::fs::write(dir.join(name), text).unwrap();
    }
    let program = dir.join("listening-shim");
    let text = format!(
        r#"#!/bin/sh
set -eu
for argument; do
  [ "${{before:-}}" != --gateway-dir ] || dir=$argument
  before=$argument
done
cp "{dir}/{CA_FILE}" "{dir}/{CERT_FILE}" "{dir}/{CERT_KEY_FILE}" "$dir/"
id=${{dir##*/}}
part() {{ printf %d "0x$(printf %s "$id" | cut -c "$1")"; }}
exec "{shim}" "$@" --listen "127.$(part 1-2).$(part 3-4).$(part 5-6):{PORT}"
"#,
        dir = dir.display(),
        shim = shim.display(),
    );
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// Where the shim of a sandbox listens: by its name, so that a later gateway finds it too.
pub fn address(id: SandboxId) -> SocketAddr {
    let text = id.to_string();
    let part = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (Ipv4Addr::new(127, part(0), part(2), part(4)), PORT).into()
}

#[derive(Debug)]
pub struct OverTls {
    inner: LocalProvisioner,
    client: TlsClient,
}

impl OverTls {
    /// `dir` is that of [`shim_program`], which is the provisioner's shim.
    pub fn new(inner: LocalProvisioner, dir: &Path) -> Self {
        let authority = Authority::open(&dir.join("authority")).unwrap();
        let pair = authority.gateway().unwrap();
        let client = TlsClient::new(
            authority.cert().as_bytes(),
            pair.cert.as_bytes(),
            pair.key.as_bytes(),
        );
        Self {
            inner,
            client: client.unwrap(),
        }
    }

    fn moved(&self, handle: SandboxHandle) -> SandboxHandle {
        let endpoint = TlsEndpoint::new(address(handle.id), NAME, self.client.clone()).unwrap();
        SandboxHandle {
            endpoint: Endpoint::Tls(endpoint),
            ..handle
        }
    }
}

impl Provisioner for OverTls {
    passed_on!(inner);

    fn start(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        Box::pin(async move { Ok(self.moved(self.inner.start(spec).await?)) })
    }

    fn adopt(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        Box::pin(async move { Ok(self.moved(self.inner.adopt(id).await?)) })
    }

    fn isolation_of(&self, spec: &SandboxSpec) -> Result<Isolation, SandboxError> {
        self.inner.isolation_of(spec)
    }

    fn fixed_limit(&self, change: &LimitChange) -> Option<FixedLimit> {
        self.inner.fixed_limit(change)
    }

    fn change_limits(
        &self,
        id: SandboxId,
        change: LimitChange,
    ) -> BoxFuture<'_, Result<LimitReport, SandboxError>> {
        self.inner.change_limits(id, change)
    }

    fn inspect(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxInfo, SandboxError>> {
        self.inner.inspect(id)
    }

    fn memory(&self, ids: Vec<SandboxId>) -> BoxFuture<'_, Result<HashMap<SandboxId, u64>, SandboxError>> {
        self.inner.memory(ids)
    }

    fn oom_kills(&self, id: SandboxId) -> BoxFuture<'_, Result<u64, SandboxError>> {
        self.inner.oom_kills(id)
    }

    fn disk_use(&self, id: SandboxId) -> BoxFuture<'_, Result<Option<DiskUse>, SandboxError>> {
        self.inner.disk_use(id)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}
