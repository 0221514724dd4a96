//! What is predicted of a site, as what is done about it.

use regrow_collect::below::Class;
use regrow_sites::{Arguments, Model, Site};

/// Of a limit that tells short from long, in microseconds of processor time.
pub(super) fn class_of(model: &Model, site: &Site, arguments: Option<Arguments>, limit_us: u64) -> Class {
    let prediction = model.predict_call(site, arguments);
    if prediction.is_long(limit_us) {
        Class::Long
    } else if prediction.is_short(limit_us) {
        Class::Short
    } else {
        Class::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_is_known_nothing_is_done() {
        let site = Site { image: regrow_sites::ImageId(5), frames: [None; 3], script: None, child: None };
        assert_eq!(class_of(&Model::new(1 << 20), &site, None, 10_000), Class::Unknown);
    }
}
