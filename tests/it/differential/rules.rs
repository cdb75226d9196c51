//! Differences between MariaDB and MySQL that are accepted, each with its reason.
//!
//! Nines follows MySQL 8.4; `docs/compatibility/differences.md` tells of them at length. A rule is
//! as narrow as a look at the statement and both answers lets it be.

use tests::TextRow;

use super::compare::Outcome;

/// A statement and how it was answered.
struct Case<'c> {
    statement: &'c str,
    mariadb: &'c Outcome,
    nines: &'c Outcome,
}

/// A reason, and when it is one.
type Rule = (&'static str, fn(&Case<'_>) -> bool);

/// Why two answers may differ, if there is a reason.
pub(super) fn reason(statement: &str, mariadb: &Outcome, nines: &Outcome) -> Option<&'static str> {
    let case = Case { statement, mariadb, nines };
    RULES.iter().find(|(_, holds)| holds(&case)).map(|(reason, _)| *reason)
}

const RULES: &[Rule] = &[
    ("the largest TIME has digits of a second in MariaDB", |case| {
        case.mariadb_shows("838:59:59.9")
    }),
    ("MySQL takes a number in the ORDER BY of a window for a position", |case| {
        *case.nines == Outcome::Error(3592)
    }),
    ("collations of several operands are joined in another order", |case| {
        let refused = |one: &Outcome| matches!(one, Outcome::Error(1267 | 1270 | 1271));
        refused(case.mariadb) || refused(case.nines)
    }),
    ("what is not needed may overflow", |case| {
        (*case.mariadb == Outcome::Error(1690)) != (*case.nines == Outcome::Error(1690))
    }),
    ("digits of a quotient beyond its scale, and the sign of zero", |case| {
        let inexact = case.says_one_of(&[" / ", "AVG(", "STDDEV", "VAR_", "FORMAT("]);
        is_close(case.mariadb, case.nines, if inexact { 2e-4 } else { 0.0 })
            || case.says(" / ")
                && case.says_one_of(&[" GROUP BY ", "DISTINCT", "SEC_TO_TIME", "FROM_UNIXTIME"])
    }),
    ("MariaDB wants different names of columns in INTERSECT and EXCEPT", |case| {
        *case.mariadb == Outcome::Error(1060)
    }),
    ("MariaDB takes a negative number in ORDER BY for a position", |case| {
        *case.mariadb == Outcome::Error(1054) && case.says("ORDER BY (-")
    }),
    ("MySQL has no moment that is rounded beyond the year 9999", |case| {
        case.mariadb_shows("9999-12-31 23:59:59") || case.nines_shows("9999-12-31 23:59:59")
    }),
    ("MariaDB makes no totals of a constant", |case| {
        case.says(" WITH ROLLUP") && has_constant_key(case.statement)
    }),
    ("which of two equal keys a total is of", |case| {
        case.says(" WITH ROLLUP") && has_key_twice(case.statement)
    }),
    ("MariaDB forgets that a value in a subquery of NOT IN can be NULL", |case| {
        case.says("NOT IN (SELECT")
    }),
    ("MariaDB makes a maximum of > ALL, which leaves NULL out", |case| case.says("> ALL (SELECT")),
    (
        "MariaDB takes functions that see NULL for NULL, and an outer join for an inner one",
        |case| case.says("T JOIN") && case.says_one_of(&SEES_NULL),
    ),
    ("MariaDB shows the constant of a derived table where an outer join finds no row", |case| {
        case.says("T JOIN") && has_constant_column(case.statement)
    }),
    ("MariaDB takes rows with NULL for different", |case| {
        case.says("IS UNKNOWN") && case.says_one_of(&[") = (", ") < ("])
    }),
    ("MariaDB takes NULL = NULL for true beside NULL <=> NULL", |case| {
        case.says("<=>") && case.says(" JOIN ")
    }),
    ("MariaDB sums each row of a total with DISTINCT", |case| {
        case.says(" WITH ROLLUP") && case.says("(DISTINCT")
    }),
    ("MariaDB has other types for a minimum of NULL, and in the middle of an expression", |case| {
        case.says_one_of(&["MIN(NULL", "MAX(NULL", "INTERVAL (NULL", "AS CHAR) + 0)"])
            || case.says(" DIV ") && case.mariadb_shows("-2147483648")
            || case.mariadb_shows("000000000000.000000")
    }),
    ("MariaDB compares UNSIGNED below zero as if it were signed", |case| {
        case.says_one_of(&["LEAST(", "GREATEST("]) && case.says("AS UNSIGNED)")
    }),
    ("MariaDB compares a YEAR in a row with a number as a number", |case| {
        case.says(".y") && case.says_one_of(&[") < (", ") = (", ") IN (("])
    }),
    ("MariaDB has a decimal zero below zero", |case| {
        case.says_one_of(&[" % ", "MOD("])
            && case.says_one_of(COMPARES)
            && case.says_one_of(&[".d", "-2.25", "1.5", "0.333"])
    }),
    ("MariaDB's places of an empty text are bytes", |case| case.says("LOCATE(''")),
    ("MariaDB counts a MAKE_SET of NULL twice", |case| case.says("COUNT(DISTINCT MAKE_SET")),
    ("MariaDB joins the types of a set operation by its own rules", |case| {
        case.says_one_of(&[" UNION ", " EXCEPT ", " INTERSECT "])
            && (case.says(".y") || case.mariadb_shows("999"))
    }),
];

