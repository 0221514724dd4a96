//! What the run of a call has left to be done at its end: threads, functions to be called, objects with something to lose.
//!
//! The front end's own end runs all of that. Most calls leave nothing, and a look at that takes less than the way through it.
//! Whatever is not known to be nothing is something.

use std::collections::HashMap;
use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyType};

use crate::errors::lock;

/// Types in C, beside those of exceptions, whose objects can be left at the end: no content of theirs is still to be written. Names in
/// `types`, `builtins` or the module that stands before the dot.
const HARMLESS: &[&str] = &[
    "object",
    "bytes",
    "bytearray",
    "str",
    "int",
    "float",
    "complex",
    "range",
    "datetime.date",
    "datetime.datetime",
    "datetime.time",
    "datetime.timedelta",
    "datetime.timezone",
    "decimal.Decimal",
    "dict",
    "list",
    "tuple",
    "set",
    "frozenset",
    "type",
    "property",
    "staticmethod",
    "classmethod",
    "super",
    "enumerate",
    "zip",
    "map",
    "filter",
    "reversed",
    "slice",
    "memoryview",
    "FunctionType",
    "BuiltinFunctionType",
    "MethodType",
    "CellType",
    "ModuleType",
    "MappingProxyType",
    "FrameType",
    "TracebackType",
    "GetSetDescriptorType",
    "MemberDescriptorType",
    "WrapperDescriptorType",
    "MethodWrapperType",
    "MethodDescriptorType",
    "ClassMethodDescriptorType",
    "SimpleNamespace",
    "GenericAlias",
    "UnionType",
    "collections.deque",
    "collections.defaultdict",
    "collections.OrderedDict",
    "functools.partial",
    "functools._lru_cache_wrapper",
    "functools._CacheInfo",
    "operator.itemgetter",
    "operator.attrgetter",
    "operator.methodcaller",
    "_weakref.ReferenceType",
    "_weakref.ProxyType",
    "re.Pattern",
    "re.Match",
    "_io.BytesIO",
    "_io.StringIO",
    "_pickle.Pickler",
    "_pickle.Unpickler",
    "_json.make_scanner",
    "_json.make_encoder",
    "_struct.Struct",
    "_thread.LockType",
    "_thread.RLock",
    "_abc._abc_data",
    "_contextvars.Context",
    "_contextvars.Token",
    "_contextvars.ContextVar",
    "_decimal.Context",
    "array.array",
    "itertools.count",
    "itertools.chain",
    "itertools.repeat",
    "itertools.cycle",
    "itertools.islice",
];
/// Handlers of `logging` that hold nothing back.
const HANDLERS: &[&str] = &["NullHandler", "StreamHandler", "_StderrHandler"];
/// Those of pytest: they keep records for a report, or have a file, which an open file shows.
const HANDLERS_OF_PYTEST: &[&str] = &["LogCaptureHandler", "_LiveLoggingNullHandler", "_FileHandler"];
/// What a run can add to that is looked at, or called, at the end: functions, handlers, children, filters of warnings.
const COLLECTIONS: &[(&str, &str)] = &[
    ("logging", "_handlerList"),
    ("threading", "_threading_atexits"),
    ("multiprocessing.util", "_finalizer_registry"),
    ("multiprocessing.process", "_children"),
    ("warnings", "filters"),
];
/// A type that is made and freed at run time (`Py_TPFLAGS_HEAPTYPE`).
const HEAP_TYPE: u64 = 1 << 9;

/// What there was before the run, and which types are harmless.
pub(crate) struct Left {
    get_objects: Py<PyAny>,
    count_threads: Py<PyAny>,
    count_exit_functions: Py<PyAny>,
    /// How many functions are called at the end, where all of them are known; none where others are among them.
    exit_functions: Option<usize>,
    /// Each with what it held.
    collections: Vec<Collection>,
    types: Mutex<HashMap<usize, bool>>,
    /// How an object of a class in Python is freed.
    frees_plain: usize,
}

/// A collection of a module, that ends with the process or is of its end.
struct Collection {
    module: &'static str,
    name: &'static str,
    /// The collection and what it held; none where the module was not loaded.
    held: Option<(Py<PyAny>, Py<PyAny>)>,
}

