//! What a text means, and what is said of one that means nothing.

use super::*;
use crate::ast::{InsertSource, QueryBody, SelectItem};

fn expression(sql: &str) -> String {
    expression_in(sql, SqlMode::default())
}

fn expression_in(sql: &str, mode: SqlMode) -> String {
    match parse_expression(sql.as_bytes(), mode) {
        Ok(expr) => expr.to_string().replace('`', ""),
        Err(error) => error.to_string(),
    }
}

fn check(rows: &[(&str, &str)]) {
    for (sql, expected) in rows {
        assert_eq!(expression(sql), *expected, "{sql}");
    }
}

/// The text of the error, after the part that is always the same.
fn error(sql: &str) -> String {
    match parse(sql.as_bytes(), SqlMode::default()) {
        Ok(tree) => panic!("{sql} parses: {tree}"),
        Err(error) => {
            assert!(error.to_string().contains(error.message()));
            match error.message().split_once("the right syntax to use ") {
                Some((_, near)) => near.to_string(),
                None => format!("{} {}: {}", error.code(), error.sqlstate(), error.message()),
            }
        }
    }
}

#[test]
fn each_operator_binds_tighter_than_the_one_before() {
    check(&[
        ("a OR b XOR c", "(a or (b xor c))"),
        ("a XOR b OR c", "((a xor b) or c)"),
        ("a XOR b AND c", "(a xor (b and c))"),
        ("a AND b XOR c", "((a and b) xor c)"),
        ("a OR b AND c OR d", "(a or (b and c) or d)"),
        ("a || b && c", "(a or (b and c))"),
        ("NOT a AND b", "((not(a)) and b)"),
        ("a AND NOT b", "(a and (not(b)))"),
        ("NOT a = b", "(not((a = b)))"),
        ("NOT a IS NULL", "(not((a is null)))"),
        ("NOT a IS TRUE", "(not((a is true)))"),
        ("NOT a BETWEEN b AND c", "(not((a between b and c)))"),
        ("NOT NOT a", "(not((not(a))))"),
        ("!a = b", "((not(a)) = b)"),
        ("!a + b", "((not(a)) + b)"),
        ("! a COLLATE x", "(not((a collate x)))"),
        ("a = b IS TRUE", "((a = b) is true)"),
        ("a = b IS NULL", "((a = b) is null)"),
        ("a IS NULL = b", "((a is null) = b)"),
        ("a IS NULL IS NOT NULL", "((a is null) is not null)"),
        ("a = b = c", "((a = b) = c)"),
        ("a < b <> c <=> d", "(((a < b) <> c) <=> d)"),
        ("a = b LIKE c", "(a = (b like c))"),
        ("a LIKE b = c", "((a like b) = c)"),
        ("a IN (1) = b IN (2)", "((a in (1)) = (b in (2)))"),
        ("a BETWEEN b AND c AND d", "((a between b and c) and d)"),
        ("a BETWEEN b AND c LIKE d", "(a between b and (c like d))"),
        ("a BETWEEN b AND c BETWEEN d AND e", "(a between b and (c between d and e))"),
        ("a BETWEEN b + 1 AND c | 2", "(a between (b + 1) and (c | 2))"),
        ("a + b LIKE c", "((a + b) like c)"),
        ("a REGEXP b + c", "regexp_like(a,(b + c))"),
        ("a | b & c", "(a | (b & c))"),
        ("a & b | c", "((a & b) | c)"),
        ("a | b & c << d", "(a | (b & (c << d)))"),
        ("a << b + c", "(a << (b + c))"),
        ("a + b * c", "(a + (b * c))"),
        ("a * b + c", "((a * b) + c)"),
        ("a - b - c", "((a - b) - c)"),
        ("a / b * c DIV d MOD e % f", "(((((a / b) * c) DIV d) % e) % f)"),
        ("a ^ b * c", "((a ^ b) * c)"),
        ("a * b ^ c", "(a * (b ^ c))"),
        ("-a ^ b", "(-(a) ^ b)"),
        ("-a * b", "(-(a) * b)"),
        ("- - a", "-(-(a))"),
        ("~a + b", "(~(a) + b)"),
        ("-1 + -2.5", "(-1 + -2.5)"),
        ("+a + +b", "(a + b)"),
        ("-a COLLATE x", "-((a collate x))"),
        ("a + b COLLATE x", "(a + (b collate x))"),
        ("a = b COLLATE x", "(a = (b collate x))"),
        ("BINARY a = b", "(cast(a as binary) = b)"),
        ("BINARY a COLLATE x", "cast((a collate x) as binary)"),
        ("a & b = c", "((a & b) = c)"),
        ("a = b | c", "(a = (b | c))"),
        ("@a := b OR c", "(@a:=(b or c))"),
        ("d OR @a := b AND c", "(d or (@a:=(b and c)))"),
    ]);
}

