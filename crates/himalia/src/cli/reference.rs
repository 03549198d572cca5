//! docs/reference/cli.md is made from the definitions of the command line.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Args as _, Command, CommandFactory as _};
use himalia_cli::args::gateway::GatewayArgs;

use super::Cli;
use crate::settings::Flags;

/// The beginning of the page, before the list of commands.
const TOP: &str = "\
# Command line

<!-- Made from crates/himalia/src/cli.rs and crates/cli/src: make cli -->

`himalia` is one program: it serves, and it speaks to a gateway that serves. `himalia COMMAND --help` prints the same texts.

| exit code | meaning |
|---|---|
| 0 | The command has done its work |
| 1 | It failed. Standard error has the reason and the [error code](errors.md) |
| 2 | The command line, a variable or the configuration file is wrong |
| 130, 143 | A second signal ended the gateway before its kernels had stopped |

`exec` has [more exit codes](#himalia-exec).

## Commands
";

/// The introduction of the options that most commands share.
const GATEWAY: &str = "\
## Options of the gateway

Commands that speak to a running gateway have these options. On the machine of the gateway, with its default data directory, none of them
is needed.
";

fn page() -> String {
    let mut root = Cli::command();
    root.build();
    let mut commands = Vec::new();
    leaves(&root, &mut commands);
    let mut page = format!("{TOP}\n| command | purpose |\n|---|---|\n");
    for (name, command) in &commands {
        writeln!(
            page,
            "| [`{name}`](#{}) | {} |",
            name.replace(' ', "-"),
            about(command)
        )
        .unwrap();
    }
    let gateway = ids(&GatewayArgs::augment_args(Command::new("")));
    let settings = ids(&Flags::augment_args(Command::new("")));
    let shared = GatewayArgs::augment_args(Command::new(""));
    write!(page, "\n{GATEWAY}\n{}", options(shared.get_arguments())).unwrap();
    for (name, command) in &commands {
        write!(page, "\n{}", section(name, command, &gateway, &settings)).unwrap();
    }
    page
}

/// The ids of the arguments of a command.
fn ids(command: &Command) -> Vec<String> {
    let arguments = command.get_arguments();
    arguments.map(|arg| arg.get_id().to_string()).collect()
}

/// The commands that do something, with their whole names, in the order of the help.
fn leaves<'a>(command: &'a Command, found: &mut Vec<(String, &'a Command)>) {
    let mut is_leaf = true;
    for below in command.get_subcommands() {
        if below.get_name() != "help" {
            is_leaf = false;
            leaves(below, found);
        }
    }
    if is_leaf || !command.is_subcommand_required_set() {
        let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
        found.push((name.to_owned(), command));
    }
}

/// The first line of the help of a command.
fn about(command: &Command) -> String {
    command.get_about().map_or_else(String::new, escaped)
}

/// The part of the page about one command.
fn section(name: &str, command: &Command, gateway: &[String], settings: &[String]) -> String {
    let long = command.get_long_about().or_else(|| command.get_about());
    let text = long.map_or_else(String::new, |text| text.to_string().replace('<', "&lt;"));
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").lines().map(str::trim);
    let usage = usage.collect::<Vec<_>>().join("\n");
    let mut part = format!(
        "## `{name}`\n\n{}.\n\n```text\n{usage}\n```\n",
        text.trim_end_matches('.')
    );
    let all = ids(command);
    let has = |shared: &[String]| shared.iter().all(|id| all.contains(id));
    let shared = [(gateway, has(gateway)), (settings, has(settings))];
    let own = |arg: &&Arg| {
        let id = arg.get_id().as_str();
        let is_shared = |(ids, has): &(&[String], bool)| *has && ids.iter().any(|other| other == id);
        id != "help" && id != "version" && !shared.iter().any(is_shared)
    };
    let (positional, named): (Vec<_>, Vec<_>) = command
        .get_arguments()
        .filter(own)
        .partition(|arg| arg.is_positional());
    if !positional.is_empty() {
        part.push_str("\n| argument | meaning |\n|---|---|\n");
        for arg in positional {
            writeln!(part, "| `{}` | {} |", value(arg), meaning(arg).0).unwrap();
        }
    }
    if !named.is_empty() {
        write!(part, "\n{}", options(named.into_iter())).unwrap();
    }
    if has(gateway) {
        part.push_str("\nAlso the [options of the gateway](#options-of-the-gateway).\n");
    }
    if has(settings) {
        part.push_str("\nAlso the [settings](configuration.md), as flags and as variables.\n");
    }
    if let Some(examples) = command.get_after_help() {
        write!(part, "\n```text\n{}\n```\n", examples.to_string().trim_end()).unwrap();
    }
    part
}

fn options<'a>(arguments: impl Iterator<Item = &'a Arg>) -> String {
    let mut table = String::from("| option | meaning | default | variable |\n|---|---|---|---|\n");
    for arg in arguments.filter(|arg| !arg.is_hide_set()) {
        let short = arg
            .get_short()
            .map_or_else(String::new, |short| format!("`-{short}`, "));
        let long = arg.get_long().unwrap_or_default();
        let value = if arg.get_action().takes_values() {
            format!(" {}", value(arg))
        } else {
            String::new()
        };
        let variable = arg
            .get_env()
            .map_or_else(String::new, |name| format!("`{}`", name.to_string_lossy()));
        let (text, default) = meaning(arg);
        writeln!(
            table,
            "| {short}`--{long}{value}` | {text} | {default} | {variable} |"
        )
        .unwrap();
    }
    table
}

/// The name of the value of an argument.
fn value(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names.first().map_or_else(String::new, ToString::to_string)
}

/// The meaning of an argument with its possible values, and its default.
fn meaning(arg: &Arg) -> (String, String) {
    let help = arg.get_help().map_or_else(String::new, escaped);
    let (text, default) = match help.split_once(" [default: ") {
        Some((text, default)) => (text.to_owned(), default.trim_end_matches(']').to_owned()),
        None => (help, String::new()),
    };
    let values = arg.get_possible_values();
    let values = values.iter().filter(|_| arg.get_action().takes_values());
    let values = values
        .map(|value| format!("`{}`", value.get_name()))
        .collect::<Vec<_>>();
    let text = if values.is_empty() {
        text
    } else {
        format!("{text}. One of {}", values.join(", "))
    };
    let given = arg
        .get_default_values()
        .iter()
        .filter(|_| arg.get_action().takes_values());
    let mut given = given.map(|value| format!("`{}`", value.to_string_lossy()));
    (text, given.next_back().unwrap_or(default))
}

/// A text of the help in a cell of a table.
fn escaped(text: &clap::builder::StyledStr) -> String {
    let line = text.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace('<', "&lt;").replace('|', "\\|")
}

#[test]
fn the_page_of_the_command_line_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let page = page();
    if std::env::var_os("HIMALIA_WRITE_CLI").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = page
        .lines()
        .zip(committed.lines())
        .find(|(made, old)| made != old);
    assert!(
        page == committed,
        "docs/reference/cli.md is an old one: make cli. {differs:?}"
    );
}
