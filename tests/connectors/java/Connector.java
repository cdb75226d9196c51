// What an application does through Connector/J: client and server prepared statements, metadata,
// transactions, batches, types.
// Usage: java -cp mysql-connector-j.jar Connector.java HOST PORT
// With DB_USER, DB_PASSWORD and DB_CA in the environment it is that user, over TLS.

import java.math.BigDecimal;
import java.sql.*;
import java.time.LocalDateTime;
import java.util.Arrays;

public class Connector {
    static void check(String what, Object found, Object expected) {
        boolean equal = expected instanceof byte[] bytes
            ? Arrays.equals((byte[]) found, bytes)
            : java.util.Objects.equals(found, expected);
        if (!equal) {
            System.err.println("Connector/J: " + what + ": found " + found + ", expected " + expected);
            System.exit(1);
        }
    }

    public static void main(String[] args) throws Exception {
        String base = "jdbc:mysql://" + args[0] + ":" + args[1] + "/";
        boolean encrypted = System.getenv("DB_CA") != null;
        String user = encrypted ? System.getenv("DB_USER") : "root";
        String password = encrypted ? System.getenv("DB_PASSWORD") : "";
        String mode = encrypted ? "REQUIRED" : "DISABLED";
        try (Connection c = DriverManager.getConnection(base + "?sslMode=" + mode, user, password);
                Statement s = c.createStatement()) {
            s.execute("DROP DATABASE IF EXISTS connect_java");
            s.execute("CREATE DATABASE connect_java");
        }
        for (String option : new String[] {"useServerPrepStmts=false", "useServerPrepStmts=true", "rewriteBatchedStatements=true"}) {
            String url = base + "connect_java?sslMode=" + mode + "&connectionTimeZone=UTC&" + option;
            try (Connection c = DriverManager.getConnection(url, user, password)) {
                kinds(c, option);
                transactions(c, option);
                metadata(c);
            }
        }
        String url = base + "connect_java?sslMode=" + mode + "&connectionTimeZone=UTC&useCursorFetch=true&defaultFetchSize=7";
        try (Connection c = DriverManager.getConnection(url, user, password)) {
            cursors(c);
        }
        System.out.println("Connector/J: ok");
    }

    static void kinds(Connection c, String option) throws SQLException {
        try (Statement s = c.createStatement()) {
            s.execute("DROP TABLE IF EXISTS kinds");
            s.execute("CREATE TABLE kinds (id BIGINT AUTO_INCREMENT PRIMARY KEY, i INT, b BIGINT, ub BIGINT UNSIGNED, "
                + "d DOUBLE, de DECIMAL(30,10), v VARCHAR(200), bl BLOB, dt DATETIME(6), da DATE, n INT, e ENUM('x','y'), bo BOOLEAN)");
        }
        byte[] blob = new byte[6000];
        Arrays.fill(blob, (byte) 0xff);
        LocalDateTime when = LocalDateTime.of(2038, 1, 20, 3, 4, 5, 678901000);
        String insert = "INSERT INTO kinds (i, b, ub, d, de, v, bl, dt, da, n, e, bo) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)";
        try (PreparedStatement p = c.prepareStatement(insert, Statement.RETURN_GENERATED_KEYS)) {
            p.setInt(1, Integer.MIN_VALUE);
            p.setLong(2, Long.MIN_VALUE);
            p.setBigDecimal(3, new BigDecimal("18446744073709551615"));
            p.setDouble(4, 2.5e-300);
            p.setBigDecimal(5, new BigDecimal("-12345678901234567890.0123456789"));
            p.setString(6, "quote'\"\\ 😀");
            p.setBytes(7, blob);
            p.setObject(8, when);
            p.setDate(9, Date.valueOf("2024-02-29"));
            p.setNull(10, Types.INTEGER);
            p.setString(11, "y");
            p.setBoolean(12, true);
            check(option + ": rows inserted", p.executeUpdate(), 1);
            try (ResultSet keys = p.getGeneratedKeys()) {
                keys.next();
                check(option + ": generated key", keys.getLong(1), 1L);
            }
        }
        try (PreparedStatement p = c.prepareStatement("SELECT * FROM kinds WHERE id = ?")) {
            p.setLong(1, 1);
            try (ResultSet r = p.executeQuery()) {
                check("a row", r.next(), true);
                check("INT", r.getInt("i"), Integer.MIN_VALUE);
                check("BIGINT", r.getLong("b"), Long.MIN_VALUE);
                check("BIGINT UNSIGNED", r.getBigDecimal("ub"), new BigDecimal("18446744073709551615"));
                check("DOUBLE", r.getDouble("d"), 2.5e-300);
                check("DECIMAL", r.getBigDecimal("de"), new BigDecimal("-12345678901234567890.0123456789"));
                check("VARCHAR", r.getString("v"), "quote'\"\\ 😀");
                check("BLOB", r.getBytes("bl"), blob);
                check("DATETIME", r.getObject("dt", LocalDateTime.class), when);
                check("DATE", r.getDate("da"), Date.valueOf("2024-02-29"));
                check("NULL", r.getObject("n"), null);
                check("ENUM", r.getString("e"), "y");
                check("BOOLEAN", r.getBoolean("bo"), true);
            }
        }
    }