#[test]
fn intervals() {
    check(&[
        ("a + INTERVAL 1 DAY", "(a + interval 1 day)"),
        ("a - INTERVAL 1 + 2 DAY", "(a - interval (1 + 2) day)"),
        ("a + b - INTERVAL 1 DAY", "((a + b) - interval 1 day)"),
        ("a + INTERVAL 1 DAY + b", "((a + interval 1 day) + b)"),
        ("a + INTERVAL 1 DAY * 2", "((a + interval 1 day) * 2)"),
        ("INTERVAL 1 DAY + a + b", "((a + b) + interval 1 day)"),
        ("INTERVAL 1 DAY + a = b", "((a = b) + interval 1 day)"),
        ("INTERVAL 1 DAY + a AND b", "((a + interval 1 day) and b)"),
        ("INTERVAL(1, 2)", "interval(1,2)"),
        ("a + INTERVAL(1, 2) * 3", "(a + (interval(1,2) * 3))"),
        ("a + INTERVAL (1) DAY", "(a + interval 1 day)"),
        ("a + INTERVAL (1) + 2 DAY", "(a + interval (1 + 2) day)"),
        ("DATE_SUB(a, INTERVAL b HOUR)", "(a - interval b hour)"),
        ("ADDDATE(a, 3)", "(a + interval 3 day)"),
    ]);
}

#[test]
fn what_the_parser_rewrites() {
    check(&[
        ("a->'$.b'", "json_extract(a,'$.b')"),
        ("a->>'$.b'", "json_unquote(json_extract(a,'$.b'))"),
        ("a != b", "(a <> b)"),
        ("a MOD b", "(a % b)"),
        ("MOD(a, b)", "(a % b)"),
        ("a NOT REGEXP b", "(not(regexp_like(a,b)))"),
        ("a SOUNDS LIKE b", "(soundex(a) = soundex(b))"),
        ("POSITION(a IN b)", "locate(a,b)"),
        ("SUBSTRING(a FROM 1 FOR 2)", "substr(a,1,2)"),
        ("MID(a, 1)", "substr(a,1)"),
        ("CURRENT_TIMESTAMP", "now()"),
        ("LOCALTIME(3)", "now(3)"),
        ("CURRENT_USER()", "current_user()"),
        ("SESSION_USER()", "user()"),
        ("SCHEMA()", "database()"),
        ("CONVERT(a, SIGNED)", "cast(a as signed)"),
        ("{ts '2020-01-01'}", "TIMESTAMP'2020-01-01'"),
        ("((a))", "a"),
        ("ROW(a, b)", "(a,b)"),
        ("UPPER(a)", "upper(a)"),
        ("'a' 'b' \"c\"", "'abc'"),
        ("18446744073709551616", "18446744073709551616"),
    ]);
}

