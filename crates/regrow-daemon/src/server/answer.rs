//! Answers to questions, as JSON.

use regrow_engine::controller::{Controller, TreeError, Value};
use serde_json::{Map, json};

use crate::wire::Question;

/// What the daemon knows of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct DaemonState {
    /// Those that are connected, but for the one that asks.
    pub(super) clients: usize,
    pub(super) runs: usize,
    /// Bodies that clients have on lease.
    pub(super) leases: usize,
    pub(super) stopping: bool,
    /// How many runs clients of one page have got.
    pub(super) once: u64,
}

/// Answers a question.
pub(super) fn answer(
    controller: &mut Controller,
    question: &Question,
    state: DaemonState,
) -> Result<String, TreeError> {
    let path = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let answer = match question {
        Question::Status => status(controller, state)?,
        Question::List(at) => json!(list(controller, &path(at))?),
        Question::Show(at) => json(&read(controller, &path(at))?),
    };
    Ok(answer.to_string())
}

/// The pool, the daemon, and every image.
fn status(controller: &mut Controller, state: DaemonState) -> Result<serde_json::Value, TreeError> {
    let mut images = Vec::new();
    for name in list(controller, "/./image")? {
        // One that is gone meanwhile is left out.
        if let Ok(fields) = read(controller, &format!("/./image/{name}")) {
            let mut fields = json(&fields);
            fields["number"] = json!(name.parse::<u64>().unwrap_or(0));
            images.push(fields);
        }
    }
    Ok(json!({
        "daemon": {
            "pid": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "protocol": crate::wire::VERSION,
            "clients": state.clients,
            "runs": state.runs,
            "leases": state.leases,
            "stopping": state.stopping,
            "once": state.once,
        },
        "pool": json(&read(controller, "/.")?),
        "images": images,
    }))
}

fn read(controller: &mut Controller, path: &str) -> Result<Value, TreeError> {
    let handle = controller.open(path)?;
    let value = controller.read(handle);
    controller.close(handle);
    value
}

fn list(controller: &mut Controller, path: &str) -> Result<Vec<String>, TreeError> {
    let handle = controller.open(path)?;
    let names = controller.list(handle);
    controller.close(handle);
    names
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::None => serde_json::Value::Null,
        Value::Number(number) => json!(number),
        Value::Decimal(number) => json!(number),
        Value::Text(text) => json!(text),
        Value::Fields(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), json(value)));
            serde_json::Value::Object(Map::from_iter(fields))
        }
    }
}
