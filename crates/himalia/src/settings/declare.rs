//! The macro `settings!`, which declares types from the list of settings.

use clap::{Arg, Args, Command};
use serde::de::DeserializeOwned;

/// Description of a setting for its flag, variable and row in the documentation, beyond clap's own data.
pub(crate) struct Setting {
    /// Key in the file.
    pub(crate) key: &'static str,
    /// Part of `--help`.
    heading: &'static str,
    /// Default, or a text that describes it.
    pub(crate) default: Option<&'static str>,
}

/// Makes of the entries `key("VALUE", arguments of clap …): Type = default;`
///
/// - `GivenSettings`: what was said on the command line and in variables, or in the file; `None` was not said there;
/// - `Settings`: all of it, where a setting with a default has its type, and any other one is an `Option`.
///
/// `, or "text"` in the place of `= default` says in the help what holds without the setting. A default is written as in
/// the file. Entries of `file` have no flag, those of `flags` no key in the file.
macro_rules! settings {
    (
        $($heading:literal {$(
            $(#[doc = $text:literal])*
            $key:ident($value:literal $(, $more:ident = $with:literal)*): $kind:ty
            $(= $default:literal)? $(, or $or:literal)?;
        )*})*
        file {$(
            $(#[doc = $table_text:literal])*
            $table:ident: $table_kind:ty;
        )*}
        flags {$(
            $(#[doc = $flag_text:literal])*
            $flag:ident($flag_value:literal): $flag_kind:ty $(, or $flag_or:literal)?;
        )*}
    ) => {
        /// Settings as they were said in one place; what is `None` was not said there.
        #[derive(clap::Args, Clone, Debug, Default, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct GivenSettings {
            /// TOML file with these settings (`max_kernels = 20`); unknown keys are refused. Relative paths in it start at
            /// its directory
            #[arg(long, value_name = "FILE")]
            #[serde(skip)]
            pub(crate) config: Option<PathBuf>,
            $(
                $(#[doc = $flag_text])*
                #[arg(long, value_name = $flag_value)]
                #[serde(skip)]
                pub(crate) $flag: Option<$flag_kind>,
            )*
            $($(
                $(#[doc = $text])*
                #[arg(long, value_name = $value $(, $more = $with)*)]
                pub(crate) $key: Option<$kind>,
            )*)*
            $(
                $(#[doc = $table_text])*
                #[arg(skip)]
                pub(crate) $table: Option<$table_kind>,
            )*
        }

        /// All settings, with the defaults of those that were not said. Not checked yet.
        #[derive(Clone, Debug)]
        pub(crate) struct Settings {
            $(pub(crate) $flag: Option<$flag_kind>,)*
            $($(pub(crate) $key: settings!(@kind $kind $(, $default)?),)*)*
            $(pub(crate) $table: Option<$table_kind>,)*
        }

        impl GivenSettings {
            /// Merges with `file`, whose settings have lower precedence. The token and its file are one setting.
            pub(crate) fn over(self, mut file: Self) -> Self {
                if self.token.is_some() || self.token_file.is_some() {
                    (file.token, file.token_file) = (None, None);
                }
                Self {
                    config: self.config,
                    $($flag: self.$flag.or(file.$flag),)*
                    $($($key: self.$key.or(file.$key),)*)*
                    $($table: self.$table.or(file.$table),)*
                }
            }

            /// With the defaults.
            pub(crate) fn complete(self) -> Settings {
                Settings {
                    $($flag: self.$flag,)*
                    $($($key: settings!(@complete self.$key $(, $default)?),)*)*
                    $($table: self.$table,)*
                }
            }
        }

        /// All settings that have a flag, in the order of the help.
        pub(crate) const LIST: &[declare::Setting] = &[
            declare::Setting::new("config", "", None),
            $(declare::Setting::new(stringify!($flag), "", settings!(@text $($flag_or)?)),)*
            $($(declare::Setting::new(stringify!($key), $heading, settings!(@text $($default)? $($or)?)),)*)*
        ];
    };
    (@kind $kind:ty) => { Option<$kind> };
    (@kind $kind:ty, $default:literal) => { $kind };
    (@complete $said:expr) => { $said };
    (@complete $said:expr, $default:literal) => { $said.unwrap_or_else(|| declare::default($default)) };
    (@text) => { None };
    (@text $text:literal) => { Some(concat!($text)) };
}

impl Setting {
    pub(crate) const fn new(key: &'static str, heading: &'static str, default: Option<&'static str>) -> Self {
        Self {
            key,
            heading,
            default,
        }
    }

    /// Environment variable of the setting.
    fn variable(&self) -> String {
        format!("HIMALIA_{}", self.key.to_uppercase())
    }

    /// The flag, with its variable and with its default in the help.
    fn flag(&self, arg: Arg) -> Arg {
        let mut arg = arg.env(self.variable());
        if !self.heading.is_empty() {
            arg = arg.help_heading(self.heading);
        }
        if let (Some(default), Some(text)) = (self.default, arg.get_help()) {
            let text = format!("{text} [default: {default}]");
            arg = arg.help(text);
        }
        let names = arg.get_value_names().unwrap_or_default();
        if names.first().is_some_and(|name| name == "BOOL") {
            arg = arg
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true");
        }
        arg
    }
}

/// The settings as flags of a command.
#[derive(Clone, Debug)]
pub(crate) struct Flags(pub(crate) super::GivenSettings);

impl clap::FromArgMatches for Flags {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        super::GivenSettings::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        super::GivenSettings::augment_args(command).mut_args(|arg| {
            let setting = super::LIST.iter().find(|setting| arg.get_id() == setting.key);
            match setting {
                Some(setting) => setting.flag(arg),
                None => arg,
            }
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// A default, read as the file is.
#[allow(clippy::expect_used, reason = "a test reads every default")]
pub(crate) fn default<T: DeserializeOwned>(value: impl Into<toml::Value>) -> T {
    value
        .into()
        .try_into()
        .expect("a default is a value of its setting")
}