#[test]
fn some_operators_do_not_follow_others() {
    for (sql, near) in [
        ("SELECT a LIKE b LIKE c", "near 'LIKE c' at line 1"),
        ("SELECT a IS TRUE IS TRUE", "near 'IS TRUE' at line 1"),
        ("SELECT a IS TRUE = b", "near '= b' at line 1"),
        ("SELECT a = NOT b", "near 'NOT b' at line 1"),
        ("SELECT a + NOT b", "near 'NOT b' at line 1"),
        ("SELECT a IS b", "near 'b' at line 1"),
        ("SELECT a LIKE b + c", "near '+ c' at line 1"),
        ("SELECT a -> b", "near 'b' at line 1"),
        ("SELECT f(a)->'$'", "near '->'$'' at line 1"),
    ] {
        assert_eq!(error(sql), near, "{sql}");
    }
}

#[test]
fn sql_mode() {
    let mode = SqlMode::default();
    let pipes = SqlMode { pipes_as_concat: true, ..mode };
    assert_eq!(expression_in("a || b ^ c", pipes), "(concat(a,b) ^ c)");
    assert_eq!(expression_in("a LIKE b || c", pipes), "(a like concat(b,c))");
    assert_eq!(expression_in("-a || b || c", pipes), "concat(concat(-(a),b),c)");
    assert_eq!(expression_in("a LIKE b || c", mode), "((a like b) or c)");
    let not = SqlMode { high_not_precedence: true, ..mode };
    assert_eq!(expression_in("NOT a = b", not), "((not(a)) = b)");
    assert_eq!(expression_in("NOT a BETWEEN b AND c", not), "((not(a)) between b and c)");
    assert_eq!(expression_in("a NOT IN (1) AND NOT b", not), "((a not in (1)) and (not(b)))");
    let ansi = SqlMode { ansi_quotes: true, ..mode };
    assert_eq!(expression_in("\"a\"\"b\" = 'c'", ansi), "(a\"b = 'c')");
    assert_eq!(expression_in("\"a\" = 'c'", mode), "('a' = 'c')");
    let raw = SqlMode { no_backslash_escapes: true, ..mode };
    assert_eq!(expression_in(r"'a\' = 'b'", raw), r"('a\\' = 'b')");
    let space = SqlMode { ignore_space: true, ..mode };
    assert_eq!(expression_in("COUNT (*)", space), "count(*)");
    assert_eq!(expression_in("COUNT(*)", mode), "count(*)");
    assert!(expression_in("COUNT (*)", mode).contains("near '*)'"));
    // A name without the parenthesis at once is any function's.
    assert_eq!(expression_in("SUBSTR (a, 1)", mode), "substr(a,1)");
    assert_eq!(expression_in("count", space), "count");
}

#[test]
fn joins_nest_as_in_mysql() {
    let from = |sql: &str| {
        let tree = parse(format!("SELECT 1 FROM {sql}").as_bytes(), SqlMode::default());
        let text = tree.unwrap().to_string().replace('`', "");
        text.trim_start_matches("select 1 from ").to_string()
    };
    for (sql, expected) in [
        ("a JOIN b JOIN c ON x", "a join b join c on x"),
        ("a JOIN (b JOIN c ON x) ON y", "a join (b join c on x) on y"),
        ("a JOIN b JOIN c ON x ON y", "a join (b join c on x) on y"),
        ("a LEFT JOIN b LEFT JOIN c ON x ON y", "a left join (b left join c on x) on y"),
        ("a LEFT JOIN b ON x LEFT JOIN c ON y", "a left join b on x left join c on y"),
        ("a LEFT JOIN (b, c) ON x", "a left join (b join c) on x"),
        ("(a CROSS JOIN b)", "a join b"),
        ("a, b JOIN c ON x", "a,b join c on x"),
    ] {
        assert_eq!(from(sql), expected, "{sql}");
    }
    let QueryBody::Select(select) = body("SELECT 1 FROM a JOIN b JOIN c ON x") else { panic!() };
    let crate::ast::TableReference::Join(join) = &select.from[0] else { panic!() };
    assert!(matches!(join.left, crate::ast::TableReference::Join(_)), "ON is the second join's");
    assert!(matches!(join.condition, crate::ast::JoinCondition::On(_)));
}

