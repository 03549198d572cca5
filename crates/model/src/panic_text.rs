//! The text of a panic that was caught.

use std::any::Any;

/// The message of a panic, for a log. A handler that panics is answered with an error, and the log has the reason.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&'static str>().copied();
    literal
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_formatted_messages_are_read() {
        let caught = |panics: fn()| std::panic::catch_unwind(panics).unwrap_err();
        let literal = caught(|| panic!("a literal"));
        assert_eq!(panic_text(&*literal), "a literal");
        let formatted = caught(|| panic!("number {}", std::hint::black_box(1)));
        assert_eq!(panic_text(&*formatted), "number 1");
        let other = caught(|| std::panic::panic_any(1));
        assert_eq!(panic_text(&*other), "no message");
    }
}
