//! A small cluster for benchmarks and tests in other languages, see `himalia_testkit::cluster`.
//!
//! It has an image `agent:1` with the agent and an image `kernel:1` with the scripted kernel. It writes one line of JSON with the path
//! of a kubeconfig, then one line with the counts so far for each line that it reads, and ends with its standard input.

use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use himalia_testkit::cluster::{Cluster, Image};
use serde_json::{Value, json};

/// A small Kubernetes cluster that runs pods as processes of this host.
#[derive(Parser, Debug)]
#[command(version)]
struct Args {
    /// The shim.
    #[arg(long)]
    shim: PathBuf,
    /// The directory of the kernels' Python package.
    #[arg(long)]
    package: PathBuf,
    /// The scripted kernel, which pods have as `/opt/fake-kernel`.
    #[arg(long)]
    kernel: PathBuf,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = tokio::runtime::Runtime::new()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run(args)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("himalia-test-cluster: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<()> {
    let images = vec![
        Image {
            name: "agent:1".to_owned(),
            files: vec![
                (args.shim, Path::new("/himalia-shim").to_owned()),
                (args.package, Path::new("/kernel").to_owned()),
            ],
        },
        Image {
            name: "kernel:1".to_owned(),
            files: vec![(args.kernel, Path::new("/opt/fake-kernel").to_owned())],
        },
    ];
    let cluster = Cluster::start(images, 1 << 40).await?;
    say(&json!({"kubeconfig": cluster.kubeconfig()?}))?;
    tokio::task::spawn_blocking(move || {
        for line in std::io::stdin().lock().lines() {
            line?;
            say(&counts(&cluster))?;
        }
        Ok(())
    })
    .await?
}

/// Requests by method, and changes of objects, each of which is an event of a watch.
fn counts(cluster: &Cluster) -> Value {
    let requests = |method: &str| cluster.requests(&format!("{method} /"));
    json!({
        "GET": requests("GET"),
        "POST": requests("POST"),
        "PATCH": requests("PATCH"),
        "DELETE": requests("DELETE"),
        "changes": cluster.changes(),
        "pods": cluster.objects("pods").len(),
    })
}

fn say(line: &Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
