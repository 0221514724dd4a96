//! What the machine is, for the reader of the results.

use std::fs;

use serde::{Deserialize, Serialize};

/// The machine, and how busy it is with other work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The kernel's name, release and architecture.
    pub kernel: String,
    /// The model of the processor.
    pub cpu: String,
    /// Processors that this process may run on.
    pub cores: usize,
    /// The load averages before the benchmark, over 1, 5 and 15 minutes.
    pub load: String,
}

impl Machine {
    /// Asks the system.
    pub fn look() -> Self {
        let uname = rustix::system::uname();
        let part = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            kernel: format!("{} {} {}", part(uname.sysname()), part(uname.release()), part(uname.machine())),
            cpu: cpu_model(&cpu_info).unwrap_or("unknown processor").to_owned(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            load: load.split(' ').take(3).collect::<Vec<_>>().join(" "),
        }
    }
}

fn cpu_model(cpu_info: &str) -> Option<&str> {
    let line = cpu_info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_that_of_the_first_processor() {
        let text = "processor\t: 0\nmodel name\t: Example 9000: fast\n\nmodel name\t: Other\n";
        assert_eq!(cpu_model(text), Some("Example 9000: fast"));
        assert_eq!(cpu_model("processor : 0\n"), None);
    }

    #[test]
    fn a_machine_is_there() {
        let machine = Machine::look();
        assert!(machine.kernel.starts_with("Linux ") && machine.cores >= 1, "{machine:?}");
        assert_eq!(machine.load.split(' ').count(), 3, "{machine:?}");
    }
}
