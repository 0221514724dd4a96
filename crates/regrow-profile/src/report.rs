//! A profile as values that are ready to be shown: names for ids, places for frames, savings. All outputs are made of it.

pub mod csv;
pub mod html;
pub mod pprof;

use std::collections::HashMap;

use regrow_sites::{Frame, ImageId, Script};
use serde::Serialize;

use crate::profile::totals::Distribution;
use crate::profile::{Counts, Node, NodeId, Profile, Programs, SiteId, SiteKey, Step, Totals};
use crate::savings::{Basis, ProgramSavings, Saved, Savings};
use crate::symbols::{Place, Symbols};
use crate::text::{file_name, plain};

/// The version of the JSON.
const VERSION: u32 = 1;
/// Stands for a program that no collector has named.
const UNKNOWN: &str = "?";
/// A line of a script is smaller; what is larger is the hash of a target.
const LINES: u64 = 1 << 32;

/// A profile that is ready to be shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The version of this form: 1.
    pub version: u32,
    /// What was watched: the command, or the whole machine.
    pub title: String,
    /// From the first to the last event, in microseconds.
    pub span_us: u64,
    /// How much was told, and what of it could not be used.
    pub counts: CountsRow,
    /// What the estimates of savings are made of.
    pub basis: Basis,
    /// What all recycled starts together would have saved, in microseconds.
    pub saved_us: f64,
    /// The sites, in the order that was asked for.
    pub sites: Vec<SiteRow>,
    /// The tree of creations; a node stands behind its parent.
    pub nodes: Vec<NodeRow>,
}

/// [`Counts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "Counts says what each is")]
pub struct CountsRow {
    pub created: u64,
    pub found: u64,
    pub executed: u64,
    pub ended: u64,
    pub alive: u64,
    pub repeated: u64,
    pub unknown_ends: u64,
    pub lost_ends: u64,
    pub left_out: u64,
}

impl CountsRow {
    fn of(counts: &Counts, alive: u64) -> CountsRow {
        let Counts { created, found, executed, ended, repeated, unknown_ends, lost_ends, left_out } = *counts;
        CountsRow { created, found, executed, ended, alive, repeated, unknown_ends, lost_ends, left_out }
    }
}

/// A quantity of a site's processes, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantity {
    /// All together.
    pub sum_us: u64,
    /// The mean.
    pub mean_us: f64,
    /// Half of them are not above; of more than 32 within 1 %.
    pub p50_us: f64,
    /// 99 of 100 are not above; of more than 32 within 1 %.
    pub p99_us: f64,
}

impl Quantity {
    fn of(distribution: &Distribution) -> Option<Quantity> {
        Some(Quantity {
            sum_us: distribution.sum_us(),
            mean_us: distribution.mean_us()?,
            p50_us: distribution.quantile_us(0.5)?,
            p99_us: distribution.quantile_us(0.99)?,
        })
    }
}

/// A frame of a site.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrameRow {
    /// The place in a few words.
    pub text: String,
    /// The path of the executable or library; empty: not known.
    pub module: String,
    /// The return address in it.
    pub offset: u64,
    /// The function.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
    /// Whether it is in the C library.
    pub is_in_libc: bool,
}

impl FrameRow {
    fn of(place: &Place) -> FrameRow {
        FrameRow {
            text: place.short(),
            module: place.module.clone(),
            offset: place.offset,
            function: place.function.clone(),
            file: place.file.clone(),
            line: place.line,
            is_in_libc: place.is_in_libc(),
        }
    }
}

/// A site and its processes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SiteRow {
    /// The path of the program that created them; empty: not known.
    pub parent: String,
    /// Where in it, in a few words: the place in its script, or the innermost frame outside the C library.
    pub place: String,
    /// The function at that place.
    pub function: Option<String>,
    /// The wrapper of the C library that was called there: `system`, `popen`.
    pub through: Option<String>,
    /// The place in the parent's script.
    pub script: Option<String>,
    /// The frames, the innermost first.
    pub frames: Vec<FrameRow>,
    /// What the processes executed, in a few words: `gcc`, `sh → gcc`; of a process that executed nothing `(fork)`.
    pub child: String,
    /// The paths of these programs: the first, the last.
    pub programs: Vec<String>,
    /// How many processes were created.
    pub count: u64,
    /// How many of them live.
    pub alive: u64,
    /// How many programs they executed.
    pub starts: u64,
    /// How many processes they created.
    pub children: u64,
    /// Processor time, without children; of those that have ended.
    pub cpu: Option<Quantity>,
    /// From creation to end.
    pub life: Option<Quantity>,
    /// From exec to the call of `main`, of those of which it is known.
    pub startup: Option<Quantity>,
    /// The share of start-up in their life, 0 to 1.
    pub startup_share: Option<f64>,
    /// The most memory that one of them had, in KiB; 0: not known.
    pub peak_kib: u64,
    /// What recycled starts would have saved.
    pub saved: Saved,
}

