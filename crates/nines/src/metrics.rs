//! Figures as text: the format of OpenMetrics 1.0, and the page that describes all metrics.
//!
//! # Guarantees
//! Every family is described before its samples, once; the text ends with `# EOF`. What a name is,
//! means and is measured in comes from the table of `actor` alone.

use std::fmt::Write;

use actor::{Figure, FigureValue, Figures, LATENCY_STEPS, Metric, MetricKind, MetricUnit};
use runtime::Role;

/// What the text is called over HTTP.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A role as labels name it.
pub(crate) fn role_name(role: Role) -> &'static str {
    match role {
        Role::Data => "data",
        Role::Management => "management",
        Role::Client => "sql",
    }
}

/// All figures, put together.
pub(crate) fn text(figures: Figures) -> String {
    let mut text = String::new();
    let mut last = None;
    for figure in figures.merged() {
        if last != Some(figure.metric) {
            describe(&mut text, figure.metric);
            last = Some(figure.metric);
        }
        tell(&mut text, &figure);
    }
    text.push_str("# EOF\n");
    text
}

fn describe(text: &mut String, metric: Metric) {
    let name = metric.name();
    text.push_str(&format!("# TYPE {name} {}\n", kind_name(metric.kind())));
    if let Some(unit) = unit_name(metric.unit()) {
        text.push_str(&format!("# UNIT {name} {unit}\n"));
    }
    text.push_str(&format!("# HELP {name} {}\n", escaped(metric.help())));
}

fn tell(text: &mut String, figure: &Figure) {
    let Figure { metric, labels, value } = figure;
    let name = metric.name();
    let pairs: Vec<(&str, &str)> =
        metric.labels().iter().copied().zip(labels.iter().map(String::as_str)).collect();
    let mut sample = |suffix: &str, more: Option<(&str, &str)>, value: &str| {
        let pairs = pairs.iter().copied().chain(more);
        let list: Vec<String> =
            pairs.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let braces =
            if list.is_empty() { String::new() } else { format!("{{{}}}", list.join(",")) };
        text.push_str(&format!("{name}{suffix}{braces} {value}\n"));
    };
    match value {
        FigureValue::Number(number) => {
            let suffix = match metric.kind() {
                MetricKind::Counter => "_total",
                MetricKind::Info => "_info",
                MetricKind::Gauge | MetricKind::Histogram => "",
            };
            let value = match metric.unit() {
                MetricUnit::Seconds => seconds(*number),
                MetricUnit::None | MetricUnit::Bytes => number.to_string(),
            };
            sample(suffix, None, &value);
        }
        FigureValue::Latency(times) => {
            let mut count = 0;
            let ends = LATENCY_STEPS.iter().map(|micros| seconds(micros * 1_000));
            let ends = ends.map(|end| if end.contains('.') { end } else { format!("{end}.0") });
            for (end, step) in ends.chain(["+Inf".to_string()]).zip(&times.steps) {
                count += step;
                sample("_bucket", Some(("le", &end)), &count.to_string());
            }
            sample("_count", None, &count.to_string());
            sample("_sum", None, &seconds(times.sum.as_nanos()));
        }
    }
}

/// Nanoseconds as seconds.
fn seconds(nanos: u64) -> String {
    let (whole, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let mut text = whole.to_string();
    if rest > 0 {
        let _ = write!(text, ".{rest:09}");
        text.truncate(text.trim_end_matches('0').len());
    }
    text
}

/// Text in which what the format gives a meaning to has none.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn kind_name(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
        MetricKind::Info => "info",
    }
}

fn unit_name(unit: MetricUnit) -> Option<&'static str> {
    match unit {
        MetricUnit::None => None,
        MetricUnit::Bytes => Some("bytes"),
        MetricUnit::Seconds => Some("seconds"),
    }
}

#[cfg(test)]
mod tests {
    use model::NodeId;
    use stdx::Duration;

    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
    const HEAD: &str = "\
# Metrics

What `/metrics` tells, as [watching](../operate/watch.md) describes. Written from the table in
`crates/actor/src/figures.rs` by `UPDATE=1 cargo test -p nines`.

A counter's sample has `_total` behind the name, an info's `_info`; a histogram has `_bucket` (with
the label `le`), `_count` and `_sum`. Counters begin at 0 with each start of a process. The label
`node` is the id in the configuration. No label holds the name of a table, a user or anything else
that clients choose.

| name | kind | unit | labels | meaning |
|---|---|---|---|---|
";

