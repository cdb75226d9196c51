//! Statements whose rows do not fit memory are answered as if they did.

use super::memory::{logged_in, with_numbers};
use super::*;
use crate::spill::in_memory::{Faults, MemoryFiles};

/// Statements that keep more than two megabytes, and whose answers have an order.
const ORDERED: [&str; 23] = [
    "SELECT a.i, b.i FROM n a, n b ORDER BY b.i, a.i",
    "SELECT a.i, b.i, REPEAT('x', a.i) t FROM n a, n b ORDER BY b.i DESC, a.i",
    "SELECT a.i, b.i FROM n a, n b ORDER BY b.i + a.i, a.i",
    "SELECT a.i, b.i FROM n a, n b ORDER BY CONCAT(b.i % 7, REPEAT('k', 20)), a.i DESC, b.i",
    "SELECT a.i, b.i FROM n a, n b ORDER BY b.i + a.i, a.i LIMIT 30000, 5000",
    "SELECT a.i, b.i FROM n a, n b ORDER BY b.i + a.i, a.i LIMIT 39000",
    // Equal rows stay in the order they came.
    "SELECT a.i, b.i FROM n a, n b ORDER BY a.i % 3",
    "SELECT a.i, b.i FROM n a, n b ORDER BY CONCAT('x', a.i % 3)",
    "SELECT DISTINCT a.i, b.i FROM n a, n b ORDER BY a.i, b.i",
    "SELECT DISTINCT a.i % 150, b.i + 0.5 FROM n a, n b ORDER BY 2 DESC, 1",
    "SELECT DISTINCT a.i % 150 x, b.i % 160 y FROM n a, n b ORDER BY x, y LIMIT 23000, 500",
    "SELECT x, y, z FROM (SELECT a.i x, b.i y, REPEAT('z', 30) z FROM n a, n b LIMIT 100000) t \
     WHERE x + y > 30 ORDER BY y, x LIMIT 39000",
    "SELECT a.i, b.i, ROW_NUMBER() OVER (PARTITION BY a.i ORDER BY b.i DESC) r, \
     SUM(b.i) OVER (PARTITION BY b.i ORDER BY a.i) s, COUNT(*) OVER (PARTITION BY a.i % 150) c \
     FROM n a, n b ORDER BY a.i, b.i",
    "SELECT a.i, b.i, RANK() OVER (PARTITION BY a.i, b.i % 7 ORDER BY b.i % 3) FROM n a, n b \
     ORDER BY a.i, b.i",
    "SELECT a.i % 190 x, b.i % 170 y, COUNT(*), MIN(b.i), AVG(a.i) FROM n a, n b \
     GROUP BY x, y ORDER BY y, x",
    "SELECT a.i, b.i % 90 y, SUM(b.i), MAX(CONCAT(b.i, 'm')), BIT_XOR(b.i) FROM n a, n b \
     GROUP BY a.i, y HAVING a.i <> y ORDER BY y DESC, a.i",
    // Groups that grow.
    "SELECT a.i % 100 x, GROUP_CONCAT(b.i, '-', a.i ORDER BY b.i DESC, a.i) FROM n a, n b \
     GROUP BY x ORDER BY x",
    "SELECT a.i % 200 x, b.i % 10 y, GROUP_CONCAT(b.i, ':', a.i) FROM n a, n b \
     GROUP BY x, y ORDER BY x, y",
    "SELECT a.i % 70 x, COUNT(DISTINCT b.i, a.i), SUM(DISTINCT b.i * 1000 + a.i), MAX(b.i), \
     GROUP_CONCAT(DISTINCT b.i % 9 ORDER BY b.i % 9 DESC) FROM n a, n b GROUP BY x ORDER BY x",
    "SELECT b.i % 70 x, JSON_ARRAYAGG(CONCAT(b.i, ' text ', a.i)) FROM n a, n b GROUP BY x \
     ORDER BY x",
    "SELECT a.i % 50 x, JSON_OBJECTAGG(CONCAT(b.i, '/', a.i), b.i + 0.50), COUNT(*), AVG(b.i), \
     ROUND(STDDEV(b.i), 6), BIT_OR(b.i) FROM n a, n b GROUP BY x ORDER BY x",
    "SELECT a.i % 3 x, JSON_ARRAYAGG(b.i), MIN(CONCAT('m', b.i)) FROM n a, n b \
     WHERE b.i < 190 - a.i % 3 * 60 GROUP BY x HAVING x > 1 ORDER BY x",
    // One of them is as large as all others.
    "SELECT IF(a.i < 90, 0, a.i) x, COUNT(DISTINCT REPEAT(CONCAT(b.i % 90, a.i), 5)) FROM n a, n b \
     GROUP BY x ORDER BY x",
];

