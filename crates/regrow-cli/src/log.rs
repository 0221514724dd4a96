//! The log on standard error, and the filter that chooses what it shows.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};

/// Why the filter of the log cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// It is no filter at all.
    #[error("--log or REGROW_LOG: {filter:?} is no level and no filter")]
    Filter {
        /// The filter.
        filter: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// One of its words is neither a level nor a module of Regrow.
    #[error(
        "--log or REGROW_LOG: {word:?} is no level (off, error, warn, info, debug, trace) and no module of Regrow"
    )]
    Level {
        /// The word.
        word: String,
    },
}

/// Starts the log.
pub(crate) fn start(filter: &str) -> Result<(), LogError> {
    // The library takes any word for the name of a module, also one that logs nothing.
    let mut words =
        filter.split(',').map(str::trim).filter(|word| !word.is_empty() && !word.contains(['=', '[']));
    let is_known = |word: &str| word.starts_with("regrow") || word.parse::<LevelFilter>().is_ok();
    if let Some(word) = words.find(|word| !is_known(word)) {
        return Err(LogError::Level { word: word.to_owned() });
    }
    let parsed = EnvFilter::try_new(filter)
        .map_err(|source| LogError::Filter { filter: filter.to_owned(), source })?;
    tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}
