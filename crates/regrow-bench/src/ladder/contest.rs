//! Several ways to do the same, in turn; and what each of them fails with.

use std::time::Instant;

use crate::error::BenchError;
use crate::figure::Figure;
use crate::samples::median;

/// What a turn of a way gives: nanoseconds for each operation.
pub(super) type Turn<'a> = Box<dyn FnMut() -> Result<f64, BenchError> + 'a>;

/// See the module.
pub(super) struct Contest<'a> {
    what: &'a str,
    ways: Vec<(&'a str, Turn<'a>)>,
}

/// The times of each way, in the order of the turns.
pub(super) struct Times<'a> {
    what: &'a str,
    ways: Vec<(&'a str, Vec<f64>)>,
}

impl<'a> Contest<'a> {
    /// Nobody takes part as yet.
    pub(super) fn new(what: &'a str) -> Self {
        Self { what, ways: Vec::new() }
    }

    /// With another way; the first one is ours.
    pub(super) fn way(mut self, name: &'a str, turn: impl FnMut() -> Result<f64, BenchError> + 'a) -> Self {
        self.ways.push((name, Box::new(turn)));
        self
    }

    /// Has each its turn, so often, after one that does not count.
    pub(super) fn run(mut self, rounds: usize) -> Result<Times<'a>, BenchError> {
        let mut ways: Vec<(&str, Vec<f64>)> = self.ways.iter().map(|(name, _)| (*name, Vec::new())).collect();
        for round in 0..=rounds {
            for ((_, turn), (_, times)) in self.ways.iter_mut().zip(&mut ways) {
                let time = turn()?;
                if round > 0 {
                    times.push(time);
                }
            }
        }
        Ok(Times { what: self.what, ways })
    }
}

impl Times<'_> {
    /// The median of each way, in nanoseconds.
    pub(super) fn figures(&self) -> impl Iterator<Item = Figure> {
        self.ways.iter().map(|(name, times)| {
            Figure::told(&format!("{}, {name}", self.what), median(times.iter().copied()), "ns")
        })
    }

    /// How many times as quick the first way is as another one.
    pub(super) fn ratio(&self, other: &str) -> f64 {
        let of = |wanted: &str| self.ways.iter().find(|(name, _)| *name == wanted).map(|(_, times)| times);
        let (Some((_, own)), Some(other)) = (self.ways.first(), of(other)) else { return 0.0 };
        median(own.iter().zip(other).map(|(own, other)| other / own))
    }

    /// The figure of that, and what is asked.
    pub(super) fn at_least(&self, other: &str, asked: f64) -> Figure {
        Figure::at_least(
            &format!("{}, against {other}", self.what),
            self.ratio(other),
            asked,
            "times as quick",
        )
    }

    /// The same against the second way.
    pub(super) fn against_second(&self, asked: f64) -> Option<Figure> {
        self.ways.get(1).map(|(other, _)| self.at_least(other, asked))
    }

    /// What is compared.
    pub(super) fn what(&self) -> &str {
        self.what
    }

    /// The median of the first way, in nanoseconds.
    pub(super) fn own(&self) -> f64 {
        self.ways.first().map_or(0.0, |(_, times)| median(times.iter().copied()))
    }
}

/// Nanoseconds for each of so many operations since then.
pub(super) fn each_ns(begun: Instant, count: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "counts and times of a benchmark are far below 2^52")]
    {
        begun.elapsed().as_nanos() as f64 / count as f64
    }
}

/// There is no stack for a fiber.
pub(super) fn no_stack(error: regrow_fiber::StackError) -> BenchError {
    BenchError::system("a fiber has no stack")(std::io::Error::other(error))
}

/// A runtime does not begin.
pub(super) fn no_runtime(error: regrow_fiber::RuntimeError) -> BenchError {
    BenchError::system("there is no runtime for tasks")(std::io::Error::other(error))
}

/// What was computed is not what it should be.
pub(super) fn wrong(what: &str) -> BenchError {
    BenchError::WrongRun { program: "ladder".to_owned(), what: format!("{what}: the result is wrong") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_that_of_adjacent_turns() {
        let (mut own, mut other) = ([9.0, 1.0, 2.0, 10.0].into_iter(), [9.0, 3.0, 4.0, 40.0].into_iter());
        let times = Contest::new("it")
            .way("ours", || own.next().ok_or_else(|| wrong("ours")))
            .way("theirs", || other.next().ok_or_else(|| wrong("theirs")))
            .run(3)
            .unwrap();
        // The first turns do not count: 3, 2 and 4 times.
        assert_eq!((times.ratio("theirs"), times.ratio("nobody")), (3.0, 0.0));
        assert_eq!(times.own(), 2.0);
        let figure = times.at_least("theirs", 1.5);
        assert_eq!((figure.name(), figure.holds()), ("it, against theirs", Some(true)));
    }

    #[test]
    fn a_turn_that_fails_ends_it() {
        let contest = Contest::new("it").way("ours", || Err(wrong("a sum")));
        assert_eq!(contest.run(1).err().unwrap().to_string(), "ladder: a sum: the result is wrong");
    }
}
