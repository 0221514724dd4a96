//! Programs with `LD_PRELOAD=libregrow_sites.so`: the places where they create children are found, and they do what they do without it.

mod harness;
mod hostile;
mod places;
mod scripts;
mod unseen;
