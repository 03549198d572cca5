//! Values as they are written in command lines, variables and the configuration file.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

/// A text that is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl<'de> Deserialize<'de> for Secret {
    /// Unlike the derived form, an error does not quote the value.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)
            .map(Self)
            .map_err(|_| de::Error::custom("must be a string"))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl FromStr for Secret {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

/// A time in whole seconds: `90`, `90s`, `10m`, `24h`, `7d`. At most 10 years.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub u64);

impl Seconds {
    const MOST: u64 = 10 * 366 * 86_400;

    /// As a duration of the standard library.
    pub fn duration(self) -> Duration {
        Duration::from_secs(self.0)
    }
}

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, unit) = match text.trim_end_matches(|c: char| c.is_ascii_alphabetic()) {
            digits if digits.len() == text.len() => (digits, 1),
            digits => match &text[digits.len()..] {
                "s" => (digits, 1),
                "m" => (digits, 60),
                "h" => (digits, 3_600),
                "d" => (digits, 86_400),
                _ => (text, 1),
            },
        };
        let number: Option<u64> = digits
            .parse()
            .ok()
            .and_then(|number: u64| number.checked_mul(unit));
        match number {
            Some(seconds) if seconds <= Self::MOST => Ok(Self(seconds)),
            Some(_) => Err("is longer than 10 years".to_owned()),
            None => Err("must be a time: seconds, or a number with s, m, h or d, as in 10m".to_owned()),
        }
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or_number(deserializer)
    }
}

/// Reads a value from a text, or from a whole number, with the same rules as on the command line.
///
/// # Errors
/// It is neither, or no such value.
pub fn text_or_number<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err = String>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_any(TextOrNumber(std::marker::PhantomData))
}

/// Read from a text, or from a whole number, with the same rules as on the command line.
struct TextOrNumber<T>(std::marker::PhantomData<T>);

impl<T: FromStr<Err = String>> de::Visitor<'_> for TextOrNumber<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a text with a unit")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_and_without_unit() {
        for (text, seconds) in [
            ("0", 0),
            ("90", 90),
            ("90s", 90),
            ("10m", 600),
            ("24h", 86_400),
            ("7d", 604_800),
        ] {
            assert_eq!(text.parse(), Ok(Seconds(seconds)), "{text}");
        }
        for bad in [
            "",
            "m",
            "-1",
            "1.5h",
            "10 m",
            "10ms",
            "1h30m",
            "99999999999999999999",
            "9999999d",
        ] {
            assert!(bad.parse::<Seconds>().is_err(), "{bad}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        assert!(!format!("{:?}", Secret("canary".into())).contains("canary"));
    }
}
