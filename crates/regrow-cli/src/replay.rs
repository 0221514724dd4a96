//! `regrow replay`: runs a trace through policies, prints what each spends and holds, and writes and draws it.

use regrow_bench::plot::draw;
use regrow_bench::replay::command::{ReplayPlan, ReplaySetup};
use regrow_bench::replay::result::describe;

use crate::cli::measure::ReplayArgs;
use crate::error::CliError;
use crate::output::{JsonFile, print};

/// Carries out the command.
pub(crate) fn replay(args: &ReplayArgs) -> Result<u8, CliError> {
    let setup = ReplaySetup {
        policies: args.policy.clone(),
        existing: args.existing.clone(),
        budget_bytes: args.budget_mib << 20,
    };
    let plan = ReplayPlan::read(&args.trace, args.costs.as_deref(), setup)?;
    // Before the replay: what cannot be written fails at once.
    if let Some(folder) = &args.plot {
        draw::make_folder(folder)?;
    }
    let json = args.json.as_deref().map(JsonFile::create).transpose()?;
    let result = plan.replay(args.real, args.simulate || !args.real)?;
    print(&describe(&result))?;
    if let Some(json) = json {
        json.write(&result)?;
    }
    if let Some(folder) = &args.plot {
        draw::draw(folder, &result)?;
    }
    Ok(0)
}
