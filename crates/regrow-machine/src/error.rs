//! Why nothing can be collected.

use std::fmt;
use std::io;

/// Something without which the kernel tells nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// A capability of the calling process, which root has.
    Capability {
        /// Its name.
        name: &'static str,
        /// One that includes it.
        or: Option<&'static str>,
        /// What it is for.
        purpose: &'static str,
    },
    /// The first PID namespace: in another one processes have other numbers than the kernel tells.
    FirstNamespace,
    /// The kernel's own type information, in this file.
    TypeInformation {
        /// The file.
        path: &'static str,
    },
    /// A tracepoint of the kernel.
    TracePoint {
        /// Its name.
        name: &'static str,
    },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capability { name, or: Some(or), purpose } => write!(f, "{name} or {or}, to {purpose}"),
            Self::Capability { name, or: None, purpose } => write!(f, "{name}, to {purpose}"),
            Self::FirstNamespace => {
                f.write_str("the first PID namespace: this process is in another one, as in a container")
            }
            Self::TypeInformation { path } => {
                write!(f, "{path}: the kernel's type information (CONFIG_DEBUG_INFO_BTF=y)")
            }
            Self::TracePoint { name } => write!(f, "the tracepoint {name} in this kernel"),
        }
    }
}

/// Why collecting does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Rights or parts of the kernel are missing.
    #[error("the whole machine cannot be looked at, as root can; missing: {}", list(.0))]
    Missing(Vec<Missing>),
    /// The kernel refuses although all is there that can be looked at beforehand.
    #[error(
        "the kernel refuses the system call bpf: in a user namespace, in a container with a filter of system calls, or locked down it does"
    )]
    Refused(#[source] io::Error),
    /// The kernel's type information is not understood.
    #[error("the kernel's type information in /sys/kernel/btf/vmlinux is not understood")]
    TypeInformation(#[source] Box<aya::BtfError>),
    /// The programs do not fit this kernel.
    #[error("the BPF object cannot be loaded into this kernel")]
    Object(#[source] Box<aya::EbpfError>),
    /// A program is not taken by this kernel.
    #[error("the BPF program {name} is not taken by this kernel")]
    Program {
        /// Its name.
        name: &'static str,
        /// What the kernel says.
        #[source]
        source: Box<aya::programs::ProgramError>,
    },
    /// A table of the programs cannot be used.
    #[error("the BPF map {name} cannot be used")]
    Table {
        /// Its name.
        name: &'static str,
        /// What the kernel says.
        #[source]
        source: Box<aya::maps::MapError>,
    },
    /// There is no such process to follow.
    #[error("process {pid}: there is none")]
    NoProcess {
        /// Its number.
        pid: u32,
    },
    /// The size of the ring is not a power of two of at least a page.
    #[error("ring of {bytes} bytes: it must be a power of two, of 4096 bytes at least")]
    Ring {
        /// The size that was asked for.
        bytes: u32,
    },
    /// A file of this process cannot be read.
    #[error("{path}")]
    File {
        /// The file.
        path: &'static str,
        /// What the kernel says.
        #[source]
        source: io::Error,
    },
}

/// Why collecting does not go on.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The ring cannot be waited for.
    #[error("the ring of the BPF programs cannot be waited for")]
    Wait(#[source] io::Error),
}

fn list(missing: &[Missing]) -> String {
    missing.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_all_that_is_missing() {
        let missing = [
            Missing::Capability { name: "CAP_BPF", or: Some("CAP_SYS_ADMIN"), purpose: "load BPF programs" },
            Missing::TypeInformation { path: "/sys/kernel/btf/vmlinux" },
        ];
        assert_eq!(
            StartError::Missing(missing.to_vec()).to_string(),
            "the whole machine cannot be looked at, as root can; missing: CAP_BPF or CAP_SYS_ADMIN, to load BPF programs; \
             /sys/kernel/btf/vmlinux: the kernel's type information (CONFIG_DEBUG_INFO_BTF=y)"
        );
    }
}
