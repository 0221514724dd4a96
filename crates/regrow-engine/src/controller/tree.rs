//! The resource tree: which paths there are, what a path names, and the form of what stands there.

use crate::ids::{BodyId, ImageId, ResourceId, ShellId};

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

    fn gone(self, number: u64) -> TreeError {
        TreeError::Gone { table: self.name(), number }
    }
}

/// What a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource {
    Root,
    Host,
    Table(Table),
    Image(ImageId),
    Body(BodyId),
    Shell(ShellId),
    /// By its number for the kernel.
    Process(i32),
    /// By its number in the log.
    Creation(u64),
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
    pub(crate) fn fields<const N: usize>(fields: [(&str, Value); N]) -> Value {
        Value::Fields(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    pub(crate) fn text(text: impl std::fmt::Display) -> Value {
        Value::Text(text.to_string())
    }

    pub(super) fn counts<K: std::fmt::Display>(counts: impl IntoIterator<Item = (K, u64)>) -> Value {
        Value::Fields(
            counts.into_iter().map(|(name, count)| (name.to_string(), Value::Number(count))).collect(),
        )
    }
}

impl Resource {
    /// The error for when it is not there.
    pub(super) fn gone(self) -> TreeError {
        match self {
            Resource::Root | Resource::Host | Resource::Table(_) => TreeError::NotOpen,
            Resource::Image(id) => Table::Image.gone(id.number()),
            Resource::Body(id) => Table::Body.gone(id.number()),
            Resource::Shell(id) => Table::Shell.gone(id.number()),
            Resource::Process(pid) => Table::Process.gone(pid.unsigned_abs().into()),
            Resource::Creation(number) => Table::Creation.gone(number),
        }
    }

    /// Reads a path. The host may be named, or `.`; numbers are those of tables of this generation.
    pub(super) fn parse(path: &str, host: &str, generation: u32) -> Result<Resource, TreeError> {
        let not_found = || TreeError::NotFound { path: path.to_owned() };
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let Some(first) = parts.next() else { return Ok(Resource::Root) };
        if first != host && first != "." {
            return Err(not_found());
        }
        let Some(table) = parts.next() else { return Ok(Resource::Host) };
        let table = Table::ALL.into_iter().find(|known| known.name() == table).ok_or_else(not_found)?;
        let Some(item) = parts.next() else { return Ok(Resource::Table(table)) };
        let (Ok(number), None) = (item.parse(), parts.next()) else { return Err(not_found()) };
        Ok(match table {
            Table::Image => Resource::Image(ImageId::of_generation(generation, number)),
            Table::Body => Resource::Body(BodyId::of_generation(generation, number)),
            Table::Shell => Resource::Shell(ShellId::of_generation(generation, number)),
            Table::Process => Resource::Process(i32::try_from(number).map_err(|_| not_found())?),
            Table::Creation => Resource::Creation(number),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_one_resource() {
        let parse = |path| Resource::parse(path, "here", 0);
        assert_eq!(parse("/"), Ok(Resource::Root));
        assert_eq!(parse("/here"), Ok(Resource::Host));
        assert_eq!(parse("/./body/"), Ok(Resource::Table(Table::Body)));
        assert_eq!(parse("/here/body/7"), Ok(Resource::Body(BodyId::new(7))));
        for wrong in ["/there", "/here/bodies", "/here/body/x", "/here/body/7/8", "/here/body/-1"] {
            assert_eq!(parse(wrong), Err(TreeError::NotFound { path: wrong.to_owned() }), "{wrong}");
        }
    }
}
