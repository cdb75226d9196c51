//! Differences between MariaDB and MySQL that are accepted, each with its reason.
//!
//! Nines follows MySQL 8.4; `docs/compatibility/differences.md` tells of them at length. A rule is
//! as narrow as a look at the statement and both answers lets it be.

use std::fmt::Write as _;

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

/// Whether two answers to a statement differ by the order in which DOUBLEs were put together, or by
/// which of two zeros came first.
pub(super) fn is_of_order(statement: &str, one: &Outcome, other: &Outcome) -> bool {
    let says = |words: [&str; 2]| words.iter().any(|word| statement.contains(word));
    says(["VAR_", "STDDEV"]) && is_close(one, other, 1e-6)
        || says(["ROUND(VAR_", "ROUND(STDDEV"]) && is_close(one, other, 1e-3)
        || says(["SUM(", "AVG("]) && is_close(one, other, 1e-12)
        || says(["MIN(", "MAX("])
            && (shows(one, "-0") != shows(other, "-0"))
            && is_close(one, other, 0.0)
}

/// Why two answers may differ, if there is a reason.
pub(super) fn reason(statement: &str, mariadb: &Outcome, nines: &Outcome) -> Option<&'static str> {
    let case = Case { statement, mariadb, nines };
    RULES.iter().find(|(_, holds)| holds(&case)).map(|(reason, _)| *reason)
}

