//! Transfers between accounts, by transactions with locked rows and savepoints, and by single
//! statements: the sum never changes.

use super::{Failure, Mysql, snapshot};

/// Accounts.
const ACCOUNTS: u64 = 12;
/// What each begins with.
const BALANCE: i64 = 1_000;

pub(super) const TABLES: &[&str] = &[
    "CREATE TABLE sq.bank (id INT PRIMARY KEY, balance BIGINT NOT NULL, moved INT NOT NULL \
     DEFAULT 0, KEY (balance))",
    "INSERT IGNORE INTO sq.bank (id, balance) VALUES (0, 1000), (1, 1000), (2, 1000), (3, 1000), \
     (4, 1000), (5, 1000), (6, 1000), (7, 1000), (8, 1000), (9, 1000), (10, 1000), (11, 1000)",
];

pub(super) async fn round(mysql: &Mysql) -> Result<(), Failure> {
    match mysql.below(10) {
        0..2 => check(mysql).await,
        2..5 => by_statement(mysql).await,
        _ => by_transaction(mysql).await,
    }
}

/// The sum of all accounts is what they began with, in any snapshot and by any way to the rows.
pub(super) async fn check(mysql: &Mysql) -> Result<(), Failure> {
    let sums = "SELECT COUNT(*), SUM(balance) FROM bank";
    let by_index = "SELECT COUNT(*), SUM(balance) FROM bank FORCE INDEX (balance) \
                    WHERE balance > -1000000";
    let [first, second, third] = snapshot(mysql, [sums, by_index, sums]).await?;
    for answer in [first, second, third] {
        let found = (answer.int(0, 0), answer.int(0, 1));
        let expected = (ACCOUNTS as i64, ACCOUNTS as i64 * BALANCE);
        assert_eq!(found, expected, "accounts and their sum");
    }
    Ok(())
}

fn draw(mysql: &Mysql) -> (u64, u64, u64) {
    let from = mysql.below(ACCOUNTS);
    let to = (from + 1 + mysql.below(ACCOUNTS - 1)) % ACCOUNTS;
    (from, to, mysql.below(100))
}

async fn by_statement(mysql: &Mysql) -> Result<(), Failure> {
    let (from, to, amount) = draw(mysql);
    let statement = format!(
        "UPDATE bank SET moved = moved + 1, balance = balance + IF(id = {to}, {amount}, -{amount}) \
         WHERE id IN ({from}, {to})"
    );
    let changed = mysql.query(&statement).await?.changed;
    assert_eq!(changed, 2, "accounts of a transfer");
    Ok(())
}

async fn by_transaction(mysql: &Mysql) -> Result<(), Failure> {
    let (from, to, amount) = draw(mysql);
    mysql.query("BEGIN").await?;
    let mut balances = [0; 2];
    for (at, account) in [from, to].into_iter().enumerate() {
        let lock = format!("SELECT balance FROM bank WHERE id = {account} FOR UPDATE");
        balances[at] = mysql.query(&lock).await?.int(0, 0);
    }
    if mysql.percent(20) {
        // What is taken back leaves nothing.
        mysql.query("SAVEPOINT s").await?;
        mysql.query(&format!("UPDATE bank SET balance = balance + 7 WHERE id <> {from}")).await?;
        mysql.query("ROLLBACK TO SAVEPOINT s").await?;
    }
    let amount = amount as i64;
    for (account, balance) in [(from, balances[0] - amount), (to, balances[1] + amount)] {
        let update = format!("UPDATE bank SET balance = {balance} WHERE id = {account}");
        mysql.query(&update).await?;
        if mysql.percent(10) {
            // A statement that fails after some of its rows is undone alone.
            let fails = "INSERT INTO bank (id, balance) VALUES (100, 5), (101, 5), (3, 5)";
            let failure = mysql.query(fails).await.expect_err("account 3 is there");
            if failure.code() != 1062 {
                return Err(failure);
            }
        }
    }
    if mysql.percent(10) {
        mysql.query("ROLLBACK").await?;
    } else {
        mysql.query("COMMIT").await?;
    }
    Ok(())
}