impl Collection {
    fn prepared(modules: &Bound<'_, PyDict>, module: &'static str, name: &'static str) -> PyResult<Self> {
        let mut this = Self { module, name, held: None };
        if let Some(found) = this.found_in(modules)? {
            let copy = found.call_method0("copy")?.unbind();
            this.held = Some((found.unbind(), copy));
        }
        Ok(this)
    }

    fn found_in<'py>(&self, modules: &Bound<'py, PyDict>) -> PyResult<Option<Bound<'py, PyAny>>> {
        modules.get_item(self.module)?.map(|module| module.getattr(self.name)).transpose()
    }

    /// Whether it holds what it held. The comparison looks at addresses first, and so writes to nothing.
    fn is_as_before(&self, modules: &Bound<'_, PyDict>) -> PyResult<bool> {
        match &self.held {
            // Of filters of warnings there is another list while they are caught.
            Some((now, before)) => Ok(now.bind(modules.py()).eq(before)?
                && (self.name != "filters" || self.found_in(modules)?.is_some_and(|found| found.is(now)))),
            None => Ok(!modules.contains(self.module)?),
        }
    }
}

impl Left {
    /// Notes what there is before the run.
    pub(crate) fn prepared(py: Python<'_>) -> PyResult<Self> {
        let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
        let count_exit_functions = py.import("atexit")?.getattr("_ncallbacks")?;
        let here: usize = count_exit_functions.call0()?.extract()?;
        // The worker's own, and that of either module.
        let known = 1
            + usize::from(modules.contains("logging")?)
            + usize::from(modules.contains("multiprocessing.util")?);
        let plain = py.get_type::<PyType>().call1(("Plain", (), PyDict::new(py)))?.cast_into::<PyType>()?;
        let mut types = HashMap::new();
        for name in HARMLESS {
            if let Some(found) = type_by_name(py, name) {
                types.insert(address(&found), true);
            }
        }
        let all_known = here == known
            && handlers_are_known(&modules)?
            && thread_exit_functions_are_known(&modules)?
            && !has_children(&modules)?;
        let collections =
            COLLECTIONS.iter().map(|(module, name)| Collection::prepared(&modules, module, name));
        Ok(Self {
            get_objects: py.import("gc")?.getattr("get_objects")?.unbind(),
            count_threads: py.import("_thread")?.getattr("_count")?.unbind(),
            count_exit_functions: count_exit_functions.unbind(),
            exit_functions: all_known.then_some(here),
            collections: collections.collect::<PyResult<_>>()?,
            types: Mutex::new(types),
            frees_plain: how_freed(&plain),
        })
    }

