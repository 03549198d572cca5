//! Single values of settings: how they are written, and what is refused.
#![allow(
    clippy::doc_markdown,
    reason = "the texts of the help are plain, not Markdown"
)]

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use himalia_cli::values::text_or_number;
use himalia_provisioner::Isolation;
use serde::{Deserialize, Deserializer, de};

/// Effect of the gateway's stop on kernels.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnStop {
    /// Kernels continue, and the next gateway finds them again
    Keep,
    /// Kernels are stopped
    Stop,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

/// A size in bytes: `1048576`, `512KiB`, `64MiB`, `2GiB`, `1TiB`. At least 1 MiB, since less holds nothing and 0 means
/// "no limit" to some file systems; at most 1 PiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSize(pub(crate) u64);

impl ByteSize {
    const LEAST: u64 = 1 << 20;
    const MOST: u64 = 1 << 50;
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(end);
        let shift = match unit.trim_start() {
            "" | "B" => 0,
            "KiB" => 10,
            "MiB" => 20,
            "GiB" => 30,
            "TiB" => 40,
            _ => return Err(Self::form()),
        };
        let number: u64 = digits.parse().map_err(|_| Self::form())?;
        match number.checked_mul(1 << shift) {
            Some(bytes) if bytes < Self::LEAST => Err("is less than 1MiB".to_owned()),
            Some(bytes) if bytes <= Self::MOST => Ok(Self(bytes)),
            _ => Err("is more than 1024TiB".to_owned()),
        }
    }
}

impl ByteSize {
    fn form() -> String {
        "must be a size: bytes, or a number with KiB, MiB, GiB or TiB, as in 512MiB".to_owned()
    }
}

/// Processors: `1`, `0.5`, `1.25`. Between 0.01 and 1024.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Processors(f64);

impl Processors {
    /// In thousandths of one.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 10 and 1,024,000 since it was read"
    )]
    pub(crate) fn millis(self) -> u32 {
        (self.0 * 1000.0).round() as u32
    }
}

impl<'de> Deserialize<'de> for Processors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        if (0.01..=1024.0).contains(&number) {
            Ok(Self(number))
        } else {
            Err(de::Error::custom("is not between 0.01 and 1024 processors"))
        }
    }
}

/// Isolation of kernels that request no level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IsolationSetting {
    /// Namespaces if they work here, else none.
    Auto,
    Level(Isolation),
}

impl FromStr for IsolationSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            other => other.parse().map(Self::Level).map_err(|_| {
                let levels = Isolation::ALL.map(Isolation::as_str).join(", ");
                format!("must be one of auto, {levels}")
            }),
        }
    }
}

/// Host user ids, `2100000000-2100065535`: each sandbox of a gateway that runs as root has one of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostUids(pub(crate) RangeInclusive<u32>);

impl FromStr for HostUids {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "must be a range of user ids such as 2100000000-2100065535".to_owned();
        let (first, last) = text.split_once('-').ok_or_else(form)?;
        let id = |text: &str| text.trim().parse::<u32>().map_err(|_| form());
        let (first, last) = (id(first)?, id(last)?);
        // Below are people and services; the last one means "no change" to the system.
        if first < 1000 || last == u32::MAX || first > last {
            return Err("must be a range between 1000 and 4294967294".to_owned());
        }
        Ok(Self(first..=last))
    }
}

/// The container engine's socket: `unix:///var/run/docker.sock`. No other transport, since the engine must see the same
/// files as this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DockerHost(pub(crate) PathBuf);

impl FromStr for DockerHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix://") {
            Some(path) if path.starts_with('/') && path.len() > 1 => Ok(Self(path.into())),
            _ => Err("must be an address such as unix:///var/run/docker.sock".to_owned()),
        }
    }
}

macro_rules! deserialize_by_text {
    ($($type:ty),+) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                text_or_number(deserializer)
            }
        }
    )+};
}

deserialize_by_text!(ByteSize, IsolationSetting, HostUids, DockerHost);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units_and_bounds() {
        for (text, bytes) in [
            ("1048576", 1 << 20),
            ("1048576B", 1 << 20),
            ("2048KiB", 2 << 20),
            ("512MiB", 512 << 20),
            ("2GiB", 2 << 30),
            ("2 GiB", 2 << 30),
            ("1TiB", 1 << 40),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for bad in [
            "",
            "0",
            "GiB",
            "2GB",
            "2G",
            "-1",
            "1.5GiB",
            "512KiB",
            "1025TiB",
            "99999999999999TiB",
            "1 048 576",
        ] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
    }

    #[test]
    fn levels_ranges_and_addresses() {
        assert_eq!("auto".parse(), Ok(IsolationSetting::Auto));
        assert_eq!("gvisor".parse(), Ok(IsolationSetting::Level(Isolation::Gvisor)));
        let error = "docker".parse::<IsolationSetting>().unwrap_err();
        assert!(error.contains("auto, none, namespaces"), "{error}");
        assert_eq!(
            "2100000000-2100065535".parse(),
            Ok(HostUids(2_100_000_000..=2_100_065_535))
        );
        for bad in ["", "5", "0-5", "3000-2000", "200000-4294967295", "a-b", "200000-"] {
            assert!(bad.parse::<HostUids>().is_err(), "{bad}");
        }
        assert_eq!(
            "unix:///run/docker.sock".parse(),
            Ok(DockerHost("/run/docker.sock".into()))
        );
        for bad in [
            "/run/docker.sock",
            "unix://",
            "unix:///",
            "unix://run/x",
            "tcp://127.0.0.1:2375",
        ] {
            assert!(bad.parse::<DockerHost>().is_err(), "{bad}");
        }
    }
}