    static void transactions(Connection c, String option) throws SQLException {
        try (Statement s = c.createStatement()) {
            s.execute("DROP TABLE IF EXISTS accounts");
            s.execute("CREATE TABLE accounts (id INT PRIMARY KEY, cents INT NOT NULL)");
        }
        c.setAutoCommit(false);
        c.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        try (PreparedStatement p = c.prepareStatement("INSERT INTO accounts VALUES (?, ?)")) {
            for (int id = 1; id <= 250; id++) {
                p.setInt(1, id);
                p.setInt(2, 1000);
                p.addBatch();
            }
            check(option + ": batch", p.executeBatch().length, 250);
        }
        c.commit();
        Savepoint before;
        try (Statement s = c.createStatement()) {
            check("update", s.executeUpdate("UPDATE accounts SET cents = cents + 1 WHERE id <= 100"), 100);
            before = c.setSavepoint("before");
            check("delete", s.executeUpdate("DELETE FROM accounts"), 250);
            c.rollback(before);
            c.commit();
            try (ResultSet r = s.executeQuery("SELECT COUNT(*), SUM(cents) FROM accounts")) {
                r.next();
                check("count", r.getInt(1), 250);
                check("sum", r.getInt(2), 250100);
            }
            try {
                s.executeUpdate("INSERT INTO accounts VALUES (1, 1)");
                check("duplicate key", "accepted", "refused");
            } catch (SQLIntegrityConstraintViolationException error) {
                check("duplicate key", error.getErrorCode(), 1062);
            }
        }
        // It counts rows that are found (CLIENT_FOUND_ROWS).
        String upsert = "INSERT INTO accounts VALUES (7, 1) ON DUPLICATE KEY UPDATE cents = ";
        try (Statement s = c.createStatement()) {
            check("a row set to what it is", s.executeUpdate(upsert + "cents"), 1);
            check("a row that changes", s.executeUpdate(upsert + "cents + 1"), 2);
            check("a comment", s.execute("/* nothing */"), false);
        }
        c.rollback();
        c.setAutoCommit(true);
        check("valid", c.isValid(5), true);
    }

    // Rows come seven at a time, and other statements run meanwhile.
    static void cursors(Connection c) throws SQLException {
        try (PreparedStatement all = c.prepareStatement("SELECT id, cents FROM accounts WHERE id > ?");
                Statement other = c.createStatement()) {
            for (int from : new int[] {0, 243, 244, 250, 1000}) {
                all.setInt(1, from);
                int count = 0, sum = 0;
                try (ResultSet r = all.executeQuery()) {
                    while (r.next()) {
                        count++;
                        sum += r.getInt("id");
                        if (count == 10) {
                            check("a statement beside a cursor", other.executeUpdate("UPDATE accounts SET cents = 0 WHERE id = 250"), from == 0 ? 1 : 0);
                            check("a transaction beside it", c.isValid(5), true);
                        }
                    }
                }
                int rows = Math.max(0, 250 - from);
                check("rows of a cursor from " + from, count, rows);
                check("their sum", sum, rows == 0 ? 0 : rows * (from + 1 + 250) / 2);
            }
            all.setInt(1, 0);
            try (ResultSet r = all.executeQuery()) {
                check("a cursor that is closed early", r.next(), true);
            }
            try (ResultSet r = other.executeQuery("SELECT id FROM accounts WHERE id < 0")) {
                check("an empty result of a plain statement", r.next(), false);
            }
            try (ResultSet r = other.executeQuery("SHOW TABLES LIKE 'nothing'")) {
                check("an empty SHOW", r.next(), false);
            }
            int last = 0;
            try (ResultSet r = other.executeQuery("SELECT id FROM accounts")) {
                while (r.next()) {
                    check("a small table comes in the order of its primary key", r.getInt(1), ++last);
                }
            }
            check("its rows", last, 250);
        }
    }

    static void metadata(Connection c) throws SQLException {
        DatabaseMetaData m = c.getMetaData();
        try (ResultSet r = m.getTables("connect_java", null, "acc%", new String[] {"TABLE"})) {
            check("getTables", r.next(), true);
            check("getTables name", r.getString("TABLE_NAME"), "accounts");
        }
        try (ResultSet r = m.getColumns("connect_java", null, "accounts", "%")) {
            check("getColumns", r.next(), true);
            check("getColumns type", r.getInt("DATA_TYPE"), Types.INTEGER);
        }
        try (ResultSet r = m.getPrimaryKeys("connect_java", null, "accounts")) {
            check("getPrimaryKeys", r.next(), true);
            check("getPrimaryKeys column", r.getString("COLUMN_NAME"), "id");
        }
        try (ResultSet r = m.getIndexInfo("connect_java", null, "accounts", true, false)) {
            check("getIndexInfo", r.next(), true);
        }
    }
}
