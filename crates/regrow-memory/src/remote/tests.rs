//! The domain within one process: what other processes do to it, said by hand.
