//! Input files that are too large or too dull to keep: made here, the same bytes every time.
//!
//! An entry asks for one as `gen/NAME`; it then lies in the work directory as `NAME`.

/// Makes the generated input file `name`; `None` if there is no such file.
pub fn generate(name: &str) -> Option<Vec<u8>> {
    match name {
        "words.txt" => Some(words(2_000)),
        "access.log" => Some(access_log(4_000)),
        "numbers.txt" => Some(numbers(3_000)),
        "noise.bin" => Some(noise(64 * 1024)),
        "table.csv" => Some(table(1_200)),
        "long.txt" => Some(long_text(12_000)),
        _ => None,
    }
}

/// A xorshift generator: the same sequence everywhere.
struct Sequence(u64);

impl Sequence {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        let limit = u64::try_from(choices.len()).unwrap_or(1);
        let index = usize::try_from(self.below(limit)).unwrap_or(0);
        choices[index]
    }
}

fn word(sequence: &mut Sequence) -> String {
    const STARTS: [&str; 12] = ["b", "br", "d", "f", "gr", "k", "l", "m", "p", "st", "t", "v"];
    const MIDDLES: [&str; 8] = ["a", "e", "i", "o", "u", "ea", "oo", "ai"];
    const ENDS: [&str; 9] = ["", "n", "l", "rt", "st", "m", "sh", "nd", "ck"];
    let mut text = String::new();
    for _ in 0..=sequence.below(3) {
        text.push_str(sequence.pick(&STARTS));
        text.push_str(sequence.pick(&MIDDLES));
    }
    text.push_str(sequence.pick(&ENDS));
    text
}

fn words(count: usize) -> Vec<u8> {
    let mut sequence = Sequence(0x5eed_0001);
    let mut text = String::new();
    for _ in 0..count {
        text.push_str(&word(&mut sequence));
        text.push('\n');
    }
    text.into_bytes()
}

fn access_log(count: u64) -> Vec<u8> {
    const METHODS: [&str; 4] = ["GET", "GET", "GET", "POST"];
    const CODES: [&str; 6] = ["200", "200", "200", "304", "404", "500"];
    const PLACES: [&str; 6] = ["/", "/about", "/search?q=oak", "/img/tree.png", "/login", "/feed.xml"];
    let mut sequence = Sequence(0x5eed_0002);
    let mut text = String::new();
    for line in 0..count {
        let (host, second) = (sequence.below(250) + 1, line * 7);
        let (method, place, code) = (sequence.pick(&METHODS), sequence.pick(&PLACES), sequence.pick(&CODES));
        let size = sequence.below(40_000);
        text.push_str(&format!(
            "192.0.2.{host} - - [09/Sep/2001:{:02}:{:02}:{:02} +0000] \"{method} {place} HTTP/1.1\" {code} {size}\n",
            second / 3600 % 24,
            second / 60 % 60,
            second % 60
        ));
    }
    text.into_bytes()
}

fn numbers(count: usize) -> Vec<u8> {
    let mut sequence = Sequence(0x5eed_0003);
    let mut text = String::new();
    for _ in 0..count {
        text.push_str(&format!("{}\n", sequence.below(1_000_000)));
    }
    text.into_bytes()
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut sequence = Sequence(0x5eed_0004);
    (0..bytes).map(|_| sequence.next().to_le_bytes()[0]).collect()
}

fn table(rows: u64) -> Vec<u8> {
    let mut sequence = Sequence(0x5eed_0005);
    let mut text = String::from("id,name,group,amount\n");
    for id in 1..=rows {
        let (name, group) = (word(&mut sequence), sequence.below(17));
        let (units, cents) = (sequence.below(900), sequence.below(100));
        text.push_str(&format!("{id},{name},g{group:02},{units}.{cents:02}\n"));
    }
    text.into_bytes()
}

fn long_text(lines: u64) -> Vec<u8> {
    let mut sequence = Sequence(0x5eed_0006);
    let mut text = String::new();
    for line in 0..lines {
        text.push_str(&format!("{line:06}"));
        for _ in 0..6 + sequence.below(6) {
            text.push(' ');
            text.push_str(&word(&mut sequence));
        }
        text.push('\n');
    }
    text.into_bytes()
}
