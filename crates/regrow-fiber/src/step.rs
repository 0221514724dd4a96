//! State machines: tasks without a stack, which return instead of waiting. The lightest rung of all.
//!
//! After Lance's letter in "How light weight can a process get?": "a neutrino-weight process" is a function with a `switch` on its state, which does
//! a little and returns. Here the state is a type, and the function [`Step::step`]; [`steps!`](crate::steps) writes the switch.

/// What a step has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<T> {
    /// There is more to do: others have their turn first.
    More,
    /// It is done, with this result.
    Done(T),
}

/// A state machine. Each step does a little, and waits for nothing.
pub trait Step {
    /// The result.
    type Output;

    /// Does the next step. After [`Progress::Done`] nobody calls it again.
    fn step(&mut self) -> Progress<Self::Output>;

    /// Runs all steps at once.
    fn finish(mut self) -> Self::Output
    where
        Self: Sized,
    {
        loop {
            if let Progress::Done(output) = self.step() {
                return output;
            }
        }
    }

    /// This one and another one in turn, until the other one is done.
    fn beside<Other: Step>(self, other: Other) -> Beside<Self, Other>
    where
        Self: Sized,
    {
        Beside { first: Some(self), second: other }
    }
}

/// Two state machines in turn: see [`Step::beside`].
#[derive(Debug, Clone)]
pub struct Beside<First, Second> {
    first: Option<First>,
    second: Second,
}

impl<First: Step, Second: Step> Step for Beside<First, Second> {
    type Output = Second::Output;

    #[inline]
    fn step(&mut self) -> Progress<Self::Output> {
        if let Some(first) = &mut self.first
            && let Progress::Done(_) = first.step()
        {
            self.first = None;
        }
        self.second.step()
    }
}

/// Where a state leads: see [`steps!`](crate::steps).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Go<State, T> {
    /// To another state, or the same one.
    Next(State),
    /// It is done, with this result.
    Done(T),
}

/// Writes a state machine: its fields, its result, and what is done in each state, which says where it leads. It begins in the first one.
///
/// ```
/// use regrow_fiber::{Step, steps};
///
/// steps! {
///     /// Counts how often it is on.
///     struct Blink { count: u32 } -> u32 {
///         On(this) => { this.count += 1; Next(Off) }
///         Off(this) => { if this.count < 3 { Next(On) } else { Done(this.count) } }
///     }
/// }
///
/// assert_eq!(Blink::new(0).finish(), 3);
/// ```
#[macro_export]
macro_rules! steps {
    (
        $(#[$meta:meta])*
        $visible:vis struct $name:ident { $($field:ident : $type:ty),* $(,)? } -> $output:ty {
            $($state:ident($this:ident) => $body:block)+
        }
    ) => {
        $(#[$meta])*
        $visible struct $name {
            $($field: $type,)*
            state: u32,
        }

        impl $name {
            /// The state machine in its first state.
            $visible fn new($($field: $type),*) -> Self {
                Self { $($field,)* state: 0 }
            }
        }

        impl $crate::Step for $name {
            type Output = $output;

            #[inline]
            #[allow(unused_imports, reason = "a state machine may have no end, or only one state")]
            fn step(&mut self) -> $crate::Progress<$output> {
                enum State { $($state),+ }
                use State::*;
                use $crate::Go::{Done, Next};
                let go: $crate::Go<State, $output> = $(if self.state == State::$state as u32 {
                    let $this = &mut *self;
                    $body
                } else)+ {
                    unreachable!("a state machine is in one of its states")
                };
                match go {
                    Next(state) => {
                        self.state = state as u32;
                        $crate::Progress::More
                    }
                    Done(output) => $crate::Progress::Done(output),
                }
            }
        }
    };
}
