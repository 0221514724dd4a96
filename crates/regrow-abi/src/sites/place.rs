//! A creation site as it is shared: numbers only.

use super::hash::mix;

/// Where a child was created; what each number is, `regrow_sites::Site` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// The program that the parent ran; 0: not known.
    pub image: u64,
    /// Module and offset of each return address, the innermost first; a module of 0: there is none.
    pub frames: [(u64, u64); 3],
    /// File and line of the script; a file of 0: there is none.
    pub script: (u64, u64),
}

impl Place {
    /// What predictions about children of this place stand under, the most specific first: all that is known of the place; the call and the place in
    /// the script; the call alone.
    #[must_use]
    pub fn keys(&self) -> [u64; 3] {
        let [(module, offset), second, third] = self.frames;
        let (file, line) = self.script;
        let call = mix(&[1, self.image, module, offset]);
        let in_script = mix(&[2, call, file, line]);
        [mix(&[3, in_script, second.0, second.1, third.0, third.1]), in_script, call]
    }

    /// What a prediction stands under about a child that executes a path, given as its hash.
    #[must_use]
    pub fn key_with_path(key: u64, path: u64) -> u64 {
        mix(&[4, key, path])
    }

    /// The same without a place.
    #[must_use]
    pub fn key_of_path(path: u64) -> u64 {
        mix(&[5, path])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_tells_apart_what_it_is_made_of() {
        let place = Place { image: 1, frames: [(2, 3), (4, 5), (6, 7)], script: (8, 9) };
        let [all, script, call] = place.keys();
        let other = Place { frames: [(2, 3), (4, 5), (6, 8)], ..place }.keys();
        assert!(other[0] != all && other[1..] == [script, call]);
        let other = Place { script: (8, 10), ..place }.keys();
        assert!(other[0] != all && other[1] != script && other[2] == call);
        let other = Place { frames: [(2, 4), (4, 5), (6, 7)], ..place }.keys();
        assert!(other[0] != all && other[1] != script && other[2] != call);
        assert_ne!(Place::key_with_path(all, 1), Place::key_with_path(all, 2));
        assert_ne!(Place::key_with_path(all, 1), Place::key_of_path(1));
    }
}
