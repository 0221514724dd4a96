//! A chess engine as it is in Debian (`sjeng`, the paper's), with its memory from the kernel, and from the service by the library that is preloaded.
//!
//! It thinks to a fixed depth from the first position of a game, without a book and without thinking ahead, so that it does the same each time: what
//! it says of each depth (score, nodes, line), its number of nodes and its move are compared. The time is that of the whole process; its tables are
//! asked for at its start.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use tempfile::TempDir;

use super::turns::joined;
use crate::error::BenchError;
use crate::figure::Figure;
use crate::samples::median;

const NAME: &str = "sjeng";
/// Where Debian has it.
const GAMES: &str = "/usr/games";
const LIBRARY: &str = "libregrow_memory.so";
/// Where `make memory` puts the library, seen from the folder of the command.
const LIBRARY_FOLDER: &str = "memory";
/// How deep it thinks: about a second.
const DEPTH: u32 = 10;
const ROUNDS: usize = 7;
/// How fast it is to be with the library: as fast, but for what a virtual machine differs from run to run.
const NOT_SLOWER: f64 = 0.97;

/// The engine, and the library.
#[derive(Debug)]
pub(super) struct Chess {
    engine: PathBuf,
    library: PathBuf,
    home: TempDir,
    depth: u32,
}

/// Runs per second of one copy, and of two together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ChessRates {
    pub(super) kernel: [f64; 2],
    pub(super) library: [f64; 2],
}

impl Chess {
    /// Looks for both.
    ///
    /// # Errors
    /// [`BenchError::NoProgram`] where the engine is missing, [`BenchError::System`] where the library is.
    pub(super) fn find() -> Result<Chess, BenchError> {
        let folders = env::var_os("PATH").unwrap_or_default();
        let mut places =
            env::split_paths(&folders).chain([PathBuf::from(GAMES)]).map(|folder| folder.join(NAME));
        let engine = places.find(|path| path.is_file());
        let engine = engine.ok_or_else(|| BenchError::NoProgram { program: NAME.into() })?;
        let command = env::current_exe().map_err(BenchError::system("the path of this command"))?;
        let library = command.with_file_name(LIBRARY_FOLDER).join(LIBRARY);
        fs::metadata(&library).map_err(BenchError::system(
            "target/release/memory/libregrow_memory.so, which `make memory` builds",
        ))?;
        Chess::with(engine, library, DEPTH)
    }

    fn with(engine: PathBuf, library: PathBuf, depth: u32) -> Result<Chess, BenchError> {
        let home = tempfile::tempdir().map_err(BenchError::system("a folder for the chess engine"))?;
        Ok(Chess { engine, library, home, depth })
    }

    /// Both ways in turn, one copy and two together.
    pub(super) fn measure(&self) -> Result<(ChessRates, Vec<Figure>), BenchError> {
        let expected = self.run(false)?.1;
        let mut seconds = [const { [const { Vec::new() }; 2] }; 2];
        for _ in 0..ROUNDS {
            for (is_served, of_way) in [false, true].into_iter().zip(&mut seconds) {
                for (copies, of_copies) in [1, 2].into_iter().zip(of_way) {
                    of_copies.push(self.together(copies, is_served, &expected)?);
                }
            }
        }
        let served = self.served()?;
        let [kernel, library] = seconds.map(|of_way| of_way.map(median));
        let rates = |[one, two]: [f64; 2]| [1.0 / one, 2.0 / two];
        let name =
            format!("chess ({NAME} to depth {}, {} nodes)", self.depth, nodes(&expected).unwrap_or("?"));
        let figures = vec![
            Figure::at_least(
                &format!("{name}: not slower: speed with the library preloaded against without"),
                kernel[0] / library[0],
                NOT_SLOWER,
                "times",
            ),
            Figure::told(&format!("{name}: the same, two copies together"), kernel[1] / library[1], "times"),
            Figure::told(&format!("{name}: by the kernel"), kernel[0], "s"),
            Figure::told(&format!("{name}: by the library"), library[0], "s"),
            Figure::told(&format!("{name}: blocks by the library in a run"), served, "blocks"),
        ];
        Ok((ChessRates { kernel: rates(kernel), library: rates(library) }, figures))
    }

    /// Seconds of copies that run at the same time, on the mean.
    fn together(&self, copies: u32, is_served: bool, expected: &str) -> Result<f64, BenchError> {
        let one = || {
            let (seconds, said) = self.run(is_served)?;
            if said == expected {
                return Ok(seconds);
            }
            let what = format!("says\n{said}and not\n{expected}");
            Err(BenchError::WrongRun { program: NAME.to_owned(), what })
        };
        let all = thread::scope(|scope| {
            let started: Vec<_> = (0..copies).map(|_| scope.spawn(one)).collect();
            started.into_iter().map(joined).sum::<Result<f64, BenchError>>()
        })?;
        Ok(all / f64::from(copies))
    }

