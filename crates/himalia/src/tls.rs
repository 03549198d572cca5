//! The certificate of the listener: read at the start, and again when its files change.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, ensure};
use himalia_http::Tls;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::watch;

use crate::config::TlsFiles;
use crate::keys;

/// Interval of checks of the files.
const LOOK: Duration = Duration::from_secs(5);

/// The certificate, and the settings that connections are made with.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: TlsFiles,
    /// Version of the files that was last read.
    seen: [Option<FileStamp>; 2],
    settings: watch::Sender<Arc<ServerConfig>>,
}

/// File attributes that show a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
}

impl Certificate {
    /// Reads it; an error names the setting.
    pub(crate) fn load(files: TlsFiles) -> anyhow::Result<Self> {
        let seen = look(&files);
        let settings = watch::channel(read(&files)?).0;
        Ok(Self {
            files,
            seen,
            settings,
        })
    }

    /// For the listener.
    pub(crate) fn tls(&self) -> Tls {
        Tls::new(self.settings.subscribe())
    }

    /// Reads the files again. When something is wrong with them, the certificate before counts on.
    pub(crate) fn reload(&mut self) {
        self.seen = look(&self.files);
        match read(&self.files) {
            Ok(settings) => {
                self.settings.send_replace(settings);
                tracing::info!(file = %self.files.cert.display(), "the certificate was read again");
            }
            Err(error) => tracing::error!("the certificate stays as it was: {error:#}"),
        }
    }
}

/// Reads a certificate again once its files have changed. Pending for ever without one. Cancel-safe.
pub(crate) async fn changed(certificate: Option<&mut Certificate>) {
    let Some(certificate) = certificate else {
        return std::future::pending().await;
    };
    loop {
        tokio::time::sleep(LOOK).await;
        if look(&certificate.files) != certificate.seen {
            certificate.reload();
            return;
        }
    }
}

fn look(files: &TlsFiles) -> [Option<FileStamp>; 2] {
    use std::os::unix::fs::MetadataExt as _;
    [&files.cert, &files.key].map(|path| {
        let data = fs::metadata(path).ok()?;
        Some(FileStamp {
            modified: data.modified().ok(),
            length: data.len(),
            inode: data.ino(),
        })
    })
}

/// The settings with this certificate: TLS 1.2 and 1.3, and HTTP/1.1, of which the sockets of kernels are upgrades.
fn read(files: &TlsFiles) -> anyhow::Result<Arc<ServerConfig>> {
    let (chain, key) = (chain(&files.cert)?, key(&files.key)?);
    let mut settings = himalia_tls::server(chain, key).with_context(|| {
        format!(
            "tls_cert: {} and tls_key {} cannot be used together",
            files.cert.display(),
            files.key.display()
        )
    })?;
    settings.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(settings))
}

fn chain(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let what = || format!("tls_cert: cannot read {}", path.display());
    let found = CertificateDer::pem_file_iter(path).with_context(what)?;
    let chain: Vec<_> = found.collect::<Result<_, _>>().with_context(what)?;
    ensure!(
        !chain.is_empty(),
        "tls_cert: there is no certificate (PEM) in {}",
        path.display()
    );
    Ok(chain)
}

fn key(path: &Path) -> anyhow::Result<PrivateKeyDer<'static>> {
    use std::os::unix::fs::PermissionsExt as _;
    let what = || format!("tls_key: cannot read a private key (PEM) from {}", path.display());
    let key = PrivateKeyDer::from_pem_file(path).with_context(what)?;
    let meta = fs::metadata(path).with_context(what)?;
    keys::check_writers("tls_key", path, &meta)?;
    if meta.permissions().mode() & 0o007 != 0 {
        tracing::warn!(file = %path.display(), "all users of this machine can read the private key");
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Made {
        dir: tempfile::TempDir,
    }

    impl Made {
        fn new() -> Self {
            Self {
                dir: tempfile::tempdir().unwrap(),
            }
        }

        fn files(&self) -> TlsFiles {
            TlsFiles {
                cert: self.dir.path().join("cert.pem"),
                key: self.dir.path().join("key.pem"),
            }
        }

        fn write(&self, cert: &str, key: &str) {
            fs::write(self.files().cert, cert).unwrap();
            fs::write(self.files().key, key).unwrap();
        }
    }

    fn pair() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["gw.example".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn a_key_that_others_may_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let made = Made::new();
        let (cert, key) = pair();
        made.write(&cert, &key);
        let with = |mode: u32| {
            fs::set_permissions(made.files().key, fs::Permissions::from_mode(mode)).unwrap();
            read(&made.files()).map(drop).map_err(|error| error.to_string())
        };
        for mode in [0o400, 0o600, 0o640, 0o644] {
            assert_eq!(with(mode), Ok(()), "{mode:o}");
        }
        for mode in [0o620, 0o602, 0o666] {
            let refused = with(mode).unwrap_err();
            assert!(
                refused.starts_with("tls_key: others than its owner may write"),
                "{refused}"
            );
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_setting() {
        let made = Made::new();
        let ((cert, key), (other, _)) = (pair(), pair());
        let said = || format!("{:#}", read(&made.files()).unwrap_err());
        assert!(said().starts_with("tls_cert: cannot read"), "{}", said());
        made.write(&cert, &key);
        assert!(read(&made.files()).is_ok());
        for (cert, key, setting) in [
            ("", key.as_str(), "tls_cert"),
            (key.as_str(), key.as_str(), "tls_cert"),
            (cert.as_str(), "", "tls_key"),
            (cert.as_str(), cert.as_str(), "tls_key"),
            (other.as_str(), key.as_str(), "tls_cert"),
        ] {
            made.write(cert, key);
            assert!(said().starts_with(setting), "{}", said());
            assert!(!said().contains("PRIVATE"), "{}", said());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_bad_certificate_leaves_the_one_before() {
        let made = Made::new();
        let (cert, key) = pair();
        made.write(&cert, &key);
        let mut certificate = Certificate::load(made.files()).unwrap();
        let mut settings = certificate.settings.subscribe();
        made.write("broken", &key);
        changed(Some(&mut certificate)).await;
        assert!(!settings.has_changed().unwrap(), "the one before counts on");
        let (cert, key) = pair();
        made.write(&cert, &key);
        changed(Some(&mut certificate)).await;
        assert!(settings.has_changed().unwrap());
        settings.mark_unchanged();
        certificate.reload();
        assert!(settings.has_changed().unwrap());
    }
}
