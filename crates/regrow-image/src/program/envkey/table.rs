//! The variables themselves. The guide's table is made from this one.

use super::variable::{Effect, KeyVariable, Pattern};

use Effect::{Acts, State};
use Pattern::{Name, Prefix};

const GLIBC_LOADER: &str = "the loader of glibc";
const SANITIZERS: &str = "the runtime of a sanitizer";

const fn row(pattern: Pattern, effect: Effect, who_reads: &'static str, why: &'static str) -> KeyVariable {
    KeyVariable { pattern, who_reads, why, effect }
}

/// What is read before `main` without being asked for by `getenv`, and what the most common
/// constructors ask for. The first row that matches a name explains it; [`Effect::Acts`] holds if
/// any row that matches says so.
pub const KEY_VARIABLES: &[KeyVariable] = &[
    row(Name("LD_LIBRARY_PATH"), State, "every loader", "where libraries are searched"),
    row(Name("LD_PRELOAD"), State, "every loader", "libraries that are loaded first"),
    row(Name("LD_BIND_NOW"), State, GLIBC_LOADER, "binds all functions at start"),
    row(Name("LD_AUDIT"), Acts, GLIBC_LOADER, "runs auditing libraries while it loads and binds"),
    row(Name("LD_DEBUG"), Acts, GLIBC_LOADER, "prints what it does"),
    row(Name("LD_DEBUG_OUTPUT"), Acts, GLIBC_LOADER, "prints it to a file named after the process"),
    row(Name("LD_PROFILE"), Acts, GLIBC_LOADER, "maps a profile file shared and counts calls in it"),
    row(Name("LD_PROFILE_OUTPUT"), Acts, GLIBC_LOADER, "where that profile is"),
    row(Name("LD_SHOW_AUXV"), Acts, GLIBC_LOADER, "prints the auxiliary vector"),
    row(Name("LD_TRACE_LOADED_OBJECTS"), Acts, GLIBC_LOADER, "lists libraries and ends, as `ldd` does"),
    row(Name("LD_VERBOSE"), Acts, GLIBC_LOADER, "adds versions to that list"),
    row(Name("LD_WARN"), Acts, GLIBC_LOADER, "warns of undefined symbols"),
    row(
        Prefix("LD_"),
        State,
        "every loader",
        "all other settings: `LD_BIND_NOT`, `LD_DYNAMIC_WEAK`, `LD_HWCAP_MASK`, `LD_ORIGIN_PATH`, …",
    ),
    row(Name("GLIBC_TUNABLES"), State, "glibc", "memory allocation, string functions, TLS, rseq, stacks"),
    row(
        Prefix("MALLOC_"),
        State,
        "glibc, jemalloc",
        "glibc's older names of tunables (`MALLOC_ARENA_MAX`, `MALLOC_PERTURB_`, …), `MALLOC_CONF`",
    ),
    row(
        Name("_RJEM_MALLOC_CONF"),
        State,
        "jemalloc in Rust programs",
        "its settings, at the first allocation",
    ),
    row(
        Name("JE_MALLOC_CONF"),
        State,
        "jemalloc built with a prefix",
        "its settings, at the first allocation",
    ),
    row(Prefix("MIMALLOC_"), State, "mimalloc", "its settings, when it is loaded"),
    row(Prefix("mimalloc_"), State, "mimalloc", "the same: it takes lower case too"),
    row(Prefix("TCMALLOC_"), State, "tcmalloc", "its settings, at the first allocation"),
    row(Name("MALLOCSTATS"), State, "tcmalloc", "prints statistics at the end"),
    row(Prefix("HEAPPROFILE"), Acts, "tcmalloc", "starts to write a heap profile"),
    row(Prefix("HEAPCHECK"), Acts, "tcmalloc", "starts the heap checker"),
    row(Prefix("CPUPROFILE"), Acts, "gperftools", "starts to write a profile"),
    row(Prefix("PERFTOOLS_"), State, "gperftools", "its settings"),
    row(Name("SCUDO_OPTIONS"), State, "the Scudo allocator", "its settings"),
    row(Name("GLIBCXX_TUNABLES"), State, "libstdc++", "size of the pool for exceptions, in a constructor"),
    row(Name("OMP_DISPLAY_ENV"), Acts, "OpenMP", "prints all settings in a constructor"),
    row(Name("KMP_SETTINGS"), Acts, "OpenMP of LLVM", "prints all settings"),
    row(Name("KMP_VERSION"), Acts, "OpenMP of LLVM", "prints its version"),
    row(Prefix("OMP_"), State, "OpenMP", "number and places of threads; libgomp reads it in a constructor"),
    row(Prefix("GOMP_"), State, "OpenMP of GCC", "places, spinning and stacks of threads, in a constructor"),
    row(Prefix("KMP_"), State, "OpenMP of LLVM", "its settings"),
    row(Prefix("ACC_"), State, "OpenACC of GCC", "the device, in a constructor"),
    row(Prefix("GOACC_"), State, "OpenACC of GCC", "dimensions, in a constructor"),
    row(Name("OPENSSL_ia32cap"), State, "libcrypto", "processor features, in a constructor"),
    row(Name("OPENSSL_armcap"), State, "libcrypto", "processor features on ARM, in a constructor"),
    row(Name("OPENSSL_ppccap"), State, "libcrypto", "processor features on POWER, in a constructor"),
    row(Name("OPENSSL_s390xcap"), State, "libcrypto", "processor features on s390x, in a constructor"),
    row(Name("OPENSSL_riscvcap"), State, "libcrypto", "processor features on RISC-V, in a constructor"),
    row(Name("GNUTLS_DEBUG_LEVEL"), Acts, "GnuTLS", "prints what it does, from its constructor on"),
    row(Prefix("GNUTLS_"), State, "GnuTLS", "its global start, in a constructor"),
    row(Name("NETTLE_FAT_VERBOSE"), Acts, "nettle", "prints the functions it chooses, in a constructor"),
    row(Prefix("NETTLE_"), State, "nettle", "functions for the processor, in a constructor"),
    row(Name("P11_KIT_DEBUG"), Acts, "p11-kit", "prints what it does, from its constructor on"),
    row(Prefix("P11_KIT_"), State, "p11-kit", "strictness, in a constructor"),
    row(Prefix("OPENBLAS_"), State, "OpenBLAS", "threads and processor, in a constructor"),
    row(Name("ASAN_OPTIONS"), Acts, SANITIZERS, "checks, verbosity, log files"),
    row(Name("LSAN_OPTIONS"), Acts, SANITIZERS, "checks, verbosity, log files"),
    row(Name("UBSAN_OPTIONS"), Acts, SANITIZERS, "checks, verbosity, log files"),
    row(Name("TSAN_OPTIONS"), Acts, SANITIZERS, "checks, verbosity, log files"),
    row(Name("MSAN_OPTIONS"), Acts, SANITIZERS, "checks, verbosity, log files"),
    row(Name("HWASAN_OPTIONS"), Acts, SANITIZERS, "checks, verbosity, log files"),
    row(
        Name("LLVM_PROFILE_FILE"),
        Acts,
        "LLVM's profile runtime",
        "opens or names the profile of the process",
    ),
    row(Prefix("GCOV_"), State, "gcov", "where counts are written at the end"),
];