fn body(sql: &str) -> QueryBody {
    match parse(sql.as_bytes(), SqlMode::default()) {
        Ok(Statement::Query(query)) => query.body,
        other => panic!("{other:?}"),
    }
}

#[test]
fn set_operations_group_as_in_mysql() {
    let text = |sql: &str| parse(sql.as_bytes(), SqlMode::default()).unwrap().to_string();
    assert_eq!(
        text("SELECT 1 UNION SELECT 2 INTERSECT SELECT 3"),
        "select 1 union (select 2 intersect select 3)"
    );
    assert_eq!(text("(SELECT 1) UNION (SELECT 2) LIMIT 1"), "select 1 union select 2 limit 1");
    assert_eq!(text("(SELECT 1 LIMIT 1) LIMIT 2"), "(select 1 limit 1) limit 2");
    assert_eq!(text("((SELECT 1))"), "select 1");
    assert_eq!(text("(SELECT 1) LIMIT 2"), "select 1 limit 2");
}

#[test]
fn columns_are_named_by_their_text() {
    let QueryBody::Select(select) = body("SELECT  a+ /* x */ b , 'it''s'  'me' c, f( 1 )") else {
        panic!()
    };
    let text = |item: &SelectItem| match item {
        SelectItem::Expr { text, .. } => text.as_str().to_string(),
        _ => panic!(),
    };
    let texts: Vec<String> = select.items.iter().map(text).collect();
    assert_eq!(texts, ["a+ /* x */ b", "'it''s'  'me'", "f( 1 )"]);
    for (char, length) in [("x", 256), ("é", 255), ("日", 256)] {
        let QueryBody::Select(select) = body(&format!("SELECT '{}'", char.repeat(300))) else {
            panic!()
        };
        assert_eq!(text(&select.items[0]).len(), length, "{char}");
    }
}

#[test]
fn errors_point_at_the_token_that_does_not_fit() {
    for (sql, near) in [
        ("SELEC 1", "near 'SELEC 1' at line 1"),
        ("SELECT", "near '' at line 1"),
        ("SELECT 1 FROM", "near '' at line 1"),
        ("SELECT 1,", "near '' at line 1"),
        ("SELECT * FROM t WHERE", "near '' at line 1"),
        ("SELECT 1 +\n\n  FROM t", "near 'FROM t' at line 3"),
        ("SELECT 1; SELECT 2", "near 'SELECT 2' at line 1"),
        ("SELECT 'abc", "near ''abc' at line 1"),
        ("SELECT /* x", "near '/* x' at line 1"),
        ("SELECT a b c", "near 'c' at line 1"),
        (
            "CREATE TABLE interval (begin INT, end INT)",
            "near 'interval (begin INT, end INT)' at line 1",
        ),
        ("INSERT INTO t VALUES (1, 2", "near '' at line 1"),
        ("INSERT INTO t VALUES (1 2)", "near '2)' at line 1"),
        ("UPDATE t SET", "near '' at line 1"),
        ("DELETE t", "near '' at line 1"),
        ("SELECT * FROM t LIMIT -1", "near '-1' at line 1"),
        ("SELECT * FROM t LIMIT 1.5", "near '1.5' at line 1"),
        ("SELECT * FROM t LIMIT 0x10", "near '0x10' at line 1"),
        ("SELECT * FROM a LEFT JOIN b", "near '' at line 1"),
        ("SELECT a, * FROM t", "near '* FROM t' at line 1"),
        ("SELECT x'1'", "near 'x'1'' at line 1"),
        ("CREATE TABLE t (a INT", "near '' at line 1"),
        ("CREATE TABLE t", "near '' at line 1"),
        ("CREATE TABLE t (a FOO)", "near 'FOO)' at line 1"),
        ("CREATE TABLE t (a VARCHAR)", "near ')' at line 1"),
        ("ALTER TABLE t ADD", "near '' at line 1"),
        ("DROP TABLE", "near '' at line 1"),
        ("SHOW FOO", "near 'FOO' at line 1"),
        ("GRANT SELECT TO u", "near 'TO u' at line 1"),
        ("RESET FOO", "near 'FOO' at line 1"),
        ("SELECT LAG(a) FROM t", "near 'FROM t' at line 1"),
        ("SELECT * FROM t UNION", "near '' at line 1"),
        ("SELECT ROW(1)", "near '' at line 1"),
        ("SELECT \u{1}", "near '\u{1}' at line 1"),
        ("", "1065 42000: Query was empty"),
        (" ; ;", "1065 42000: Query was empty"),
        (";SELECT 1", "near ';SELECT 1' at line 1"),
        ("/* x */; SELECT 1", "near '; SELECT 1' at line 1"),
        ("SELECT * FROM (SELECT 1)", "1248 42000: Every derived table must have its own alias"),
        ("SELECT ALL DISTINCT 1", "1221 HY000: Incorrect usage of ALL and DISTINCT"),
        ("UPDATE a, b SET x = 1 LIMIT 1", "1221 HY000: Incorrect usage of UPDATE and LIMIT"),
        ("UPDATE a, b SET x = 1 ORDER BY x", "1221 HY000: Incorrect usage of UPDATE and ORDER BY"),
        ("EXPLAIN FORMAT=XML SELECT 1", "1791 HY000: Unknown EXPLAIN format name: 'XML'"),
    ] {
        assert_eq!(error(sql), near, "{sql}");
    }
}

