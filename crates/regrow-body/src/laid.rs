//! The argument block of a run, laid out again only when it differs from the last one.

use regrow_image::initial_stack::{Block, StackPlan};

use crate::run::Run;

/// A block and what it was made of.
#[derive(Debug, Default)]
pub(crate) struct Laid {
    args: Vec<u8>,
    env: Vec<u8>,
    exec_path: Option<Vec<u8>>,
    pub(crate) block: Block,
    pub(crate) bytes: Vec<u8>,
}

impl Laid {
    /// Lays the block of a run out. `None` when it does not fit.
    pub(crate) fn lay_out(&mut self, plan: &StackPlan, run: &Run<'_>) -> Option<()> {
        let same = !self.bytes.is_empty()
            && self.env == run.env.bytes
            && self.args == run.args.bytes
            && self.exec_path.as_deref() == run.exec_path;
        if same {
            return Some(());
        }
        let (args, env) = ((run.args.bytes, run.args.count), (run.env.bytes, run.env.count));
        let block = plan.lay_out(args, env, run.exec_path, &mut self.bytes);
        let Some(block) = block else {
            self.bytes.clear();
            return None;
        };
        self.block = block;
        self.args.clear();
        self.args.extend_from_slice(run.args.bytes);
        self.env.clear();
        self.env.extend_from_slice(run.env.bytes);
        self.exec_path = run.exec_path.map(<[u8]>::to_vec);
        Some(())
    }
}
