//! The examples of `docs/tutorial.md`, as they stand there: only the port is another.

use std::path::Path;
use std::process::Command;

use tests::{Server, succeed, temporary_directory, workspace};

use crate::connectors::tools;

/// The blocks of a page in this language, in order.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let begin = format!("```{language}\n");
    let mut rest = page;
    let mut found = Vec::new();
    while let Some(at) = rest.find(&begin) {
        rest = &rest[at + begin.len()..];
        let end = rest.find("\n```").expect("a block ends");
        found.push(rest[..=end].to_owned());
        rest = &rest[end..];
    }
    found
}

/// The only block in a language, for a server at another port than 3306, in a file of this name.
fn example(page: &str, language: &str, server: &Server, directory: &Path, name: &str) {
    let found = blocks(page, language);
    let [example] = &found[..] else { panic!("{} examples in {language}", found.len()) };
    assert!(example.contains("3306"), "{language} names the port");
    let example = example.replace("3306", &server.port.to_string());
    std::fs::write(directory.join(name), example).expect("the directory is writable");
}

#[test]
fn every_example_does_what_is_said() {
    let page = std::fs::read_to_string(workspace().join("docs/tutorial.md"));
    let page = page.expect("the page is there");
    let server = Server::start(&[]);
    let directory = temporary_directory();
    let sql = blocks(&page, "sql");
    let [tables, transfer, explain, sum] = &sql[..] else { panic!("{} blocks of SQL", sql.len()) };
    server.sql(tables);
    let after = server.sql(&format!("USE shop; {transfer}"));
    assert_eq!(after, "Ada\t70.00\nGrace\t130.00\n");
    let plan = server.sql(&format!("USE shop; {explain}"));
    assert!(plan.contains("transfers") && plan.contains("accounts"), "{plan}");
    let sum_now = || server.sql(&format!("USE shop; {sum}"));
    assert_eq!(sum_now(), "200.00\n");

    let file = |name: &str| directory.join(name);
    example(&page, "python", &server, &directory, "shop.py");
    let mut python = Command::new(tools().join("python/bin/python"));
    python.arg(file("shop.py"));
    example(&page, "js", &server, &directory, "shop.cjs");
    let mut node = Command::new("node");
    node.arg(file("shop.cjs")).env("NODE_PATH", tools().join("node/node_modules"));
    example(&page, "java", &server, &directory, "Shop.java");
    let mut java = Command::new("java");
    java.arg("-cp").arg(tools().join("java/mysql-connector-j.jar")).arg(file("Shop.java"));
    example(&page, "go", &server, &directory, "main.go");
    for name in ["go.mod", "go.sum"] {
        let from = workspace().join("tests/connectors/go").join(name);
        std::fs::copy(from, file(name)).expect("the driver's versions are fixed");
    }
    let mut go = Command::new("go");
    go.args(["run", "."]).current_dir(&directory);
    let mut numbers = Vec::new();
    for program in [python, node, java, go] {
        let said = succeed(program);
        let number = said.trim().strip_prefix("transfer ").and_then(|number| number.parse().ok());
        let number: u64 = number.unwrap_or_else(|| panic!("{said}"));
        assert!(!numbers.contains(&number), "{number} is given twice: {numbers:?}");
        numbers.push(number);
    }
    assert_eq!(sum_now(), "200.00\n");
    let ada = server.sql(
        "SELECT balance, (SELECT COUNT(*) FROM shop.transfers) FROM shop.accounts WHERE id = 1",
    );
    assert_eq!(ada.lines().next(), Some("50.00\t5"), "{ada}");
    let _ = std::fs::remove_dir_all(&directory);
}
