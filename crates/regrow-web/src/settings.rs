//! What a gateway serves, where, and within which limits.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use regrow::Policy;

/// What answers requests.
#[derive(Debug, Clone)]
pub enum Content {
    /// The scripts of a folder, each by its path.
    Directory(PathBuf),
    /// One CGI program for all paths: its name, then its arguments.
    Program(Vec<OsString>),
    /// A function: the request's body goes in, the reply's comes out.
    Function(Function),
    /// A Python application.
    Application(Application),
}

/// A function, by the contract of the classic watchdog of OpenFaaS.
#[derive(Debug, Clone)]
pub struct Function {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The type of the replies, where it is not the request's.
    pub content_type: Option<String>,
    /// Whether what the program writes to its standard error is part of the reply.
    pub combine_output: bool,
    /// The file that is there as long as requests may come (`/_/health` says so).
    pub lock: PathBuf,
    /// Whether that file is made by others.
    pub suppress_lock: bool,
}

/// A Python application that is imported once, in an image.
#[derive(Debug, Clone)]
pub struct Application {
    /// The interpreter.
    pub python: PathBuf,
    /// Which interface it has.
    pub interface: Interface,
    /// Where it is: `MODULE:NAME`.
    pub name: String,
    /// The folder that its modules are looked for in first.
    pub directory: PathBuf,
}

/// The interface of a Python application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    /// PEP 3333.
    Wsgi,
    /// ASGI 3.
    Asgi,
}

impl Interface {
    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Interface::Wsgi => "wsgi",
            Interface::Asgi => "asgi",
        }
    }
}

/// Where FastCGI is spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FastCgiAddress {
    /// A socket in the file system.
    Unix(PathBuf),
    /// An address and a port.
    Tcp(SocketAddr),
}

/// The bounds of everything that grows or waits.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Requests that are answered at a time.
    pub requests: usize,
    /// Requests that may wait for their turn.
    pub queue: usize,
    /// How long they wait.
    pub queue_timeout: Duration,
    /// How long a process may take.
    pub run_timeout: Duration,
    /// How long a client may take to send the head of a request.
    pub header_timeout: Duration,
    /// How long a client may neither take nor send anything while it should.
    pub idle_timeout: Duration,
    /// The largest body of a request, in bytes.
    pub body_bytes: Option<u64>,
    /// The largest head of a request, in bytes.
    pub header_bytes: usize,
    /// The largest address space of a process, in bytes.
    pub memory_bytes: Option<u64>,
    /// Connections that are open at a time.
    pub connections: usize,
    /// How long requests that are under way may take when the gateway is told to stop.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests: 32,
            queue: 256,
            queue_timeout: Duration::from_secs(10),
            run_timeout: Duration::from_secs(60),
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            body_bytes: None,
            header_bytes: 64 * 1024,
            memory_bytes: None,
            connections: 4096,
            grace: Duration::from_secs(30),
        }
    }
}

/// All that a gateway is told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What answers.
    pub content: Content,
    /// Where HTTP is spoken.
    pub http: Vec<SocketAddr>,
    /// Where FastCGI is spoken.
    pub fastcgi: Vec<FastCgiAddress>,
    /// Where the metrics are served.
    pub metrics: Option<SocketAddr>,
    /// The file that a line for each request is written to.
    pub access_log: Option<PathBuf>,
    /// The bounds.
    pub limits: Limits,
    /// Variables that every process is given beside those of its request.
    pub variables: Vec<(OsString, OsString)>,
    /// Modules of Perl that are loaded ahead; with `?` behind a name, if it is there.
    pub perl_modules: Vec<String>,
    /// Modules of Python that are imported ahead.
    pub python_modules: Vec<String>,
    /// Whether Perl scripts are compiled ahead too.
    pub compile: bool,
    /// Whether processes are recycled; else each is executed.
    pub recycle: bool,
    /// What decides which processes are kept.
    pub policy: Policy,
}

impl Settings {
    /// The settings that serve something, nowhere as yet.
    #[must_use]
    pub fn new(content: Content) -> Self {
        Self {
            content,
            http: Vec::new(),
            fastcgi: Vec::new(),
            metrics: None,
            access_log: None,
            limits: Limits::default(),
            variables: Vec::new(),
            perl_modules: ["strict", "warnings", "CGI?"].map(str::to_owned).to_vec(),
            python_modules: Vec::new(),
            compile: false,
            recycle: true,
            policy: Policy::default(),
        }
    }
}
