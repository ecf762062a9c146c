//! A line a source, a column a figure: the JSON rows with their nesting joined by `_`.

use crate::report::Report;
use anyhow::Result;
use serde_json::Value;

/// The table. Lists (the histogram of steps) do not fit a cell and are left to the JSON; threads
/// become columns by their number. The machine stands on every line.
pub fn csv(report: &Report) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // A column exists if any row has it: a group that was not asked for is `null` as a whole.
    let mut rows: Vec<Vec<(String, String)>> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for row in &report.sources {
        let mut cells = Vec::new();
        flatten("", &serde_json::to_value(row)?, &mut cells);
        // Figures without their machine are not a result.
        let machine = &report.machine;
        for (name, fact) in [
            ("machine_cpu", &machine.cpu),
            ("machine_kernel", &machine.kernel),
            ("machine_hypervisor", &machine.hypervisor),
            ("machine_clocksource", &machine.clocksource),
        ] {
            cells.push((name.to_owned(), fact.value.clone().unwrap_or_default()));
        }
        for (name, _) in &cells {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        rows.push(cells);
    }
    writer.write_record(&names)?;
    for cells in &rows {
        writer.write_record(names.iter().map(|name| {
            cells.iter().find(|(cell, _)| cell == name).map_or("", |(_, value)| value.as_str())
        }))?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn flatten(prefix: &str, value: &Value, cells: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name =
                    if prefix.is_empty() { name.clone() } else { format!("{prefix}_{name}") };
                flatten(&name, value, cells);
            }
        }
        Value::Array(entries) if prefix == "threads" => {
            for entry in entries {
                flatten(&format!("threads_{}", entry["threads"]), entry, cells);
            }
        }
        Value::Array(_) => {}
        Value::Null => cells.push((prefix.to_owned(), String::new())),
        Value::String(text) => cells.push((prefix.to_owned(), text.clone())),
        other => cells.push((prefix.to_owned(), other.to_string())),
    }
}