    /// Runs it once: the seconds, and what it has said but for times.
    fn run(&self, is_served: bool) -> Result<(f64, String), BenchError> {
        let failed = |what: &str| BenchError::WrongRun { program: NAME.to_owned(), what: what.to_owned() };
        let begun = Instant::now();
        let mut engine = Running(self.start(is_served)?);
        let (Some(mut orders), Some(answers)) = (engine.0.stdin.take(), engine.0.stdout.take()) else {
            return Err(failed("has no pipes"));
        };
        let io = BenchError::system;
        let depth = self.depth;
        write!(orders, "xboard\npost\neasy\nst 1000\nsd {depth}\ngo\n")
            .map_err(io("telling the chess engine"))?;
        let mut said = String::new();
        for line in BufReader::new(answers).lines() {
            let line = line.map_err(io("reading what the chess engine says"))?;
            if let Some(told) = without_time(&line) {
                said.push_str(&told);
                said.push('\n');
            }
            if line.starts_with("move ") {
                // Earlier it would stop thinking.
                writeln!(orders, "quit").map_err(io("telling the chess engine"))?;
                break;
            }
        }
        drop(orders);
        let status = engine.0.wait().map_err(io("waiting for the chess engine"))?;
        let seconds = begun.elapsed().as_secs_f64();
        if !said.contains("move ") || nodes(&said).is_none() || !status.success() {
            return Err(failed(&format!("has said no move: {status}")));
        }
        Ok((seconds, said))
    }

    fn start(&self, is_served: bool) -> Result<Child, BenchError> {
        let mut command = Command::new(&self.engine);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.env_remove("LD_PRELOAD").env("HOME", self.home.path());
        if is_served {
            command.env("LD_PRELOAD", &self.library).env("REGROW_MEMORY_STATISTICS", self.statistics());
        }
        let program = self.engine.display().to_string();
        command.spawn().map_err(|source| BenchError::Start { program, by: "the benchmark", source })
    }

    fn statistics(&self) -> PathBuf {
        self.home.path().join("statistics")
    }

    /// How many blocks each run has had by the library. An error where it has had none: then it was not preloaded.
    fn served(&self) -> Result<f64, BenchError> {
        let path = self.statistics();
        let blocks = blocks_of(&path)?;
        if blocks > 0.0 {
            return Ok(blocks);
        }
        let what = format!("has had no block by {}", self.library.display());
        Err(BenchError::WrongRun { program: NAME.to_owned(), what })
    }
}

/// A process that ends with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already, but where something failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The fewest blocks of a process, by the lines that the library has written at the end of each.
fn blocks_of(path: &Path) -> Result<f64, BenchError> {
    let text = fs::read_to_string(path)
        .map_err(BenchError::system("the library's statistics of the chess engine"))?;
    let count = |line: &str| {
        let fields = line.split(' ').filter_map(|field| field.split_once('='));
        let given = fields.filter(|(name, _)| ["malloc", "calloc", "mmap"].contains(name));
        given.filter_map(|(_, count)| count.parse::<f64>().ok()).sum::<f64>()
    };
    Ok(text.lines().map(count).reduce(f64::min).unwrap_or(0.0))
}

/// A line that says what was found, without the time: `depth score nodes line`, the number of nodes, the move.
fn without_time(line: &str) -> Option<String> {
    if line.starts_with("move ") || line.starts_with("Nodes: ") {
        return Some(line.to_owned());
    }
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [depth, score, time, nodes, moves @ ..] = fields.as_slice() else { return None };
    [depth, score, time, nodes]
        .iter()
        .all(|field| field.parse::<i64>().is_ok())
        .then(|| format!("{depth} {score} {nodes} {}", moves.join(" ")))
}

/// The number of nodes that were looked at.
fn nodes(said: &str) -> Option<&str> {
    let line = said.lines().find_map(|line| line.strip_prefix("Nodes: "))?;
    line.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_left_out_of_what_an_engine_says() {
        assert_eq!(
            without_time(" 9      12    19   284884  e4 e6 Nc3 d6 "),
            Some("9 12 284884 e4 e6 Nc3 d6".to_owned())
        );
        assert_eq!(
            without_time("Nodes: 361178 (4.38% qnodes)"),
            Some("Nodes: 361178 (4.38% qnodes)".to_owned())
        );
        assert_eq!(without_time("move e2e4"), Some("move e2e4".to_owned()));
        for other in ["NPS: 1536836", "Used time : 23", "", "2 moves and so on"] {
            assert_eq!(without_time(other), None);
        }
        assert_eq!(nodes("Nodes: 361178 (4.38% qnodes)\nmove e2e4\n"), Some("361178"));
    }

    #[test]
    fn an_engine_that_says_no_move_is_an_error_and_so_is_one_that_nobody_serves() -> Result<(), BenchError> {
        let chess = Chess::with("/bin/false".into(), "/nonexistent".into(), 2)?;
        let error = chess.together(1, false, "").unwrap_err().to_string();
        // It may have gone before it is told anything.
        let expected = ["sjeng: has said no move", "telling the chess engine"];
        assert!(expected.iter().any(|expected| error.starts_with(expected)), "{error}");
        fs::write(chess.statistics(), "pid=1 malloc=3 free=1 mmap=1\npid=2 malloc=0 free=0 mmap=0\n")
            .unwrap();
        let error = chess.served().unwrap_err().to_string();
        assert_eq!(error, "sjeng: has had no block by /nonexistent");
        fs::write(chess.statistics(), "pid=1 malloc=3 free=1 mmap=1\n").unwrap();
        assert_eq!(chess.served()?.to_bits(), 4.0f64.to_bits());
        Ok(())
    }

    #[test]
    fn the_engine_finds_the_same_each_time() -> Result<(), BenchError> {
        let engine = Path::new(GAMES).join(NAME);
        assert!(engine.exists(), "{} is missing: scripts/install-deps test installs it", engine.display());
        let chess = Chess::with(engine, "/nonexistent".into(), 5)?;
        let (_, said) = chess.run(false)?;
        assert!(chess.together(2, false, &said)? > 0.0 && said.lines().count() > 3, "{said}");
        assert!(chess.together(1, false, "").unwrap_err().to_string().starts_with("sjeng: says\n2 "));
        Ok(())
    }
}
