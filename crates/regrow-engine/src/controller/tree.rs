//! The resource tree: paths, and what stands at them.

use std::collections::BTreeMap;

use regrow_abi::State;
use regrow_body::Body;

use super::Controller;
use crate::creation::Stats;
use crate::front_end::FrontEnd;
use crate::log::Record;
use crate::table::{Entry, Kept, Slot};

/// A table of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Table {
    /// Programs' images.
    Image,
    /// Bodies.
    Body,
    /// Shells.
    Shell,
    /// Runs that have not been waited for.
    Process,
    /// The log of creations.
    Creation,
}

impl Table {
    /// All of them, in the order of their names.
    pub const ALL: [Table; 5] = [Table::Body, Table::Creation, Table::Image, Table::Process, Table::Shell];

    /// The name in a path.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Table::Image => "image",
            Table::Body => "body",
            Table::Shell => "shell",
            Table::Process => "process",
            Table::Creation => "creation",
        }
    }
}

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource {
    Root,
    Host,
    Table(Table),
    Item(Table, u64),
}

/// Why a resource cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// There is nothing at this path.
    #[error("{path}: there is no such resource")]
    NotFound {
        /// The path.
        path: String,
    },
    /// It is not there, or no more.
    #[error("/./{table}/{number}: there is no such resource")]
    Gone {
        /// The table.
        table: &'static str,
        /// The number in it.
        number: u64,
    },
    /// The handle is not open.
    #[error("the resource is not open")]
    NotOpen,
    /// Too many are open.
    #[error("{most} resources are open already")]
    TooManyOpen {
        /// How many may be.
        most: usize,
    },
    /// The field cannot be set.
    #[error("{field}: cannot be set")]
    NotWritable {
        /// The field.
        field: String,
    },
    /// That cannot be done with it.
    #[error("that cannot be done with this resource")]
    NotControllable,
}

/// What a field of a resource holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing.
    None,
    /// A number.
    Number(u64),
    /// A number with a fraction.
    Decimal(f64),
    /// Text.
    Text(String),
    /// Fields by name, in their order.
    Fields(Vec<(String, Value)>),
}

