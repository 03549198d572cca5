//! A receiver of OTLP over HTTP, as a collector is one.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Receives traces.
pub type TraceReceiver = Receiver<ExportTraceServiceRequest>;
/// Receives log records.
pub type LogReceiver = Receiver<ExportLogsServiceRequest>;

/// A receiver on a free port of loopback. It ends when it is dropped.
#[derive(Debug)]
pub struct Receiver<M> {
    /// Its base address.
    pub endpoint: String,
    /// The head and the content of each request, in order.
    pub requests: mpsc::UnboundedReceiver<(String, M)>,
    task: JoinHandle<()>,
}

impl<M: Message + Default + 'static> Receiver<M> {
    /// Answers requests one after the other, each as `respond` says by its number: status and body.
    pub async fn start(respond: impl Fn(usize) -> (u16, Vec<u8>) + Send + 'static) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let (got, requests) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let mut number = 0;
            while let Ok((stream, _)) = listener.accept().await {
                if let Some(received) = serve(stream, respond(number)).await {
                    number += 1;
                    let _ = got.send(received);
                }
            }
        });
        Ok(Self {
            endpoint,
            requests,
            task,
        })
    }
}

impl<M> Drop for Receiver<M> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One request on one connection.
async fn serve<M: Message + Default>(
    stream: TcpStream,
    (status, answer): (u16, Vec<u8>),
) -> Option<(String, M)> {
    let mut stream = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let said = format!(
        "HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    stream.write_all(said.as_bytes()).await.ok()?;
    stream.write_all(&answer).await.ok()?;
    Some((head, M::decode(&*body).ok()?))
}
