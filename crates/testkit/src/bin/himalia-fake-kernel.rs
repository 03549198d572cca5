//! A kernel for tests, see `himalia_testkit::fake`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use himalia_testkit::fake::{self, BindMode, ForkMode, ZygoteMode};

/// A scripted Jupyter kernel.
#[derive(Parser, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "flags of a command line")]
#[command(version, after_help = fake::HELP)]
struct Args {
    /// The connection file.
    #[arg(short = 'f', long, required_unless_present_any = ["child", "exit_at_start", "zygote", "become_shim"])]
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
    /// How a late binding is answered.
    #[arg(long, value_enum, default_value_t)]
    bind: BindMode,
    /// How a fork is answered.
    #[arg(long, value_enum, default_value_t)]
    fork: ForkMode,
    /// Variables that it has from the start, a JSON object.
    #[arg(long, default_value = "{}")]
    variables: String,
    /// Answer nothing on shell.
    #[arg(long)]
    mute: bool,
    /// Begin a session and end with the new parent; the process in the middle has this pid.
    #[arg(long, hide = true)]
    forked_twice_by: Option<i32>,
    /// Start the same program without this and end (the middle of a double fork).
    #[arg(long, hide = true)]
    launch: bool,
    /// Be a zygote; the socket is standard input.
    #[arg(long, value_enum)]
    zygote: Option<ZygoteMode>,
    /// Start a zygote of the mode in `--zygote-mode`, then become the shim that is named behind `--`.
    #[arg(long)]
    become_shim: bool,
    /// For `--become-shim`.
    #[arg(long, default_value = "ok")]
    zygote_mode: String,
    /// For `--become-shim`: the file with the key.
    #[arg(long, requires = "become_shim")]
    key: Option<PathBuf>,
    /// For `--become-shim`: the shim and its arguments.
    #[arg(last = true)]
    shim: Vec<String>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.become_shim {
        let error = fake::become_shim(&args.zygote_mode, &args.key.unwrap_or_default(), &args.shim);
        return failed(&error.into());
    }
    if let Some(mode) = args.zygote {
        return fake::run_zygote(mode).map_or_else(|error| failed(&error.into()), |()| ExitCode::SUCCESS);
    }
    if args.launch {
        return fake::launched().map_or_else(|error| failed(&error.into()), |()| ExitCode::SUCCESS);
    }
    if let Some(middle) = args.forked_twice_by
        && let Err(error) = fake::forked_twice(middle)
    {
        return failed(&error.into());
    }
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
        variables: match serde_json::from_str(&args.variables) {
            Ok(variables) => variables,
            Err(error) => return failed(&error.into()),
        },
        bind: args.bind,
        fork: args.fork,
        mute: args.mute,
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    match runtime.block_on(fake::run(options)) {
        // Without waiting for what still runs.
        Ok(code) => std::process::exit(code),
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("fake kernel: {error:#}");
    ExitCode::FAILURE
}
