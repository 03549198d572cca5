//! A WebSocket server that sends back what it is sent, on the address in the first argument (default: a free port of loopback). Prints where it listens.

use std::io;

use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> io::Result<()> {
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).await?;
    eprintln!("ws://{}", listener.local_addr()?);
    himalia_http::serve_echo(listener).await
}
