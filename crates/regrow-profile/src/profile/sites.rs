//! The table of sites.

use std::collections::HashMap;

use regrow_sites::{ImageId, Site};

use super::totals::Totals;

/// Most rows of the table. A site has one for each program that its processes execute, and one for those that have not executed any so far.
pub const MOST_SITES: usize = 40_000;

/// The programs that a process executed, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Programs {
    /// The first; `None`: it has executed nothing, and runs what its parent ran.
    pub first: Option<ImageId>,
    /// The last, where it has executed more than one.
    pub last: Option<ImageId>,
    /// Whether there were others between them.
    pub has_others: bool,
}

impl Programs {
    /// Of a process that has executed nothing.
    pub const NONE: Programs = Programs { first: None, last: None, has_others: false };

    /// The same, and another one executed.
    #[must_use]
    pub fn then(self, image: ImageId) -> Programs {
        match (self.first, self.last) {
            (None, _) => Programs { first: Some(image), ..Programs::NONE },
            (Some(_), None) => Programs { last: Some(image), ..self },
            (Some(_), Some(_)) => Programs { last: Some(image), has_others: true, ..self },
        }
    }

    /// The program that it runs in the end; `None`: what its parent ran.
    #[must_use]
    pub fn final_one(&self) -> Option<ImageId> {
        self.last.or(self.first)
    }
}

/// What a row of the table is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SiteKey {
    /// Where; its `child` is empty.
    pub site: Site,
    /// What the processes executed.
    pub programs: Programs,
}

impl SiteKey {
    /// All sites for which the table had no room.
    pub const FURTHER: SiteKey = SiteKey {
        site: Site {
            image: ImageId::UNKNOWN,
            frames: [None; regrow_sites::site::MOST_FRAMES],
            script: None,
            child: None,
        },
        programs: Programs { first: None, last: None, has_others: true },
    };
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(u32);

impl SiteId {
    /// As a number, from 0.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The rows, each with its totals. The first is [`SiteKey::FURTHER`].
#[derive(Debug)]
pub(super) struct SiteTable {
    rows: Vec<(SiteKey, Totals)>,
    ids: HashMap<SiteKey, SiteId>,
}

impl Default for SiteTable {
    fn default() -> SiteTable {
        let further = SiteKey::FURTHER;
        SiteTable { rows: vec![(further, Totals::default())], ids: HashMap::from([(further, SiteId(0))]) }
    }
}

impl SiteTable {
    /// The row of a key.
    pub(super) fn id_of(&mut self, key: SiteKey) -> SiteId {
        if let Some(&id) = self.ids.get(&key) {
            return id;
        }
        let Some(id) =
            u32::try_from(self.rows.len()).ok().filter(|_| self.rows.len() < MOST_SITES).map(SiteId)
        else {
            return SiteId(0);
        };
        self.rows.push((key, Totals::default()));
        self.ids.insert(key, id);
        id
    }

    /// The totals of a row.
    pub(super) fn totals(&mut self, id: SiteId) -> &mut Totals {
        &mut self.rows[id.index()].1
    }

    /// The rows that have processes.
    pub(super) fn rows(&self) -> impl Iterator<Item = (SiteId, &SiteKey, &Totals)> {
        let ids = (0..).map(SiteId);
        ids.zip(&self.rows)
            .filter(|(_, (_, totals))| totals.count > 0)
            .map(|(id, (key, totals))| (id, key, totals))
    }
}