/// What glibc withholds from set-user-id programs but reads on demand, after `main`.
pub const LATE_VARIABLES: &[KeyVariable] = &[
    row(Name("GCONV_PATH"), State, "glibc", "conversion modules, at the first `iconv_open` or wide stream"),
    row(Name("GETCONF_DIR"), State, "glibc", "`sysconf` of programming environments"),
    row(Name("HOSTALIASES"), State, "glibc", "each host look-up"),
    row(Name("LOCALDOMAIN"), State, "glibc", "the first host look-up of a thread"),
    row(Name("LOCPATH"), State, "glibc", "`setlocale` and `newlocale`"),
    row(Name("NIS_PATH"), State, "libnsl", "look-ups in NIS+"),
    row(Name("NLSPATH"), State, "glibc", "`catopen`"),
    row(Name("RESOLV_HOST_CONF"), State, "glibc", "the first host look-up"),
    row(Name("RES_OPTIONS"), State, "glibc", "the first host look-up of a thread"),
    row(Name("TMPDIR"), State, "glibc", "`tempnam`"),
    row(Name("TZDIR"), State, "glibc", "the first use of local time"),
    row(Name("TZ"), State, "every C library", "the first use of local time"),
    row(Prefix("LC_"), State, "every C library", "`setlocale`"),
    row(Name("LANG"), State, "every C library", "`setlocale`"),
    row(Name("OPENSSL_CONF"), State, "libcrypto", "its start on demand"),
    row(Prefix("RUST_"), State, "Rust's standard library", "stack sizes and backtraces, on demand"),
    row(
        Prefix("GO"),
        State,
        "Go's runtime",
        "after entry, from its own initial stack: Go programs are kept at `entry`",
    ),
];
