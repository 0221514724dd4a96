//! Refuses a task or a mapping whose state at the snapshot point could not be given to later runs.

use std::fs;

use regrow_sys::maps::{SmapsEntry, VmFlag};

use crate::error::{MakeError, refuse};

/// Checks what the task itself carries: one thread, no children, nothing blocked, only the descriptors that it was started
/// with, and no handlers, unless each run gets them (`handlers`).
pub(crate) fn check_task(pid: i32, fds: usize, handlers: bool) -> Result<(), MakeError> {
    let io = |what: &'static str| move |source| MakeError::Tracing { step: what, source };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).map_err(io("reading its threads"))?.count();
    if tasks != 1 {
        return refuse(format!("{tasks} threads at the snapshot point"));
    }
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    if !children.is_empty() {
        return refuse(format!("it has children at the snapshot point: {children}"));
    }
    let open: Vec<_> =
        fs::read_dir(format!("/proc/{pid}/fd")).map_err(io("reading its descriptors"))?.flatten().collect();
    if open.len() != fds {
        let names = open.iter().filter_map(|entry| fs::read_link(entry.path()).ok());
        let names = names.map(|name| name.display().to_string()).collect::<Vec<_>>().join(", ");
        let count = open.len().abs_diff(fds);
        return refuse(format!(
            "{count} descriptors were opened before the snapshot point; open are {names}"
        ));
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(io("reading its status"))?;
    let checked = [("SigBlk:", "blocked signals"), ("Seccomp:", "seccomp"), ("SigCgt:", "signal handlers")];
    for (field, what) in checked.into_iter().filter(|checked| !(handlers && checked.0 == "SigCgt:")) {
        let value = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or("0").trim();
        if value.bytes().any(|byte| byte != b'0') {
            return refuse(format!("{what} at the snapshot point ({value})"));
        }
    }
    Ok(())
}

/// Refuses mappings that a reset could not keep.
pub(crate) fn check_mapping(entry: &SmapsEntry) -> Result<(), MakeError> {
    const UNFIT: &[(VmFlag, &str)] = &[
        (VmFlag::DONT_COPY, "is not copied by fork"),
        (VmFlag::LOCKED, "is locked"),
        (VmFlag::HUGETLB, "is of huge pages"),
        (VmFlag::IO, "is of a device"),
        (VmFlag::PFN_MAP, "is of a device"),
        (VmFlag::SEALED, "is sealed"),
        (VmFlag::SHADOW_STACK, "is a shadow stack"),
        (VmFlag::UFFD_MISSING, "is watched by a userfaultfd"),
        (VmFlag::UFFD_WRITE_PROTECT, "is watched by a userfaultfd"),
        (VmFlag::MERGEABLE, "is merged by KSM"),
        (VmFlag::RANDOM_READ, "has advice"),
        (VmFlag::SEQUENTIAL_READ, "has advice"),
        (VmFlag::HUGE_PAGE, "has advice"),
    ];
    let mapping = &entry.mapping;
    let place = || format!("mapping {:x}-{:x}", mapping.start, mapping.end);
    if mapping.shared && mapping.write {
        return refuse(format!("{} is shared and writable", place()));
    }
    match UNFIT.iter().find(|unfit| entry.flags.has(unfit.0)) {
        Some(unfit) => refuse(format!("{} {}", place(), unfit.1)),
        None => Ok(()),
    }
}
