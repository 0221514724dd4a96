//! What stands at a resource of the tree, read from the tables, the planner and the log.

use std::collections::BTreeMap;
use std::time::Duration;

use regrow_abi::State;
use regrow_body::Body;
use regrow_pool::{Inventory, KeptId, Planner};

use super::tree::{Resource, Table, TreeError, Value};
use crate::clock::monotonic_ns;
use crate::ids::{BodyId, ImageId, ResourceId, ShellId};
use crate::keeping::inspection::Reports;
use crate::log::{CreationLog, Record};
use crate::run::creation::Stats;
use crate::run::front_end::FrontEnd;
use crate::tables::Tables;
use crate::tables::images::{ImageRow, Stage};
use crate::tables::processes::ProcessRow;
use crate::view::ShardView;

/// How many images of a pool are listed.
const MOST_LISTED: usize = 64;

/// What the tree of a controller is looked up in.
#[derive(Debug, Clone, Copy)]
pub(super) struct TreeView<'a> {
    pub(super) shard: ShardView<'a>,
    pub(super) stats: &'a Stats,
    pub(super) log: &'a CreationLog,
    pub(super) host: &'a str,
    pub(super) began_ns: u64,
}

impl<'a> TreeView<'a> {
    /// What stands at a resource.
    pub(super) fn look_up(self, resource: Resource) -> Result<Value, TreeError> {
        let found = match resource {
            Resource::Root => Some(Value::fields([("hosts", Value::Number(1))])),
            Resource::Host => Some(self.pool()),
            Resource::Table(table) => {
                let count = self.names_below(Resource::Table(table)).len();
                Some(Value::fields([("count", Value::Number(count as u64))]))
            }
            Resource::Image(id) => self.tables().images.get(id).map(|row| image(self.tables(), id, row)),
            Resource::Body(id) => self.body(id),
            Resource::Shell(id) => self.shell(id),
            Resource::Process(pid) => self.tables().processes.by_pid(pid).map(process),
            Resource::Creation(number) => {
                self.log.records().find(|record| record.number == number).map(creation)
            }
        };
        found.ok_or_else(|| resource.gone())
    }

    /// The names below a resource, in order.
    pub(super) fn names_below(self, resource: Resource) -> Vec<String> {
        let sorted = |mut numbers: Vec<u64>| {
            numbers.sort_unstable();
            numbers.into_iter().map(|number| number.to_string()).collect()
        };
        let Resource::Table(table) = resource else {
            return match resource {
                Resource::Root => vec![self.host.to_owned()],
                Resource::Host => Table::ALL.iter().map(|table| table.name().to_owned()).collect(),
                _ => Vec::new(),
            };
        };
        let tables = self.tables();
        sorted(match table {
            Table::Image => tables.images.iter().map(|(id, _)| id.number()).collect(),
            Table::Body => tables.bodies.iter().map(|(id, _, _)| id.number()).collect(),
            Table::Shell => self.inventory().shells().map(|(id, _)| id.number()).collect(),
            Table::Process => tables.processes.iter().map(|row| row.pid.unsigned_abs().into()).collect(),
            Table::Creation => self.log.records().map(|record| record.number).collect(),
        })
    }

    fn uptime(self) -> Duration {
        Duration::from_nanos(monotonic_ns().saturating_sub(self.began_ns))
    }

