//! The words of an image that each run gets anew.

/// A pointer into the argument block (or the number of arguments), found in the image's writable memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// To the first element of `argv`.
    Argv,
    /// No pointer, but the number of arguments.
    Argc,
    /// To the first element of `envp`.
    Envp,
    /// To this offset of the first argument's string.
    Argv0(u64),
    /// No pointer into that block, but to the exchange, where a run has one; a front end has named the word.
    Exchange,
    /// To the path that was given to exec; the value is the image's own.
    ExecPath(u64),
}
