//! Draws statements from a grammar that stays inside what both servers answer alike.

use super::draw::Draw;

/// Draws statements.
pub(super) struct Generator {
    draw: Draw,
}

impl Generator {
    /// A seed gives the same statements for ever.
    pub(super) fn new(seed: u64) -> Self {
        Self { draw: Draw::new(seed) }
    }

    /// Statements, one after the other on the same tables, with looks at the whole tables.
    pub(super) fn script(&mut self, count: u32) -> Vec<String> {
        let mut statements = Vec::new();
        for number in 0..count {
            // First some rows, then mostly questions.
            let changes = number < count / 4 || self.draw.chance(25);
            statements.push(if changes { self.change() } else { self.query() });
            if number % 200 == 199 {
                statements.push("SELECT * FROM a ORDER BY 1".into());
                statements.push("SELECT * FROM b ORDER BY 1, 2".into());
                // Which numbers INSERT ... SELECT leaves out is nobody's promise.
                statements.push("SELECT a_id, n, t FROM c ORDER BY 1, 2, 3".into());
            }
        }
        statements
    }

    fn int(&mut self) -> String {
        match self.draw.below(12) {
            0 => "NULL".into(),
            1 => "0".into(),
            2 => format!("-{}", self.draw.below(50)),
            3 => self.draw.below(100_000).to_string(),
            _ => self.draw.below(60).to_string(),
        }
    }

    fn text(&mut self) -> String {
        let words = [
            "'apple'",
            "'Apple'",
            "'APPLE pie'",
            "''",
            "'pear'",
            "'plum'",
            "'été'",
            "'zebra'",
            "'12abc'",
            "'7'",
            "'a_b'",
            "'50%'",
            "NULL",
        ];
        self.draw.pick(&words).to_owned()
    }

    fn decimal(&mut self) -> String {
        if self.draw.chance(8) {
            return "NULL".into();
        }
        let sign = if self.draw.chance(30) { "-" } else { "" };
        format!("{sign}{}.{}", self.draw.below(2000), self.draw.below(1000))
    }

    fn day(&mut self) -> String {
        if self.draw.chance(8) {
            return "NULL".into();
        }
        format!(
            "'20{:02}-{:02}-{:02}'",
            self.draw.below(40),
            1 + self.draw.below(12),
            1 + self.draw.below(28)
        )
    }

    fn number(&mut self, depth: u32) -> String {
        if depth == 0 || self.draw.chance(40) {
            return match self.draw.below(5) {
                0 => "a.i".into(),
                1 => "a.id".into(),
                2 => "a.d".into(),
                3 => self.decimal(),
                _ => self.int(),
            };
        }
        let (l, r) = (self.number(depth - 1), self.number(depth - 1));
        match self.draw.below(14) {
            0 => format!("({l} + {r})"),
            1 => format!("({l} - {r})"),
            2 => format!("({l} * {r})"),
            3 => format!("({l} / {r})"),
            4 => format!("({l} DIV NULLIF({r}, 0))"),
            5 => format!("({l} % {r})"),
            6 => format!("ABS({l})"),
            7 => format!("COALESCE({l}, {r})"),
            8 => format!("IF({}, {l}, {r})", self.condition(depth - 1)),
            9 => format!("GREATEST({l}, {r})"),
            10 => format!("ROUND({l}, 1)"),
            11 => format!("FLOOR({l})"),
            12 => format!("CASE WHEN {} THEN {l} ELSE {r} END", self.condition(depth - 1)),
            _ => format!("LENGTH({})", self.string(depth - 1)),
        }
    }

    fn string(&mut self, depth: u32) -> String {
        if depth == 0 || self.draw.chance(40) {
            return if self.draw.chance(50) { "a.s".into() } else { self.text() };
        }
        let (l, r) = (self.string(depth - 1), self.string(depth - 1));
        match self.draw.below(10) {
            0 => format!("CONCAT({l}, {r})"),
            1 => format!("UPPER({l})"),
            2 => format!("LOWER({l})"),
            3 => format!("SUBSTRING({l}, {}, {})", 1 + self.draw.below(4), self.draw.below(5)),
            4 => format!("REPLACE({l}, 'p', 'q')"),
            5 => format!("TRIM({l})"),
            6 => format!("LPAD({l}, 8, '*')"),
            7 => format!("REVERSE({l})"),
            8 => format!("COALESCE({l}, {r})"),
            _ => format!("LEFT({l}, {})", self.draw.below(6)),
        }
    }