    fn tables(self) -> &'a Tables {
        self.shard.tables()
    }

    fn planner(self) -> &'a Planner {
        self.shard.ledger().planner()
    }

    fn inventory(self) -> &'a Inventory {
        self.planner().inventory()
    }

    fn pool(self) -> Value {
        let tables = self.tables();
        let settings = self.shard.settings;
        let to_main = self.log.to_main().map_or(Value::None, |(p50, p99, count)| {
            Value::fields([
                ("p50", micros(p50)),
                ("p99", micros(p99)),
                ("count", Value::Number(count as u64)),
            ])
        });
        Value::fields([
            ("host", Value::text(self.host)),
            ("uptime_s", Value::Number(self.uptime().as_secs())),
            ("images", Value::Number(tables.images.iter_kept().count() as u64)),
            ("bodies", body_states(tables)),
            ("shells", Value::Number(self.inventory().shells().len() as u64)),
            ("policy", Value::text(self.planner().policy())),
            ("processes", Value::Number(tables.processes.iter().len() as u64)),
            ("kept_bytes", Value::Number(tables.kept_bytes())),
            ("idle_bytes", Value::Number(self.inventory().kept_bytes())),
            ("budget_bytes", Value::Number(settings.budget_bytes)),
            ("max_bodies_per_program", Value::Number(settings.max_bodies_per_program as u64)),
            ("creations", creations(self.stats)),
            ("given_up", given_up(self.shard.reports)),
            ("spot_checks", spot_checks(self.shard.reports)),
            ("to_main_us", to_main),
            ("learned", self.learned()),
        ])
    }

    fn body(self, id: BodyId) -> Option<Value> {
        let tables = self.tables();
        let found = tables.bodies.get(id)?;
        let image = tables.bodies.image_of(id)?;
        // Nothing while a run is in it.
        let why = self.planner().why(KeptId::Body(id));
        Some(body(image, found, why.map_or(Value::None, Value::text)))
    }

    fn shell(self, id: ShellId) -> Option<Value> {
        let ready = self.shard.ledger().shell_ready(id)?;
        let keeper = self.tables().shells.get(id).map(|slot| slot.shell.keeper());
        Some(Value::fields([
            ("state", Value::text(if ready { "armed" } else { "starting" })),
            ("keeper", keeper.map_or(Value::None, |pid| Value::Number(pid.unsigned_abs().into()))),
            ("why", self.planner().why(KeptId::Shell(id)).map_or(Value::None, Value::text)),
        ]))
    }

    /// What the policy has learned, in the papers' terms; nothing for one that does not learn.
    fn learned(self) -> Value {
        let Some(learned) = self.planner().learned() else { return Value::None };
        let seconds = |time: std::time::Duration| Value::Decimal((time.as_secs_f64() * 1e6).round() / 1e6);
        let programs = learned.t2.iter().filter_map(|(program, keep, basis, wanted)| {
            let image = self.tables().programs.get(*program)?.image?;
            let fields = Value::fields([
                ("keep_s", seconds(*keep)),
                ("from", Value::text(basis)),
                ("wanted", Value::Number(*wanted as u64)),
            ]);
            Some((image.number().to_string(), fields))
        });
        Value::fields([
            ("t1_s", learned.t1.map_or(Value::None, seconds)),
            ("h1", Value::Number(learned.h1 as u64)),
            ("h2", Value::Number(learned.h2 as u64)),
            ("t2", Value::Fields(programs.collect())),
        ])
    }
}

/// What the list of pools has of a shard (see [`crate::listing`]).
pub(crate) fn listed(shard: ShardView<'_>, stats: &Stats) -> Value {
    let tables = shard.tables();
    let images = tables.images.iter().take(MOST_LISTED);
    let images = images.map(|(id, row)| (id.number().to_string(), image(tables, id, row)));
    let works = || tables.bodies.iter().map(|(_, _, body)| body.reset_work());
    let pages = Value::counts([
        ("compared", u64::from(middle(works().map(|work| work.compared)))),
        ("copied", u64::from(middle(works().map(|work| work.copied)))),
    ]);
    Value::fields([
        ("max_bodies_per_program", Value::Number(shard.settings.max_bodies_per_program as u64)),
        ("bodies", body_states(tables)),
        ("kept_bytes", Value::Number(tables.kept_bytes())),
        ("budget_bytes", Value::Number(shard.settings.budget_bytes)),
        ("creations", creations(stats)),
        ("given_up", given_up(shard.reports)),
        ("reset_pages", pages),
        ("images", Value::Fields(images.collect())),
    ])
}

/// How many bodies are in which state.
fn body_states(tables: &Tables) -> Value {
    let mut states: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, _, body) in tables.bodies.iter() {
        *states.entry(state_name(body)).or_default() += 1;
    }
    Value::counts(states)
}

