//! What `regrow bench` does: tells the machine's floors, then measures programs one after the other.

use super::list::BenchProgram;
use super::measure::{self, BenchOptions};
use super::prototype::PrototypeAgent;
use super::report;
use super::result::ProgramResult;
use crate::error::BenchError;
use crate::machine::Machine;
use crate::system::floors::{self, Floors};

/// How often the head of the report measures each floor, at most.
const SURVEY_TIMES: u32 = 200;

/// Measures programs, all with the same options.
pub struct BenchSession {
    options: BenchOptions,
    floors: Floors,
    agent: Option<PrototypeAgent>,
}

impl BenchSession {
    /// Gets ready to measure.
    ///
    /// # Errors
    /// [`BenchError::System`] where there is no second process to be woken, [`BenchError::Prototype`] where `cc` does not compile
    /// the prototype.
    pub fn new(options: BenchOptions) -> Result<Self, BenchError> {
        let cannot = BenchError::system("the process that is woken cannot be made");
        let agent = options.prototype.then(PrototypeAgent::compile).transpose()?;
        Ok(Self { options, floors: Floors::new().map_err(cannot)?, agent })
    }

    /// The head of the report: the machine, and its floors, which this call measures.
    ///
    /// # Errors
    /// [`BenchError::System`] where they cannot be measured.
    pub fn head(&self) -> Result<String, BenchError> {
        let cannot = BenchError::system("the floors of the machine cannot be measured");
        let times = self.options.runs.min(SURVEY_TIMES);
        let survey = floors::survey(times, self.options.pause).map_err(cannot)?;
        Ok(report::head(&Machine::look(), &survey))
    }

    /// Measures a program.
    ///
    /// # Errors
    /// [`BenchError::Differs`] when a run differs from the first one, another when the program cannot be measured.
    pub fn measure(&mut self, program: &BenchProgram) -> Result<ProgramResult, BenchError> {
        measure::measure(program, &self.options, self.agent.as_ref(), &mut self.floors)
    }
}