/// The same without an order; all of it is in one row.
const SUMMED: [&str; 22] = [
    "(SELECT a.i x, b.i y FROM n a, n b LIMIT 100000)",
    "(SELECT DISTINCT a.i x, b.i y FROM n a, n b)",
    "(SELECT DISTINCT a.i % 170 x, CONCAT('text ', b.i) y FROM n a, n b)",
    "(SELECT DISTINCT a.i % 170 x, REPEAT('y', b.i % 90) y FROM n a, n b)",
    "(SELECT x, y FROM (SELECT DISTINCT a.i x, b.i y FROM n a, n b) s WHERE x <> y LIMIT 100000)",
    "(SELECT a.i x, b.i y FROM n a, n b GROUP BY a.i, b.i)",
    "(SELECT a.i x, MAX(REPEAT('m', 900 + b.i % 9)) y FROM n a, n b GROUP BY a.i, b.i % 20)",
    "(SELECT a.i % 180 x, COUNT(*) y FROM n a, n b GROUP BY x, CONCAT('text ', b.i % 180))",
    // Joins whose right side is large.
    "(SELECT a.i x, b.r y FROM n a JOIN (SELECT i, REPEAT('r', 20000) r FROM n LIMIT 300) b \
     ON a.i = b.i)",
    "(SELECT a.i x, IFNULL(b.r, 'none') y FROM n a LEFT JOIN (SELECT i * 2 i, \
     CONCAT(i, REPEAT('r', 20000)) r FROM n LIMIT 300) b ON a.i = b.i)",
    "(SELECT a.x, b.y FROM (SELECT a.i * 200 + b.i x FROM n a, n b LIMIT 100000) a JOIN \
     (SELECT a.i * 200 + b.i + 20000 y FROM n a, n b LIMIT 100000) b ON a.x = b.y)",
    "(SELECT a.x, IFNULL(b.y, 0) y FROM (SELECT a.i * 200 + b.i x FROM n a, n b LIMIT 100000) a \
     LEFT JOIN (SELECT a.i * 200 + b.i + 20000 y FROM n a, n b LIMIT 100000) b ON a.x = b.y)",
    // Few keys, in both sides.
    "(SELECT a.x, b.y FROM (SELECT i % 2 k, CONCAT(i, REPEAT('a', 9000)) x FROM n LIMIT 300) a \
     JOIN (SELECT i % 3 k, CONCAT(i, REPEAT('b', 20000)) y FROM n LIMIT 300) b ON a.k = b.k)",
    // Each row with each.
    "(SELECT a.i x, b.i y FROM n a JOIN (SELECT i, REPEAT('r', 20000) r FROM n LIMIT 300) b \
     ON a.i < b.i AND LENGTH(b.r) > a.i)",
    "(SELECT a.i x, IFNULL(b.i, 0) y FROM n a LEFT JOIN (SELECT i, REPEAT('r', 20000) r FROM n \
     LIMIT 300) b ON a.i < b.i - 100 AND LENGTH(b.r) > a.i)",
    "(SELECT a.i x, b.i y FROM n a, n b UNION SELECT a.i + 100, b.i FROM n a, n b)",
    "(SELECT a.i x, b.i y FROM n a, n b UNION ALL SELECT a.i, b.i FROM n a, n b UNION \
     SELECT 1, a.i FROM n a, n b)",
    "(SELECT a.i x, b.i y FROM n a, n b EXCEPT SELECT a.i + 100, b.i FROM n a, n b)",
    "(SELECT a.i % 99 x, b.i y FROM n a, n b EXCEPT ALL SELECT a.i % 150, b.i % 190 FROM n a, n b)",
    "(SELECT a.i x, b.i y FROM n a, n b INTERSECT SELECT a.i + 100, b.i FROM n a, n b)",
    "(SELECT a.i % 99 x, b.i y FROM n a, n b INTERSECT ALL SELECT a.i % 150, b.i FROM n a, n b)",
    "(SELECT a.i x, SUM(b.i) OVER (PARTITION BY a.i % 50 ORDER BY b.i, a.i) y FROM n a, n b)",
];

fn statements() -> Vec<String> {
    let summed = |table: &&str| {
        let sums = "SELECT COUNT(*), SUM(CRC32(CONCAT(x, '-', y))), MIN(x), MAX(y) FROM";
        with_numbers(&format!("{sums} {table} t"))
    };
    ORDERED.iter().map(|query| with_numbers(query)).chain(SUMMED.iter().map(summed)).collect()
}

