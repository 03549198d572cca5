//! A kernel for tests, see `himalia_testkit::fake`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use himalia_testkit::fake;

/// A scripted Jupyter kernel.
#[derive(Parser, Debug)]
#[command(version, after_help = fake::HELP)]
struct Args {
    /// The connection file.
    #[arg(short = 'f', long, required_unless_present_any = ["child", "exit_at_start"])]
    connection_file: Option<PathBuf>,
    /// Send no welcome to subscribers, as ipykernel before 7.2.
    #[arg(long)]
    no_welcome: bool,
    /// Send back only the first identity frame of a request.
    #[arg(long)]
    no_identity_echo: bool,
    /// Wait before binding the sockets.
    #[arg(long, default_value_t = 0, value_name = "MS")]
    start_delay: u64,
    /// Write a line to stderr and end with this code instead of starting.
    #[arg(long, value_name = "CODE")]
    exit_at_start: Option<u8>,
    /// Do nothing for ever (the children of `fork`).
    #[arg(long, hide = true)]
    child: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.child {
        loop {
            std::thread::park();
        }
    }
    if let Some(code) = args.exit_at_start {
        eprintln!("fake kernel: told to fail at start");
        return ExitCode::from(code);
    }
    let options = fake::Options {
        connection_file: args.connection_file.unwrap_or_default(),
        welcome: !args.no_welcome,
        echo_identities: !args.no_identity_echo,
        start_delay: Duration::from_millis(args.start_delay),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("fake kernel: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(fake::run(options)) {
        // Without waiting for what still runs.
        Ok(code) => std::process::exit(code),
        Err(error) => {
            eprintln!("fake kernel: {error:#}");
            ExitCode::FAILURE
        }
    }
}
