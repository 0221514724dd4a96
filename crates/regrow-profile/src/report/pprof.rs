//! A report as a gzipped `profile.proto`, which `go tool pprof` and other viewers open.
//!
//! ```text
//!   a sample = a node of the tree: its processes, their processor time, life, and what would have been saved
//!   its stack, the leaf first:   cc1                         the program
//!                                pex_unix_exec_child         ┐ where its parent created it: the frames of the site, the innermost first,
//!                                execute_command             ┘ or the place in the parent's script
//!                                gcc                         the parent
//!                                …                           and so on, to the command
//! ```
//!
//! The messages are those of `profile.proto` of the pprof project (github.com/google/pprof, `proto/profile.proto`), with the fields that are used.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::{FrameRow, NodeRow, Report, SiteRow};

/// The longest stack of a sample: viewers draw each frame.
const LONGEST_STACK: usize = 8192;

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    memory_start: u64,
    #[prost(uint64, tag = "3")]
    memory_limit: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

impl Report {
    /// As a gzipped `profile.proto`.
    ///
    /// # Errors
    /// None that is known: it is written to memory.
    pub fn to_pprof(&self) -> io::Result<Vec<u8>> {
        let mut builder = Builder::new();
        for (name, unit) in [
            ("processes", "count"),
            ("cpu", "nanoseconds"),
            ("life", "nanoseconds"),
            ("saved", "nanoseconds"),
        ] {
            let value_type = ValueType { r#type: builder.string(name), unit: builder.string(unit) };
            builder.profile.sample_type.push(value_type);
        }
        builder.profile.default_sample_type = builder.string("processes");
        builder.profile.duration_nanos = nanos(self.span_us);
        let saved =
            format!("saved: an estimate, {:.0} µs a start and more: {}", self.basis.base_us, self.basis.from);
        builder.profile.comment = vec![builder.string(&self.title), builder.string(&saved)];
        for node in self.nodes.iter().filter(|node| node.count > 0) {
            builder.sample(self, node);
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&builder.profile.encode_to_vec())?;
        encoder.finish()
    }
}

/// A profile that is being built.
struct Builder {
    profile: Profile,
    strings: HashMap<String, i64>,
    functions: HashMap<(i64, i64), u64>,
    mappings: HashMap<i64, u64>,
    /// By mapping, address, function and line.
    locations: HashMap<(u64, u64, u64, i64), u64>,
}

impl Builder {
    fn new() -> Builder {
        let mut builder = Builder {
            profile: Profile::default(),
            strings: HashMap::new(),
            functions: HashMap::new(),
            mappings: HashMap::new(),
            locations: HashMap::new(),
        };
        builder.string("");
        builder
    }

    fn string(&mut self, text: &str) -> i64 {
        if let Some(&index) = self.strings.get(text) {
            return index;
        }
        let index = i64::try_from(self.profile.string_table.len()).unwrap_or(0);
        self.profile.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), index);
        index
    }

    #[allow(clippy::cast_possible_truncation, reason = "a saving is a time, and as long as a life at most")]
    fn sample(&mut self, report: &Report, node: &NodeRow) {
        let mut stack = Vec::new();
        let mut above = Some(node);
        while let Some(node) = above.filter(|_| stack.len() < LONGEST_STACK) {
            let site = node.site.and_then(|site| report.sites.get(site));
            stack.push(self.program(node, site));
            if let Some(site) = site {
                self.place(site, &mut stack);
            }
            above = node.parent.and_then(|parent| report.nodes.get(parent));
        }
        let count = i64::try_from(node.count).unwrap_or(i64::MAX);
        let value = vec![count, nanos(node.cpu_us), nanos(node.life_us), (node.saved_us * 1e3) as i64];
        self.profile.sample.push(Sample { location_id: stack, value });
    }

    /// The program of a node.
    fn program(&mut self, node: &NodeRow, site: Option<&SiteRow>) -> u64 {
        let path = site.and_then(|site| site.programs.last()).cloned().unwrap_or_default();
        self.location("", 0, &node.name, &path, None)
    }

    /// Where it was created.
    fn place(&mut self, site: &SiteRow, stack: &mut Vec<u64>) {
        if let Some(script) = &site.script {
            stack.push(self.location("", 0, script, script, None));
        }
        for frame in &site.frames {
            stack.push(self.frame(frame));
        }
    }

    fn frame(&mut self, frame: &FrameRow) -> u64 {
        let function = frame.function.as_deref().unwrap_or(&frame.text);
        let file = frame.file.as_deref().unwrap_or(&frame.module);
        self.location(&frame.module, frame.offset, function, file, frame.line)
    }

    fn location(&mut self, module: &str, address: u64, function: &str, file: &str, line: Option<u32>) -> u64 {
        let mapping_id = if module.is_empty() { 0 } else { self.mapping(module) };
        let function_id = self.function(function, file);
        let line = line.map_or(0, i64::from);
        let next = self.profile.location.len() as u64 + 1;
        let id = *self.locations.entry((mapping_id, address, function_id, line)).or_insert(next);
        if id == next {
            self.profile.location.push(Location {
                id,
                mapping_id,
                address,
                line: vec![Line { function_id, line }],
            });
        }
        id
    }

    fn mapping(&mut self, module: &str) -> u64 {
        let filename = self.string(module);
        let next = self.profile.mapping.len() as u64 + 1;
        let id = *self.mappings.entry(filename).or_insert(next);
        if id == next {
            self.profile.mapping.push(Mapping {
                id,
                memory_start: 0,
                memory_limit: u64::MAX,
                filename,
                has_functions: true,
            });
        }
        id
    }

    fn function(&mut self, name: &str, file: &str) -> u64 {
        let (name, filename) = (self.string(name), self.string(file));
        let next = self.profile.function.len() as u64 + 1;
        let id = *self.functions.entry((name, filename)).or_insert(next);
        if id == next {
            self.profile.function.push(Function { id, name, system_name: name, filename });
        }
        id
    }
}

fn nanos(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX).saturating_mul(1000)
}
