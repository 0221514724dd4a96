//! Looks at bodies that no run is in: a body that waits to be compared is compared with its image (verify mode), and one in
//! doubt is given up.

use std::collections::BTreeMap;
use std::time::Duration;

use regrow_abi::{Broken, State};
use regrow_body::{Body, verify};
use regrow_image::image::Image;

use crate::tables::Tables;

/// How long a body may take to be put back before it is compared.
const RESET_TIME: Duration = Duration::from_millis(200);

/// What was seen of bodies, beside the creations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    /// Bodies that were compared with their image and equal (verify mode).
    pub compared: u64,
    /// What differed, for each body that was compared and was not equal.
    pub differences: Vec<String>,
    /// Bodies that their keepers gave up, by reason.
    pub given_up: BTreeMap<&'static str, u64>,
}

impl Reports {
    fn give_up(&mut self, reason: &'static str) {
        *self.given_up.entry(reason).or_default() += 1;
    }
}

/// Inspects the bodies of all images. In verify mode it waits for the resets that are under way, so that every idle body is
/// compared.
pub(crate) fn inspect_all(tables: &mut Tables, verify: bool, reports: &mut Reports) {
    for (id, kept) in tables.images.iter_kept() {
        if verify {
            for (_, body) in tables.bodies.of(id) {
                body.wait_ready(RESET_TIME);
            }
        }
        tables.bodies.retain(id, |body| may_go_on(&kept.image, body, reports));
    }
}

/// Lets a body go on if it can; false when it must be dropped.
pub(crate) fn may_go_on(image: &Image, body: &Body, reports: &mut Reports) -> bool {
    match body.state() {
        None | Some(State::Broken) => {
            let why = body.broken();
            tracing::debug!(keeper = body.keeper(), ?why, "a body was given up");
            reports.give_up(why.map_or("unknown", |why| reason(why.0)));
            false
        }
        Some(State::Clean) => compare(image, body, reports),
        Some(State::Armed) => true,
        // A keeper that died leaves its word as it was.
        Some(_) if body.is_broken() => {
            reports.give_up("keeper_died");
            false
        }
        Some(_) => true,
    }
}

/// Compares a body with its image, and arms its next process where they are equal.
fn compare(image: &Image, body: &Body, reports: &mut Reports) -> bool {
    match verify::compare(image, body) {
        Ok(()) => {
            reports.compared += 1;
            return body.arm_after_verify();
        }
        Err(_) if body.is_broken() => reports.give_up("keeper_died"),
        Err(difference) if difference.is_huge_page_advice() => reports.give_up("huge_page_advice"),
        Err(difference) => {
            tracing::error!(keeper = body.keeper(), %difference, "a body differs from its image");
            reports.differences.push(difference.to_string());
        }
    }
    false
}

/// A stable name for why a keeper gave its body up.
fn reason(why: Broken) -> &'static str {
    match why {
        Broken::Version => "version",
        Broken::Clone => "clone",
        Broken::Shared => "shared",
        Broken::MappingLost => "mapping_lost",
        Broken::Mappings => "mappings",
        Broken::Pages => "pages",
        Broken::Brk => "brk",
        Broken::Sticky => "sticky",
        Broken::Proc => "proc",
        Broken::TooManyMappings => "too_many_mappings",
        Broken::Fault => "fault",
        Broken::Died => "died",
        Broken::LeftProcesses => "left_processes",
        Broken::Sealed => "sealed",
    }
}