/// A node of the tree of creations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeRow {
    /// The number of the node above it, from 0; none of the command itself.
    pub parent: Option<usize>,
    /// The number of its site; none of what was there before.
    pub site: Option<usize>,
    /// What its processes executed, in a few words.
    pub name: String,
    /// How many there were.
    pub count: u64,
    /// Their processor time, in microseconds.
    pub cpu_us: u64,
    /// Their lives, in microseconds.
    pub life_us: u64,
    /// What recycled starts would have saved, in microseconds.
    pub saved_us: f64,
}

/// By what the sites are ordered, the largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The number of processes.
    #[default]
    Count,
    /// Their processor time.
    Cpu,
    /// Their lives.
    Life,
    /// What would have been saved.
    Saved,
}

impl Order {
    #[allow(clippy::cast_precision_loss, reason = "it only orders")]
    fn key(self, row: &SiteRow) -> f64 {
        match self {
            Order::Count => row.count as f64,
            Order::Cpu => row.cpu.map_or(0.0, |cpu| cpu.sum_us as f64),
            Order::Life => row.life.map_or(0.0, |life| life.sum_us as f64),
            Order::Saved => row.saved.total_us,
        }
    }
}

impl Report {
    /// Makes a report of a profile.
    pub fn new(
        title: &str,
        profile: &Profile,
        symbols: &mut Symbols,
        savings: &Savings<'_>,
        order: Order,
    ) -> Report {
        let program_savings = savings.of(profile);
        let mut maker = Maker { profile, symbols, savings: &program_savings };
        // By modules, so that each file is read once.
        let mut keys: Vec<(SiteId, &SiteKey, &Totals)> = profile.sites().collect();
        keys.sort_by_key(|(_, key, _)| {
            (key.site.frames.map(|frame| frame.map(|frame| frame.module)), key.site.image)
        });
        let mut rows: Vec<(SiteId, SiteRow)> =
            keys.into_iter().map(|(id, key, totals)| (id, maker.row(key, totals))).collect();
        rows.sort_by(|(a_id, a), (b_id, b)| order.key(b).total_cmp(&order.key(a)).then(a_id.cmp(b_id)));
        let numbers: HashMap<SiteId, usize> =
            rows.iter().enumerate().map(|(number, (id, _))| (*id, number)).collect();
        let mut sites: Vec<SiteRow> = rows.into_iter().map(|(_, row)| row).collect();
        tell_apart(&mut sites);
        Report {
            version: VERSION,
            title: title.to_owned(),
            span_us: profile.span_us(),
            counts: CountsRow::of(profile.counts(), profile.alive() as u64),
            basis: savings.basis().clone(),
            saved_us: sites.iter().map(|site| site.saved.total_us).sum(),
            nodes: maker.nodes(&sites, &numbers),
            sites,
        }
    }

    /// As JSON, in lines.
    ///
    /// # Errors
    /// None that is known: every value has a form in JSON.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        let mut json = serde_json::to_vec_pretty(self)?;
        json.push(b'\n');
        Ok(json)
    }
}

/// Adds the callers to places that would read the same although their sites are different.
fn tell_apart(sites: &mut [SiteRow]) {
    let mut alike: HashMap<(String, String, String), Vec<usize>> = HashMap::new();
    for (number, site) in sites.iter().enumerate().filter(|(_, site)| site.script.is_none()) {
        let key = (site.parent.clone(), site.place.clone(), site.child.clone());
        alike.entry(key).or_default().push(number);
    }
    for number in alike.into_values().filter(|alike| alike.len() > 1).flatten() {
        let site = &mut sites[number];
        let own = site.frames.iter().filter(|frame| !frame.is_in_libc);
        let callers: String = own.skip(1).map(|frame| format!(" ← {}", frame.text)).collect();
        site.place += &callers;
    }
}

struct Maker<'a> {
    profile: &'a Profile,
    symbols: &'a mut Symbols,
    savings: &'a ProgramSavings,
}

