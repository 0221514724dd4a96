//! Where an order is written: the argument block of the run, and what of the address space was last set so.

use regrow_abi::{ARG_AREA_BYTES, MAX_FDS, MOST_ORDER_BYTES};
use regrow_image::image::PatchKind;
use regrow_image::stack_plan::StackPlan;

use crate::control::{Addressee, ControlArea, Extra};
use crate::laid::Laid;
use crate::run::Run;
use crate::start_error::StartError;

/// What is remembered from one order to the next.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    /// The argument block of the last run: most runs have the same environment as the one before, many the same arguments.
    laid: Laid,
    /// Bounds that the address space was last given.
    bounds: [u64; 4],
    cwd_offset: usize,
}

impl Desk {
    /// Lays the argument block of a run out.
    ///
    /// # Errors
    /// [`StartError::TooManyDescriptors`], [`StartError::TooLarge`].
    pub(crate) fn lay_out(&mut self, plan: &StackPlan, run: &Run<'_>) -> Result<(), StartError> {
        if run.fds.len() > MAX_FDS {
            return Err(StartError::TooManyDescriptors(run.fds.len()));
        }
        if run.order.is_some_and(|order| order.is_empty() || order.len() > MOST_ORDER_BYTES) {
            return Err(StartError::TooLarge);
        }
        self.laid.lay_out(plan, run).ok_or(StartError::TooLarge)?;
        self.cwd_offset = self.laid.bytes.len().next_multiple_of(16);
        if self.directory_end(run) > ARG_AREA_BYTES {
            return Err(StartError::TooLarge);
        }
        Ok(())
    }

    fn directory_end(&self, run: &Run<'_>) -> usize {
        self.cwd_offset + run.directory.map_or(0, |directory| directory.len() + 1)
    }

    /// Writes the order of the run that was laid out. The state must be `Taken`. `exchange` is where the run finds what its caller says, or
    /// zero.
    pub(crate) fn write(
        &self,
        control: &ControlArea,
        to: Addressee,
        run: &Run<'_>,
        patches: &[(u64, PatchKind)],
        exchange: u64,
    ) {
        let block = &self.laid.block;
        control.write_args(0, &self.laid.bytes);
        if let Some(directory) = run.directory {
            control.write_args(self.cwd_offset, directory);
            control.write_args(self.directory_end(run) - 1, &[0]);
        }
        let extra = Extra {
            bounds_differ: block.bounds != self.bounds,
            cwd_offset: u32::try_from(self.cwd_offset).unwrap_or(0),
        };
        control.write_order(to, run, block, self.laid.bytes.len() as u64, extra);
        control.write_patches(patches.iter().map(|&(address, kind)| {
            let value = match kind {
                PatchKind::Argv => block.argv,
                PatchKind::Argc => block.argc,
                PatchKind::Envp => block.envp,
                PatchKind::Argv0(offset) => block.argv0 + offset,
                PatchKind::Exchange => exchange,
                PatchKind::ExecPath(original) => block.exec_path.unwrap_or(original),
            };
            (address, value)
        }));
    }

    /// Notes that the order was sent.
    pub(crate) fn is_sent(&mut self) {
        self.bounds = self.laid.block.bounds;
    }
}
