//! The words of the program's memory that the next process writes when it registers itself, and the kernel for it.

/// Bytes of a thread's number.
const NUMBER_BYTES: u64 = 4;

/// Where they are, as addresses and lengths: the words that hold the thread's number, and its rseq area.
pub(super) fn of(numbers: &[u64], rseq: (u64, u32)) -> Vec<(u64, u64)> {
    let numbers = numbers.iter().map(|&address| (address, NUMBER_BYTES));
    let rseq = (rseq.0, u64::from(rseq.1));
    numbers.chain([rseq]).filter(|words| words.1 > 0).collect()
}

/// Has pages be equal at these words. `start` is the address of the first page.
pub(super) fn take_out(own: &[(u64, u64)], start: u64, have: &mut [u8], want: &[u8]) {
    let end = start + have.len() as u64;
    for &(address, bytes) in own {
        let (from, to) = (address.max(start), (address + bytes).min(end));
        let place = |at: u64| usize::try_from(at - start).unwrap_or(0);
        if from < to {
            have[place(from)..place(to)].copy_from_slice(&want[place(from)..place(to)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_process_writes_of_itself_is_taken_out() {
        let want = [7u8; 16];
        let mut have = [9u8; 16];
        // One word before the pages, one that reaches into them, one inside, one behind them.
        take_out(&[(80, 4), (98, 4), (108, 2), (120, 4)], 100, &mut have, &want);
        assert_eq!(have, [7, 7, 9, 9, 9, 9, 9, 9, 7, 7, 9, 9, 9, 9, 9, 9]);
    }

    #[test]
    fn the_words_are_those_that_the_image_names() {
        assert_eq!(of(&[0x1000], (0, 0)), [(0x1000, 4)]);
        assert_eq!(of(&[0x1000], (0x2000, 32)), [(0x1000, 4), (0x2000, 32)]);
    }
}