impl Value {
    fn fields<const N: usize>(fields: [(&str, Value); N]) -> Value {
        Value::Fields(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    fn text(text: impl std::fmt::Display) -> Value {
        Value::Text(text.to_string())
    }

    fn counts<K: std::fmt::Display>(counts: impl IntoIterator<Item = (K, u64)>) -> Value {
        Value::Fields(
            counts.into_iter().map(|(name, count)| (name.to_string(), Value::Number(count))).collect(),
        )
    }
}

impl Resource {
    /// The error for when it is not there.
    pub(super) fn gone(self) -> TreeError {
        match self {
            Resource::Item(table, number) => TreeError::Gone { table: table.name(), number },
            Resource::Root | Resource::Host | Resource::Table(_) => TreeError::NotOpen,
        }
    }

    /// Reads a path. The host may be named, or `.`.
    pub(super) fn parse(path: &str, host: &str) -> Result<Resource, TreeError> {
        let not_found = || TreeError::NotFound { path: path.to_owned() };
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let Some(first) = parts.next() else { return Ok(Resource::Root) };
        if first != host && first != "." {
            return Err(not_found());
        }
        let Some(table) = parts.next() else { return Ok(Resource::Host) };
        let table = Table::ALL.into_iter().find(|known| known.name() == table).ok_or_else(not_found)?;
        let Some(item) = parts.next() else { return Ok(Resource::Table(table)) };
        match (item.parse(), parts.next()) {
            (Ok(item), None) => Ok(Resource::Item(table, item)),
            _ => Err(not_found()),
        }
    }
}

impl Controller {
    /// What stands at a resource.
    pub(super) fn look_up(&self, resource: Resource) -> Result<Value, TreeError> {
        let found = match resource {
            Resource::Root => Some(Value::fields([("hosts", Value::Number(1))])),
            Resource::Host => Some(self.pool()),
            Resource::Table(table) => {
                let count = self.names_below(Resource::Table(table)).len();
                Some(Value::fields([("count", Value::Number(count as u64))]))
            }
            Resource::Item(Table::Image, id) => self.shard.tables().entries.get(&id).map(image),
            Resource::Item(Table::Body, id) => self
                .bodies()
                .find(|(_, body)| body.id() == id)
                .map(|(image, found)| body(image, found, self.why(image, id))),
            Resource::Item(Table::Shell, id) => self.shell(id),
            Resource::Item(Table::Process, pid) => self.process(pid),
            Resource::Item(Table::Creation, number) => {
                self.log.records().find(|record| record.number == number).map(creation)
            }
        };
        found.ok_or_else(|| resource.gone())
    }

    /// The names below a resource, in order.
    pub(super) fn names_below(&self, resource: Resource) -> Vec<String> {
        let sorted = |mut ids: Vec<u64>| {
            ids.sort_unstable();
            ids.into_iter().map(|id| id.to_string()).collect()
        };
        match resource {
            Resource::Root => vec![self.host.clone()],
            Resource::Host => Table::ALL.iter().map(|table| table.name().to_owned()).collect(),
            Resource::Table(Table::Image) => sorted(self.shard.tables().entries.keys().copied().collect()),
            Resource::Table(Table::Body) => sorted(self.bodies().map(|(_, body)| body.id()).collect()),
            Resource::Table(Table::Shell) => sorted(self.shard.shell_ids()),
            Resource::Table(Table::Process) => self.processes.keys().map(ToString::to_string).collect(),
            Resource::Table(Table::Creation) => {
                sorted(self.log.records().map(|record| record.number).collect())
            }
            Resource::Item(..) => Vec::new(),
        }
    }

    /// Every body, with the number of its image.
    fn bodies(&self) -> impl Iterator<Item = (u64, &Body)> {
        let kept = self.shard.tables().entries.iter().filter_map(|(&id, entry)| Some((id, kept(entry)?)));
        kept.flat_map(|(id, kept)| kept.bodies.iter().map(move |body| (id, body)))
    }

    fn pool(&self) -> Value {
        let tables = self.shard.tables();
        let settings = self.shard.settings();
        let mut states: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, body) in self.bodies() {
            *states.entry(state_name(body)).or_default() += 1;
        }
        let kept_images = tables.entries.values().filter(|entry| kept(entry).is_some()).count();
        let to_main = self.log.to_main().map_or(Value::None, |(p50, p99, count)| {
            let micros =
                |time: std::time::Duration| Value::Decimal((time.as_secs_f64() * 1e7).round() / 10.0);
            Value::fields([
                ("p50", micros(p50)),
                ("p99", micros(p99)),
                ("count", Value::Number(count as u64)),
            ])
        });
        Value::fields([
            ("host", Value::text(&self.host)),
            ("uptime_s", Value::Number(self.began.elapsed().as_secs())),
            ("images", Value::Number(kept_images as u64)),
            ("bodies", Value::counts(states)),
            ("shells", Value::Number(self.shard.shell_ids().len() as u64)),
            ("policy", Value::text(self.shard.pool().policy())),
            ("processes", Value::Number(self.processes.len() as u64)),
            ("kept_bytes", Value::Number(tables.bytes())),
            ("idle_bytes", Value::Number(self.shard.pool().state().kept_bytes())),
            ("budget_bytes", Value::Number(settings.budget_bytes)),
            ("max_bodies_per_program", Value::Number(settings.max_bodies_per_program as u64)),
            ("creations", creations(&self.shard.stats())),
            ("given_up", Value::counts(self.shard.given_up().iter().map(|(&name, &count)| (name, count)))),
            ("to_main_us", to_main),
            ("learned", self.learned()),
        ])
    }

    /// Why a body is kept; nothing while a run is in it.
    fn why(&self, image: u64, id: u64) -> Value {
        let body = self.shard.pool_body(image, id);
        let why = body.and_then(|body| self.shard.pool().why(regrow_pool::Kept::Body(body)));
        why.map_or(Value::None, Value::text)
    }

    fn shell(&self, id: u64) -> Option<Value> {
        let shell = regrow_pool::ShellId(id);
        let (_, kept) = self.shard.pool().state().shells().find(|(other, _)| *other == shell)?;
        let keeper = self.shard.shell_keeper(shell);
        Some(Value::fields([
            ("state", Value::text(if kept.ready { "armed" } else { "starting" })),
            ("keeper", keeper.map_or(Value::None, |pid| Value::Number(pid.unsigned_abs().into()))),
            ("why", self.shard.pool().why(regrow_pool::Kept::Shell(shell)).map_or(Value::None, Value::text)),
        ]))
    }

    /// What the policy has learned, in the papers' terms; nothing for one that does not learn.
    fn learned(&self) -> Value {
        let Some(learned) = self.shard.pool().learned() else { return Value::None };
        let seconds = |time: std::time::Duration| Value::Decimal((time.as_secs_f64() * 1e6).round() / 1e6);
        let programs = learned.t2.iter().filter_map(|(program, keep, basis, wanted)| {
            let image = self.shard.image_of(*program)?;
            let fields = Value::fields([
                ("keep_s", seconds(*keep)),
                ("from", Value::text(basis)),
                ("wanted", Value::Number(*wanted as u64)),
            ]);
            Some((image.to_string(), fields))
        });
        Value::fields([
            ("t1_s", learned.t1.map_or(Value::None, seconds)),
            ("h1", Value::Number(learned.h1 as u64)),
            ("h2", Value::Number(learned.h2 as u64)),
            ("t2", Value::Fields(programs.collect())),
        ])
    }

    fn process(&self, pid: u64) -> Option<Value> {
        let process = self.processes.get(&i32::try_from(pid).ok()?)?;
        Some(Value::fields([
            ("program", Value::text(&process.program)),
            ("how", Value::text(process.creation.how())),
            ("point", process.creation.point().map_or(Value::None, Value::text)),
            ("runs_s", Value::Decimal(process.ordered.elapsed().as_secs_f64())),
        ]))
    }
}

fn kept(entry: &Entry) -> Option<&Kept> {
    match &entry.slot {
        Slot::Kept(kept) => Some(kept),
        Slot::Making { .. } | Slot::Refused(_) => None,
    }
}

fn creations(stats: &Stats) -> Value {
    let points = |counts: &crate::creation::PointCounts| {
        Value::fields([
            ("warm", Value::Number(counts.warm)),
            ("main", Value::Number(counts.main)),
            ("entry", Value::Number(counts.entry)),
        ])
    };
    Value::fields([
        ("recycled", points(&stats.recycled)),
        ("forked_body", points(&stats.forked_body)),
        ("exec", Value::Number(stats.exec)),
        ("in_shell", Value::Number(stats.in_shell)),
        ("fallbacks", Value::counts(stats.fallbacks.iter().map(|(&name, &count)| (name, count)))),
    ])
}

fn image(entry: &Entry) -> Value {
    let state = match &entry.slot {
        Slot::Making { .. } => Value::text("making"),
        Slot::Refused(why) => Value::text(why),
        Slot::Kept(_) => Value::text("kept"),
    };
    let kept = kept(entry);
    let runs: u64 = kept.map_or(0, |kept| kept.bodies.iter().map(Body::runs).sum());
    let bodies = kept.map_or(Value::None, |kept| {
        let mut ids: Vec<String> = kept.bodies.iter().map(|body| body.id().to_string()).collect();
        ids.sort_unstable();
        Value::text(ids.join(" "))
    });
    let number = |pid: i32| Value::Number(pid.unsigned_abs().into());
    let keepers = kept.map_or(Value::None, |kept| {
        let pids: Vec<String> = kept.bodies.iter().map(|body| body.keeper().to_string()).collect();
        Value::text(pids.join(" "))
    });
    Value::fields([
        ("file", Value::text(entry.key.file.to_string_lossy())),
        ("argv0", Value::text(entry.key.argv0.to_string_lossy())),
        ("loaded", entry.key.warm.as_ref().and_then(FrontEnd::loaded).map_or(Value::None, Value::text)),
        ("state", state),
        ("point", kept.map_or(Value::None, |kept| Value::text(kept.point()))),
        ("seed", kept.map_or(Value::None, |kept| number(kept.image.seed().pid()))),
        ("keepers", keepers),
        ("bodies", bodies),
        ("runs", Value::Number(runs)),
        ("kept_bytes", kept.map_or(Value::None, |kept| Value::Number(kept.bytes()))),
    ])
}

fn body(image: u64, body: &Body, why: Value) -> Value {
    let work = body.reset_work();
    let work = [
        ("compared", work.compared),
        ("copied", work.copied),
        ("zeroed", work.zeroed),
        ("dropped", work.dropped),
        ("mappings", work.mappings),
    ];
    Value::fields([
        ("image", Value::Number(image)),
        ("state", Value::text(state_name(body))),
        ("keeper", Value::Number(u64::from(body.keeper().unsigned_abs()))),
        ("runs", Value::Number(body.runs())),
        ("why", why),
        ("last_reset", Value::counts(work.map(|(name, count)| (name, u64::from(count))))),
    ])
}

fn creation(record: &Record) -> Value {
    let micros = |time: Option<std::time::Duration>| {
        time.map_or(Value::None, |time| Value::Decimal((time.as_secs_f64() * 1e7).round() / 10.0))
    };
    Value::fields([
        ("at_s", Value::Decimal(record.at.as_secs_f64())),
        ("program", Value::text(&record.program)),
        ("site", record.site.map_or(Value::None, Value::Number)),
        ("how", Value::text(record.creation.how())),
        ("point", record.creation.point().map_or(Value::None, Value::text)),
        ("fallback", record.creation.fallback().map_or(Value::None, |why| Value::text(why.name()))),
        ("to_main_us", micros(record.to_main)),
        ("took_us", micros(record.took)),
    ])
}

/// A stable name for what a body is doing.
fn state_name(body: &Body) -> &'static str {
    match body.state() {
        Some(State::Starting) => "starting",
        Some(State::Arming) => "arming",
        Some(State::Armed) => "armed",
        Some(State::Taken | State::Running) => "running",
        Some(State::Resetting) => "resetting",
        Some(State::Clean) => "clean",
        Some(State::Broken) | None => "broken",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_one_resource() {
        let parse = |path| Resource::parse(path, "here");
        assert_eq!(parse("/"), Ok(Resource::Root));
        assert_eq!(parse("/here"), Ok(Resource::Host));
        assert_eq!(parse("/./body/"), Ok(Resource::Table(Table::Body)));
        assert_eq!(parse("/here/body/7"), Ok(Resource::Item(Table::Body, 7)));
        for wrong in ["/there", "/here/bodies", "/here/body/x", "/here/body/7/8", "/here/body/-1"] {
            assert_eq!(parse(wrong), Err(TreeError::NotFound { path: wrong.to_owned() }), "{wrong}");
        }
    }
}
