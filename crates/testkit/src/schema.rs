//! Checks documents against the schema that `cox schema` prints.

use std::process::Command;

use serde_json::{Map, Value};

use crate::built::COX;

/// Checks a document against the schema, and adds violations to `faults`.
pub fn follows_schema(document: &Value, faults: &mut Vec<String>) {
    let output = Command::new(COX).arg("schema").output().expect("start cox");
    let schema: Value = serde_json::from_slice(&output.stdout).expect("a schema in JSON");
    if let Err(fault) = follows(document, &schema, &schema) {
        faults.push(format!("violates `cox schema`: {fault}"));
    }
}

/// Implements the part of JSON Schema that `cox schema` uses. Unknown keywords are faults, so nothing remains unchecked.
fn follows(value: &Value, schema: &Value, root: &Value) -> Result<(), String> {
    let nothing = Map::new();
    let keywords = schema.as_object().ok_or("the schema is not an object")?;
    for (keyword, rule) in keywords {
        let rules = || rule.as_array().into_iter().flatten();
        let fitting = || rules().filter(|rule| follows(value, rule, root).is_ok()).count();
        let members = || value.as_object().unwrap_or(&nothing).iter();
        let named = || keywords.get("properties").and_then(Value::as_object).unwrap_or(&nothing);
        let fits = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "format" | "default" => true,
            "$ref" => {
                let place =
                    rule.as_str().and_then(|place| place.strip_prefix('#')).ok_or("a $ref into another document")?;
                follows(value, root.pointer(place).ok_or("a $ref without a target")?, root)?;
                true
            }
            "type" if rule.is_array() => rules().any(|one| is_a(value, one)),
            "type" => is_a(value, rule),
            "const" => value == rule,
            "enum" => rules().any(|one| value == one),
            "oneOf" => fitting() == 1,
            "anyOf" => fitting() > 0,
            // These two keywords apply to numbers only.
            "minimum" => value.as_f64().is_none_or(|value| rule.as_f64().is_some_and(|least| value >= least)),
            "maximum" => value.as_f64().is_none_or(|value| rule.as_f64().is_some_and(|most| value <= most)),
            "required" => rules().all(|name| name.as_str().is_some_and(|name| value.get(name).is_some())),
            "uniqueItems" => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                items.iter().enumerate().all(|(at, item)| !items[..at].contains(item))
            }
            "items" => {
                let mut items = value.as_array().into_iter().flatten();
                items.try_for_each(|item| follows(item, rule, root))?;
                true
            }
            "properties" => {
                let mut known = members().filter_map(|(name, member)| Some((name, member, named().get(name)?)));
                known.try_for_each(|(name, member, rule)| at(name, follows(member, rule, root)))?;
                true
            }
            "additionalProperties" => {
                let mut others = members().filter(|(name, _)| !named().contains_key(*name));
                others.try_for_each(|(name, member)| match rule {
                    Value::Bool(true) => Ok(()),
                    Value::Bool(false) => Err(format!("{name} is not allowed")),
                    rule => at(name, follows(member, rule, root)),
                })?;
                true
            }
            _ => return Err(format!("the schema has a keyword this test does not know: {keyword}")),
        };
        if !fits {
            return Err(format!("{value} breaks {keyword}: {rule}"));
        }
    }
    Ok(())
}

fn at(name: &str, result: Result<(), String>) -> Result<(), String> {
    result.map_err(|fault| format!("{name}: {fault}"))
}

fn is_a(value: &Value, kind: &Value) -> bool {
    match kind.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => false,
    }
}
