//! Where the daemon's socket is: the rules of `regrow-daemon`'s `place`, for the address of a socket.

use crate::buffer::Buffer;
use crate::sys;

/// A socket's address: the family, then the path with its NUL.
pub type Address = Buffer<110>;

/// Puts the address of a user's daemon together; `runtime_folder` is the variable `XDG_RUNTIME_DIR`. `None` where the folder is unsafe or missing, or the path too long.
pub fn address(runtime_folder: Option<&[u8]>, user: u32) -> Option<Address> {
    const UNIX: u16 = 1;
    let mut folder = Buffer::<110>::new();
    match runtime_folder {
        Some(named) if named.first() == Some(&b'/') => folder.put(named),
        _ => {
            folder.put(b"/run/user/");
            folder.decimal(user);
            folder.put(&[0]);
            let is_there = sys::stat(folder.pointer()).is_some_and(|found| found.is_folder());
            folder.clear();
            folder.put(if is_there { b"/run/user/" } else { b"/tmp/regrow-" });
            folder.decimal(user);
        }
    }
    let length = folder.length();
    folder.put(&[0]);
    let found = sys::lstat(folder.pointer()).filter(|_| folder.is_whole())?;
    let is_ours = found.is_folder() && found.user == user && found.mode & 0o022 == 0;
    let mut address = Address::new();
    address.put(&UNIX.to_ne_bytes());
    address.put(folder.filled().get(..length)?);
    address.put(b"/regrow.sock\0");
    (is_ours && address.is_whole()).then_some(address)
}
