//! Columns of text, each as wide as its widest entry.

/// A table under construction.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// Columns of numbers, which stand to the right.
    right: &'static [usize],
}

impl Table {
    pub(crate) fn new(head: &[&str], right: &'static [usize]) -> Self {
        Self { rows: vec![head.iter().map(|name| (*name).to_string()).collect()], right }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The lines, each after `indent` spaces.
    pub(crate) fn text(&self, indent: usize) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let space = " ".repeat(width - cell.chars().count());
                line += &if self.right.contains(&column) {
                    format!("{space}{cell}  ")
                } else {
                    format!("{cell}{space}  ")
                };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// A number of bytes for people.
pub(crate) fn bytes(number: u64) -> String {
    let units = [(1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    for (unit, name) in units {
        if number >= unit {
            let tenths = u128::from(number) * 10 / unit as u128;
            return format!("{}.{} {name}", tenths / 10, tenths % 10);
        }
    }
    format!("{number} B")
}

/// A time in microseconds for people.
pub(crate) fn micros(number: u64) -> String {
    match number {
        0..1_000 => format!("{number} µs"),
        1_000..1_000_000 => format!("{} ms", number / 1_000),
        _ => format!("{}.{} s", number / 1_000_000, number / 100_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["id", "name"], &[0]);
        table.row(["1".into(), "α".into()]);
        table.row(["100".into(), String::new()]);
        assert_eq!(table.text(1), "  id  name\n   1  α\n 100\n");
    }

    #[test]
    fn figures() {
        let sizes = [(0, "0 B"), (1_536, "1.5 K"), (268_435_456, "256.0 M"), (5 << 40, "5.0 T")];
        for (number, text) in sizes {
            assert_eq!(bytes(number), text);
        }
        for (number, text) in [(7, "7 µs"), (1_500, "1 ms"), (2_340_000, "2.3 s")] {
            assert_eq!(micros(number), text);
        }
    }
}