/// What compares numbers, or makes whole ones.
const COMPARES: &[&str] = &[
    " IN (",
    " BETWEEN ",
    " = ",
    " < ",
    " <= ",
    " > ",
    " >= ",
    " <> ",
    " IS ",
    "CASE ",
    "NULLIF(",
    "LEAST(",
    "GREATEST(",
    "FLOOR(",
    "CEILING(",
    "SIGN(",
    " DIV ",
];

/// Functions of NULL that are not NULL.
const SEES_NULL: [&str; 11] = [
    "FIELD(",
    "JSON_",
    "INTERVAL(",
    "CONCAT_WS",
    "MAKE_SET",
    "EXPORT_SET",
    "ELT(",
    "QUOTE(",
    "WEEK(",
    "REPLACE(",
    "< (",
];

impl Case<'_> {
    fn says(&self, word: &str) -> bool {
        self.statement.contains(word)
    }

    fn says_one_of(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.says(word))
    }

    fn mariadb_shows(&self, text: &str) -> bool {
        shows(self.mariadb, text)
    }

    fn nines_shows(&self, text: &str) -> bool {
        shows(self.nines, text)
    }
}

fn shows(outcome: &Outcome, text: &str) -> bool {
    let Outcome::Rows(_, rows, _) = outcome else { return false };
    rows.iter().flatten().flatten().any(|value| value.contains(text))
}

/// Both keys of groups are the same.
fn has_key_twice(statement: &str) -> bool {
    let keys = statement.trim_start_matches("SELECT ").split_once(" AS g0, ");
    keys.is_some_and(|(first, rest)| rest.starts_with(&format!("{first} AS g1")))
}

/// A derived table has a column that names none.
fn has_constant_column(statement: &str) -> bool {
    [" AS x1", " AS x2"].iter().any(|name| {
        statement.match_indices(name).any(|(at, _)| !names_column(item_before(&statement[..at])))
    })
}

/// The last item of a list that may go on.
fn item_before(text: &str) -> &str {
    let mut depth = 0;
    let begin = text.rfind(|c| match c {
        ')' => {
            depth += 1;
            false
        }
        '(' | ',' if depth == 0 => true,
        '(' => {
            depth -= 1;
            false
        }
        _ => false,
    });
    &text[begin.map_or(0, |at| at + 1)..]
}

/// A key of groups names no column.
fn has_constant_key(statement: &str) -> bool {
    let list = statement.split(", COUNT(*)").next().unwrap_or_default();
    list.trim_start_matches("SELECT ").split(" AS g").any(|key| {
        let key = key.trim_start_matches(|c: char| c.is_ascii_digit() || c == ',');
        !key.is_empty() && !names_column(key)
    })
}

/// A text has a name like `t7.w`.
fn names_column(text: &str) -> bool {
    text.split('.').any(|before| {
        let alias = before.trim_end_matches(|c: char| c.is_ascii_digit());
        alias.len() < before.len() && alias.ends_with('t')
    })
}

/// The answers differ by the sign of zero, or by less than a share of the numbers.
fn is_close(one: &Outcome, other: &Outcome, share: f64) -> bool {
    let (Outcome::Rows(a, one, _), Outcome::Rows(b, other, _)) = (one, other) else { return false };
    let near = |(a, b): (&String, &String)| match (a.parse::<f64>(), b.parse::<f64>()) {
        // Whole numbers that are longer than a DOUBLE are exact.
        (Ok(_), Ok(_)) if share == 0.0 && is_long(a) && is_long(b) => a == b,
        (Ok(a), Ok(b)) => (a - b).abs() <= share * a.abs().max(1.0),
        _ => a == b,
    };
    let (one, other) = (sorted(one), sorted(other));
    let same = |(a, b): (&Vec<String>, &Vec<String>)| a.iter().zip(b).all(near);
    a == b && one.len() == other.len() && one.iter().zip(&other).all(same)
}

/// A whole number of more digits than a DOUBLE is shown with.
fn is_long(text: &str) -> bool {
    text.len() > 15 && !text.contains(['.', 'e']) && !text.ends_with("000")
}

/// The rows, sorted by the first digits of numbers.
fn sorted(rows: &[TextRow]) -> Vec<Vec<String>> {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "NULL".to_owned());
    let mut rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(text).collect()).collect();
    let short = |text: &String| match text.parse::<f64>() {
        Ok(number) => format!("{:.1e}", number + 0.0),
        Err(_) => text.clone(),
    };
    rows.sort_by_cached_key(|row| row.iter().map(short).collect::<Vec<String>>());
    rows
}

/// MySQL's number for a warning of MariaDB; none for what MySQL does not say.
pub(super) fn number_in_mysql(number: u16) -> Option<u16> {
    match number {
        1916 => Some(1292),
        3020 => Some(1365),
        1105 | 4035..=4050 => None,
        other => Some(other),
    }
}

#[test]
fn rules_know_what_they_look_for() {
    assert!(has_constant_key("SELECT '' AS g0, t1.k AS g1, COUNT(*) FROM n AS t1"));
    assert!(!has_constant_key("SELECT HEX(t12.w) AS g0, t1.k AS g1, COUNT(*) FROM n AS t1"));
    assert!(has_constant_column(
        "SELECT 1 FROM (SELECT t1.id, t1.k, t1.w, -2.25 AS x1, t1.d AS x2"
    ));
    assert!(!has_constant_column("(SELECT t1.id, t1.k, ABS(t1.d) AS x1, t1.g AS x2 FROM n AS t1"));
    assert!(has_key_twice("SELECT HEX(t1.w) AS g0, HEX(t1.w) AS g1, COUNT(*)"));
}