    fn condition(&mut self, depth: u32) -> String {
        let compare = ["=", "<>", "<", "<=", ">", ">=", "<=>"];
        if depth == 0 || self.draw.chance(50) {
            return match self.draw.below(14) {
                0 => format!("a.i {} {}", self.draw.pick(&compare), self.int()),
                1 => format!("a.id BETWEEN {} AND {}", self.draw.below(40), self.draw.below(80)),
                2 => format!("a.i IN ({}, {}, {})", self.int(), self.int(), self.int()),
                3 => format!("a.s {} {}", self.draw.pick(&compare), self.text()),
                4 => format!(
                    "a.s LIKE {}",
                    self.draw.pick(&["'a%'", "'%p%'", "'_ear'", "'A%'", "'%\\_%'"])
                ),
                5 => "a.s IS NULL".into(),
                6 => format!("a.day {} {}", self.draw.pick(&compare), self.day()),
                7 => format!("a.d {} {}", self.draw.pick(&compare), self.decimal()),
                8 => "a.i IS NOT NULL".into(),
                9 => format!("a.s LIKE {}", self.beginning()),
                10 => format!("a.s NOT LIKE {}", self.beginning()),
                11 => format!("a.{} IS NULL", self.draw.pick(&["i", "day", "u"])),
                12 => format!("(a.day <=> {} AND a.i <=> {})", self.day(), self.int()),
                // MariaDB rounds a constant that it compares with a column of integers.
                _ => {
                    let (left, right) = (self.number(1), self.number(1));
                    format!("({left} + 0) {} ({right} + 0)", self.draw.pick(&compare))
                }
            };
        }
        let (l, r) = (self.condition(depth - 1), self.condition(depth - 1));
        match self.draw.below(4) {
            0 => format!("({l} OR {r})"),
            1 => format!("NOT ({l})"),
            _ => format!("({l} AND {r})"),
        }
    }

