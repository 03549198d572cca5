//! Cron expressions in a time zone.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Bytes of a cron expression.
pub const MAX_CRON_BYTES: usize = 256;
/// The shortest time between two due times, seconds.
pub const MIN_INTERVAL_S: i64 = 10;
/// Due times whose distances are checked: those of a minute in which each second is due, and the next one.
const CHECKED: usize = 62;
/// Bytes of the name of a time zone.
const MAX_ZONE_BYTES: usize = 64;
/// The last time that is looked for: the end of the year 9000.
const LAST_MICROS: i64 = 221_845_000_000_000_000;

/// Reason why a timetable is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// `cron`, `time_zone`.
    pub field: &'static str,
    /// Problem of the timetable.
    pub reason: String,
}

fn invalid<T>(field: &'static str, reason: impl Into<String>) -> Result<T, Invalid> {
    Err(Invalid {
        field,
        reason: reason.into(),
    })
}

/// When a schedule is due.
///
/// Where clocks are set forward, a fixed time that does not exist is due at the end of the gap, and times of an interval in it are left
/// out. Where clocks are set back, a fixed time that exists twice is due once, the first time, and times of an interval are due in both.
#[derive(Clone, Debug)]
pub struct Timetable {
    cron: Cron,
    zone: TimeZone,
}

impl Timetable {
    /// Reads a cron expression with 5 fields, or with 6 whose first one is the second, in a zone of the IANA database.
    ///
    /// # Errors
    /// One of the two is invalid.
    pub fn parse(cron: &str, zone: &str) -> Result<Self, Invalid> {
        if cron.len() > MAX_CRON_BYTES {
            return invalid("cron", format!("is longer than {MAX_CRON_BYTES} bytes"));
        }
        let fields = cron.split_whitespace().count();
        if !(5..=6).contains(&fields) {
            return invalid(
                "cron",
                format!(
                    "has {fields} fields; expected minute, hour, day, month and weekday, and a second before them if need be"
                ),
            );
        }
        let parser = CronParser::builder()
            .seconds(Seconds::Optional)
            .year(Year::Disallowed)
            .build();
        let cron = match parser.parse(cron) {
            Ok(cron) => cron,
            Err(error) => return invalid("cron", error.to_string().trim_end_matches('.').to_owned()),
        };
        // Also no path, which the database of the system would open.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte);
        let named = !zone.is_empty() && zone.len() <= MAX_ZONE_BYTES && zone.bytes().all(plain);
        let known = named.then(|| TimeZone::get(zone).ok()).flatten();
        match known {
            Some(zone) => Ok(Self { cron, zone }),
            None => invalid(
                "time_zone",
                "must be a time zone of the IANA database, such as Europe/Berlin",
            ),
        }
    }

    /// Checks that it is due at all after a time, and not too often.
    ///
    /// # Errors
    /// On `cron`.
    pub fn check(&self, micros: i64) -> Result<(), Invalid> {
        let Some(mut before) = self.next_after(micros) else {
            return invalid("cron", "is never due");
        };
        for _ in 1..CHECKED {
            let Some(next) = self.next_after(before) else {
                break;
            };
            if next - before < MIN_INTERVAL_S * 1_000_000 {
                return invalid(
                    "cron",
                    format!("is due more often than every {MIN_INTERVAL_S} seconds"),
                );
            }
            before = next;
        }
        Ok(())
    }

    /// The first due time after a time; none if there is no other.
    pub fn next_after(&self, micros: i64) -> Option<i64> {
        let found = self.cron.find_next_occurrence(&self.zoned(micros)?, false).ok()?;
        let found = found.timestamp().as_microsecond();
        // What is no due time but a fault of the search must not repeat a run.
        (found > micros).then_some(found)
    }

    /// The last due time that is not after a time.
    pub fn latest_until(&self, micros: i64) -> Option<i64> {
        let found = self
            .cron
            .find_previous_occurrence(&self.zoned(micros)?, true)
            .ok()?;
        let found = found.timestamp().as_microsecond();
        (found <= micros).then_some(found)
    }