/// Which of several operands is computed first is nobody's promise.
pub(super) const NOT_NEEDED: &str = "what is not needed may overflow";

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
    (NOT_NEEDED, |case| {
        (*case.mariadb == Outcome::Error(1690)) != (*case.nines == Outcome::Error(1690))
    }),
    ("digits of a quotient beyond its scale, and the sign of zero", |case| {
        let inexact = case.says_one_of(&[" / ", "AVG(", "STDDEV", "VAR_", "FORMAT("]);
        is_close(case.mariadb, case.nines, if inexact { 2e-4 } else { 0.0 })
            || case.says(" / ")
                && case.says_one_of(&[" GROUP BY ", "DISTINCT", "SEC_TO_TIME", "FROM_UNIXTIME"])
            || case.says(" / ") && case.says(" IN (")
            || case.says(" / ") && case.says(".dw * ")
            || case.says(" / ") && case.says(".dw)") && case.says_one_of(&[" > (", " < ("])
            || case.says(" / ")
                && case.says_one_of(&[
                    "SUM((1 / ",
                    " DIV GREATEST(",
                    " DIV LEAST(",
                    "SIGN(GREATEST(",
                    "SIGN(LEAST(",
                ])
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
    ("MySQL refuses a moment beside a constant text that is none", |case| {
        *case.nines == Outcome::Error(1525) && matches!(case.mariadb, Outcome::Rows(..))
    }),
    ("MariaDB reads a text of one zero as a date without year, month and day", |case| {
        case.says_one_of(&["COALESCE(NULL, TIMESTAMP'", "COALESCE(NULL, DATE'"])
            && case.says_one_of(&["CONCAT_WS(", "CAST("])
    }),
    ("MariaDB rounds a CAST to CHAR beside a whole number", |case| {
        case.says("AS CHAR")
            && case.says_one_of(&[
                "AS CHAR) = ",
                "AS CHAR(4)) = ",
                "AS CHAR) < ",
                "AS CHAR(4)) + 0)",
                "AS CHAR) * 1)",
                " = CAST(",
                " < CAST(",
            ])
    }),
    ("MariaDB takes a number too large for a DOUBLE for JSON", |case| {
        case.says("JSON_VALID(") && case.says("HEX(FORMAT(")
    }),
    ("moments among the texts of LEAST and GREATEST, of which the manual does not tell", |case| {
        ["LEAST(", "GREATEST("].iter().flat_map(|call| calls(case.statement, call)).any(|all| {
            let moment = ["COALESCE(NULL, TIMESTAMP'", "COALESCE(NULL, t"];
            all.iter().any(|one| moment.iter().any(|beginning| one.starts_with(beginning)))
        })
    }),
    ("MariaDB has no room for the values of an IF with a short decimal", |case| {
        case.says("COUNT(DISTINCT ") && case.says("IF(NULL, 1.5, ")
    }),
    ("MariaDB takes an aggregate for a member of any list that depends on the row", |case| {
        case.says_one_of(&["((SELECT MAX(", "((SELECT MIN(", "((SELECT COUNT("])
            && case.says_one_of(&[") = ANY (SELECT", ") IN (SELECT"])
    }),
    ("MariaDB shows six digits of PI() beside a text that is a number", |case| {
        case.says("PI()") && is_close(case.mariadb, case.nines, 1e-6)
    }),
    ("MariaDB reads two digits of a longer text as a year", |case| {
        case.says(".y ") && case.says_one_of(&["'3.7x'", "'12abc'"])
            || case.says(".y < FORMAT(")
            || case.says("(FORMAT(") && case.says(" = ") && case.says(".y)")
    }),
    ("MySQL writes the sign of a DOUBLE that is zero, also within a text", |case| {
        case.nines_shows("-0") && case.says("ROUND(")
    }),
    ("MariaDB takes rows with NULL for different", |case| {
        case.says(") IS UNKNOWN") && case.says_one_of(&[") = (", ") < ("])
    }),
    ("MariaDB makes a maximum of > ALL, which leaves NULL out", |case| case.says("> ALL (SELECT")),
    ("MariaDB loses the sign of a TIME that is a number", |case| {
        case.says(" * 1)") && case.says_one_of(&["TIME'", ".ti", ".t3", "_TO_TIME(", "MAKETIME("])
    }),
    (
        "MariaDB knows no unsigned number in JSON, and has another character set for its types",
        |case| case.says("JSON_TYPE("),
    ),
    ("MySQL's JSON_UNQUOTE compares letter by letter", |case| case.says("JSON_UNQUOTE(")),
    ("MariaDB counts the characters of a number as it was written", |case| {
        case.says(", 1e3)") || casts_number_to_text(case.statement)
    }),
    ("MariaDB writes zeros for a long DOUBLE", |case| case.mariadb_shows("100000000000000000")),
    ("NULL in arithmetic is a DOUBLE in MySQL, a DECIMAL in MariaDB", |case| {
        case.says_one_of(&[
            "(NULL %",
            "((NULL",
            "TRUNCATE(NULL",
            "ROUND(NULL",
            "CEILING(NULL",
            "FLOOR(NULL",
            "(NULL + ",
            " % NULL)",
            "(NULL - ",
            "(NULL * ",
        ]) && case.says("SEC_TO_TIME")
    }),
    ("NULL with a sign is a DOUBLE in MySQL, a DECIMAL in MariaDB", |case| case.says("(-NULL)")),
    ("the sign of zero, in hexadecimal or as a code", |case| {
        case.says("HEX(") && case.nines_shows("2D302E303030303030")
            || case.says("FORMAT(")
                && (case.says("HEX(") && case.nines_shows("2D302E303030")
                    || case.says("ORD(") && case.nines_shows("45"))
    }),
    ("MySQL takes no number for JSON_QUOTE", |case| {
        case.says("JSON_QUOTE(") && *case.nines == Outcome::Error(3064)
    }),
    ("MariaDB leaves a YEARWEEK or a BIT_COUNT beside a DECIMAL too few digits", |case| {
        case.says_one_of(&["YEARWEEK(", "BIT_COUNT("]) && case.mariadb_shows("9.9")
    }),
    ("MariaDB counts different codes beside a DECIMAL with a digit before the point", |case| {
        case.says("COUNT(DISTINCT") && case.says("IF(NULL, 0.333, ASCII(")
    }),
    ("rows that NULL leaves undecided are less or not in MariaDB, NULL in MySQL", |case| {
        case.says_one_of(&["((1, 1.5) < (", "((0, 1.5) < ("])
    }),
    ("a text between NULL and a text, with a date in a branch that is not taken", |case| {
        case.says_one_of(&["THEN NULL ELSE DATE'", "THEN NULL ELSE TIMESTAMP'"])
            && case.says(" BETWEEN CASE ")
    }),
    ("MariaDB rounds the negative of a text, and its product", |case| {
        case.says_one_of(&["(-CAST(", "(-CONCAT(", "(-REPLACE(", "(-SUBSTRING(", " AS CHAR) * "])
    }),
    ("the sign of zero, formatted", |case| {
        case.says("FORMAT((-") && case.nines_shows("-0.0")
            || case.says("HEX(") && case.says("(-'')") && case.nines_shows("2D30")
    }),
    ("MariaDB takes a string that ELT does not find for one that is there", |case| {
        case.says_one_of(&["ISNULL(ELT(", "HEX(ELT(", ", ELT("])
    }),
    ("MariaDB finds a constant of a subquery among those that are another", |case| {
        case.says_one_of(&[
            "WHERE TRUE) NOT IN (SELECT ",
            "LIMIT 1) NOT IN (SELECT ",
            ")) NOT IN (SELECT ",
        ]) || case.says_one_of(&["(SELECT MIN(", "(SELECT MAX("])
            && case.says_one_of(&[") IN (SELECT '", ") IN (SELECT NULL"])
    }),
    ("MariaDB finds a date among empty texts", |case| {
        case.says("ELSE DATE'") && case.says_one_of(&[" NOT IN (SELECT '' ", "(SELECT MIN('"])
    }),
    ("MariaDB does not find a comparison of rows unknown", |case| {
        case.says(") < (") && case.says(" IS NULL)") || case.says("COUNT((((") && case.says(") = (")
    }),
    ("a moment between NULL and a text that is none", |case| {
        case.says_one_of(&["NOT BETWEEN NULL AND ", "NOT BETWEEN t1.w AND t1.w"])
            && case.says_one_of(&["TIMESTAMP'", "DATE'", "COALESCE(NULL, "])
            || case.says(" NOT IN (SELECT COALESCE(NULL, TIMESTAMP'")
            || case.says_one_of(&[" < COALESCE(NULL, t", "(COALESCE(NULL, t2.x2) >= HEX("])
    }),
    ("MariaDB takes a number without digits after its point for JSON", |case| {
        case.says("JSON_VALID(") && case.says_one_of(&[".bn", "JSON_VALID(LEFT("])
    }),
    ("MariaDB takes a number beyond DOUBLE for JSON", |case| {
        case.says_one_of(&["JSON_VALID(HEX(", "JSON_VALID((SELECT HEX("])
    }),
    ("JSON_VALUE is case-sensitive and does not pad in MySQL", |case| {
        const ASKS: &[&str] =
            &["SPACE(", " BY ", "DISTINCT", "STRCMP(", "LEAST(", "GREATEST(", " LIKE "];
        case.says("JSON_VALUE(") && (case.says_one_of(ASKS) || case.says_one_of(COMPARES))
    }),
    ("MariaDB's TO_DAYS has room for six digits beside a decimal", |case| {
        case.says("TO_DAYS(") && case.mariadb_shows("999999.9")
    }),
    ("MariaDB's DIV has room for fewer digits", |case| {
        case.says_one_of(&["LEAST(1.5, ", "GREATEST(1.5, ", "CONCAT_WS("]) && case.says(" DIV ")
    }),
    ("MariaDB loses digits of products of long decimals", |case| {
        case.says("SUM(t2.dw)") && case.says(" * ")
    }),
    ("MariaDB has no digits of a second of a DOUBLE that is none", |case| {
        case.says("SEC_TO_TIME(CASE ") && case.says(" - NULL)")
    }),
    ("MariaDB takes the UNSIGNED of a subquery for a signed number", |case| {
        case.says("(SELECT (~")
    }),
    ("MariaDB has the constant of a derived table where an outer join has no row", |case| {
        case.says_one_of(&["1.5 AS x1", "1 AS x1"])
            && case.says_one_of(&[" LEFT JOIN ", " RIGHT JOIN "])
            && case.says("SUM(t2.x1) OVER (")
    }),
    ("MariaDB takes a YEAR beside an unsigned number of one byte for such a one", |case| {
        case.says_one_of(&[".u8, t1.y)", ".y, t1.u8)"])
    }),
    ("MariaDB has a time zero below zero", |case| {
        case.mariadb_shows("-00:00:00") && !case.nines_shows("-00:00:00")
    }),
    ("MariaDB's ASCII has room for two digits", |case| {
        case.says("ASCII(")
            && (case.says("PARTITION BY ") || case.mariadb_shows("99"))
            && case.says_one_of(&[
                "PARTITION BY",
                "DISTINCT",
                " UNION ",
                " EXCEPT ",
                " INTERSECT ",
                ") / ",
            ])
    }),
    ("MariaDB keeps bits of a DECIMAL within those of a signed number", |case| {
        case.says("BIT_") && case.says_one_of(&["(~", "AS UNSIGNED)", ".ub"])
    }),
    ("MariaDB joins TINYINT and YEAR to TINYINT", |case| {
        case.says(".y")
            && case.says_one_of(&[
                "DISTINCT",
                "ORDER BY CASE",
                "ORDER BY IFNULL(",
                "ORDER BY COALESCE(",
            ])
            && case.says_one_of(&[".u8", ".t8"])
    }),
    ("MariaDB makes a DECIMAL of numbers with and without a sign for CAST to UNSIGNED", |case| {
        case.says_one_of(&["CAST(CASE ", "CAST(IF(", "CAST(IFNULL(", "CAST(COALESCE("])
            && case.says(" AS UNSIGNED)")
            && case.nines_shows("1844674407")
    }),
    ("MariaDB makes no totals of a constant", |case| {
        case.says(" WITH ROLLUP") && has_constant_key(case.statement)
    }),
    ("which of two equal keys a total is of", |case| {
        case.says(" WITH ROLLUP") && has_key_twice(case.statement)
    }),
    ("MariaDB sums each row of a total with DISTINCT", |case| {
        case.says(" WITH ROLLUP") && case.says("(DISTINCT")
    }),
    ("MariaDB has other types for a minimum of NULL, and in the middle of an expression", |case| {
        const NULLS: &[&str] = &[
            "MIN(NULL",
            "MAX(NULL",
            "MIN((NULL",
            "MAX((NULL",
            "INTERVAL (NULL",
            "INTERVAL ((NULL)",
            "AS CHAR) + 0)",
        ];
        case.says_one_of(NULLS)
            || case.says(" DIV ") && case.mariadb_shows("-2147483648")
            || case.mariadb_shows("000000000000.000000")
    }),
    ("MariaDB compares UNSIGNED below zero as if it were signed", |case| {
        case.says_one_of(&["LEAST(", "GREATEST("])
            && case.says_one_of(&["AS UNSIGNED)", ".ub", " << ", " ^ ", "(~"])
    }),
    ("MariaDB compares a YEAR in a row with a number as a number", |case| {
        case.says(".y") && case.says_one_of(&[") < (", ") = (", ") IN (("])
    }),
    ("MariaDB has a decimal zero below zero", |case| {
        case.says_one_of(&[" % ", "MOD("])
            && (case.says_one_of(COMPARES) || case.says("ATAN"))
            && case.says_one_of(&[".d", "-2.25", "1.5", "0.333"])
    }),
    ("MariaDB has a quotient below zero that is zero", |case| {
        case.says("CASE (") && case.says(" / t1.b) WHEN ")
    }),
    ("MariaDB has a decimal zero below zero within a text", |case| {
        case.says_one_of(&[" % ", "MOD("])
            && with_zeros(case.mariadb).is_some_and(|rows| Some(rows) == with_zeros(case.nines))
    }),
    ("MariaDB has a group of its own for a decimal zero below zero", |case| {
        case.says_one_of(&[" % ", "MOD("])
            && case.says_one_of(&[" GROUP BY ", "DISTINCT"])
            && case.mariadb_shows("-0.0")
            && !case.nines_shows("-0.0")
    }),
    ("MariaDB takes a CASE of a text and a date for bytes, and each for a letter", |case| {
        case.says_one_of(&["ELSE DATE'", "ELSE TIMESTAMP'"])
            && case.says("CASE ")
            && (case.mariadb_shows("æ—¥æœ¬") || case.mariadb_shows("Ã©t"))
    }),
    ("MariaDB's texts of an HOUR have room for two digits", |case| {
        case.says("HOUR(")
            && case.says_one_of(&["DISTINCT", " UNION ", " GROUP BY "])
            && is_cut(case)
    }),
    ("MariaDB's places of an empty text are bytes", |case| case.says_with("LOCATE(", 3)),
    (
        "MariaDB takes a BIGINT beside a YEAR for a DECIMAL, whose HEX goes through a DOUBLE",
        |case| {
            let joins = ["COALESCE(", "IFNULL(", "CASE ", "IF(", "LEAST(", "GREATEST("];
            case.says(".y")
                && case.says(".b")
                && joins.iter().any(|one| case.says(&format!("HEX({one}")))
        },
    ),
    ("MariaDB takes FIELD of NULL for NULL beside an outer join", |case| {
        case.says_one_of(&["WHERE (FIELD(", "WHERE ((FIELD("])
            && case.says_one_of(&[" LEFT JOIN ", " RIGHT JOIN "])
    }),
    ("MariaDB takes a text that is no date for the date zero beside a date of a CASE", |case| {
        case.says_one_of(&[".db END)", ".da END)"]) && case.says(" THEN NULL ELSE ")
    }),
    ("MariaDB has a text of an IF between NULL and NULL", |case| {
        ["TRUE", "FALSE", "NULL"].iter().any(|one| case.says(&format!("IF({one}, NULL, NULL)")))
    }),
    ("MariaDB's MAKE_SET has bytes where a CASE of a text and a date is among its texts", |case| {
        case.says("MAKE_SET(") && case.says_one_of(&["ELSE DATE'", "ELSE TIMESTAMP'"])
    }),
    ("MariaDB takes numbers for JSON: an IF of NULL and a number is one", |case| {
        calls(case.statement, "JSON_VALID(").any(|arguments| {
            arguments.iter().any(|one| {
                one.starts_with("IFNULL(NULL, ")
                    || one.starts_with("IF(")
                        && calls(one, "IF(").any(|parts| parts.get(1) == Some(&"NULL"))
            })
        })
    }),
    ("MariaDB joins the types of a set operation by its own rules", |case| {
        case.says_one_of(&[" UNION ", " EXCEPT ", " INTERSECT "])
            && (case.says_one_of(&[".y", "GREATEST(NULL", "LEAST(NULL"])
                || case.mariadb_shows("999")
                || case.mariadb_shows("99.9")
                || case.says("HOUR(") && case.mariadb_shows("99"))
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

impl Case<'_> {
    fn says(&self, word: &str) -> bool {
        self.statement.contains(word)
    }

    fn says_one_of(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.says(word))
    }

    /// Calls a function, by its name and parenthesis, with so many arguments.
    fn says_with(&self, call: &str, count: usize) -> bool {
        calls(self.statement, call).any(|arguments| arguments.len() == count)
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

/// Each text of MariaDB is the one of Nines, or that without its end.
fn is_cut(case: &Case<'_>) -> bool {
    let (Outcome::Rows(_, one, _), Outcome::Rows(_, other, _)) = (case.mariadb, case.nines) else {
        return false;
    };
    let begins = |(short, long): (&Option<String>, &Option<String>)| match (short, long) {
        (Some(short), Some(long)) => long.starts_with(short.as_str()),
        (short, long) => short == long,
    };
    let rows = one.iter().zip(other);
    one.len() == other.len() && rows.into_iter().all(|(a, b)| a.iter().zip(b).all(begins))
}

/// The rows, with decimal zeros that have no sign.
fn with_zeros(outcome: &Outcome) -> Option<Vec<Vec<Option<String>>>> {
    let Outcome::Rows(_, rows, _) = outcome else { return None };
    let positive = |value: &Option<String>| value.as_deref().map(without_signs_of_zeros);
    Some(rows.iter().map(|row| row.iter().map(positive).collect()).collect())
}

/// Three zeros behind the point are a zero whatever digits follow: a text may be put together.
fn without_signs_of_zeros(text: &str) -> String {
    let mut pieces = text.split("-0.");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches('0');
        let zeros = piece.len() - rest.len();
        let is_zero = zeros >= 3 || zeros > 0 && !rest.starts_with(|c: char| c.is_ascii_digit());
        out.push_str(if is_zero { "0." } else { "-0." });
        out.push_str(piece);
    }
    out
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

/// A literal number that is no integer is made text.
fn casts_number_to_text(statement: &str) -> bool {
    statement.match_indices(" AS CHAR").any(|(at, _)| {
        let before = &statement[..at];
        let number = before.rsplit("CAST(").next().unwrap_or_default();
        number.parse::<f64>().is_ok() && number.parse::<i64>().is_err()
    })
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

/// The statement with each condition of WHERE and ON in a function that hides from an optimizer
/// what it says of NULL, of ranges and of equal columns; its rows are the same.
pub(super) fn shielded(statement: &str) -> String {
    let mut out = String::with_capacity(statement.len() + 64);
    let mut rest = statement;
    let next = |text: &str| {
        let found = [" WHERE ", " ON "].map(|word| text.find(word).map(|at| at + word.len()));
        found.into_iter().flatten().min()
    };
    while let Some(at) = next(rest) {
        let (before, after) = rest.split_at(at);
        let end = end_of_condition(after);
        out.push_str(before);
        out.push_str("COALESCE((");
        out.push_str(&shielded(&after[..end]));
        out.push_str("), FALSE)");
        rest = &after[end..];
    }
    out.push_str(rest);
    out
}

/// The arguments of each call of a function, which is given with its parenthesis.
fn calls<'s>(statement: &'s str, call: &str) -> impl Iterator<Item = Vec<&'s str>> {
    let begins = statement.match_indices(call).map(|(at, _)| (at, at + call.len()));
    let alone = |at: usize| !statement[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    begins.filter(move |(at, _)| alone(*at)).map(|(_, at)| arguments(&statement[at..]).0)
}

/// The arguments of a call up to its parenthesis, and where that is.
fn arguments(text: &str) -> (Vec<&str>, usize) {
    let (mut all, mut from) = (Vec::new(), 0);
    for (at, c) in open_characters(text).filter(|(_, c)| matches!(c, ',' | ')')) {
        all.push(text[from..at].trim());
        if c == ')' {
            return (all, at);
        }
        from = at + 1;
    }
    (all, text.len())
}

/// The characters of a text that are in no quotes and in no parentheses of its own, with their
/// places.
fn open_characters(text: &str) -> impl Iterator<Item = (usize, char)> {
    let (mut depth, mut quoted) = (0, false);
    text.char_indices().filter(move |(_, c)| {
        match c {
            '\'' => quoted = !quoted,
            _ if quoted => {}
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            _ => return depth == 0,
        }
        false
    })
}

/// The statement with each MAKE_SET made of simpler functions: MariaDB's takes what an argument
/// that is NULL has left in its buffer for a text.
pub(super) fn spelled_out(statement: &str) -> String {
    const CALL: &str = "MAKE_SET(";
    let Some(at) = statement.find(CALL) else { return statement.to_owned() };
    let (before, after) = statement.split_at(at + CALL.len());
    let (arguments, end) = arguments(after);
    let mut parts = arguments.iter().map(|argument| spelled_out(argument));
    let bits = parts.next().unwrap_or_default();
    let mut out = format!("{}IF(({bits}) IS NULL, NULL, CONCAT_WS(','", &before[..at]);
    for (number, text) in parts.enumerate() {
        let _ = write!(out, ", IF(({bits}) & {}, {text}, NULL)", 1 << number);
    }
    out.push_str("))");
    out + &spelled_out(after.get(end + 1..).unwrap_or_default())
}

/// Where a condition ends: at a parenthesis that it has not opened, or a word of the query.
fn end_of_condition(text: &str) -> usize {
    const WORDS: [&str; 11] = [
        " JOIN ",
        " LEFT JOIN ",
        " RIGHT JOIN ",
        " WHERE ",
        " GROUP BY ",
        " HAVING ",
        " ORDER BY ",
        " LIMIT ",
        " UNION ",
        " EXCEPT ",
        " INTERSECT ",
    ];
    let ends = |(at, c): &(usize, char)| match c {
        ')' | ',' => true,
        ' ' => WORDS.iter().any(|word| text[*at..].starts_with(word)),
        _ => false,
    };
    open_characters(text).find(ends).map_or(text.len(), |(at, _)| at)
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
fn conditions_are_shielded() {
    let joined = "SELECT 1 FROM (a JOIN b ON a.k = b.k LEFT JOIN c ON (a.k = '), ')) WHERE x AND \
                  EXISTS (SELECT 1 FROM d WHERE y) ORDER BY 1";
    let expected = "SELECT 1 FROM (a JOIN b ON COALESCE((a.k = b.k), FALSE) LEFT JOIN c ON \
                    COALESCE(((a.k = '), ')), FALSE)) WHERE COALESCE((x AND EXISTS (SELECT 1 \
                    FROM d WHERE COALESCE((y), FALSE))), FALSE) ORDER BY 1";
    assert_eq!(shielded(joined), expected);
}

#[test]
fn sets_are_spelled_out() {
    let set = "SELECT MAKE_SET(1, 'a,)', MAKE_SET(t.k, 'b', f(1, 2))) FROM t WHERE x";
    let inner = "IF((t.k) IS NULL, NULL, CONCAT_WS(',', IF((t.k) & 1, 'b', NULL), IF((t.k) & 2, \
                 f(1, 2), NULL)))";
    let expected = format!(
        "SELECT IF((1) IS NULL, NULL, CONCAT_WS(',', IF((1) & 1, 'a,)', NULL), IF((1) & 2, \
         {inner}, NULL))) FROM t WHERE x"
    );
    assert_eq!(spelled_out(set), expected);
    let ifs: Vec<Vec<&str>> = calls("IF(a, ',', g(1, 2)) + NULLIF(b, c)", "IF(").collect();
    assert_eq!(ifs, [["a", "','", "g(1, 2)"]]);
}

#[test]
fn rules_know_what_they_look_for() {
    assert!(has_constant_key("SELECT '' AS g0, t1.k AS g1, COUNT(*) FROM n AS t1"));
    assert!(!has_constant_key("SELECT HEX(t12.w) AS g0, t1.k AS g1, COUNT(*) FROM n AS t1"));
    assert!(has_constant_column(
        "SELECT 1 FROM (SELECT t1.id, t1.k, t1.w, -2.25 AS x1, t1.d AS x2"
    ));
    assert!(!has_constant_column("(SELECT t1.id, t1.k, ABS(t1.d) AS x1, t1.g AS x2 FROM n AS t1"));
    assert_eq!(without_signs_of_zeros("-0.0, -0.05-0.000a-0.0002024"), "0.0, -0.050.000a0.0002024");
    assert!(has_key_twice("SELECT HEX(t1.w) AS g0, HEX(t1.w) AS g1, COUNT(*)"));
}
