//! Pauses between the attempts of a delivery.

use std::time::Duration;

/// Attempts of one delivery, over about a day.
pub const DELIVERY_ATTEMPTS: u32 = 8;

/// Pause after this number of failed attempts; `None`: give up.
pub fn pause(failed: u32) -> Option<Duration> {
    let seconds = match failed {
        0 => 0,
        1 => 5,
        2 => 60,
        3 => 5 * 60,
        4 => 30 * 60,
        5 => 2 * 3600,
        6 => 6 * 3600,
        7 => 15 * 3600,
        _ => return None,
    };
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_tried_for_about_a_day() {
        let pauses: Vec<Duration> = (1..DELIVERY_ATTEMPTS)
            .map(|failed| pause(failed).unwrap())
            .collect();
        assert!(pauses.is_sorted());
        let all: Duration = pauses.into_iter().sum();
        assert!(
            (Duration::from_hours(20)..Duration::from_hours(28)).contains(&all),
            "{all:?}"
        );
        assert_eq!(pause(DELIVERY_ATTEMPTS), None);
    }
}