impl Maker<'_> {
    fn path(&self, image: ImageId) -> &str {
        self.profile.image_path(image).unwrap_or_default()
    }

    fn row(&mut self, key: &SiteKey, totals: &Totals) -> SiteRow {
        let frames: Vec<FrameRow> =
            key.site.frames.iter().map_while(|frame| frame.map(|frame| self.frame(frame))).collect();
        let script = key.site.script.map(|script| self.script(script));
        let own = frames.iter().find(|frame| !frame.is_in_libc);
        let wrapper = frames
            .iter()
            .take_while(|frame| frame.is_in_libc)
            .last()
            .and_then(|frame| frame.function.clone());
        let parent = self.path(key.site.image).to_owned();
        let place = match (&script, own.or(frames.first())) {
            (Some(script), _) => script.clone(),
            (None, Some(frame)) => frame.text.clone(),
            (None, None) => String::new(),
        };
        let images = [key.programs.first, key.programs.last].into_iter().flatten();
        SiteRow {
            parent,
            place: if *key == SiteKey::FURTHER { "(further sites)".to_owned() } else { place },
            function: own.and_then(|frame| frame.function.clone()),
            through: wrapper,
            script,
            frames,
            child: self.programs(&key.programs),
            programs: images.map(|image| self.path(image).to_owned()).collect(),
            count: totals.count,
            alive: totals.alive,
            starts: totals.starts,
            children: totals.children,
            cpu: Quantity::of(&totals.cpu),
            life: Quantity::of(&totals.life),
            startup: Quantity::of(&totals.startup),
            startup_share: totals.startup_share(),
            peak_kib: totals.peak_kib,
            saved: self.savings.of_site(key, totals),
        }
    }

    fn frame(&mut self, frame: Frame) -> FrameRow {
        FrameRow::of(&self.symbols.place(frame, self.profile.image_path(frame.module)))
    }

    fn script(&self, script: Script) -> String {
        let file =
            self.profile.script_name(script.file).map_or(UNKNOWN.to_owned(), |name| plain(file_name(name)));
        match script.line {
            0 => file,
            line if line < LINES => format!("{file}:{line}"),
            target => {
                let target = self.profile.script_name(target).map_or(UNKNOWN.to_owned(), plain);
                format!("{file}: {target}")
            }
        }
    }

    /// Programs in a few words.
    fn programs(&self, programs: &Programs) -> String {
        let name = |image: ImageId| match self.path(image) {
            "" => UNKNOWN.to_owned(),
            path => plain(file_name(path)),
        };
        match (programs.first, programs.last) {
            (None, _) if programs.has_others => UNKNOWN.to_owned(),
            (None, _) => "(fork)".to_owned(),
            (Some(only), None) => name(only),
            (Some(first), Some(last)) if programs.has_others => {
                format!("{} → … → {}", name(first), name(last))
            }
            (Some(first), Some(last)) => format!("{} → {}", name(first), name(last)),
        }
    }

    /// The nodes that have processes, or lead to some.
    #[allow(clippy::cast_precision_loss, reason = "an estimate")]
    fn nodes(&self, sites: &[SiteRow], numbers: &HashMap<SiteId, usize>) -> Vec<NodeRow> {
        let nodes = self.profile.nodes();
        let mut below: Vec<u64> = nodes.iter().map(|node| node.totals.count).collect();
        for (index, node) in nodes.iter().enumerate().rev() {
            if index > 0 {
                below[node.parent.index()] += below[index];
            }
        }
        let mut places: Vec<Option<usize>> = vec![None; nodes.len()];
        let mut rows = Vec::new();
        for (index, node) in
            nodes.iter().enumerate().filter(|&(index, _)| index > NodeId::ORIGIN.index() && below[index] > 0)
        {
            places[index] = Some(rows.len());
            let site = match node.step {
                Step::Site(id) => numbers.get(&id).copied(),
                Step::Found(_) | Step::Further => None,
            };
            let row = site.and_then(|site| sites.get(site));
            rows.push(NodeRow {
                parent: places[node.parent.index()],
                site,
                name: row.map_or_else(|| self.step(node), |row| row.child.clone()),
                count: node.totals.count,
                cpu_us: node.totals.cpu_us,
                life_us: node.totals.life_us,
                saved_us: row.map_or(0.0, |row| node.totals.count as f64 * row.saved.each_us),
            });
        }
        rows
    }

    fn step(&self, node: &Node) -> String {
        match node.step {
            Step::Found(Programs::NONE) => UNKNOWN.to_owned(),
            Step::Found(programs) => self.programs(&programs),
            // All processes of its site have executed something meanwhile.
            Step::Site(_) => "(fork)".to_owned(),
            Step::Further => "(further creations)".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