/// A world with temporary files.
fn world_that_spills() -> (World, MemoryFiles) {
    let (shared, files) = (world(), MemoryFiles::default());
    shared.directory.memory().temp_space().serve(Arc::new(files.clone()));
    (shared, files)
}

/// A client whose statements get two megabytes, less than any of them needs.
fn client_with_little(shared: &World) -> Client {
    let mut client = logged_in(shared, 2);
    client.query("SET connection_memory_limit = 2097152, nines_operator_memory = 1048576");
    client
}

/// The whole answer to a query, however long it is.
fn whole(client: &mut Client, query: &str) -> String {
    let mut answer = client.query(query);
    loop {
        client.run();
        let more = mem::take(&mut client.link.borrow_mut().output);
        if more.is_empty() {
            return answer;
        }
        answer += &String::from_utf8_lossy(&more);
    }
}

/// The end of an answer, where an error is.
fn end(answer: &str) -> String {
    let from = answer.len().saturating_sub(300);
    String::from_utf8_lossy(&answer.as_bytes()[from..]).into_owned()
}

#[test]
fn answers_are_the_same_with_temporary_files() {
    let (shared, files) = world_that_spills();
    let mut rich = logged_in(&shared, 1);
    let mut poor = client_with_little(&shared);
    for query in statements() {
        let expected = whole(&mut rich, &query);
        assert_eq!(files.written(), 0, "{query}");
        assert!(!expected.contains("#HY000"), "{query}: {}", end(&expected));
        let answer = whole(&mut poor, &query);
        assert!(!answer.contains("#HY000"), "{query}: {}", end(&answer));
        assert!(answer == expected, "{query}: {} bytes for {}", answer.len(), expected.len());
        assert!(files.written() > 0, "{query}");
        let (memory, space) = (shared.directory.memory(), shared.directory.memory().temp_space());
        assert_eq!((memory.used(), space.used(), files.open_files()), (0, 0, 0), "{query}");
        assert_eq!(memory.refused(), 0, "{query}");
        let status = poor.query("SHOW SESSION STATUS LIKE 'Created_tmp_disk_tables'");
        assert!(!status.contains("\u{1}0"), "{query}: {status}");
        files.forget();
    }
    let status = poor.query("SHOW SESSION STATUS LIKE 'Sort_merge_passes'");
    assert!(!status.contains("\u{1}0"), "{status}");
    let status = rich.query("SHOW SESSION STATUS LIKE 'Sort_merge_passes'");
    assert!(status.contains("\u{1}0"), "{status}");
}

#[test]
fn a_disk_that_fails_ends_the_statement_alone() {
    let (shared, files) = world_that_spills();
    let mut poor = client_with_little(&shared);
    let memory = shared.directory.memory();
    let is_clean = || (memory.used(), memory.temp_space().used(), files.open_files());
    for query in statements() {
        let before = (files.written(), files.reads());
        whole(&mut poor, &query);
        let (written, reads) = (files.written() - before.0, files.reads() - before.1);
        let full = |share: u64| Faults {
            full_after: Some(files.written() + written * share / 4),
            ..Faults::default()
        };
        for faults in [full(0), full(2), full(3)] {
            files.fail(faults);
            let answer = end(&whole(&mut poor, &query));
            assert!(answer.contains("Disk full (memory)"), "{query}: {answer}");
            assert_eq!(is_clean(), (0, 0, 0), "{query}");
        }
        for share in [0, 2] {
            let after = Some(files.reads() + reads * share / 4);
            files.fail(Faults { reads_fail_after: after, ..Faults::default() });
            let answer = end(&whole(&mut poor, &query));
            assert!(answer.contains("Error reading a temporary file"), "{query}: {answer}");
            assert_eq!(is_clean(), (0, 0, 0), "{query}");
        }
        files.fail(Faults::default());
        let answer = poor.query("SELECT 1 + 1");
        assert!(!answer.contains("#HY000"), "{answer}");
    }
}

#[test]
fn a_budget_that_is_used_up_ends_the_statement_alone() {
    let (shared, files) = world_that_spills();
    let mut poor = client_with_little(&shared);
    poor.query("SET nines_temp_space = 100000");
    for query in statements() {
        let answer = end(&whole(&mut poor, &query));
        let expected = "100000 bytes for 'the temporary files of the statement";
        assert!(answer.contains(expected), "{query}: {answer}");
        assert_eq!((shared.directory.memory().used(), files.open_files()), (0, 0), "{query}");
    }
    poor.query("SET nines_temp_space = 0");
    let answer = poor.query(&with_numbers(ORDERED[0]));
    assert!(answer.contains("for 'the rows of a sort' exceeded"), "{answer}");
    poor.query("SET nines_temp_space = DEFAULT");
    poor.query("SET GLOBAL nines_temp_space = 90000");
    let answer = poor.query(&with_numbers(ORDERED[0]));
    assert!(answer.contains("90000 bytes for 'the temporary files of the SQL node"), "{answer}");
    let shown = poor.query("SHOW STATUS LIKE 'Nines_temp_space_limit'");
    assert!(shown.contains("90000"), "{shown}");
}

