//! The functions of a Go program, by the table that the runtime itself unwinds with (`.gopclntab`): it is there in stripped programs too.
//!
//! The format is that of Go 1.18 and later (`src/runtime/symtab.go`, `src/debug/gosym/pclntab.go` of Go's sources).

/// The table of Go 1.18 and 1.19, and that of 1.20 and later.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// Packages between a program and the kernel, with all below the last one.
const PACKAGES: [&str; 5] = ["syscall", "os", "os/exec", "runtime", "internal"];

/// Which function an address belongs to.
#[derive(Debug)]
pub(crate) struct GoNames {
    table: Vec<u8>,
    functions: usize,
    text: u64,
    names_at: usize,
    functions_at: usize,
}

impl GoNames {
    /// Reads the table's head. `text` is the address of the code, for tables that do not say it.
    pub(crate) fn read(table: Vec<u8>, text: u64) -> Option<Self> {
        let word =
            |place: usize| long_at(&table, 8 + 8 * place).and_then(|value| usize::try_from(value).ok());
        let is_known =
            short_at(&table, 0).is_some_and(|magic| MAGICS.contains(&magic)) && table.get(7) == Some(&8);
        if !is_known {
            return None;
        }
        let (functions, names_at, functions_at) = (word(0)?, word(3)?, word(7)?);
        let stated = long_at(&table, 8 + 8 * 2)?;
        let text = if stated == 0 { text } else { stated };
        Some(Self { functions, text, names_at, functions_at, table })
    }

    /// Bytes that it keeps in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.table.len()
    }

    /// Whether the function at an address is of a package between the program and the kernel.
    pub(crate) fn is_own(&self, address: u64) -> bool {
        self.name(address).is_some_and(is_own)
    }

    /// The name of the function at an address.
    fn name(&self, address: u64) -> Option<&str> {
        let distance = u32::try_from(address.checked_sub(self.text)?).ok()?;
        let entry =
            |index: usize| short_at(&self.table, self.functions_at.checked_add(index.checked_mul(8)?)?);
        // The functions are in the order of their addresses.
        let (mut low, mut high) = (0, self.functions);
        while low < high {
            let middle = low + (high - low) / 2;
            if entry(middle)? <= distance { low = middle + 1 } else { high = middle }
        }
        let index = low.checked_sub(1)?;
        let at = self.functions_at.checked_add(index.checked_mul(8)?)?.checked_add(4)?;
        let function = self.functions_at.checked_add(usize::try_from(short_at(&self.table, at)?).ok()?)?;
        let name = usize::try_from(short_at(&self.table, function.checked_add(4)?)?).ok()?;
        let bytes = self.table.get(self.names_at.checked_add(name)?..)?;
        std::str::from_utf8(bytes.split(|&byte| byte == 0).next()?).ok()
    }
}

/// Whether a function is of a package between the program and the kernel: `os/exec.(*Cmd).Start`.
fn is_own(function: &str) -> bool {
    // The package ends at the first dot behind its last slash; what is in brackets are other types.
    let plain = function.split('[').next().unwrap_or_default();
    let slash = plain.rfind('/').map_or(0, |at| at + 1);
    let end = plain.get(slash..).and_then(|rest| rest.find('.')).map_or(plain.len(), |at| slash + at);
    let package = plain.get(..end).unwrap_or_default();
    PACKAGES.contains(&package) || package.starts_with("internal/") || package.starts_with("runtime/")
}

fn short_at(table: &[u8], at: usize) -> Option<u32> {
    table.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn long_at(table: &[u8], at: usize) -> Option<u64> {
    table.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of functions: distance from the code's begin, name.
    fn table(functions: &[(u32, &str)]) -> Vec<u8> {
        let (names_at, mut names) = (72_usize, Vec::new());
        let mut places = Vec::new();
        for (_, name) in functions {
            places.push(u32::try_from(names.len()).unwrap());
            names.extend(name.as_bytes());
            names.push(0);
        }
        let functions_at = names_at + names.len();
        let mut table = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
        let head = [functions.len(), 0, 0, names_at, 0, 0, 0, functions_at];
        table.extend(head.iter().flat_map(|&word| (word as u64).to_le_bytes()));
        table.extend(names);
        let first = u32::try_from(functions.len() * 8 + 4).unwrap();
        for (index, (distance, _)) in (0_u32..).zip(functions) {
            table.extend(distance.to_le_bytes());
            table.extend((first + 8 * index).to_le_bytes());
        }
        table.extend(u32::MAX.to_le_bytes());
        for ((distance, _), place) in functions.iter().zip(places) {
            table.extend(distance.to_le_bytes());
            table.extend(place.to_le_bytes());
        }
        table
    }

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let names = GoNames::read(
            table(&[(0, "syscall.forkExec"), (0x100, "main.run"), (0x200, "main.main")]),
            0x1000,
        );
        let names = names.unwrap();
        let expected = [
            (0x1000, "syscall.forkExec"),
            (0x10ff, "syscall.forkExec"),
            (0x1100, "main.run"),
            (0x5000, "main.main"),
        ];
        for (address, name) in expected {
            assert_eq!(names.name(address), Some(name), "{address:#x}");
        }
        assert_eq!(names.name(0xfff), None);
        assert!(names.is_own(0x1050));
        assert!(!names.is_own(0x1150));
    }

    #[test]
    fn a_table_that_is_cut_off_has_no_names() {
        let whole = table(&[(0, "syscall.forkExec"), (0x100, "main.run")]);
        for length in 0..whole.len() {
            if let Some(names) = GoNames::read(whole[..length].to_vec(), 0x1000) {
                names.name(0x1150);
            }
        }
        assert!(GoNames::read(vec![0; 100], 0).is_none(), "another format");
    }

    #[test]
    fn packages_are_told_from_types() {
        for own in [
            "syscall.forkExec",
            "os/exec.(*Cmd).Start",
            "internal/poll.(*FD).Read",
            "runtime.main",
            "os.(*File).x",
        ] {
            assert!(is_own(own), "{own}");
        }
        for other in [
            "main.main",
            "example.com/os/exec.Run",
            "ostrich.Run",
            "main.run[os/exec.Cmd]",
            "internals.Run",
            "",
        ] {
            assert!(!is_own(other), "{other}");
        }
    }
}
