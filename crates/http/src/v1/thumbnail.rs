//! Small versions of images that kernels made.
//!
//! An image is hostile input: a few bytes may claim any number of pixels. What it claims is looked at before anything is
//! decoded, and one image is decoded at a time, so all of this takes about 512 MiB at most.

use std::io::Cursor;

use axum::http::StatusCode;
use bytes::Bytes;
use himalia_engine::{Principal, StoredArtifact};
use image::error::ImageError;
use image::imageops::FilterType;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};

use crate::app::App;
use crate::error::ApiError;

/// Bytes of an image as it is stored.
const MAX_SOURCE_BYTES: usize = 64 << 20;
/// Pixels of an image.
const MAX_PIXELS: u64 = 32 << 20;
/// Bytes of the pixels: four bytes each. A decoder of a progressive JPEG needs twice as many of its own.
const MAX_DECODED_BYTES: u64 = 4 * MAX_PIXELS;
/// Width and height that a decoder sees: the most that a JPEG can have.
const MAX_SIDE: u32 = 65_535;

/// An image as a kernel made it.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) media_type: String,
    pub(crate) content: Bytes,
}

/// Why there is no thumbnail.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("thumbnails need image/png or image/jpeg; this is {0}")]
    Kind(String),
    #[error("cannot be read as {kind}: {error}")]
    Unreadable { kind: String, error: ImageError },
    #[error("the image has {bytes} bytes; the maximum for thumbnails is {MAX_SOURCE_BYTES}")]
    Bytes { bytes: usize },
    #[error("the image has {width}x{height} pixels; the maximum for thumbnails is {MAX_PIXELS} pixels")]
    Pixels { width: u32, height: u32 },
    #[error("the decoded image has {bytes} bytes; the maximum for thumbnails is {MAX_DECODED_BYTES}")]
    Decoded { bytes: u64 },
    #[error(
        "the image exceeds the maximum for thumbnails: {MAX_SIDE} pixels per side, {MAX_DECODED_BYTES} bytes decoded"
    )]
    Limits,
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        let code = match refused {
            Refused::Kind(_) | Refused::Unreadable { .. } => "no_thumbnail",
            _ => "image_too_large",
        };
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, refused.to_string())
    }
}

/// The image, its longest edge `edge` pixels, of its own type; as it is if it is no larger. It is read in the principal's turn,
/// which lasts until the work is done, also when the caller has gone away.
pub(crate) async fn of(
    app: &App,
    principal: &Principal,
    artifact: StoredArtifact,
    edge: u32,
) -> Result<Bytes, ApiError> {
    let bytes = usize::try_from(artifact.size()).unwrap_or(usize::MAX);
    if bytes > MAX_SOURCE_BYTES {
        return Err(Refused::Bytes { bytes }.into());
    }
    let turn = app.engine().picture_turn(principal).await?;
    let held = app.engine().hold_memory(principal, artifact.size())?;
    let image = Image {
        media_type: artifact.media_type().to_owned(),
        content: artifact.read(0, bytes).await?,
    };
    let work = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        scaled(&image, edge).map(|made| held.keep(made.into()))
    });
    match work.await {
        Ok(made) => Ok(made?),
        Err(error) => {
            tracing::error!(%error, "a decoder of images failed");
            Err(ApiError::internal("making a thumbnail"))
        }
    }
}