#[test]
fn a_single_group_that_is_too_large_says_so() {
    let (shared, files) = world_that_spills();
    let mut poor = client_with_little(&shared);
    for (aggregate, group) in [
        ("COUNT(DISTINCT a.i * 1000 + b.i), SUM(DISTINCT a.i)", "a.i < 0"),
        ("GROUP_CONCAT(a.i, b.i ORDER BY b.i)", "NULL"),
        ("JSON_ARRAYAGG(a.i)", "IF(a.i % 100 = 0, a.i, 0)"),
    ] {
        let query = format!("SELECT {aggregate}, {group} x FROM n a, n b GROUP BY x");
        let answer = poor.query(&with_numbers(&query));
        assert!(answer.contains("'a single group of GROUP BY' exceeded"), "{query}: {answer}");
        assert_eq!((shared.directory.memory().used(), files.open_files()), (0, 0), "{query}");
    }
}

#[test]
fn a_disk_that_hangs_holds_up_its_statement_alone() {
    let (shared, files) = world_that_spills();
    let mut rich = logged_in(&shared, 1);
    for (at, least) in [(3, 5 << 18), (8, 100_000), (14, 100_000), (16, 500_000)] {
        let query = with_numbers(ORDERED[at]);
        let expected = whole(&mut rich, &query);
        let mut poor = client_with_little(&shared);
        let mut other = logged_in(&shared, 3);
        files.forget();
        files.fail(Faults { hangs: true, ..Faults::default() });
        let (disk, seen) = (files.clone(), Rc::new(RefCell::new((0, 0))));
        let to_see = seen.clone();
        poor.look = Some(Box::new(move || {
            let (looks, written) = &mut *to_see.borrow_mut();
            if disk.written() > *written {
                (*looks, *written) = (0, disk.written());
                return;
            }
            *looks += 1;
            if *looks == 500 {
                assert!(disk.on_way() < 2 << 20, "{} bytes on their way", disk.on_way());
                assert!(other.query("SELECT 40 + 2").contains("42"));
                // It goes on for a moment, and hangs again.
                disk.fail(Faults::default());
            }
            if *looks > 510 {
                (*looks, *written) = (0, 0);
                disk.fail(Faults { hangs: true, ..Faults::default() });
            }
        }));
        let answer = whole(&mut poor, &query);
        assert!(answer == expected, "{query}: {}", end(&answer));
        poor.look = None;
        assert!(files.written() > least, "{query}: {}", files.written());
        files.fail(Faults::default());
    }
}

#[test]
fn a_statement_that_is_killed_leaves_no_file() {
    let (shared, files) = world_that_spills();
    let mut poor = client_with_little(&shared);
    poor.exchange.borrow_mut().interrupt(crate::kernel::Interrupt::Killed);
    poor.query(&with_numbers(ORDERED[0]));
    assert_eq!(files.open_files(), 1, "it waits for its client");
    poor.link.borrow_mut().killed = Some(Goodbye::Killed);
    poor.run();
    assert!(poor.over);
    drop(poor);
    assert_eq!((files.open_files(), shared.directory.memory().temp_space().used()), (0, 0));
}

#[test]
fn explain_analyze_tells_who_has_written() {
    let (shared, _files) = world_that_spills();
    let mut poor = client_with_little(&shared);
    let told = |client: &mut Client, query: &str| {
        let answer = client.query(&format!("EXPLAIN ANALYZE {}", with_numbers(query)));
        let lines = answer.lines().filter(|line| line.contains("(temporary files: "));
        lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
    };
    let sorted = told(&mut poor, ORDERED[0]);
    assert!(sorted.len() == 1 && sorted[0].contains("Sort"), "{sorted:?}");
    let grouped =
        told(&mut poor, "SELECT a.i x, b.i y, COUNT(*) FROM n a, n b GROUP BY x, y ORDER BY x, y");
    assert_eq!(grouped.len(), 2, "{grouped:?}");
    let mut rich = logged_in(&shared, 3);
    assert!(told(&mut rich, ORDERED[0]).is_empty());
}