/// The number in the middle; 0 where there is none.
fn middle(numbers: impl Iterator<Item = u32>) -> u32 {
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied().unwrap_or(0)
}

fn process(row: &ProcessRow) -> Value {
    let runs = Duration::from_nanos(monotonic_ns().saturating_sub(row.ordered_ns));
    Value::fields([
        ("program", Value::text(row.program.to_string_lossy())),
        ("how", Value::text(row.creation.how())),
        ("point", row.creation.point().map_or(Value::None, Value::text)),
        ("body", row.body.map_or(Value::None, |body| Value::Number(body.number()))),
        ("runs_s", Value::Decimal(runs.as_secs_f64())),
    ])
}

fn given_up(reports: &Reports) -> Value {
    Value::counts(reports.given_up.iter().map(|(&reason, &count)| (reason, count)))
}

fn spot_checks(reports: &Reports) -> Value {
    Value::fields([
        ("checked", Value::Number(reports.spot_checked)),
        ("differences", Value::Number(reports.spot_differences)),
    ])
}

fn creations(stats: &Stats) -> Value {
    let points = |counts: &crate::run::creation::PointCounts| {
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

fn image(tables: &Tables, id: ImageId, row: &ImageRow) -> Value {
    let state = match &row.stage {
        Stage::Making(_) => Value::text("making"),
        Stage::Refused(why) => Value::text(why),
        Stage::Kept(_) => Value::text("kept"),
    };
    let kept = row.kept();
    let bodies: Vec<(BodyId, &Body)> = tables.bodies.of(id).collect();
    let runs: u64 = bodies.iter().map(|(_, body)| body.runs()).sum();
    let list = |numbers: Vec<String>| kept.map_or(Value::None, |_| Value::text(numbers.join(" ")));
    let mut ids: Vec<String> = bodies.iter().map(|(id, _)| id.number().to_string()).collect();
    ids.sort_unstable();
    let keepers = bodies.iter().map(|(_, body)| body.keeper().to_string()).collect();
    let number = |pid: i32| Value::Number(pid.unsigned_abs().into());
    Value::fields([
        ("file", Value::text(row.key.file.to_string_lossy())),
        ("argv0", Value::text(row.key.argv0.to_string_lossy())),
        ("loaded", row.key.warm.as_ref().and_then(FrontEnd::loaded).map_or(Value::None, Value::text)),
        ("state", state),
        ("point", kept.map_or(Value::None, |kept| Value::text(kept.point()))),
        ("seed", kept.map_or(Value::None, |kept| number(kept.image.seed().pid()))),
        ("keepers", list(keepers)),
        ("bodies", list(ids)),
        ("runs", Value::Number(runs)),
        ("kept_bytes", kept.map_or(Value::None, |kept| Value::Number(kept.bytes(bodies.len())))),
        ("given_back", kept.map_or(Value::None, |kept| Value::Number(kept.image.given_back() as u64))),
        ("start_us", kept.and_then(|kept| kept.image.start_time).map_or(Value::None, micros)),
    ])
}

fn body(image: ImageId, body: &Body, why: Value) -> Value {
    let work = body.reset_work();
    let work = [
        ("compared", work.compared),
        ("copied", work.copied),
        ("zeroed", work.zeroed),
        ("dropped", work.dropped),
        ("mappings", work.mappings),
    ];
    Value::fields([
        ("image", Value::Number(image.number())),
        ("state", Value::text(state_name(body))),
        ("keeper", Value::Number(u64::from(body.keeper().unsigned_abs()))),
        ("runs", Value::Number(body.runs())),
        ("why", why),
        ("last_reset", Value::counts(work.map(|(name, count)| (name, u64::from(count))))),
    ])
}

fn creation(record: &Record) -> Value {
    let micros = |time: Option<Duration>| time.map_or(Value::None, micros);
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

/// Microseconds with a fraction.
fn micros(time: Duration) -> Value {
    Value::Decimal((time.as_secs_f64() * 1e7).round() / 10.0)
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
