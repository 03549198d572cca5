//! A kernel that attacks, see `himalia_testkit::hostile`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use himalia_testkit::hostile;

/// A kernel that attacks the readers of its sockets.
#[derive(Parser, Debug)]
#[command(version, after_help = hostile::HELP)]
struct Args {
    /// The connection file.
    #[arg(short = 'f', long)]
    connection_file: PathBuf,
    /// Attack from the first byte.
    #[arg(long, env = "HIMALIA_HOSTILE", value_enum)]
    at_start: Option<hostile::AtStart>,
    /// Only on this socket: shell, control, stdin, iopub or hb.
    #[arg(long, env = "HIMALIA_HOSTILE_SOCKET")]
    socket: Option<String>,
    /// Bytes of the banner in every `kernel_info_reply`.
    #[arg(long, env = "HIMALIA_HOSTILE_BANNER", default_value_t = 0)]
    banner: usize,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let options = hostile::Options {
        connection_file: args.connection_file,
        at_start: args.at_start,
        socket: args.socket,
        banner: args.banner,
    };
    match hostile::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hostile kernel: {error:#}");
            ExitCode::FAILURE
        }
    }
}
