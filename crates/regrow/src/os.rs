//! What the standard library has of its own for each operating system, under the same names.

pub mod unix {
    //! What there is on every Unix.

    pub mod process;
}