#[test]
fn what_is_near_is_cut_at_eighty_bytes() {
    let message = error(&format!("SELECT 1 ){}", "x".repeat(200)));
    assert_eq!(message, format!("near '){}' at line 1", "x".repeat(79)));
    // No character is cut in two.
    let message = error(&format!("SELECT 1 ){}", "é".repeat(100)));
    assert_eq!(message, format!("near '){}' at line 1", "é".repeat(39)));
}

#[test]
fn names_must_be_text_and_strings_need_not() {
    let parsed = |sql: &[u8]| parse(sql, SqlMode::default());
    let error = parsed(b"SELECT a\xFFb").unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (1300, "Invalid utf8mb4 character string: '\\xFFb'".replace("FFb", "FF\\x62").as_str())
    );
    let Ok(Statement::Insert(insert)) = parsed(b"INSERT INTO t VALUES ('\x00\xFF\\'')") else {
        panic!()
    };
    let InsertSource::Values(rows) = insert.source else { panic!() };
    let value = Expr::Literal(crate::ast::Literal::String(b"\x00\xFF'"[..].into()));
    assert_eq!(rows, [vec![value]]);
}

#[test]
fn statements_follow_each_other() {
    let sql = b"SELECT ?; ;; INSERT INTO t VALUES (?, ?) ; -- end";
    let first = parse_at(sql, 0, SqlMode::default()).unwrap();
    assert_eq!((first.parameter_count, first.end, first.next), (1, 8, Some(12)));
    let second = parse_at(sql, 12, SqlMode::default()).unwrap();
    assert_eq!((second.parameter_count, second.next), (2, None));
    assert_eq!((first.remark, second.remark), (None, Some(42)));
    for plain in ["SELECT 1", "SELECT 1 -- end", "SELECT 1; ; ", "SELECT 1;"] {
        let alone = parse_at(plain.as_bytes(), 0, SqlMode::default()).unwrap();
        assert_eq!((alone.next, alone.remark), (None, None), "{plain}");
    }
    assert_eq!(&sql[second.end..=second.end], b";");
}

