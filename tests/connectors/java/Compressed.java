// Compressed connections of Connector/J.
// Usage: java -cp mysql-connector-j.jar Compressed.java HOST PORT

import java.sql.*;
import java.util.Random;

public class Compressed {
    static void check(String said, Object found, Object expected) {
        if (!String.valueOf(found).equals(String.valueOf(expected))) {
            throw new IllegalStateException(said + ": " + found + " instead of " + expected);
        }
    }

    public static void main(String[] args) throws Exception {
        for (String mode : new String[] {"DISABLED", "REQUIRED"}) {
            String url = "jdbc:mysql://" + args[0] + ":" + args[1] + "/?useCompression=true&sslMode="
                + mode + "&allowPublicKeyRetrieval=true&useServerPrepStmts=true&allowMultiQueries=true";
            try (Connection c = DriverManager.getConnection(url, "root", "")) {
                try (Statement s = c.createStatement()) {
                    ResultSet r = s.executeQuery("SHOW STATUS LIKE 'Compression'");
                    r.next();
                    check("status", r.getString(2), "ON");
                    r = s.executeQuery("SELECT REPEAT('xyz', 7000000)");
                    r.next();
                    check("a long row", r.getString(1).length(), 21000000);
                    r = s.executeQuery("WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 "
                        + "FROM s WHERE n < 1000) SELECT a.n, REPEAT('k', b.n) FROM s AS a, s AS b "
                        + "WHERE a.n <= 50");
                    long rows = 0, letters = 0;
                    while (r.next()) {
                        rows++;
                        letters += r.getString(2).length();
                    }
                    check("rows", rows + " " + letters, "50000 25025000");
                    int results = 0;
                    boolean isResult = s.execute("SELECT 1; SELECT 2; DO 0; SELECT 3");
                    while (isResult || s.getUpdateCount() != -1) {
                        results++;
                        isResult = s.getMoreResults();
                    }
                    check("results", results, 4);
                }
                // Bytes that do not shrink make this driver write a wrong length from 16 MB on.
                byte[] noise = new byte[3000000];
                new Random(5).nextBytes(noise);
                try (PreparedStatement p = c.prepareStatement("SELECT LENGTH(?), ?, LENGTH(?)")) {
                    p.setBytes(1, noise);
                    p.setString(2, "ü".repeat(1000000));
                    p.setBytes(3, new byte[18000000]);
                    ResultSet r = p.executeQuery();
                    r.next();
                    String found = r.getInt(1) + " " + r.getString(2).length() + " " + r.getInt(3);
                    check("sent", found, "3000000 1000000 18000000");
                }
            }
        }
        System.out.println("ok");
    }
}
