//! Values of an answer as a person reads them: without quotes, in sums, in counts, in MiB.

use serde_json::Value;

/// A value without the quotes of JSON.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

/// The sum of all numbers below a value.
pub(crate) fn sum(value: &Value) -> u64 {
    match value {
        Value::Object(fields) => fields.values().map(sum).sum(),
        other => other.as_u64().unwrap_or(0),
    }
}

/// `name count, name count`.
pub(crate) fn counts(value: &Value) -> String {
    let fields = value.as_object().into_iter().flatten();
    let text: Vec<String> = fields.map(|(name, count)| format!("{count} {name}")).collect();
    if text.is_empty() { "none".to_owned() } else { text.join(", ") }
}

/// Bytes as MiB with a fraction.
pub(crate) fn mib(bytes: &Value) -> String {
    bytes.as_f64().map_or("-".to_owned(), |bytes| format!("{:.1}", bytes / f64::from(1 << 20)))
}
