use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::BoxFuture;
use himalia_model::network::{AllowList, PrivateAddresses};
use hyper_util::client::proxy::matcher::Matcher;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::resolve::Resolve;
use crate::{Egress, InterceptAuthority, InternalService, NetworkAccess, Report, Reports, Roots};

/// Names of the test. Those that are asked for again can have another address.
#[derive(Clone, Default)]
pub(super) struct Names(Arc<Mutex<HashMap<String, Vec<Vec<IpAddr>>>>>);

impl Names {
    /// The addresses of a name, one list for each time that it is resolved; the last one stays.
    pub(super) fn add(&self, name: &str, answers: &[&[&str]]) {
        let answers = answers.iter().rev();
        let answers = answers.map(|answer| answer.iter().map(|address| address.parse().unwrap()).collect());
        self.0.lock().insert(name.to_owned(), answers.collect());
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let mut names = self.0.lock();
            let answers = names
                .get_mut(name)
                .ok_or_else(|| io::Error::other("no such name"))?;
            let answer = if answers.len() > 1 {
                answers.pop()
            } else {
                answers.last().cloned()
            };
            Ok(answer.unwrap_or_default())
        })
    }
}

#[derive(Default)]
pub(super) struct Noted(Mutex<Vec<Report>>);

impl Reports for Noted {
    fn report(&self, report: Report) {
        self.0.lock().push(report);
    }
}

pub(super) struct Proxy {
    pub(super) names: Names,
    pub(super) access: Arc<NetworkAccess>,
    noted: Arc<Noted>,
    egress: Arc<Egress>,
}

impl Proxy {
    /// With a list, and these addresses beside the public ones.
    pub(super) fn new(list: serde_json::Value, private: &[SocketAddr]) -> Self {
        Self::behind("", list, private)
    }

    /// The same behind another proxy, except for `b.test`.
    pub(super) fn behind(proxy: &str, list: serde_json::Value, private: &[SocketAddr]) -> Self {
        let private: Vec<PrivateAddresses> = private
            .iter()
            .map(|address| address.to_string().parse().unwrap())
            .collect();
        let (names, noted) = (Names::default(), Arc::<Noted>::default());
        for name in ["a.test", "b.test", "in.a.test"] {
            names.add(name, &[&["127.0.0.1"]]);
        }
        let reports: Arc<dyn Reports> = noted.clone();
        Self {
            access: Arc::new(NetworkAccess::new(allow(list), reports)),
            noted,
            egress: Arc::new(Egress {
                resolver: Box::new(names.clone()),
                exceptions: private,
                roots: None,
                authority: None,
                proxies: Matcher::builder().http(proxy).https(proxy).no("b.test").build(),
                services: Vec::new(),
            }),
            names,
        }
    }

    /// With a service of the gateway.
    pub(super) fn serving(list: serde_json::Value, service: Arc<dyn InternalService>) -> Self {
        let mut proxy = Self::new(list, &[]);
        if let Some(egress) = Arc::get_mut(&mut proxy.egress) {
            egress.services.push(service);
        }
        proxy
    }

    /// The same, which sends secrets to hosts that these authorities have certified.
    pub(super) fn with_credentials(self, roots: Roots, authority: InterceptAuthority) -> Self {
        let egress = Arc::into_inner(self.egress).unwrap();
        Self {
            egress: Arc::new(egress.with_credentials(roots, Some(authority))),
            ..self
        }
    }

    pub(super) fn egress(&self) -> &Arc<Egress> {
        &self.egress
    }

    pub(super) fn connect(&self) -> Client {
        let (ours, theirs) = duplex(64 * 1024);
        tokio::spawn(Arc::clone(&self.egress).serve(theirs, BytesMut::new(), None, Arc::clone(&self.access)));
        Client(ours)
    }

    /// What a client that sends this gets.
    pub(super) async fn says(&self, bytes: &[u8]) -> String {
        let mut client = self.connect();
        client.send(bytes).await;
        String::from_utf8_lossy(&client.rest().await).into_owned()
    }

    /// Opens a tunnel as soon as there is a place.
    pub(super) async fn until_tunnel(&self, target: &str) {
        within(async {
            loop {
                let mut client = self.connect();
                client
                    .send(format!("CONNECT {target} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())
                    .await;
                if client.until("\r\n\r\n").await.starts_with("HTTP/1.1 200 ") {
                    return;
                }
            }
        })
        .await;
    }

    /// Waits for so many reports.
    pub(super) async fn reports(&self, count: usize) -> Vec<Report> {
        within(async {
            while self.noted.0.lock().len() < count {
                tokio::task::yield_now().await;
            }
        })
        .await;
        std::mem::take(&mut *self.noted.0.lock())
    }
}

pub(super) fn allow(list: serde_json::Value) -> AllowList {
    serde_json::from_value(list).unwrap()
}

pub(super) struct Client(pub(super) DuplexStream);

impl Client {
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        // The proxy may have refused already.
        let _ = within(self.0.write_all(bytes)).await;
    }

    /// Until the end of this text.
    pub(super) async fn until(&mut self, end: &str) -> String {
        let mut read = Vec::new();
        within(async {
            while !read.ends_with(end.as_bytes()) {
                read.push(
                    self.0
                        .read_u8()
                        .await
                        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&read))),
                );
            }
        })
        .await;
        String::from_utf8(read).unwrap()
    }

    /// All until the end.
    pub(super) async fn rest(&mut self) -> Vec<u8> {
        let mut read = Vec::new();
        let _ = within(self.0.read_to_end(&mut read)).await;
        read
    }

    /// Opens a tunnel.
    pub(super) async fn tunnel(&mut self, target: &str) {
        self.send(format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n").as_bytes())
            .await;
        let head = self.until("\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    }
}

pub(super) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), future)
        .await
        .expect("nothing comes of it")
}

/// A host that keeps what it reads and answers with `answer` to each connection.
pub(super) struct Host {
    pub(super) address: SocketAddr,
    pub(super) read: Arc<Mutex<Vec<u8>>>,
    accepted: Arc<Mutex<usize>>,
}

impl Host {
    /// Answers once its client has sent something that ends with `until`, and closes.
    pub(super) async fn answering(until: &'static str, answer: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = Self {
            address: listener.local_addr().unwrap(),
            read: Arc::default(),
            accepted: Arc::default(),
        };
        let (read, accepted) = (Arc::clone(&host.read), Arc::clone(&host.accepted));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                *accepted.lock() += 1;
                tokio::spawn(serve(stream, Arc::clone(&read), until, answer));
            }
        });
        host
    }

    /// One that speaks HTTP and says `hello`.
    pub(super) async fn http() -> Self {
        Self::answering("\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").await
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(super) fn accepted(&self) -> usize {
        *self.accepted.lock()
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.read.lock()).into_owned()
    }
}

async fn serve(mut stream: TcpStream, read: Arc<Mutex<Vec<u8>>>, until: &str, answer: &[u8]) {
    let mut buffer = [0; 4096];
    loop {
        let Ok(count @ 1..) = stream.read(&mut buffer).await else {
            return;
        };
        let ends = {
            let mut read = read.lock();
            read.extend_from_slice(&buffer[..count]);
            read.ends_with(until.as_bytes())
        };
        if ends && stream.write_all(answer).await.is_err() {
            return;
        }
    }
}