#[test]
fn versioned_comments() {
    for (sql, expected) in [
        ("1 /*! + 1 */", "(1 + 1)"),
        ("1 /*!50000 + 1 */", "(1 + 1)"),
        ("1 /*!080400 + 1 */", "(1 + 1)"),
        ("1 /*!080401 + 1 */", "1"),
        ("1 /*!99999 + 1 /* nested */ + 2 */", "1"),
        ("1 /*!1234 + 1 */", "ERROR"),
        ("1 /*!50000+ 1*/+2", "((1 + 1) + 2)"),
        ("1 /*!50000 + 1 /*!80001 + 2 */ + 3 */ + 4", "((((1 + 1) + 2) + 3) + 4)"),
        ("1 /*!50000 + 1 /*!99999 + 2 */ + 3 */ + 4", "(((1 + 1) + 3) + 4)"),
        ("1 /*!50000 + 1 */ + 3 */", "ERROR"),
        ("1 /*M!100005 + 1 /*!80001 + 2 */ + 3 */ + 4", "(1 + 4)"),
        ("1 /*M!100005 + 1 /* + 2 */ + 4", "(1 + 4)"),
        ("1 /**/ + 1", "(1 + 1)"),
        ("1 --1", "(1 - -1)"),
        ("1 -- 1", "1"),
        ("1 # 1", "1"),
    ] {
        let found = expression(sql);
        match expected {
            "ERROR" => assert!(found.starts_with("ERROR"), "{sql}: {found}"),
            expected => assert_eq!(found, expected, "{sql}"),
        }
    }
}

#[test]
fn keywords_are_names_where_mysql_lets_them() {
    for (word, reserved) in crate::keywords() {
        let as_column = format!("SELECT `x` FROM t WHERE {word} = 1");
        let as_table = format!("CREATE TABLE {word} ({word} INT, `b` INT)");
        let after_dot = format!("SELECT t.{word} FROM db.{word}");
        let quoted = format!("SELECT `{word}` AS `{word}` FROM `{word}`");
        let parses = |sql: &str| parse(sql.as_bytes(), SqlMode::default()).is_ok();
        assert!(parses(&after_dot) && parses(&quoted), "{word}");
        assert_eq!(parses(&as_table), !reserved, "{word}");
        // Some reserved words are values of their own.
        let is_value = ["NULL", "TRUE", "FALSE"].contains(&word)
            || word.starts_with("CURRENT_")
            || word.starts_with("UTC_")
            || word.starts_with("LOCALTIME");
        assert_eq!(parses(&as_column), !reserved || is_value, "{word}");
    }
}

#[test]
fn long_texts_look_at_the_time_and_end_when_they_are_told_to() {
    let looks = |sql: &str| {
        let counted = std::cell::Cell::new(0_u64);
        let look = || {
            counted.set(counted.get() + 1);
            true
        };
        parse_at_looking(sql.as_bytes(), 0, SqlMode::default(), &look).unwrap();
        counted.get()
    };
    let many = |count| format!("SELECT 1 FROM t WHERE {}", vec!["a > 0"; count].join(" AND "));
    let (short, long) = (looks(&many(1_000)), looks(&many(10_000)));
    assert!(short >= 10 && (9 * short..=11 * short).contains(&long), "{short} and {long} looks");
    // A long token is work too.
    assert!(looks(&format!("SELECT '{}', 1", "x".repeat(1 << 20))) > 0);
    let ended = parse_at_looking(many(1_000).as_bytes(), 0, SqlMode::default(), &|| false);
    assert_eq!(ended.unwrap_err().code(), 1317);
    let rows = format!("INSERT INTO t VALUES {}", vec!["(1,'abcdefgh')"; 10_000].join(","));
    let mut literals = Literals::default();
    let found = crate::parameterise(rows.as_bytes(), SqlMode::default(), &mut literals, &|| false);
    assert_eq!(found, None);
}

#[test]
fn comments_alone_are_a_statement() {
    for text in ["  -- nothing\n /* here */ ", "# x", "/*!99999 SELECT 1 */;", "-- x;", "/**/ ; ;"]
    {
        assert_eq!(parse(text.as_bytes(), SqlMode::default()), Ok(Statement::Empty), "{text}");
    }
}