fn scaled(artifact: &Image, edge: u32) -> Result<Bytes, Refused> {
    let kind = &artifact.media_type;
    let format = match kind.as_str() {
        "image/png" => ImageFormat::Png,
        "image/jpeg" => ImageFormat::Jpeg,
        _ => return Err(Refused::Kind(kind.clone())),
    };
    let unreadable = |error| match error {
        ImageError::Limits(_) => Refused::Limits,
        error => Refused::Unreadable {
            kind: kind.clone(),
            error,
        },
    };
    let mut reader = ImageReader::with_format(Cursor::new(&artifact.content[..]), format);
    reader.limits(limits());
    let mut decoder = reader.into_decoder().map_err(unreadable)?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(Refused::Pixels { width, height });
    }
    if decoder.total_bytes() > MAX_DECODED_BYTES {
        let bytes = decoder.total_bytes();
        return Err(Refused::Decoded { bytes });
    }
    if width.max(height) <= edge {
        return Ok(artifact.content.clone());
    }
    // What is written has no such tag.
    let orientation = decoder.orientation().ok();
    let image = DynamicImage::from_decoder(decoder).map_err(unreadable)?;
    let mut small = shrunk(image, edge);
    if let Some(orientation) = orientation {
        small.apply_orientation(orientation);
    }
    let mut written = Cursor::new(Vec::new());
    small.write_to(&mut written, format).map_err(unreadable)?;
    Ok(written.into_inner().into())
}

fn limits() -> Limits {
    let mut limits = Limits::no_limits();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_DECODED_BYTES);
    limits
}

/// An image whose longest edge is more than `edge`, with the aspect ratio that it has.
fn shrunk(image: DynamicImage, edge: u32) -> DynamicImage {
    let (width, height) = fitted(image.width(), image.height(), edge);
    // Averages of whole pixels take no memory, and are coarse where the sizes are near each other. The filter keeps thin
    // lines, and its floating-point rows take 16 bytes a pixel.
    let near = if image.width().max(image.height()) > 4 * edge {
        let (width, height) = fitted(image.width(), image.height(), 2 * edge);
        of_eight_bits(image).thumbnail_exact(width, height)
    } else {
        of_eight_bits(image)
    };
    near.resize_exact(width, height, FilterType::Triangle)
}

/// The sums of an average of 16-bit samples would overflow.
fn of_eight_bits(image: DynamicImage) -> DynamicImage {
    match image {
        DynamicImage::ImageLuma16(_) => image.to_luma8().into(),
        DynamicImage::ImageLumaA16(_) => image.to_luma_alpha8().into(),
        DynamicImage::ImageRgb16(_) => image.to_rgb8().into(),
        DynamicImage::ImageRgba16(_) => image.to_rgba8().into(),
        image => image,
    }
}

