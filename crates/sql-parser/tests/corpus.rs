//! Every form of every statement: parses, prints, parses to the same tree; broken, never panics.

use sql_parser::ast::{Expr, InsertSource, Literal, Statement};
use sql_parser::{
    LiteralRows, Literals, NESTING_MAX, ParseError, RowLiteral, SqlMode, TREE_HEIGHT_MAX, digest,
    parameterise, parse, parse_at, parse_expression, parse_parameterised,
};
use stdx::Prng;

const CORPUS: [&str; 6] = [
    include_str!("corpus/query.sql"),
    include_str!("corpus/expression.sql"),
    include_str!("corpus/manipulation.sql"),
    include_str!("corpus/definition.sql"),
    include_str!("corpus/session.sql"),
    include_str!("corpus/account.sql"),
];
const UNSUPPORTED: &str = include_str!("corpus/unsupported.sql");

/// The statements, one in a line; headings begin with `# `.
fn statements() -> impl Iterator<Item = &'static str> {
    CORPUS.iter().flat_map(|file| file.lines()).filter(|line| !line.starts_with("# "))
}

fn parsed(sql: &str) -> Result<Statement, ParseError> {
    parse(sql.as_bytes(), SqlMode::default())
}

#[test]
fn the_corpus_is_large() {
    assert!(statements().count() >= 600, "{}", statements().count());
}

