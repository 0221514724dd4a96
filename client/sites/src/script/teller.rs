//! How the names of scripts are told.

use regrow_abi::sites::fnv1a;

/// Takes the text of a file's hash.
pub(super) type Teller<'a> = &'a dyn Fn(u64, &[u8]);

/// The hash of a file's name, which is told.
pub(super) fn hash(text: &[u8], tell: Teller<'_>) -> u64 {
    let hash = fnv1a(text);
    tell(hash, text);
    hash
}
