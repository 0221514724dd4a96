//! `regrow web`: a gateway that answers every request with a fresh process.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use regrow_sys::accounts;
use regrow_web::settings::{
    ApplicationSettings, Content, FastCgiAddress, FunctionSettings, GatewaySettings, Limits, PythonInterface,
    SocketRights,
};

use crate::cli::web::WebArgs;
use crate::error::CliError;

/// The address of HTTP where no flag names one.
const ADDRESS: &str = "127.0.0.1:8080";

/// Serves until a signal ends it.
pub(crate) fn web(args: &WebArgs) -> Result<u8, CliError> {
    let mut settings = GatewaySettings::new(content(args)?);
    settings.http.clone_from(&args.http);
    settings.fastcgi = args.fastcgi.iter().map(|text| fastcgi(text)).collect::<Result<_, _>>()?;
    settings.socket = socket_rights(args)?;
    settings.metrics = args.metrics;
    settings.access_log.clone_from(&args.access_log);
    settings.variables = args.env.iter().filter_map(|text| variable(text)).collect();
    settings.perl_modules = args.perl_modules.iter().filter(|name| !name.is_empty()).cloned().collect();
    settings.python_modules.clone_from(&args.python_modules);
    settings.compile = args.warm_script;
    settings.start_anyway = args.start_anyway;
    settings.recycle = !args.no_recycle;
    settings.policy = args.policy.clone();
    settings.reuse = args.reuse;
    settings.spot_checks = args.spot_checks;
    settings.limits = limits(args);
    if args.function {
        watchdog_limits(&mut settings.limits);
    }
    if settings.http.is_empty() && settings.fastcgi.is_empty() {
        let port = from_env("port").filter(|_| args.function).map(|port| format!("0.0.0.0:{port}"));
        let address = port.unwrap_or_else(|| if args.function { "0.0.0.0:8080" } else { ADDRESS }.to_owned());
        settings.http.push(address.parse().map_err(|_| CliError::Flags("the variable port is no port"))?);
    }
    regrow_web::serve(settings, |address| {
        // Nobody reads it any more.
        let _ = writeln!(std::io::stderr(), "regrow: serving {address}");
    })?;
    Ok(0)
}

/// What is served.
fn content(args: &WebArgs) -> Result<Content, CliError> {
    let application = |interface, name: &String| {
        // The interpreter starts in the application's folder.
        let (python, directory) = (from_here(args.python.as_os_str())?.into(), args.directory.clone());
        if args.words.is_empty() && name.contains(':') {
            Ok(Content::Application(ApplicationSettings { python, interface, name: name.clone(), directory }))
        } else {
            Err(CliError::Flags(
                "an application is named by MODULE:NAME, and nothing else is served beside it",
            ))
        }
    };
    match (&args.wsgi, &args.asgi) {
        (Some(name), _) => return application(PythonInterface::Wsgi, name),
        (_, Some(name)) => return application(PythonInterface::Asgi, name),
        _ => {}
    }
    match (&args.folder, args.words.as_slice()) {
        (Some(folder), _) => Ok(Content::Directory(folder.clone())),
        (None, words) if args.function => Ok(Content::Function(function(words)?)),
        (None, words) if args.program => Ok(Content::Program(found(words)?)),
        (None, []) => {
            Err(CliError::Flags("name a folder of scripts, or say --program, --function, --wsgi or --asgi"))
        }
        (None, _) => Err(CliError::Flags("is what follows -- a --program or a --function?")),
    }
}

/// A command line with the absolute path of its program, which starts in another folder.
fn found(words: &[OsString]) -> Result<Vec<OsString>, CliError> {
    let mut words = words.to_vec();
    if let Some(program) = words.first_mut() {
        *program = from_here(program)?;
    }
    Ok(words)
}

/// The absolute path of a program that is not looked for.
fn from_here(program: &OsStr) -> Result<OsString, CliError> {
    if !program.as_encoded_bytes().contains(&b'/') {
        return Ok(program.to_owned());
    }
    let cannot = CliError::system("the working directory cannot be told");
    std::path::absolute(program).map(PathBuf::into_os_string).map_err(cannot)
}

/// The function that the command line names, or else the watchdog's variable.
fn function(words: &[OsString]) -> Result<FunctionSettings, CliError> {
    let command = if words.is_empty() {
        let text = from_env("fprocess").or_else(|| from_env("function_process"));
        let text =
            text.ok_or(CliError::Flags("name the function's program, or set the variable fprocess"))?;
        text.split_whitespace().map(OsString::from).collect()
    } else {
        words.to_vec()
    };
    let is_true = |text: String| text == "true";
    Ok(FunctionSettings {
        command: found(&command)?,
        content_type: from_env("content_type"),
        combine_output: from_env("combine_output").is_none_or(is_true),
        lock: std::env::temp_dir().join(".lock"),
        suppress_lock: from_env("suppress_lock").is_some_and(is_true),
    })
}

