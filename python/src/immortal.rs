//! Objects of an image that are never freed: CPython 3.12 and later count no references to them (PEP 683).
//!
//! A reference that somebody takes or drops is written to the object, and each page of that kind is compared after the run. Code,
//! names, functions and types of an image are there until the end of every run, so nobody misses their counts. Objects of other
//! kinds keep theirs: what a run drops is to be freed, with what is called then.

use std::collections::HashSet;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyComplex, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

/// Types whose objects say of themselves all that they hold, or hold what lives as long as they do. Names in `types` or `builtins`.
const LASTING: &[&str] = &[
    "BuiltinFunctionType",
    "CodeType",
    "FunctionType",
    "GetSetDescriptorType",
    "MemberDescriptorType",
    "MethodDescriptorType",
    "ModuleType",
    "WrapperDescriptorType",
    "ClassMethodDescriptorType",
    "classmethod",
    "property",
    "staticmethod",
];
/// What a code object holds, which the collector of cycles does not ask it for.
const OF_CODE: &[&str] =
    &["co_consts", "co_names", "co_name", "co_qualname", "co_filename", "co_exceptiontable"];
/// Where the first half of an object's count has this bit, the object is immortal.
const IMMORTAL: u32 = 1 << 31;

/// Makes code, functions, types and plain values immortal, where the interpreter knows immortal objects. Returns how many.
#[allow(unsafe_code, reason = "the count of an object tells whether it is immortal")]
pub(crate) fn make_all(py: Python<'_>) -> PyResult<usize> {
    let none = py.None();
    // SAFETY: an object begins with its count, of eight bytes; `None` is one.
    let count = unsafe { count_of(none.bind(py)).read() };
    if py.version_info() < (3, 12) || count & IMMORTAL == 0 {
        return Ok(0);
    }
    let gc = py.import("gc")?;
    let kinds = Kinds::new(py)?;
    let mut known: HashSet<usize> = HashSet::new();
    let mut made = 0;
    let mut next = gc.getattr("get_objects")?.call0()?.cast_into::<PyList>()?;
    while !next.is_empty() {
        let (new, parts) = (PyList::empty(py), PyList::empty(py));
        for object in &next {
            if known.insert(object.as_ptr().addr()) {
                kinds.append_parts(&object, &parts)?;
                made += usize::from(kinds.last(&object) && make_one(&object, count));
                new.append(object)?;
            }
        }
        // The collector names what an object holds.
        let held = gc.getattr("get_referents")?.call1(new.to_tuple())?;
        parts.call_method1("extend", (held,))?;
        next = parts;
    }
    Ok(made)
}

/// Gives an object the count of an immortal one, unless it has such a count.
#[allow(unsafe_code, reason = "the count of an object makes it immortal")]
fn make_one(object: &Bound<'_, PyAny>, count: u32) -> bool {
    let place = count_of(object);
    // SAFETY: the object is alive, its first half of a count is there, and this thread holds the interpreter's lock: nobody else
    // writes to it. An interpreter that knows immortal objects takes any object with this count for one.
    unsafe {
        if place.read() & IMMORTAL != 0 {
            return false;
        }
        place.write(count);
    }
    true
}

/// Where the first half of an object's count is: the interpreter looks at that alone. Regrow runs on machines where it comes first.
fn count_of(object: &Bound<'_, PyAny>) -> *mut u32 {
    object.as_ptr().cast()
}

/// The types that are told apart.
struct Kinds<'py> {
    lasting: Vec<Bound<'py, PyAny>>,
    code: Bound<'py, PyAny>,
}

impl<'py> Kinds<'py> {
    fn new(py: Python<'py>) -> PyResult<Self> {
        let homes = [py.import("types")?, py.import("builtins")?];
        let find = |name: &&str| homes.iter().find_map(|home| home.getattr(*name).ok());
        Ok(Self { lasting: LASTING.iter().filter_map(find).collect(), code: homes[0].getattr("CodeType")? })
    }

    /// Whether an object is to be immortal.
    fn last(&self, object: &Bound<'py, PyAny>) -> bool {
        if let Ok(tuple) = object.cast_exact::<PyTuple>() {
            return tuple.iter().all(|item| is_value(&item) || item.is_instance_of::<PyType>());
        }
        let kind = object.get_type();
        is_value(object) || object.is_instance_of::<PyType>() || self.lasting.iter().any(|one| kind.is(one))
    }

    /// Appends the parts of a code object to a list.
    fn append_parts(&self, object: &Bound<'py, PyAny>, to: &Bound<'py, PyList>) -> PyResult<()> {
        if object.get_type().is(&self.code) {
            for name in OF_CODE {
                to.append(object.getattr(*name)?)?;
            }
        }
        Ok(())
    }
}

/// Whether an object is a value that holds nothing else.
fn is_value(object: &Bound<'_, PyAny>) -> bool {
    object.is_none()
        || object.is_exact_instance_of::<PyString>()
        || object.is_exact_instance_of::<PyBytes>()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyComplex>()
        || object.is_exact_instance_of::<PyBool>()
}
