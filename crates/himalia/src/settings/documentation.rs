//! The table of settings in docs/reference/configuration.md is made from their list.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Args as _, Command};

use super::{Flags, LIST};

const BEGIN: &str = "<!-- settings: made by `make settings` -->\n";
const END: &str = "<!-- settings end -->";

fn table() -> String {
    let command = Flags::augment_args(Command::new("serve"));
    let mut table = String::from("| key | flag | meaning | default |\n|---|---|---|---|\n");
    for setting in LIST {
        let arg = command
            .get_arguments()
            .find(|arg| arg.get_id() == setting.key)
            .unwrap();
        let flag = arg.get_long().unwrap();
        let value = &arg.get_value_names().unwrap()[0];
        let text = arg.get_help().unwrap().to_string().replace('<', "&lt;");
        let (text, default) = match text.split_once(" [default: ") {
            Some((text, default)) => (text, default.trim_end_matches(']')),
            None => (text.as_str(), ""),
        };
        let key = if arg.get_help_heading().is_some() {
            format!("`{}`", setting.key)
        } else {
            String::new()
        };
        writeln!(table, "| {key} | `--{flag} {value}` | {text} | {default} |").unwrap();
    }
    table
}

#[test]
fn the_table_of_settings_is_that_of_the_list() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let table = table();
    if std::env::var_os("HIMALIA_WRITE_SETTINGS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}\n{table}\n{END}{after}")).unwrap();
        return;
    }
    assert_eq!(
        found.trim(),
        table.trim(),
        "docs/reference/configuration.md has an old table: make settings"
    );
}

#[test]
fn every_default_is_a_value_of_its_setting() {
    let settings = super::GivenSettings::default().complete();
    assert_eq!(settings.listen, "127.0.0.1:8888");
    assert_eq!(settings.max_message, super::ByteSize(32 << 20));
}
