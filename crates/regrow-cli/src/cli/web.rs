//! The arguments of `regrow web`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueHint};

/// What `regrow web --help` ends with.
const EXAMPLES: &str = "\
Each error of a client or a script has its status: 400 and 403, 404 (no such script), 408 (the request does not come), 413, 431,
500 (no process starts), 502 (the reply has no head), 503 (too many requests), 504 (the script takes too long). On SIGTERM the
gateway answers the requests that it has begun, and ends; on SIGUSR1 it opens the log again, and on SIGHUP it
also makes anew what it keeps.

Examples:
  regrow web /srv/cgi                                        the scripts of a folder, at http://127.0.0.1:8080/
  regrow web --fastcgi unix:/run/regrow-web.sock --socket-group www-data /srv/cgi
                                                             the same, behind nginx or Apache
  regrow web --program -- /usr/share/gitweb/gitweb.cgi       one CGI program for all paths
  regrow web --function -- python3 handler.py                a function: the body goes in, the reply comes out
  regrow web --wsgi app:application --directory /srv/app     a Python application, imported once";

/// The arguments of `regrow web`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("content").args(["program", "function", "wsgi", "asgi"]))]
pub(crate) struct WebArgs {
    /// Serve one CGI program for all paths: what follows --
    #[arg(long, requires = "words")]
    pub(crate) program: bool,

    /// Serve a function: what follows --, or else the variable fprocess; the contract is that of OpenFaaS's classic watchdog
    #[arg(long)]
    pub(crate) function: bool,

    /// Serve a Python application by WSGI
    #[arg(long, value_name = "MODULE:NAME")]
    pub(crate) wsgi: Option<String>,

    /// Serve a Python application by ASGI
    #[arg(long, value_name = "MODULE:NAME")]
    pub(crate) asgi: Option<String>,

    /// The interpreter of a Python application
    #[arg(long, value_name = "FILE", default_value = "/usr/bin/python3", value_hint = ValueHint::FilePath)]
    pub(crate) python: PathBuf,

    /// The folder of a Python application: it starts there, and finds its modules there first
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,

    /// Speak HTTP/1.1 and HTTP/2 (without TLS) at an address; port 0: any free port
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) http: Vec<SocketAddr>,

    /// Speak FastCGI at a socket (unix:PATH) or an address
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) fastcgi: Vec<String>,

    /// The owner of the sockets of --fastcgi: a user's name or number
    #[arg(long, value_name = "USER")]
    pub(crate) socket_owner: Option<String>,

    /// The group of the sockets of --fastcgi: that of the web server, as www-data
    #[arg(long, value_name = "GROUP")]
    pub(crate) socket_group: Option<String>,

    /// The mode of the sockets of --fastcgi; without it 0660 for one with an owner or a group of its own, else what the umask leaves
    #[arg(long, value_name = "OCTAL", value_parser = mode)]
    pub(crate) socket_mode: Option<u32>,

    /// Serve /metrics in the format of Prometheus at an address
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) metrics: Option<SocketAddr>,

    /// Write a line for each request, in the common log format; - is standard output
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) access_log: Option<PathBuf>,

    /// Give every process a variable; without a value, the gateway's own
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<String>,

    /// Modules that Perl scripts find loaded; a name with ? may be missing
    #[arg(long, value_name = "MODULES", value_delimiter = ',', default_value = "strict,warnings,CGI?")]
    pub(crate) perl_modules: Vec<String>,

    /// Modules that Python scripts find imported
    #[arg(long, value_name = "MODULES", value_delimiter = ',')]
    pub(crate) python_modules: Vec<String>,

    /// Compile each Perl script once, too: its BEGIN blocks and its modules do not run again in every run
    #[arg(long)]
    pub(crate) warm_script: bool,

    /// Serve even if the application cannot be imported, or the program is not there; every request gets an error until that changes
    #[arg(long)]
    pub(crate) start_anyway: bool,

    /// Execute every process instead of recycling it
    #[arg(long)]
    pub(crate) no_recycle: bool,

    /// The policy that decides what the gateway keeps: none, recycle, recycle-one, pool or adaptive
    #[arg(long, value_name = "NAME", default_value = "adaptive")]
    pub(crate) policy: regrow_pool::policy::PolicyChoice,

    /// Which requests share a body: always (all of one program), script (those of one script), or never (each has its own)
    #[arg(long, value_name = "WHEN", default_value = "always")]
    pub(crate) reuse: regrow::Reuse,

    /// Compare one body in N runs with its image, while no run is in it; 0: none
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) spot_checks: u32,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,

    /// The folder of scripts
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["content", "words"])]
    pub(crate) folder: Option<PathBuf>,

    /// The program or the function, and its arguments
    #[arg(value_name = "PROG ARGS", last = true)]
    pub(crate) words: Vec<OsString>,
}

/// The limits of everything that grows or waits.
#[derive(Debug, Args)]
pub(crate) struct LimitArgs {
    /// How many requests have a process at a time
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_requests: u32,

    /// How many requests wait for their turn; those beyond get 503
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) max_queue: u32,

    /// How long a request waits for its turn
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) queue_timeout: Duration,

    /// How long a process may take
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) timeout: Duration,

    /// How long a client may take to send the head of a request
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(crate) header_timeout: Duration,

    /// How long a client may neither send nor take anything
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) idle_timeout: Duration,

    /// The largest body of a request: bytes, or a number with K, M or G
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_body: Option<u64>,

    /// The largest head of a request
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = size)]
    pub(crate) max_header: u64,

    /// The largest address space of a process
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory: Option<u64>,

    /// How many connections by HTTP are open at a time; those beyond wait
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections: u32,

    /// How many connections by FastCGI are open at a time; those beyond wait
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_fastcgi_connections: u32,

    /// How many connections to the metrics are open at a time; those beyond wait
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_metrics_connections: u32,

    /// How long requests may still take when the gateway stops
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(crate) grace: Duration,
}

/// A time in seconds, with a fraction where there is one.
fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "is no time in seconds".to_owned();
    text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(wrong)
}

/// The mode of a file, in octal.
fn mode(text: &str) -> Result<u32, String> {
    let wrong = || "is no mode: an octal number up to 0777".to_owned();
    let is_octal = text.bytes().all(|byte| byte.is_ascii_digit());
    u32::from_str_radix(text, 8).ok().filter(|&mode| is_octal && mode <= 0o777).ok_or_else(wrong)
}

/// A number of bytes, with a unit of 1024 where there is one.
fn size(text: &str) -> Result<u64, String> {
    let shift = match text.bytes().last() {
        Some(b'K' | b'k') => 10,
        Some(b'M' | b'm') => 20,
        Some(b'G' | b'g') => 30,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    let wrong = || "is no size: a number, with K, M or G behind it".to_owned();
    digits.parse().ok().and_then(|number: u64| number.checked_mul(1 << shift)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_times_and_modes_are_read_or_refused() {
        assert_eq!((size("7"), size("64K"), size("4G")), (Ok(7), Ok(65536), Ok(4 << 30)));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!((mode("0660"), mode("600")), (Ok(0o660), Ok(0o600)));
        for wrong in ["", "rw", "8", "+660", "1777"] {
            assert!(mode(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "K", "-1", "1T", "99999999999G"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "x", "-1", "1e99", "nan"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
