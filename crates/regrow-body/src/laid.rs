//! The argument block of a run, laid out again only when it differs from the last one.

use regrow_image::stack_plan::{ArgumentBlock, StackPlan};

use crate::run::Run;

/// A block and what it was made of.
#[derive(Debug, Default)]
pub(crate) struct Laid {
    args: Vec<u8>,
    env: Vec<u8>,
    exec_path: Option<Vec<u8>>,
    pub(crate) block: ArgumentBlock,
    pub(crate) bytes: Vec<u8>,
}

impl Laid {
    /// Lays the block of a run out. `None` when it does not fit.
    pub(crate) fn lay_out(&mut self, plan: &StackPlan, run: &Run<'_>) -> Option<()> {
        let same = !self.bytes.is_empty()
            && self.env == run.env.as_bytes()
            && self.args == run.args.as_bytes()
            && self.exec_path.as_deref() == run.exec_path;
        if same {
            return Some(());
        }
        let (args, env) = ((run.args.as_bytes(), run.args.len()), (run.env.as_bytes(), run.env.len()));
        let block = plan.lay_out(args, env, run.exec_path, &mut self.bytes);
        let Some(block) = block else {
            self.bytes.clear();
            return None;
        };
        self.block = block;
        self.args.clear();
        self.args.extend_from_slice(run.args.as_bytes());
        self.env.clear();
        self.env.extend_from_slice(run.env.as_bytes());
        self.exec_path = run.exec_path.map(<[u8]>::to_vec);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use regrow_abi::task::Task;
    use regrow_sys::strings::Strings;

    use super::*;

    fn strings(list: &[&str]) -> Strings {
        let mut strings = Strings::new();
        list.iter().for_each(|string| strings.push(&[string.as_bytes()]).expect("no NUL is in it"));
        strings
    }

    fn run<'a>(args: &'a Strings, env: &'a Strings, task: &'a Task) -> Run<'a> {
        Run {
            args,
            env,
            fds: &[],
            order: None,
            is_ahead: false,
            task,
            processors: None,
            caller_sleeps: false,
            directory: None,
            exec_path: None,
            random: [0; 3],
            await_start: false,
            busy_poll: false,
            traced: false,
            single_use: false,
            timed: false,
        }
    }

    #[test]
    fn a_block_is_laid_out_anew_only_for_other_strings() {
        let plan = StackPlan { top: 0x8000, floor: 0x1000, auxv: vec![(0, 0)] };
        let (task, env) = (Task::default(), strings(&["A=1"]));
        let (one, two) = (strings(&["p", "one"]), strings(&["p", "two", "three"]));
        let mut laid = Laid::default();
        assert_eq!(laid.lay_out(&plan, &run(&one, &env, &task)), Some(()));
        assert_eq!(laid.block.argc, 2);
        // Nobody looks at the plan again for the same strings.
        let nowhere = StackPlan::default();
        assert_eq!(laid.lay_out(&nowhere, &run(&one, &env, &task)), Some(()));
        assert_eq!(laid.lay_out(&plan, &run(&two, &env, &task)), Some(()));
        assert_eq!(laid.block.argc, 3);
        let mut script = run(&two, &env, &task);
        script.exec_path = Some(b"/bin/script");
        assert_eq!(laid.lay_out(&plan, &script), Some(()));
        assert!(laid.block.exec_path.is_some() && laid.bytes.ends_with(b"/bin/script\0"));
    }

    #[test]
    fn a_block_that_does_not_fit_is_not_taken_for_the_last_one() {
        let (task, args, env) = (Task::default(), strings(&["p"]), strings(&[]));
        let mut laid = Laid::default();
        let full = StackPlan { top: 0x1000, floor: 0x1000, auxv: vec![(0, 0)] };
        assert_eq!(laid.lay_out(&full, &run(&args, &env, &task)), None);
        let roomy = StackPlan { top: 0x8000, floor: 0x1000, auxv: vec![(0, 0)] };
        assert_eq!(laid.lay_out(&roomy, &run(&args, &env, &task)), Some(()));
        assert_eq!(laid.block.argc, 1);
    }

    #[test]
    fn plain_descriptors_are_the_first_three_in_their_order() {
        let (task, args, env) = (Task::default(), strings(&["p"]), strings(&[]));
        let null = std::fs::File::open("/dev/null").expect("it is there");
        let is_plain = |numbers: &[i32]| {
            use std::os::fd::AsFd;
            let fds: Vec<_> = numbers.iter().map(|&number| (null.as_fd(), number)).collect();
            let mut run = run(&args, &env, &task);
            run.fds = &fds;
            run.has_plain_fds()
        };
        assert!(is_plain(&[0, 1, 2]));
        assert!(
            [&[][..], &[0, 1], &[0, 2, 1], &[0, 1, 2, 3], &[1, 2, 3]].into_iter().all(|list| !is_plain(list))
        );
    }
}