    fn zoned(&self, micros: i64) -> Option<Zoned> {
        let at = Timestamp::from_microsecond(micros.clamp(0, LAST_MICROS)).ok()?;
        Some(at.to_zoned(self.zone.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_microsecond()
    }

    fn due(cron: &str, zone: &str, after: &str, most: usize) -> Vec<String> {
        let table = Timetable::parse(cron, zone).unwrap();
        let mut micros = at(after);
        let mut all = Vec::new();
        while all.len() < most
            && let Some(next) = table.next_after(micros)
        {
            all.push(Timestamp::from_microsecond(next).unwrap().to_string());
            micros = next;
        }
        all
    }

    #[test]
    fn fields_have_their_usual_meanings() {
        assert_eq!(
            due("30 6 1 * *", "UTC", "2026-10-15T00:00:00Z", 2),
            ["2026-11-01T06:30:00Z", "2026-12-01T06:30:00Z"]
        );
        assert_eq!(
            due("*/20 0 9 * * MON-FRI", "Asia/Kolkata", "2026-10-16T04:00:00Z", 2),
            ["2026-10-19T03:30:00Z", "2026-10-19T03:30:20Z"]
        );
        assert_eq!(
            due("0 0 L 2 *", "UTC", "2027-03-01T00:00:00Z", 1),
            ["2028-02-29T00:00:00Z"]
        );
    }

    #[test]
    fn a_fixed_time_in_a_gap_is_due_at_its_end_and_one_that_is_there_twice_once() {
        // In Berlin 2:00 to 3:00 is no time of 2026-03-29, and 2:00 to 3:00 is there twice on 2026-10-25.
        assert_eq!(
            due("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", 3),
            [
                "2026-03-28T01:30:00Z",
                "2026-03-29T01:00:00Z",
                "2026-03-30T00:30:00Z"
            ]
        );
        assert_eq!(
            due("30 2 * * *", "Europe/Berlin", "2026-10-24T00:00:00Z", 3),
            [
                "2026-10-24T00:30:00Z",
                "2026-10-25T00:30:00Z",
                "2026-10-26T01:30:00Z"
            ]
        );
    }

    #[test]
    fn an_interval_continues_through_gaps_and_overlaps() {
        assert_eq!(
            due("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:30:00Z", 3),
            [
                "2026-03-29T01:00:00Z",
                "2026-03-29T01:30:00Z",
                "2026-03-29T02:00:00Z"
            ]
        );
        assert_eq!(
            due("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", 4),
            [
                "2026-10-25T00:30:00Z",
                "2026-10-25T01:00:00Z",
                "2026-10-25T01:30:00Z",
                "2026-10-25T02:00:00Z"
            ]
        );
    }

    #[test]
    fn what_is_no_timetable_is_refused_with_its_field() {
        for (cron, zone, field) in [
            ("* * * *", "UTC", "cron"),
            ("* * * * * * *", "UTC", "cron"),
            ("61 * * * *", "UTC", "cron"),
            ("@daily", "UTC", "cron"),
            ("", "UTC", "cron"),
            ("0 0 * * *", "", "time_zone"),
            ("0 0 * * *", "Mars/Olympus", "time_zone"),
            ("0 0 * * *", "../../etc/passwd", "time_zone"),
        ] {
            let wrong = Timetable::parse(cron, zone).unwrap_err();
            assert_eq!(wrong.field, field, "{cron:?} {zone:?}: {}", wrong.reason);
        }
        let long = format!("{} * * * *", "0,".repeat(MAX_CRON_BYTES));
        assert_eq!(Timetable::parse(&long, "UTC").unwrap_err().field, "cron");
    }

    #[test]
    fn what_is_never_due_or_too_often_is_refused() {
        let check = |cron: &str| {
            Timetable::parse(cron, "UTC")
                .unwrap()
                .check(at("2026-10-15T00:00:00Z"))
        };
        for wrong in [
            "0 0 30 2 *",
            "* * * * * *",
            "0,5 * * * * *",
            "55,0 * * * * *",
            "*/7 * * * * *",
        ] {
            assert_eq!(check(wrong).unwrap_err().field, "cron", "{wrong}");
        }
        for good in ["*/10 * * * * *", "* * * * *", "0 0 29 2 *"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }
}