#[test]
fn each_statement_parses_and_survives_printing() {
    let mut failures = Vec::new();
    for sql in statements() {
        let tree = match parsed(sql) {
            Ok(tree) => tree,
            Err(error) => {
                failures.push(format!("{sql}\n    {error}"));
                continue;
            }
        };
        let printed = tree.to_string();
        match parsed(&printed) {
            Ok(again) if again == tree => {}
            Ok(again) => failures.push(format!("{sql}\n    {printed}\n    {again}")),
            Err(error) => failures.push(format!("{sql}\n    {printed}\n    {error}")),
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn unsupported_statements_are_named() {
    for sql in UNSUPPORTED.lines() {
        match parsed(sql) {
            Ok(Statement::Unsupported { feature }) => {
                let first = sql.split(' ').next().unwrap();
                assert!(feature.starts_with(first), "{sql}: {feature}");
            }
            other => panic!("{sql}: {other:?}"),
        }
    }
}

#[test]
fn only_the_unsupported_are_unsupported() {
    for sql in statements() {
        let is_unsupported = matches!(parsed(sql), Ok(Statement::Unsupported { .. }));
        assert!(!is_unsupported, "{sql}");
    }
}

#[test]
fn each_statement_parses_beside_others() {
    let mode = SqlMode::default();
    for sql in statements().filter(|sql| !sql.starts_with("CREATE") && !sql.contains(" #")) {
        let text = format!("{} ;; SELECT 2", sql.trim_end_matches(';'));
        if sql.contains("-- to the end") {
            continue;
        }
        let first = parse_at(text.as_bytes(), 0, mode).unwrap_or_else(|e| panic!("{sql}: {e}"));
        let next = first.next.unwrap_or_else(|| panic!("{sql}: nothing follows"));
        assert_eq!(text[next..].trim(), "SELECT 2", "{sql}");
        assert_eq!(text[..first.end].trim(), sql.trim_end_matches(';').trim(), "{sql}");
        let second = parse_at(text.as_bytes(), next, mode).unwrap();
        assert_eq!((second.next, second.end), (None, text.len()));
    }
}

/// A statement whose literals became parameters, with the literals put back as text.
fn with_literals(statement: &Statement, values: &[Literal]) -> String {
    let printed = statement.to_string();
    let mut values = values.iter();
    let mut text = String::new();
    let mut quote = None;
    for char in printed.chars() {
        match (quote, char) {
            (None, '\'' | '`') => quote = Some(char),
            (Some(open), _) if open == char => quote = None,
            _ => {}
        }
        match (quote, char) {
            (None, '?') => {
                text +=
                    &Expr::Literal(values.next().expect("a literal for each").clone()).to_string();
            }
            _ => text.push(char),
        }
    }
    assert!(values.next().is_none());
    text
}

/// Makes rows that were taken out of an INSERT a part of its tree.
fn put_back(tree: &mut Statement, rows: &LiteralRows) {
    let Statement::Insert(insert) = tree else { panic!("only an INSERT has such rows") };
    let expr = |RowLiteral { negative, literal }| {
        if negative {
            let text = format!("-{}", Expr::Literal(literal));
            parse_expression(text.as_bytes(), SqlMode::default()).expect("a negative number")
        } else {
            Expr::Literal(literal)
        }
    };
    let row = |at| rows.row(at).map(expr).collect();
    insert.source = InsertSource::Values((0..rows.count()).map(row).collect());
}

#[test]
fn parameterised_statements_mean_the_same() {
    let mode = SqlMode::default();
    let mut literals = Literals::default();
    let (mut keys, mut with_form, mut with_rows) = (0, 0, 0);
    for sql in statements().filter(|sql| !sql.contains("\\'")) {
        let Some(hash) = parameterise(sql.as_bytes(), mode, &mut literals, &|| true) else {
            continue;
        };
        keys += 1;
        let tree = parse_parameterised(sql.as_bytes(), mode, &literals, &|| true)
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
        let Some(mut tree) = tree else { continue };
        with_form += 1;
        if let Some(rows) = literals.take_rows(sql.as_bytes(), mode) {
            with_rows += 1;
            put_back(&mut tree, &rows);
        }
        let values: Vec<Literal> = literals.values(sql.as_bytes(), mode).collect();
        let text = with_literals(&tree, &values);
        assert_eq!(parsed(&text), parsed(sql), "{sql}\n{text}");
        // The same statement with other spaces before it has the same key and values.
        let mut again = Literals::default();
        let trailed = format!("{sql}  ");
        let _ = parameterise(trailed.as_bytes(), mode, &mut again, &|| true);
        assert_eq!(again.len(), literals.len(), "{sql}");
        assert_eq!(parameterise(sql.as_bytes(), mode, &mut literals, &|| true), Some(hash));
    }
    assert!(keys > 150 && with_form > 140, "{keys} keys, {with_form} with a form");
    assert!(with_rows > 5, "{with_rows} with rows of literals");
}

#[test]
fn a_body_ends_before_what_separates_statements() {
    let body = |sql: &str| match parse(sql.as_bytes(), SqlMode::default()) {
        Ok(Statement::CreateRoutine(routine)) => routine.body,
        other => panic!("{other:?}"),
    };
    for end in ["", ";", " ; ", ";;", "; ;", " ;\n; "] {
        assert_eq!(&*body(&format!("CREATE PROCEDURE p() CALL q(){end}")), "() CALL q()");
    }
}

#[test]
fn a_definer_without_a_host_is_of_any_host() {
    let tree = |sql: &str| parse(sql.as_bytes(), SqlMode::default()).unwrap();
    let view = tree("CREATE DEFINER=u VIEW v AS SELECT 1");
    assert_eq!(view, tree("CREATE DEFINER='u'@'%' VIEW v AS SELECT 1"));
    assert_eq!(view, tree(&view.to_string()));
}

#[test]
fn a_row_of_partition_values_is_one_however_it_is_written() {
    let tree = |row: &str| {
        let values = format!("PARTITION p VALUES IN ((1, 2), {row})");
        let sql =
            format!("CREATE TABLE t (a INT, b INT) PARTITION BY LIST COLUMNS (a, b) ({values})");
        parse(sql.as_bytes(), SqlMode::default()).unwrap()
    };
    assert_eq!(tree("+(3, 4)"), tree("(3, 4)"));
}

#[test]
fn only_options_follow_options_without_a_comma() {
    for (actions, is_one) in [
        ("REBUILD PARTITION p0, p", true),
        ("REBUILD PARTITION p0, p ENGINE=x", false),
        ("TRUNCATE PARTITION ALL COMMENT 'x'", false),
        ("ADD COLUMN a INT ENGINE=x", false),
        ("ADD COLUMN a INT, ENGINE=x COMMENT 'x'", true),
        ("ENGINE=x COMMENT 'x', DROP a", true),
        ("ENGINE=x, LOCK=NONE COMMENT 'x'", false),
        ("ORDER BY a AUTO_INCREMENT=10", false),
        ("ORDER BY a, AUTO_INCREMENT=10", true),
        ("ADD COLUMN a INT PARTITION BY KEY (a)", true),
        ("ADD COLUMN a INT, PARTITION BY KEY (a)", false),
        ("LOCK=NONE REMOVE PARTITIONING", true),
        ("REMOVE PARTITIONING, DROP a", false),
        ("DROP PARTITION p REMOVE PARTITIONING", false),
    ] {
        let sql = format!("ALTER TABLE t {actions}");
        assert_eq!(parse(sql.as_bytes(), SqlMode::default()).is_ok(), is_one, "{sql}");
    }
}

#[test]
fn a_size_is_made_of_digits() {
    for (size, is_one) in [("4M", true), ("'4M'", false), ("$m", false), ("m", false)] {
        let sql = format!("CREATE TABLE t (a INT) AUTOEXTEND_SIZE = {size}");
        assert_eq!(parse(sql.as_bytes(), SqlMode::default()).is_ok(), is_one, "{sql}");
    }
}

#[test]
fn a_privilege_is_a_word() {
    for (name, is_one) in [("BACKUP_ADMIN", true), ("`backup_admin`", true), ("` O X`", false)] {
        let sql = format!("GRANT {name} ON *.* TO u");
        assert_eq!(parse(sql.as_bytes(), SqlMode::default()).is_ok(), is_one, "{sql}");
    }
    assert!(parse(b"GRANT ` O X` TO u", SqlMode::default()).is_ok());
}

#[test]
fn a_call_with_other_arguments_than_the_grammar_has_is_printed_as_one() {
    let call = parse(b"SELECT SUBSTR (5), SUBSTR('a', 1)", SqlMode::default()).unwrap();
    assert_eq!(parse(call.to_string().as_bytes(), SqlMode::default()).as_ref(), Ok(&call));
}

#[test]
fn an_empty_name_is_printed_as_the_text_it_was() {
    let engine = parse(b"CREATE TABLE t (a INT) ENGINE ''", SqlMode::default()).unwrap();
    assert_eq!(parse(engine.to_string().as_bytes(), SqlMode::default()).as_ref(), Ok(&engine));
}

#[test]
fn a_body_is_not_empty() {
    const TRIGGER: &str = "CREATE TRIGGER tr AFTER DELETE ON t FOR EACH ROW";
    const PROCEDURE: &str = "CREATE PROCEDURE p";
    for (head, body, is_one) in [
        (TRIGGER, "", false),
        (TRIGGER, ";", false),
        (TRIGGER, "PRECEDES x;", false),
        (TRIGGER, "PRECEDES x CALL q();", true),
        (PROCEDURE, "() CALL q();", true),
        (PROCEDURE, ";", false),
    ] {
        let sql = format!("{head} {body}");
        assert_eq!(parse(sql.as_bytes(), SqlMode::default()).is_ok(), is_one, "{sql}");
    }
}

#[test]
fn mutated_statements_never_panic() {
    let statements: Vec<&str> = statements().chain(UNSUPPORTED.lines()).collect();
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let mut prng = Prng::new(number("SEED").unwrap_or(1));
    let mut literals = Literals::default();
    let rounds = number("ROUNDS").unwrap_or(40_000);
    for _ in 0..rounds {
        let mut sql = prng.pick(&statements).as_bytes().to_vec();
        for _ in 0..prng.between(1, 4) {
            mutate(&mut sql, &statements, &mut prng);
        }
        let mode = SqlMode {
            ansi_quotes: prng.percent(20),
            pipes_as_concat: prng.percent(20),
            no_backslash_escapes: prng.percent(20),
            high_not_precedence: prng.percent(20),
            ignore_space: prng.percent(20),
        };
        let found = parameterise(&sql, mode, &mut literals, &|| true);
        if found.is_some() {
            let _ = parse_parameterised(&sql, mode, &literals, &|| true);
            assert_eq!(literals.values(&sql, mode).count(), literals.len());
            if let Some(rows) = literals.take_rows(&sql, mode) {
                let width = rows.row(0).count();
                assert!((0..rows.count()).all(|at| rows.row(at).count() == width));
            }
        }
        let _ = digest(&sql, mode);
        match parse(&sql, mode) {
            Err(error) => assert!(!error.message().is_empty()),
            Ok(Statement::Unsupported { .. }) => {}
            Ok(tree) => {
                let printed = tree.to_string();
                let again = parse(printed.as_bytes(), SqlMode::default());
                let lossy = std::str::from_utf8(&sql).is_err() || has_parameters_out_of_order(&sql);
                let sql = String::from_utf8_lossy(&sql);
                assert!(lossy || again.as_ref() == Ok(&tree), "{sql}\n{printed}\n{again:?}");
            }
        }
    }
}

/// `INTERVAL ? DAY + ?` is printed the other way round.
fn has_parameters_out_of_order(sql: &[u8]) -> bool {
    let text = String::from_utf8_lossy(sql).to_ascii_uppercase();
    text.contains("INTERVAL") && text.matches('?').count() > 1
}

/// One small change, as a slip of a hand or a line would make it.
fn mutate(sql: &mut Vec<u8>, statements: &[&str], prng: &mut Prng) {
    if sql.is_empty() {
        sql.push(b'(');
    }
    let at = prng.index(sql.len());
    match prng.below(7) {
        0 => {
            sql.remove(at);
        }
        1 => sql.insert(at, *prng.pick(b"()'\"`\\,.;@?*/-#!|&<>=:{}0x \n_\xC3\xFF")),
        2 => sql[at] = prng.below(256) as u8,
        3 => sql.truncate(at),
        4 => {
            let end = at + prng.index(sql.len() - at);
            let piece = sql[at..end].to_vec();
            let to = prng.index(sql.len());
            sql.splice(to..to, piece);
        }
        5 => {
            let other = prng.pick(statements).as_bytes();
            let from = prng.index(other.len());
            let len = prng.index((other.len() - from).min(30));
            sql.splice(at..at, other[from..from + len].iter().copied());
        }
        _ => {
            let words: [&[u8]; 8] =
                [b" SELECT ", b" NOT ", b" IN ", b" (", b") ", b" AS ", b" NULL ", b" /*!"];
            let word = *prng.pick(&words);
            sql.splice(at..at, word.iter().copied());
        }
    }
}

#[test]
fn depth_is_bounded() {
    let repeat = |before: &str, inner: &str, after: &str, count: usize| {
        format!("SELECT {}{inner}{}", before.repeat(count), after.repeat(count))
    };
    let shapes = [
        ("(", "1", ")"),
        ("-", "1", ""),
        ("!", "1", ""),
        ("NOT ", "1", ""),
        ("~ ", "1", ""),
        ("BINARY ", "1", ""),
        ("f(", "1", ")"),
        ("(SELECT ", "1", ")"),
        ("1 + (", "1", ")"),
        ("1 OR 1 XOR 1 AND 1 = 1 | 1 & 1 << 1 + 1 * 1 ^ (", "1", ")"),
        ("CASE WHEN 1 THEN ", "1", " END"),
        ("1 IN (1, ", "1", ")"),
        ("@a := ", "1", ""),
        ("{fn ", "1", "}"),
        ("INTERVAL 1 DAY + ", "a", ""),
        ("INTERVAL(1, ", "1", ")"),
        ("a BETWEEN 1 AND ", "1", ""),
        ("CAST(", "1", " AS CHAR)"),
        ("1 + ", "1", ""),
        ("1 = ", "1", ""),
        ("a COLLATE ", "a", ""),
        ("1 UNION SELECT (SELECT ", "1", ")"),
        ("* FROM (SELECT ", "1", ") d"),
        ("* FROM (", "t", ")"),
        ("* FROM a JOIN ", "b", ""),
        ("* FROM a JOIN b ON 1 ", "", ""),
        ("", "* FROM a", " JOIN b ON 1"),
        ("", "* FROM a", " NATURAL JOIN b"),
        ("* FROM {OJ ", "a", "}"),
        ("EXISTS (SELECT ", "1", ")"),
        ("SUM(1) OVER (ORDER BY ", "1", ")"),
        ("a LIKE b ESCAPE (", "1", ")"),
        ("", "1", " COLLATE x"),
        ("", "1", " IS NULL"),
    ];
    for (before, inner, after) in shapes {
        for count in [3, 50, 1_000, 100_000] {
            let sql = repeat(before, inner, after, count);
            if let Ok(tree) = parsed(&sql) {
                let again = parsed(&tree.to_string());
                // Parentheses that printing adds may be too many for the parser.
                assert!(again.is_err() || again == Ok(tree), "{before}");
            } else if count > 1_000 {
                let error = parsed(&sql).unwrap_err();
                assert_eq!(error.code(), 1064, "{before}");
            }
        }
    }
    const { assert!(NESTING_MAX >= 200 && TREE_HEIGHT_MAX >= NESTING_MAX) };
}

#[test]
fn reasonable_depth_is_allowed() {
    let nested = format!("SELECT {}1{}", "(".repeat(150), ")".repeat(150));
    assert!(parsed(&nested).is_ok());
    let calls = format!("SELECT {}1{}", "IF(a = 1, 2, ".repeat(100), ")".repeat(100));
    assert!(parsed(&calls).is_ok());
    let sum = format!("SELECT 1{}", " + 1".repeat(400));
    assert!(parsed(&sum).is_ok());
    // What programs write: long lists of conditions, values and queries are no depth at all.
    let or = format!("SELECT * FROM t WHERE a = 0{}", " OR a = 1 AND b LIKE 'x'".repeat(20_000));
    assert!(parsed(&or).is_ok());
    let list = format!("SELECT a IN (0{})", ", 1 + 1".repeat(20_000));
    assert!(parsed(&list).is_ok());
    let union = format!("SELECT 1{}", " UNION ALL SELECT a + 1 FROM t".repeat(5_000));
    assert!(parsed(&union).is_ok());
    let columns = format!("SELECT 1{}", ", a + b * c".repeat(4_000));
    assert!(parsed(&columns).is_ok());
}

#[test]
fn trees_fit_a_small_stack() {
    let deepest = |before: &str, after: &str| {
        let fits = |count: usize| {
            let sql = format!("SELECT {}1{}", before.repeat(count), after.repeat(count));
            parsed(&sql).is_ok()
        };
        let (mut low, mut high) = (1, 2_000);
        while low + 1 < high {
            let middle = (low + high) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        format!("SELECT {}1{}", before.repeat(low), after.repeat(low))
    };
    for (before, after) in [("(", ")"), ("f(1 + ", ")"), ("(SELECT ", ")"), ("1 + ", "")] {
        let sql = deepest(before, after);
        let walk = move || {
            let tree = parsed(&sql).unwrap();
            assert_eq!(tree.clone(), tree);
            assert!(!tree.to_string().is_empty() && !format!("{tree:?}").is_empty());
        };
        let thread = std::thread::Builder::new().stack_size(STACK_SIZE).spawn(walk).unwrap();
        thread.join().unwrap();
    }
}

/// A session's thread has at least this.
const STACK_SIZE: usize = 2 * 1024 * 1024;

#[test]
fn long_statements_take_linear_time() {
    // With quadratic work this would run for hours.
    let row = "(1, 'some text of ordinary length', 3.25, NULL, 'x')";
    let sql = format!("INSERT INTO t VALUES {row}{}", format!(", {row}").repeat(40_000));
    assert!(parsed(&sql).is_ok());
    for open in ["'", "/*", "`", "\"", "@'", "x'"] {
        let sql = format!("SELECT {}", format!("{open} ").repeat(100_000));
        let _ = parsed(&sql);
        let _ = digest(sql.as_bytes(), SqlMode::default());
    }
}

#[test]
fn expressions_alone() {
    let mode = SqlMode::default();
    let expr = parse_expression(b"a + 1 > `b`", mode).unwrap();
    assert_eq!(expr.to_string(), "((`a` + 1) > `b`)");
    assert_eq!(parse_expression(expr.to_string().as_bytes(), mode), Ok(expr));
    assert!(parse_expression(b"a b", mode).is_err());
    assert!(parse_expression(b"", mode).is_err());
}