    /// A pattern that begins with what texts may begin with.
    fn beginning(&mut self) -> &'static str {
        let patterns = [
            "'ap%'",
            "'AP_L%'",
            "'p%'",
            "'Pl_m'",
            "'été%'",
            "'e%'",
            "'a\\_%'",
            "'50\\%%'",
            "'zebra'",
            "'apple%%'",
            "'7%'",
            "'a %'",
            "NULL",
        ];
        patterns[self.draw.below(patterns.len() as u64) as usize]
    }

    /// The least and greatest values of columns that have indexes.
    fn edges(&mut self) -> String {
        let (x, compare) = (self.draw.below(12), ["=", "<", "<=", ">", ">=", "<=>"]);
        match self.draw.below(8) {
            0 => "SELECT MIN(id), MAX(id), MIN(i), MAX(i) FROM a".into(),
            1 => format!(
                "SELECT MIN(i), MAX(i) FROM a WHERE i {} {}",
                self.draw.pick(&compare),
                self.int()
            ),
            2 => format!("SELECT MAX(i) + 1, MIN(i) FROM a WHERE day <=> {}", self.day()),
            3 => format!("SELECT MIN(y), MAX(y) FROM b WHERE x = {x} AND y BETWEEN 2 AND 9"),
            4 => format!("SELECT MAX(d), MIN(d) FROM b WHERE s = {}", self.text()),
            5 => format!("SELECT MIN(s), MAX(s) FROM b WHERE s >= {}", self.text()),
            6 => "SELECT MAX(day), LOWER(MIN(s)) FROM a HAVING MAX(day) IS NOT NULL".into(),
            _ => format!("SELECT id FROM a WHERE id = (SELECT MAX(id) FROM a WHERE id < {x})"),
        }
    }

    /// Window functions. Where equal rows could change places, all are told apart by their key.
    fn windows(&mut self, condition: &str) -> String {
        let parts = ["", "PARTITION BY s ", "PARTITION BY i % 3 ", "PARTITION BY day, s "];
        let partition = self.draw.pick(&parts);
        let orders = ["i", "i DESC", "d", "s, i", "day DESC, i", "i + d"];
        let order = self.draw.pick(&orders);
        let ranks = ["RANK() OVER q", "DENSE_RANK() OVER q", "FLOOR(CUME_DIST() OVER q * 1000)"];
        let whole = [
            "ROW_NUMBER() OVER w",
            "NTILE(3) OVER w",
            "LAG(i) OVER w",
            "LEAD(s, 2) OVER w",
            "COUNT(*) OVER q",
            "SUM(i) OVER q",
            "MAX(d) OVER (PARTITION BY i % 2)",
        ];
        let framed = [
            "SUM(i)",
            "AVG(d)",
            "COUNT(i)",
            "MIN(s)",
            "MAX(d)",
            "BIT_XOR(id)",
            "FIRST_VALUE(id)",
            "LAST_VALUE(id)",
            "NTH_VALUE(id, 2)",
        ];
        let far = self.draw.below(4);
        let preceding = format!("{far} PRECEDING");
        let starts = ["UNBOUNDED PRECEDING", preceding.as_str()];
        let frame = match self.draw.below(3) {
            0 => format!("ROWS {}", self.draw.pick(&starts)),
            1 => {
                let last = ["CURRENT ROW", "1 FOLLOWING", "UNBOUNDED FOLLOWING"];
                format!("ROWS BETWEEN {} AND {}", self.draw.pick(&starts), self.draw.pick(&last))
            }
            _ => format!("ROWS BETWEEN {far} FOLLOWING AND UNBOUNDED FOLLOWING"),
        };
        let (whole, ranks) = (self.draw.pick(&whole), self.draw.pick(&ranks));
        let (by_rows, by_range) = (self.draw.pick(&framed[..6]), self.draw.pick(&framed[..6]));
        let place = self.draw.pick(&framed);
        let range = self.draw.below(20);
        format!(
            "SELECT id, {ranks}, {whole}, {place} OVER (w {frame}), {by_rows} OVER (w {frame}), \
             {by_range} OVER ({partition}ORDER BY id RANGE BETWEEN {range} PRECEDING AND {far} \
             FOLLOWING) FROM a WHERE {condition} \
             WINDOW q AS ({partition}ORDER BY {order}), w AS ({partition}ORDER BY {order}, id) \
             ORDER BY id"
        )
    }

    /// Tables that refer to themselves.
    fn recursion(&mut self, condition: &str) -> String {
        let (first, most) = (self.draw.below(60), 2 + self.draw.below(9));
        match self.draw.below(3) {
            0 => format!(
                "WITH RECURSIVE r AS (SELECT id, i, 1 AS n FROM a WHERE {condition} UNION ALL \
                 SELECT a.id, a.i, n + 1 FROM r JOIN a ON a.id = r.i WHERE n < {most}) \
                 SELECT n, COUNT(*), SUM(id), MAX(i) FROM r GROUP BY n ORDER BY n"
            ),
            1 => format!(
                "WITH RECURSIVE r AS (SELECT {first} AS x UNION \
                 SELECT b.y FROM r JOIN b ON b.x = r.x % {most}) SELECT x FROM r ORDER BY x"
            ),
            _ => format!(
                "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r \
                 WHERE n < {most}) SELECT r.n, COUNT(a.id) FROM r LEFT JOIN a ON a.id % {most} = \
                 r.n AND {condition} GROUP BY r.n ORDER BY r.n"
            ),
        }
    }

    fn change(&mut self) -> String {
        let (id, x, y) = (self.draw.below(80), self.draw.below(12), self.draw.below(12));
        match self.draw.below(13) {
            0..=2 => {
                let verb = self.draw.pick(&["INSERT", "INSERT", "REPLACE", "INSERT IGNORE"]);
                let (i, u, d) = (self.int(), self.draw.below(1 << 40), self.decimal());
                let (s, day) = (self.text(), self.day());
                let f = format!("{}.5", self.draw.below(99));
                let at = "'2024-05-06 07:08:09'";
                format!("{verb} INTO a VALUES ({id}, {i}, {u}, {d}, {f}, {s}, {day}, {at})")
            }
            3 | 4 => {
                let verb = self.draw.pick(&["INSERT", "INSERT IGNORE", "REPLACE"]);
                let (i, s, d) = (self.int(), self.text(), self.decimal());
                let (x2, y2) = (self.draw.below(12), self.draw.below(12));
                format!(
                    "{verb} INTO b VALUES ({x}, {y}, {i}, {s}, {d}), ({x2}, {y2}, NULL, {s}, {d})"
                )
            }
            5 => {
                let (i, s) = (self.int(), self.text());
                format!(
                    "INSERT INTO b (x, y, i, s) VALUES ({x}, {y}, {i}, {s}) \
                     ON DUPLICATE KEY UPDATE s = CONCAT(s, '+'), d = COALESCE(d, 0) + 1"
                )
            }
            6 => format!(
                "INSERT INTO c (a_id, t) SELECT id, s FROM a WHERE {} ORDER BY id LIMIT 5",
                self.condition(1)
            ),
            7 => format!("UPDATE a SET i = i + 1, s = {} WHERE {}", self.text(), self.condition(1)),
            8 => format!("UPDATE a SET d = d * 2, f = f + id WHERE id = {id}"),
            9 => format!(
                "UPDATE b SET d = {}, y = y + 100 WHERE x = {x} AND y = {y}",
                self.decimal()
            ),
            10 => format!("DELETE FROM a WHERE {} AND id > 60", self.condition(1)),
            11 => format!(
                "UPDATE a JOIN c ON c.a_id = a.id SET c.n = c.n + 1 WHERE {}",
                self.condition(1)
            ),
            _ => format!("DELETE FROM b WHERE x = {x} AND y > {y}"),
        }
    }

    fn query(&mut self) -> String {
        let condition = self.condition(2);
        match self.draw.below(18) {
            12 | 13 => self.edges(),
            14..=16 => self.windows(&condition),
            17 => self.recursion(&condition),
            0 | 1 => format!("SELECT id, i, u, d, s, day, at FROM a WHERE {condition} ORDER BY id"),
            2 => format!("SELECT id, {} FROM a WHERE {condition} ORDER BY id", self.number(2)),
            3 => format!("SELECT id, {} FROM a WHERE {condition} ORDER BY id", self.string(2)),
            4 => format!(
                "SELECT COUNT(*), COUNT(i), SUM(i), MIN(d), MAX(day), AVG(d) FROM a \
                 WHERE {condition}"
            ),
            5 => format!(
                "SELECT i, COUNT(*), SUM(d), MAX(s) IS NULL FROM a WHERE {condition} \
                 GROUP BY i ORDER BY i"
            ),
            6 => format!(
                "SELECT i, COUNT(*) AS n FROM a WHERE {condition} \
                 GROUP BY i HAVING n > 1 ORDER BY n DESC, i"
            ),
            7 => format!(
                "SELECT a.id, b.x, b.y, b.s FROM a JOIN b ON b.i = a.i WHERE {condition} \
                 ORDER BY a.id, b.x, b.y"
            ),
            8 => format!(
                "SELECT a.id, c.n FROM a LEFT JOIN c ON c.a_id = a.id WHERE {condition} \
                 ORDER BY a.id, c.id"
            ),
            9 => format!(
                "SELECT id, s FROM a WHERE {condition} ORDER BY i DESC, id LIMIT {} OFFSET {}",
                self.draw.below(8),
                self.draw.below(4)
            ),
            10 => format!(
                "SELECT DISTINCT i FROM a WHERE {condition} AND id IN (SELECT a_id FROM c) \
                 ORDER BY i"
            ),
            _ => format!(
                "SELECT id FROM a WHERE {condition} AND EXISTS (SELECT 1 FROM b WHERE b.x = a.i) \
                 UNION SELECT x FROM b WHERE y < 4 ORDER BY 1"
            ),
        }
    }
}
