//! Start fresh processes of unmodified programs from recycled address spaces: Command, Child, Pool.
