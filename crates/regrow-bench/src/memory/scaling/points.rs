//! Points of figures 6 and 7, and their names as rows: so they are written, and found again to be drawn.

use std::fmt;

/// A point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalingPoint {
    /// 6 is of immediate requests, 7 of delayed ones.
    pub figure: u8,
    /// What is measured: the size of blocks, or the program.
    pub what: String,
    /// Who gives blocks.
    pub side: String,
    /// Processors in all, those of servers among them.
    pub processors: u32,
    /// Whether it is simulated.
    pub is_simulated: bool,
}

impl fmt::Display for ScalingPoint {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScalingPoint { figure, what, side, processors, is_simulated } = self;
        let kind = if *is_simulated { "simulated" } else { "measured" };
        let plural = if *processors == 1 { "processor" } else { "processors" };
        write!(to, "figure {figure}, {what}, {side}, {processors} {plural}: {kind}")
    }
}

impl ScalingPoint {
    /// The point of a row; `None` where the row is of something else.
    #[must_use]
    pub fn of_name(name: &str) -> Option<ScalingPoint> {
        let (place, kind) = name.strip_prefix("figure ")?.split_once(": ")?;
        let parts: Vec<&str> = place.split(", ").collect();
        let [figure, what, side, processors] = parts.as_slice() else { return None };
        let processors =
            processors.strip_suffix(" processors").or_else(|| processors.strip_suffix(" processor"))?;
        let is_simulated = match kind {
            "simulated" => true,
            "measured" => false,
            _ => return None,
        };
        Some(ScalingPoint {
            figure: figure.parse().ok()?,
            what: (*what).to_owned(),
            side: (*side).to_owned(),
            processors: processors.parse().ok()?,
            is_simulated,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_found_by_its_name() {
        for (processors, is_simulated) in [(1, false), (128, true)] {
            let (what, side) = ("4 KiB".to_owned(), "2 servers".to_owned());
            let point = ScalingPoint { figure: 6, what, side, processors, is_simulated };
            assert_eq!(ScalingPoint::of_name(&point.to_string()), Some(point));
        }
        let others = [
            "figure 6 on two processors, 4 KiB, 1 server, 2 clients: measured",
            "figure 7, bzip2: more",
            "table 1",
        ];
        assert!(others.iter().all(|name| ScalingPoint::of_name(name).is_none()));
    }
}
