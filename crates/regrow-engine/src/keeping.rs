//! Keeping: tables, ledger and chores together, the files that are watched for them, and the bodies that are looked at.

pub(crate) mod holdings;
pub mod inspection;
pub mod watch;
pub mod work;