/// Longer than any gateway runs.
const NO_LIMIT: Duration = Duration::from_secs(10 * 365 * 86400);

/// The limits that the watchdog's variables set.
fn watchdog_limits(limits: &mut Limits) {
    if let Some(timeout) = from_env("exec_timeout").and_then(|text| go_duration(&text)) {
        limits.run_timeout = if timeout.is_zero() { NO_LIMIT } else { timeout };
    }
    if let Some(timeout) = from_env("read_timeout").and_then(|text| go_duration(&text)) {
        limits.header_timeout = timeout;
    }
    if let Some(number) =
        from_env("max_inflight").and_then(|text| text.parse().ok()).filter(|&number| number > 0)
    {
        (limits.requests, limits.queue) = (number, 0);
    }
}

fn from_env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// A time as users of the watchdog write it: a number of seconds, or Go's `1h2m3s` and `500ms`.
fn go_duration(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let seconds = match &rest[..unit] {
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total += Duration::try_from_secs_f64(number * seconds).ok()?;
        rest = &rest[unit..];
    }
    Some(total)
}

fn limits(args: &WebArgs) -> Limits {
    let args = &args.limits;
    let number = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    Limits {
        requests: number(args.max_requests),
        queue: number(args.max_queue),
        queue_timeout: args.queue_timeout,
        run_timeout: args.timeout,
        header_timeout: args.header_timeout,
        idle_timeout: args.idle_timeout,
        body_bytes: args.max_body,
        header_bytes: usize::try_from(args.max_header).unwrap_or(usize::MAX),
        memory_bytes: args.memory,
        connections: number(args.max_connections),
        fastcgi_connections: number(args.max_fastcgi_connections),
        metrics_connections: number(args.max_metrics_connections),
        grace: args.grace,
    }
}

fn fastcgi(text: &str) -> Result<FastCgiAddress, CliError> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(FastCgiAddress::Unix(PathBuf::from(path)));
    }
    let wrong = |_| CliError::Flags("an address of --fastcgi is unix:PATH or ADDR:PORT");
    text.parse().map(FastCgiAddress::Tcp).map_err(wrong)
}

/// Whose the sockets are.
fn socket_rights(args: &WebArgs) -> Result<SocketRights, CliError> {
    let is_said = args.socket_owner.is_some() || args.socket_group.is_some() || args.socket_mode.is_some();
    if is_said && !args.fastcgi.iter().any(|text| text.starts_with("unix:")) {
        return Err(CliError::Flags(
            "--socket-owner, --socket-group and --socket-mode need --fastcgi unix:PATH",
        ));
    }
    let id = |flag, name: &Option<String>, find: fn(&str) -> std::io::Result<Option<u32>>| {
        let Some(name) = name else { return Ok(None) };
        let unknown = |source| CliError::NoAccount { flag, name: name.clone(), source };
        find(name).map_err(|source| unknown(Some(source)))?.ok_or_else(|| unknown(None)).map(Some)
    };
    Ok(SocketRights {
        owner: id("--socket-owner", &args.socket_owner, accounts::user)?,
        group: id("--socket-group", &args.socket_group, accounts::group)?,
        mode: args.socket_mode,
    })
}

/// A variable with its value, or with the gateway's own value where the text has none.
fn variable(text: &str) -> Option<(OsString, OsString)> {
    match text.split_once('=') {
        Some((name, value)) => Some((name.into(), value.into())),
        None => std::env::var_os(OsStr::new(text)).map(|value| (text.into(), value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_the_watchdog_reads_them() {
        for (text, millis) in
            [("10", 10_000), ("500ms", 500), ("1m30s", 90_000), ("1h", 3_600_000), ("1.5s", 1500)]
        {
            assert_eq!(go_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["x", "10q", "s"] {
            assert_eq!(go_duration(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_are_read_or_refused() {
        assert!(matches!(fastcgi("unix:/run/a"), Ok(FastCgiAddress::Unix(path)) if path == *"/run/a"));
        assert!(matches!(fastcgi("127.0.0.1:9000"), Ok(FastCgiAddress::Tcp(_))));
        assert!(fastcgi("9000").is_err() && fastcgi("/run/a").is_err());
    }
}
