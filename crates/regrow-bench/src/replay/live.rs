//! How many processes stay alive in a replay.

use std::fmt;
use std::str::FromStr;

use regrow_pool::sim::Existing;
use serde::{Deserialize, Serialize};

/// How many processes stay alive in a replay: a number, or `recorded`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum LiveProcesses {
    /// As many as the trace recorded.
    Recorded,
    /// This many, at least one.
    Exactly(usize),
}

impl FromStr for LiveProcesses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.parse()) {
            ("recorded", _) => Ok(Self::Recorded),
            (_, Ok(number)) if number > 0 => Ok(Self::Exactly(number)),
            _ => Err("a number of processes from 1, or `recorded`, is wanted".to_owned()),
        }
    }
}

impl TryFrom<String> for LiveProcesses {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for LiveProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recorded => f.write_str("recorded"),
            Self::Exactly(number) => write!(f, "{number}"),
        }
    }
}

impl From<LiveProcesses> for String {
    fn from(live: LiveProcesses) -> Self {
        live.to_string()
    }
}

impl From<LiveProcesses> for Existing {
    fn from(live: LiveProcesses) -> Self {
        match live {
            LiveProcesses::Recorded => Self::Recorded,
            LiveProcesses::Exactly(number) => Self::Exactly(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_the_word_are_read_and_written_alike() {
        for text in ["recorded", "1", "20"] {
            let live: LiveProcesses = text.parse().unwrap();
            assert_eq!(live.to_string(), text);
            let json = serde_json::to_string(&live).unwrap();
            assert_eq!(serde_json::from_str::<LiveProcesses>(&json).unwrap(), live);
        }
        for wrong in ["", "0", "-1", "all"] {
            assert!(wrong.parse::<LiveProcesses>().is_err(), "{wrong}");
        }
    }
}
