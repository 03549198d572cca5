//! A Postgres server for a test.
//!
//! The programs are those of Debian's package `postgresql-15`, or of the directory `HIMALIA_TEST_POSTGRES`. Postgres refuses to run as
//! root, so a test that is root starts it as the user `postgres`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::patience::Deadline;

/// Where Debian has the programs.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// A server with a directory of its own. It ends when this is dropped, or with the process.
#[derive(Debug)]
pub struct Postgres {
    dir: TempDir,
    child: Child,
    port: u16,
    databases: AtomicU32,
}

/// The certificate of a server and its private key, both PEM.
#[derive(Clone, Copy, Debug)]
pub struct ServerCertificate<'a> {
    /// The certificate.
    pub certificate: &'a str,
    /// Its key.
    pub key: &'a str,
}

impl Postgres {
    /// Starts a server that listens on a Unix socket and on 127.0.0.1, and waits until it answers. With a certificate it also offers TLS.
    pub fn start(tls: Option<ServerCertificate<'_>>) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("hmpg").tempdir_in("/tmp")?;
        let data = dir.path().join("data");
        std::fs::create_dir(&data)?;
        give_to_postgres(dir.path())?;
        give_to_postgres(&data)?;
        let made = program("initdb")
            .args([
                "--username=himalia",
                "--auth=trust",
                "--no-sync",
                "--encoding=UTF8",
                "--locale=C",
            ])
            .arg("--pgdata")
            .arg(&data)
            .output()
            .context("initdb: is the package postgresql-15 installed?")?;
        ensure!(
            made.status.success(),
            "initdb: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = std::fs::File::create(dir.path().join("log"))?;
        let mut command = program("postgres");
        command.arg("-D").arg(&data);
        for setting in [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={port}"),
            format!("unix_socket_directories={}", dir.path().display()),
            "fsync=off".to_owned(),
            "max_connections=200".to_owned(),
        ] {
            command.arg("-c").arg(setting);
        }
        if let Some(ServerCertificate { certificate, key }) = tls {
            for (name, text) in [("server.crt", certificate), ("server.key", key)] {
                let path = data.join(name);
                std::fs::write(&path, text)?;
                std::os::unix::fs::chown(&path, Some(owner()?), None)?;
                let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
                std::fs::set_permissions(&path, mode)?;
            }
            command.args(["-c", "ssl=on"]);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let mut started = Self {
            dir,
            child,
            port,
            databases: AtomicU32::new(0),
        };
        started.wait()?;
        Ok(started)
    }

    fn wait(&mut self) -> Result<()> {
        let deadline = Deadline::new();
        loop {
            let ready = program("pg_isready")
                .args(["--quiet", "--host"])
                .arg(self.dir.path())
                .args(["--port", &self.port.to_string()])
                .status()?;
            if ready.success() {
                return Ok(());
            }
            let ended = self.child.try_wait()?;
            ensure!(ended.is_none() && !deadline.is_over(), "postgres: {}", self.log());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// What the server wrote.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Creates a database. The value is its URL, through the Unix socket.
    pub fn database(&self) -> Result<String> {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let made = program("createdb")
            .arg("--host")
            .arg(self.dir.path())
            .args(["--port", &self.port.to_string(), "--username", "himalia", &name])
            .output()?;
        ensure!(
            made.status.success(),
            "createdb: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        let socket = self.dir.path().display().to_string().replace('/', "%2F");
        Ok(format!("postgres://himalia@{socket}:{}/{name}", self.port))
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs statements in a database that [`Postgres::database`] created.
    pub fn run(&self, url: &str, sql: &str) -> Result<String> {
        let name = url.rsplit('/').next().unwrap_or_default();
        let done = program("psql")
            .args([
                "--quiet",
                "--no-psqlrc",
                "--tuples-only",
                "--no-align",
                "-v",
                "ON_ERROR_STOP=1",
                "--host",
            ])
            .arg(self.dir.path())
            .args([
                "--port",
                &self.port.to_string(),
                "--username",
                "himalia",
                "--dbname",
                name,
            ])
            .args(["--command", sql])
            .output()?;
        ensure!(
            done.status.success(),
            "psql: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        Ok(String::from_utf8(done.stdout)?.trim().to_owned())
    }

    /// Stops all its processes where they are, or lets them continue: a database that does not answer.
    pub fn pause(&self, paused: bool) -> Result<()> {
        let signal = if paused { Signal::STOP } else { Signal::CONT };
        let data = self.dir.path().join("data");
        let first = std::fs::read_to_string(data.join("postmaster.pid"))?;
        let first: i32 = first.lines().next().unwrap_or_default().parse()?;
        for entry in std::fs::read_dir("/proc")?.flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<i32>().ok())
            else {
                continue;
            };
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let parent = stat
                .rsplit(')')
                .next()
                .and_then(|rest| rest.split_whitespace().nth(1));
            let is_of_it = pid == first || parent.is_some_and(|parent| parent == first.to_string());
            if is_of_it && let Some(pid) = Pid::from_raw(pid) {
                // A connection may have ended meanwhile.
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self.pause(false);
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // Immediate: the data goes with its directory.
            let _ = rustix::process::kill_process(pid, Signal::QUIT);
        }
        let _ = self.child.wait();
    }
}

/// One of Postgres's programs, as a user that it accepts, in a directory that this user may enter.
fn program(name: &str) -> Command {
    let programs = std::env::var_os("HIMALIA_TEST_POSTGRES").map_or_else(|| PROGRAMS.into(), PathBuf::from);
    let path = programs.join(name);
    let mut command = if rustix::process::getuid().is_root() {
        let mut command = Command::new("setpriv");
        // A server does not outlive the test that started it.
        command.args([
            "--reuid=postgres",
            "--regid=postgres",
            "--clear-groups",
            "--pdeathsig=SIGQUIT",
        ]);
        command.arg(path);
        command
    } else {
        Command::new(path)
    };
    command
        .current_dir("/tmp")
        .env_remove("PGHOST")
        .env_remove("PGPORT");
    command
}

fn give_to_postgres(path: &Path) -> Result<()> {
    std::os::unix::fs::chown(path, Some(owner()?), None)?;
    Ok(())
}

/// The user that the programs run as.
fn owner() -> Result<u32> {
    if !rustix::process::getuid().is_root() {
        return Ok(rustix::process::getuid().as_raw());
    }
    let users = std::fs::read_to_string("/etc/passwd")?;
    let line = users.lines().find(|line| line.starts_with("postgres:"));
    let line = line.context("there is no user postgres: install the package postgresql-15")?;
    let id = line.split(':').nth(2).unwrap_or_default();
    id.parse().context("/etc/passwd: the user postgres has no id")
}
