// Logs in through Connector/J and says over what.
// Usage: java -cp mysql-connector-j.jar Login.java HOST PORT USER PASSWORD TLS; TLS is `off` or `on`.

import java.sql.*;

public class Login {
    static String second(Statement s, String query, int column) throws SQLException {
        try (ResultSet rows = s.executeQuery(query)) {
            rows.next();
            return rows.getString(column);
        }
    }

    public static void main(String[] args) throws Exception {
        String mode = args[4].equals("off") ? "DISABLED" : "REQUIRED";
        String url = "jdbc:mysql://" + args[0] + ":" + args[1]
            + "/?allowPublicKeyRetrieval=true&sslMode=" + mode;
        try (Connection c = DriverManager.getConnection(url, args[2], args[3]);
                Statement s = c.createStatement()) {
            String user = second(s, "SELECT CURRENT_USER()", 1);
            String cipher = second(s, "SHOW STATUS LIKE 'Ssl_cipher'", 2);
            System.out.println("user " + user + " cipher " + (cipher.isEmpty() ? "-" : cipher));
        } catch (SQLException e) {
            System.out.println("refused " + e.getErrorCode());
        }
    }
}
