//! The image that the tool carries: built by `build.rs` from `preload/`.
//!
//! Must never be changed here: a copy is, by [`configure`](clockwise_core::settings::configure).

/// The shared library; empty for processors and systems for which there is none.
pub const IMAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clockwise.so"));

#[cfg(test)]
mod tests {
    use super::IMAGE;
    use clockwise_core::settings::{Choice, configure};

    #[test]
    fn the_image_has_the_record_that_this_version_writes() {
        let mut image = IMAGE.to_vec();
        configure(&mut image, &Choice { relaxed: true, ..Choice::default() }).unwrap();
        let changed = image.iter().zip(IMAGE).filter(|(new, old)| new != old).count();
        assert_eq!(changed, 1, "one bit of its mode");
    }
}
