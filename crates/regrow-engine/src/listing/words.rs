//! Writes a value of the resource tree as JSON.

use std::fmt::Write as _;

use crate::controller::Value;

/// The value as JSON.
pub(super) fn json(value: &Value) -> String {
    let mut text = String::new();
    put(&mut text, value);
    text
}

fn put(to: &mut String, value: &Value) {
    // Writing to a string cannot fail.
    match value {
        Value::None => to.push_str("null"),
        Value::Number(number) => {
            let _ = write!(to, "{number}");
        }
        Value::Decimal(number) if number.is_finite() => {
            let _ = write!(to, "{number}");
        }
        Value::Decimal(_) => to.push_str("null"),
        Value::Text(text) => put_text(to, text),
        Value::Fields(fields) => {
            to.push('{');
            for (at, (name, value)) in fields.iter().enumerate() {
                if at > 0 {
                    to.push(',');
                }
                put_text(to, name);
                to.push(':');
                put(to, value);
            }
            to.push('}');
        }
    }
}

fn put_text(to: &mut String, text: &str) {
    to.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => to.extend(['\\', character]),
            '\0'..='\x1f' => {
                let _ = write!(to, "\\u{:04x}", u32::from(character));
            }
            _ => to.push(character),
        }
    }
    to.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_a_reader_of_json_reads() {
        let hard = "a \"b\" \\ \n \u{1} é";
        let value = Value::fields([
            ("none", Value::None),
            ("number", Value::Number(u64::MAX)),
            ("decimal", Value::Decimal(0.5)),
            ("no number", Value::Decimal(f64::NAN)),
            (hard, Value::text(hard)),
            ("fields", Value::fields([("one", Value::Number(1)), ("two", Value::Fields(Vec::new()))])),
        ]);
        let read: serde_json::Value = serde_json::from_str(&json(&value)).expect("it is JSON");
        let expected = serde_json::json!({
            "none": null, "number": u64::MAX, "decimal": 0.5, "no number": null, hard: hard, "fields": {"one": 1, "two": {}},
        });
        assert_eq!(read, expected);
    }
}