    /// Whether the run has left nothing to be done. Open files and threads are something; the standard streams, which are flushed,
    /// are not.
    pub(crate) fn is_nothing(
        &self,
        py: Python<'_>,
        modules: &Bound<'_, PyDict>,
        streams: &Bound<'_, PyList>,
    ) -> PyResult<bool> {
        let count = |counted: &Py<PyAny>| counted.bind(py).call0()?.extract::<usize>();
        if count(&self.count_threads)? != 0 || Some(count(&self.count_exit_functions)?) != self.exit_functions
        {
            return Ok(false);
        }
        for collection in &self.collections {
            if !collection.is_as_before(modules)? {
                return Ok(false);
            }
        }
        let mut of_streams = None;
        // What was prepared is frozen, and not among these.
        for object in self.get_objects.bind(py).call0()?.cast_into::<PyList>()? {
            // Most are of few types: nothing is asked of these again, which would write to each of them.
            let known = lock(&self.types).get(&(object.get_type_ptr() as usize)).copied();
            let is_harmless = known.map_or_else(|| self.is_harmless(&object.get_type()), Ok)?;
            if !is_harmless
                && !of_streams.get_or_insert_with(|| parts(streams)).contains(&(object.as_ptr() as usize))
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether nothing is lost with an object of this type.
    fn is_harmless(&self, of: &Bound<'_, PyType>) -> PyResult<bool> {
        let harmless = !of.hasattr("__del__")? && self.has_harmless_bases(of)?;
        lock(&self.types).insert(address(of), harmless);
        Ok(harmless)
    }

    /// Whether all that a type is made of is either a class in Python, or known.
    fn has_harmless_bases(&self, of: &Bound<'_, PyType>) -> PyResult<bool> {
        for base in of.mro() {
            let base = base.cast_into::<PyType>()?;
            let in_python = flags(&base)? & HEAP_TYPE != 0 && how_freed(&base) == self.frees_plain;
            let known = lock(&self.types).get(&address(&base)).copied();
            let is_exception = || base.is_subclass_of::<pyo3::exceptions::PyBaseException>();
            if !(in_python || known == Some(true) || is_exception()?) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The objects that the standard streams consist of, by their addresses.
fn parts(streams: &Bound<'_, PyList>) -> Vec<usize> {
    let mut parts = Vec::new();
    for stream in streams {
        // A stream that is closed or detached has fewer.
        let text = stream.getattr("text").ok();
        let buffers =
            [stream.getattr("replaced").ok(), text.as_ref().and_then(|text| text.getattr("buffer").ok())];
        let raws = buffers.clone().map(|buffer| buffer?.getattr("raw").ok());
        parts.extend(
            [text].into_iter().chain(buffers).chain(raws).flatten().map(|part| part.as_ptr() as usize),
        );
    }
    parts
}

fn address(of: &Bound<'_, PyType>) -> usize {
    of.as_ptr() as usize
}

fn flags(of: &Bound<'_, PyType>) -> PyResult<u64> {
    of.getattr("__flags__")?.extract()
}

/// The function that frees objects of a heap type, as a number.
#[allow(unsafe_code, reason = "a type tells by this slot alone whether it is a class in Python")]
fn how_freed(of: &Bound<'_, PyType>) -> usize {
    // SAFETY: the type is alive, and a heap type, which every version answers for: `flags` was asked before, or it is a class that
    // was just made. The function is not called.
    unsafe { pyo3::ffi::PyType_GetSlot(of.as_type_ptr(), pyo3::ffi::Py_tp_dealloc) as usize }
}

/// A type by its name; none where this version of Python has none.
fn type_by_name<'py>(py: Python<'py>, name: &str) -> Option<Bound<'py, PyType>> {
    let found = match name.split_once('.') {
        Some((module, name)) => py.import(module).and_then(|module| module.getattr(name)),
        None => py
            .import("builtins")
            .and_then(|module| module.getattr(name))
            .or_else(|_| py.import("types")?.getattr(name)),
    };
    found.ok()?.cast_into::<PyType>().ok()
}

/// Whether no handler of `logging` holds something back.
fn handlers_are_known(modules: &Bound<'_, PyDict>) -> PyResult<bool> {
    let Some(logging) = modules.get_item("logging")? else { return Ok(true) };
    let of_pytest = modules.get_item("_pytest.logging")?;
    for reference in logging.getattr("_handlerList")?.cast_into::<PyList>()? {
        let handler = reference.call0()?;
        // One of the same name can be another class.
        let is_one = |home: &Bound<'_, PyAny>, names: &[&str]| {
            names.iter().any(|name| home.getattr(*name).is_ok_and(|known| handler.get_type().is(&known)))
        };
        let is_known = is_one(&logging, HANDLERS)
            || of_pytest.as_ref().is_some_and(|home| is_one(home, HANDLERS_OF_PYTEST));
        if !handler.is_none() && !is_known {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether `threading` calls no functions at the end but those of `concurrent.futures`, which wait for threads.
fn thread_exit_functions_are_known(modules: &Bound<'_, PyDict>) -> PyResult<bool> {
    let Some(threading) = modules.get_item("threading")? else { return Ok(true) };
    for function in threading.getattr("_threading_atexits")?.cast_into::<PyList>()? {
        let function = function.getattr("func").unwrap_or(function);
        let home = function.getattr("__module__")?.to_string();
        if !home.starts_with("concurrent.futures") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether `multiprocessing` has children to wait for, or something to finish.
fn has_children(modules: &Bound<'_, PyDict>) -> PyResult<bool> {
    let is_filled = |module: &str, name: &str| match modules.get_item(module)? {
        Some(module) => module.getattr(name)?.is_truthy(),
        None => Ok(false),
    };
    Ok(is_filled("multiprocessing.util", "_finalizer_registry")?
        || is_filled("multiprocessing.process", "_children")?)
}
