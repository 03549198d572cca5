//! Arguments of calls.

use std::time::Duration;

use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::Failure;
use crate::limits;

/// Reads the arguments of a call; unknown ones, and those of another type, are refused by name.
pub(crate) fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Failure> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let reason = error.inner();
        if error.path().iter().next().is_some() {
            Failure::argument(&error.path().to_string(), reason)
        } else {
            Failure::Arguments(reason.to_string())
        }
    })
}

/// A time in seconds, to the millisecond.
pub(crate) fn seconds(name: &str, seconds: f64, most: f64) -> Result<Duration, Failure> {
    if !(0.0..=most).contains(&seconds) {
        return Err(Failure::argument(name, format!("expected 0 to {most} seconds")));
    }
    let millis = Duration::from_secs_f64(seconds).as_millis();
    Ok(Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX)))
}

/// Time that the call waits.
pub(crate) fn wait(wait_s: Option<f64>, otherwise: Duration) -> Result<Duration, Failure> {
    wait_s.map_or(Ok(otherwise), |wait| seconds("wait_s", wait, limits::WAIT_MOST))
}

/// Limits for the images and for the sounds of a reply, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MediaBytes {
    pub(crate) images: u64,
    pub(crate) audio: u64,
}

impl MediaBytes {
    /// Some hosts fail at a result with sound: it is there if the call asks for it.
    pub(crate) fn read(images: Option<u64>, audio: Option<u64>) -> Result<Self, Failure> {
        Ok(Self {
            images: media_bytes("image_bytes", images, limits::IMAGE_BYTES)?,
            audio: media_bytes("audio_bytes", audio, 0)?,
        })
    }
}

fn media_bytes(name: &str, bytes: Option<u64>, otherwise: u64) -> Result<u64, Failure> {
    let most = limits::IMAGE_BYTES_MOST;
    match bytes {
        Some(bytes) if bytes > most => Err(Failure::argument(name, format!("is more than {most}"))),
        bytes => Ok(bytes.unwrap_or(otherwise)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the names matter")]
    struct Example {
        code: Option<String>,
        timeout_s: Option<f64>,
    }

    #[test]
    fn what_is_unknown_or_too_much_is_named() {
        let Value::Object(wrong) = json!({"cod": "x"}) else {
            unreachable!()
        };
        let text = read::<Example>(wrong).unwrap_err().to_text();
        assert!(text.contains("`cod`") && text.contains("`code`"), "{text}");
        let Value::Object(wrong) = json!({"timeout_s": "5"}) else {
            unreachable!()
        };
        let text = read::<Example>(wrong).unwrap_err().to_text();
        assert!(
            text.starts_with("timeout_s: ") && text.contains("\"5\""),
            "{text}"
        );
        for bad in [-1.0, f64::NAN, f64::INFINITY, 601.0] {
            assert!(wait(Some(bad), limits::WAIT).is_err(), "{bad}");
        }
        assert_eq!(wait(Some(0.5), limits::WAIT).unwrap(), Duration::from_millis(500));
        assert_eq!(wait(None, limits::WAIT).unwrap(), limits::WAIT);
        let most = limits::IMAGE_BYTES_MOST;
        assert!(
            MediaBytes::read(Some(most + 1), None).is_err()
                && MediaBytes::read(None, Some(most + 1)).is_err()
        );
        let media = MediaBytes::read(None, None).unwrap();
        assert_eq!((media.images, media.audio), (limits::IMAGE_BYTES, 0));
    }
}