/// Width and height with the same ratio, the longer one `edge`, none less than 1.
fn fitted(width: u32, height: u32, edge: u32) -> (u32, u32) {
    let longest = u64::from(width.max(height)).max(1);
    let side = |side: u32| {
        let scaled = (u64::from(side) * u64::from(edge) + longest / 2) / longest;
        u32::try_from(scaled).unwrap_or(edge).max(1)
    };
    (side(width), side(height))
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{GenericImageView as _, GrayImage, ImageBuffer, Rgb, Rgba, RgbaImage};

    fn encoded(image: impl Into<DynamicImage>, format: ImageFormat) -> Image {
        let mut written = Cursor::new(Vec::new());
        image.into().write_to(&mut written, format).unwrap();
        Image {
            media_type: format.to_mime_type().into(),
            content: written.into_inner().into(),
        }
    }

    /// A small PNG whose header claims another size, and samples of so many bits of this colour type.
    fn claiming(width: u32, height: u32, samples: [u8; 2]) -> Image {
        let mut artifact = encoded(GrayImage::new(1, 1), ImageFormat::Png);
        let mut bytes = artifact.content.to_vec();
        bytes[16..20].copy_from_slice(&width.to_be_bytes());
        bytes[20..24].copy_from_slice(&height.to_be_bytes());
        bytes[24..26].copy_from_slice(&samples);
        let mut sum = flate2::Crc::new();
        sum.update(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&sum.sum().to_be_bytes());
        artifact.content = bytes.into();
        artifact
    }

    fn refusal(artifact: &Image) -> (&'static str, String) {
        let error = ApiError::from(scaled(artifact, 64).unwrap_err());
        assert_eq!(error.status, StatusCode::UNPROCESSABLE_ENTITY);
        (error.code, error.message)
    }

    #[test]
    fn sizes_keep_the_ratio() {
        assert_eq!(fitted(640, 480, 64), (64, 48));
        assert_eq!(fitted(480, 640, 64), (48, 64));
        assert_eq!(fitted(1000, 3, 16), (16, 1));
        assert_eq!(fitted(65_535, 1, 1024), (1024, 1));
    }

    #[test]
    fn an_image_is_scaled_down_as_what_it_is() {
        let left_red = |x, width| {
            if x < width / 2 {
                [250_u8, 0, 0]
            } else {
                [0, 0, 250]
            }
        };
        for format in [ImageFormat::Png, ImageFormat::Jpeg] {
            // Near the size, and far from it.
            for width in [100, 900] {
                let image = ImageBuffer::from_fn(width, width / 2, |x, _| Rgb(left_red(x, width)));
                let small = scaled(&encoded(image, format), 64).unwrap();
                assert_eq!(image::guess_format(&small).unwrap(), format);
                let small = image::load_from_memory(&small).unwrap();
                assert_eq!(small.dimensions(), (64, 32));
                let (left, right) = (small.get_pixel(8, 16), small.get_pixel(56, 16));
                assert!(left[0] > 230 && left[2] < 20, "{left:?}");
                assert!(right[0] < 20 && right[2] > 230, "{right:?}");
            }
        }
    }

    #[test]
    fn transparency_and_deep_samples_stay_what_they_are() {
        let clear = RgbaImage::from_pixel(300, 300, Rgba([0, 200, 0, 100]));
        let small = scaled(&encoded(clear, ImageFormat::Png), 16).unwrap();
        let small = image::load_from_memory(&small).unwrap();
        assert_eq!(small.get_pixel(8, 8), Rgba([0, 200, 0, 100]));
        // One pixel of the small one is more of these than 32 bits can sum.
        let deep = ImageBuffer::from_pixel(5000, 5000, image::Luma([u16::MAX]));
        let small = scaled(&encoded(DynamicImage::ImageLuma16(deep), ImageFormat::Png), 8).unwrap();
        let small = image::load_from_memory(&small).unwrap();
        assert_eq!(small.get_pixel(4, 4), Rgba([255; 4]));
    }

    #[test]
    fn nothing_is_scaled_up() {
        for width in [20, 64] {
            let mut artifact = encoded(GrayImage::new(width, 20), ImageFormat::Png);
            // What no encoder writes: it is the very same file.
            artifact.content = [&artifact.content[..], b"more"].concat().into();
            assert_eq!(scaled(&artifact, 64).unwrap(), artifact.content);
        }
    }

    #[test]
    fn what_claims_too_much_is_not_decoded() {
        let (gray, deep) = ([8, 0], [16, 6]);
        let (code, message) = refusal(&claiming(60_000, 60_000, gray));
        assert_eq!(code, "image_too_large");
        assert!(message.contains("60000x60000"), "{message}");
        let (code, message) = refusal(&claiming(4_000_000, 1, gray));
        assert_eq!(code, "image_too_large");
        assert!(message.contains("65535"), "{message}");
        let (code, message) = refusal(&claiming(5_000, 5_000, deep));
        assert_eq!(code, "image_too_large");
        assert!(message.contains("200000000 bytes"), "{message}");
        // Small enough, and not there.
        assert_eq!(refusal(&claiming(500, 500, gray)).0, "no_thumbnail");
    }

    #[test]
    fn what_is_no_such_image_is_named() {
        let mut artifact = encoded(GrayImage::new(9, 9), ImageFormat::Png);
        artifact.media_type = "image/svg+xml".into();
        let (code, message) = refusal(&artifact);
        assert_eq!(code, "no_thumbnail");
        assert!(message.ends_with("image/svg+xml"), "{message}");
        artifact.media_type = "image/jpeg".into();
        let (code, message) = refusal(&artifact);
        assert_eq!(code, "no_thumbnail");
        assert!(message.starts_with("cannot be read as image/jpeg"), "{message}");
    }
}
