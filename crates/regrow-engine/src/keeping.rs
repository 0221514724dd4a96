//! Keeping: tables, ledger and chores together, the files and mounts that are watched for them, and the bodies that are looked at.

pub(crate) mod giving;
pub(crate) mod holdings;
pub mod inspection;
pub mod leases;
pub(crate) mod mounts;
pub mod watch;
pub mod work;
