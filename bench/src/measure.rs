//! Processor time, distributions of single operations, and the report of a bench.
//!
//! # Guarantees
//! Rates count the processor time of the main thread, so that what else the machine does disturbs
//! them little. Single operations are measured by the clock on the wall.

use std::fmt::Write as _;
use std::time::Instant;

/// One measured figure.
#[derive(Clone, Debug)]
struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    note: String,
}

/// The figures of a bench, in order.
#[derive(Clone, Debug, Default)]
pub struct Report {
    figures: Vec<Figure>,
    /// Only rates whose names contain this are measured.
    only: String,
}

impl Report {
    /// A report without figures, which will take the rates whose names contain `only`.
    pub fn new(only: &str) -> Self {
        Self { figures: Vec::new(), only: only.into() }
    }

    /// Whether the rate is asked for.
    pub fn wants(&self, name: &str) -> bool {
        name.contains(&self.only)
    }

    /// Adds a figure.
    pub fn add(&mut self, name: &str, value: f64, unit: &'static str, note: &str) {
        self.figures.push(Figure { name: name.into(), value, unit, note: note.into() });
    }

    /// If the rate is asked for, runs `work`, which does `count` operations, and adds how many it
    /// would do in a second of processor time.
    pub fn rate(&mut self, name: &str, count: u64, work: impl FnOnce()) {
        if self.wants(name) {
            let nanos = cpu_nanos_of(work);
            self.rate_of(name, count, nanos);
        }
    }

    /// As [`Report::rate`], for work that later rates build on: it is done in any case.
    pub fn rate_of_setup(&mut self, name: &str, count: u64, work: impl FnOnce()) {
        if self.wants(name) {
            self.rate(name, count, work);
        } else {
            work();
        }
    }

    /// Adds how many operations a second of processor time is enough for when `count` took `nanos`.
    pub fn rate_of(&mut self, name: &str, count: u64, nanos: u64) {
        let nanos = nanos.max(1) as f64;
        let each = format!("{:.0} ns each", nanos / count as f64);
        self.add(name, count as f64 * 1e9 / nanos, "/cpu s", &each);
    }

    /// Adds the slowest operation and the quantile 99.999 %. `bound` says how much work one does.
    pub fn pauses(&mut self, name: &str, pauses: Pauses, bound: &str) {
        let mut best = pauses.best;
        best.sort_unstable();
        let rank = best.len() - 1 - best.len() / 100_000;
        self.add(&format!("{name}, p99.999"), f64::from(best[rank]) / 1e3, "us", bound);
        self.add(&format!("{name}, slowest"), f64::from(best[best.len() - 1]) / 1e3, "us", "");
    }

    /// The figures as text in columns.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for Figure { name, value, unit, note } in &self.figures {
            let line = format!("{name:<52} {:>14} {unit:<7} {note}", number(*value));
            writeln!(text, "{}", line.trim_end()).expect("writing to a string");
        }
        text
    }

    /// The figures as a JSON array of objects.
    pub fn json(&self) -> String {
        let figures = self.figures.iter().map(|Figure { name, value, unit, note }| {
            format!(r#"{{"name":"{name}","value":{value:.3},"unit":"{unit}","note":"{note}"}}"#)
        });
        format!("[\n{}\n]\n", figures.collect::<Vec<_>>().join(",\n"))
    }
}

/// Times of single operations, each done in several equal runs: its best time counts, which leaves
/// out what the machine did meanwhile.
#[derive(Clone, Debug)]
pub struct Pauses {
    best: Vec<u32>,
}

impl Pauses {
    /// For `count` operations, one at least.
    pub fn new(count: u32) -> Self {
        assert!(count > 0, "the slowest of none");
        Self { best: vec![u32::MAX; count as usize] }
    }

    /// Runs operation `at` and takes its time, in nanoseconds, into account.
    pub fn time(&mut self, at: u32, work: impl FnOnce()) {
        let start = Instant::now();
        work();
        let nanos = u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX);
        let best = &mut self.best[at as usize];
        *best = nanos.min(*best);
    }
}

/// Runs `work` and returns the processor time of the main thread that it took, in nanoseconds.
///
/// Never inlined, so that a profiler can be told to count inside it only.
#[inline(never)]
pub fn cpu_nanos_of(work: impl FnOnce()) -> u64 {
    let start = cpu_nanos();
    work();
    cpu_nanos() - start
}

/// Processor time that the main thread has used, in nanoseconds.
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("the kernel keeps time");
    let first = text.split_whitespace().next().expect("three numbers");
    first.parse().expect("a number")
}

/// A number with separators, or three significant digits.
fn number(value: f64) -> String {
    if value < 1_000.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
