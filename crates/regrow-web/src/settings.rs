//! What a gateway serves, where it listens, and its limits.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use regrow::{Policy, Reuse};

/// What answers requests.
#[derive(Debug, Clone)]
pub enum Content {
    /// The scripts of a folder. The path of a request names the script.
    Directory(PathBuf),
    /// One CGI program for all paths: its name, then its arguments.
    Program(Vec<OsString>),
    /// A function: it reads the body of the request and writes the body of the reply.
    Function(FunctionSettings),
    /// A Python application.
    Application(ApplicationSettings),
}

impl Content {
    /// Whether the exit status of a process says if its reply is whole. Web servers ignore the exit status of a CGI script.
    pub(crate) fn fails_by_status(&self) -> bool {
        matches!(self, Content::Function(_) | Content::Application(_))
    }

    /// The function, if the gateway serves one.
    pub(crate) fn function(&self) -> Option<&FunctionSettings> {
        match self {
            Content::Function(function) => Some(function),
            _ => None,
        }
    }
}

/// A function, by the contract of the classic watchdog of OpenFaaS.
#[derive(Debug, Clone)]
pub struct FunctionSettings {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The content type of all replies. Without it a reply has the content type of its request.
    pub content_type: Option<String>,
    /// Whether the standard error of the program is part of the reply.
    pub combine_output: bool,
    /// The lock file: `/_/health` answers OK while it exists.
    pub lock: PathBuf,
    /// Whether somebody else makes the lock file.
    pub suppress_lock: bool,
}

/// A Python application. An image holds the interpreter that has imported it.
#[derive(Debug, Clone)]
pub struct ApplicationSettings {
    /// The interpreter.
    pub python: PathBuf,
    /// The interface of the application.
    pub interface: PythonInterface,
    /// The name of the application: `MODULE:NAME`.
    pub name: String,
    /// The first folder in which Python looks for modules.
    pub directory: PathBuf,
}

/// The interface between a Python application and its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PythonInterface {
    /// PEP 3333.
    Wsgi,
    /// ASGI 3.
    Asgi,
}

impl PythonInterface {
    /// The name, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PythonInterface::Wsgi => "wsgi",
            PythonInterface::Asgi => "asgi",
        }
    }
}

/// Where the gateway speaks FastCGI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FastCgiAddress {
    /// A socket in the file system.
    Unix(PathBuf),
    /// An address and a port.
    Tcp(SocketAddr),
}

/// Whose the sockets in the file system are, and who may connect: whoever may write to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketRights {
    /// The id of the owner. Without it the owner is the gateway's user.
    pub owner: Option<u32>,
    /// The id of the group. Without it the group is the gateway's.
    pub group: Option<u32>,
    /// The mode, whatever the umask is. Without it the mode is 0660 for a socket with an owner or a group of its own; for others the
    /// umask decides.
    pub mode: Option<u32>,
}

impl SocketRights {
    /// Whether somebody has said whose the sockets are.
    pub(crate) fn is_somebodys(&self) -> bool {
        self.owner.is_some() || self.group.is_some()
    }
}

/// The limits of everything that grows or waits.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The most requests that have a process at a time.
    pub requests: usize,
    /// The most requests that wait for a process.
    pub queue: usize,
    /// The longest time that a request waits for a process.
    pub queue_timeout: Duration,
    /// The longest time that a process takes.
    pub run_timeout: Duration,
    /// The longest time that a client takes to send the head of a request.
    pub header_timeout: Duration,
    /// The longest pause of a client that should send or receive something.
    pub idle_timeout: Duration,
    /// The largest body of a request, in bytes.
    pub body_bytes: Option<u64>,
    /// The largest head of a request, in bytes.
    pub header_bytes: usize,
    /// The largest address space of a process, in bytes.
    pub memory_bytes: Option<u64>,
    /// The most connections by HTTP that are open at a time.
    pub connections: usize,
    /// The most connections by FastCGI that are open at a time.
    pub fastcgi_connections: usize,
    /// The most connections to the metrics that are open at a time.
    pub metrics_connections: usize,
    /// How long the gateway waits for running requests when it is told to stop.
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
            fastcgi_connections: 1024,
            metrics_connections: 16,
            grace: Duration::from_secs(30),
        }
    }
}

/// All settings of a gateway.
#[derive(Debug, Clone)]
pub struct GatewaySettings {
    /// What answers requests.
    pub content: Content,
    /// Where the gateway speaks HTTP.
    pub http: Vec<SocketAddr>,
    /// Where the gateway speaks FastCGI.
    pub fastcgi: Vec<FastCgiAddress>,
    /// Whose the sockets of FastCGI in the file system are.
    pub socket: SocketRights,
    /// Where the gateway serves its metrics.
    pub metrics: Option<SocketAddr>,
    /// The file in which the gateway writes a line for each request.
    pub access_log: Option<PathBuf>,
    /// The limits.
    pub limits: Limits,
    /// Variables that every process gets beside those of its request.
    pub variables: Vec<(OsString, OsString)>,
    /// Perl modules that images have loaded. A `?` behind a name skips a module that is not installed.
    pub perl_modules: Vec<String>,
    /// Python modules that images have imported.
    pub python_modules: Vec<String>,
    /// Whether images hold Perl scripts compiled.
    pub compile: bool,
    /// Whether the gateway serves even if it cannot load the application, or find the program.
    pub start_anyway: bool,
    /// Whether the gateway recycles processes. If not, it executes each.
    pub recycle: bool,
    /// The policy that decides which bodies the pool keeps.
    pub policy: Policy,
    /// Which requests share a body.
    pub reuse: Reuse,
    /// One body in so many runs is compared with its image while no run is in it; 0: none.
    pub spot_checks: u32,
}

impl GatewaySettings {
    /// Settings with default limits and no address.
    #[must_use]
    pub fn new(content: Content) -> Self {
        Self {
            content,
            http: Vec::new(),
            fastcgi: Vec::new(),
            socket: SocketRights::default(),
            metrics: None,
            access_log: None,
            limits: Limits::default(),
            variables: Vec::new(),
            perl_modules: ["strict", "warnings", "CGI?"].map(str::to_owned).to_vec(),
            python_modules: Vec::new(),
            compile: false,
            start_anyway: false,
            recycle: true,
            policy: Policy::default(),
            reuse: Reuse::default(),
            spot_checks: 0,
        }
    }
}