    #[test]
    fn the_page_lists_the_table() {
        let mut text = HEAD.to_string();
        for metric in Metric::ALL {
            let labels: Vec<String> =
                metric.labels().iter().map(|label| format!("`{label}`")).collect();
            text.push_str(&format!(
                "| `{}` | {} | {} | {} | {} |\n",
                metric.name(),
                kind_name(metric.kind()),
                unit_name(metric.unit()).unwrap_or_default(),
                labels.join(", "),
                metric.help()
            ));
        }
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(PAGE, &text).unwrap();
        }
        let page = std::fs::read_to_string(PAGE).unwrap_or_default();
        assert!(page == text, "docs/reference/metrics.md is old: UPDATE=1 cargo test -p nines");
    }

    /// The names that an expression of Prometheus may use.
    fn sample_names() -> Vec<String> {
        let of = |metric: &Metric| -> Vec<String> {
            let suffixes: &[&str] = match metric.kind() {
                MetricKind::Counter => &["_total"],
                MetricKind::Info => &["_info"],
                MetricKind::Gauge => &[""],
                MetricKind::Histogram => &["_bucket", "_count", "_sum"],
            };
            suffixes.iter().map(|suffix| format!("{}{suffix}", metric.name())).collect()
        };
        Metric::ALL.iter().flat_map(of).collect()
    }

    #[test]
    fn alarms_and_the_guide_name_metrics_that_there_are() {
        const ALARMS: &str = include_str!("../../../packaging/prometheus/nines-alerts.yml");
        const GUIDE: &str = include_str!("../../../docs/operate/watch.md");
        let known = sample_names();
        let mut found = 0;
        for text in [ALARMS, GUIDE] {
            for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
                if word.starts_with("nines_") && word != "nines_durability" {
                    assert!(known.iter().any(|name| name == word), "{word}");
                    found += 1;
                }
            }
        }
        assert!(found > 25, "{found}");
        // Every alarm is explained, and nothing else is.
        let alarms: Vec<&str> =
            ALARMS.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
        for alarm in &alarms {
            assert!(GUIDE.contains(alarm), "{alarm} is not explained");
        }
        for word in GUIDE.split(|c: char| !c.is_ascii_alphanumeric()) {
            let names_alarm = word.starts_with("Nines") && word.len() > "Nines".len();
            assert!(!names_alarm || alarms.contains(&word), "{word}");
        }
    }

    #[test]
    fn families_are_described_once_and_the_text_has_an_end() {
        let mut figures = Figures::default();
        figures.add(Metric::Build, &["1\"\\\n2"], 1);
        for node in [2, 1] {
            figures.of_node(NodeId(node));
            figures.add(Metric::Operations, &["read"], 5);
            figures.add_time(Metric::LeaseLeft, &[], Duration::from_micros(1_500_000));
        }
        figures.add(Metric::Operations, &["read"], 2);
        assert_eq!(
            text(figures),
            "# TYPE nines_build info\n\
             # HELP nines_build The version of the program.\n\
             nines_build_info{version=\"1\\\"\\\\\\n2\"} 1\n\
             # TYPE nines_lease_left_seconds gauge\n\
             # UNIT nines_lease_left_seconds seconds\n\
             # HELP nines_lease_left_seconds For how long a data node may serve unless its lease \
             is prolonged; 0 when it may not.\n\
             nines_lease_left_seconds{node=\"1\"} 1.5\n\
             nines_lease_left_seconds{node=\"2\"} 1.5\n\
             # TYPE nines_operations counter\n\
             # HELP nines_operations Operations on rows that a data node has begun: read \
             (committed rows by key), locked_read, insert, update, upsert, delete, scan (of one \
             partition).\n\
             nines_operations_total{node=\"1\",kind=\"read\"} 7\n\
             nines_operations_total{node=\"2\",kind=\"read\"} 5\n\
             # EOF\n"
        );
        assert_eq!(text(Figures::default()), "# EOF\n");
    }

    #[test]
    fn a_histogram_counts_up_to_everything() {
        let mut figures = Figures::default();
        figures.of_node(NodeId(1));
        let mut times = actor::Latency::default();
        for millis in [1, 1, 999, 60_000] {
            times.record(Duration::from_millis(millis));
        }
        figures.add_latency(Metric::CommitTime, &times);
        let text = text(figures);
        for line in [
            "nines_commit_seconds_bucket{node=\"1\",le=\"0.000025\"} 0",
            "nines_commit_seconds_bucket{node=\"1\",le=\"0.001\"} 2",
            "nines_commit_seconds_bucket{node=\"1\",le=\"1.0\"} 3",
            "nines_commit_seconds_bucket{node=\"1\",le=\"10.0\"} 3",
            "nines_commit_seconds_bucket{node=\"1\",le=\"+Inf\"} 4",
            "nines_commit_seconds_count{node=\"1\"} 4",
            "nines_commit_seconds_sum{node=\"1\"} 61.001",
        ] {
            assert!(text.lines().any(|told| told == line), "{line}\n{text}");
        }
    }

    #[test]
    fn times_are_told_exactly() {
        for (nanos, told) in [(0, "0"), (1, "0.000000001"), (25_000, "0.000025")] {
            assert_eq!(seconds(nanos), told);
        }
        assert_eq!(seconds(u64::MAX), "18446744073.709551615");
    }
}
