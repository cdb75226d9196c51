// YCSB's core on a server of MySQL's protocol: prepared statements of the server over Connector/J, autocommit.
// A row is its key and ten fields, FIELD0 to FIELD9, in columns of their own.
// Run by ycsb.py beside this file; properties: db.url, and those of YCSB's core.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

public class MySqlBinding extends DB {
    private Connection connection;
    // By the text of the statement; YCSB asks for few.
    private final Map<String, PreparedStatement> prepared = new HashMap<>();

    @Override
    public void init() throws DBException {
        try {
            connection = DriverManager.getConnection(getProperties().getProperty("db.url"), "root", "");
        } catch (SQLException error) {
            throw new DBException(error);
        }
    }

    @Override
    public void cleanup() throws DBException {
        try {
            connection.close();
        } catch (SQLException error) {
            throw new DBException(error);
        }
    }

    @Override
    public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
        try {
            PreparedStatement select = prepare("SELECT " + list(fields) + " FROM " + table + " WHERE ycsb_key = ?");
            select.setString(1, key);
            try (ResultSet rows = select.executeQuery()) {
                if (!rows.next()) {
                    return Status.NOT_FOUND;
                }
                take(rows, result);
                return Status.OK;
            }
        } catch (SQLException error) {
            return failed(error);
        }
    }

    @Override
    public Status scan(String table, String first, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
        try {
            PreparedStatement select = prepare(
                "SELECT " + list(fields) + " FROM " + table + " WHERE ycsb_key >= ? ORDER BY ycsb_key LIMIT ?");
            select.setString(1, first);
            select.setInt(2, count);
            try (ResultSet rows = select.executeQuery()) {
                while (rows.next()) {
                    HashMap<String, ByteIterator> row = new HashMap<>();
                    take(rows, row);
                    result.add(row);
                }
            }
            return Status.OK;
        } catch (SQLException error) {
            return failed(error);
        }
    }

    @Override
    public Status update(String table, String key, Map<String, ByteIterator> values) {
        return change(key, values, columns -> "UPDATE " + table + " SET " + String.join(" = ?, ", columns) + " = ? WHERE ycsb_key = ?");
    }

    @Override
    public Status insert(String table, String key, Map<String, ByteIterator> values) {
        return change(key, values, columns ->
            "INSERT INTO " + table + " (" + String.join(", ", columns) + ", ycsb_key) VALUES (" + "?, ".repeat(columns.size()) + "?)");
    }

    @Override
    public Status delete(String table, String key) {
        return change(key, Map.of(), columns -> "DELETE FROM " + table + " WHERE ycsb_key = ?");
    }

    private interface Statement {
        String of(List<String> columns);
    }

    /** Runs a statement whose parameters are the values and then the key; it changes one row. */
    private Status change(String key, Map<String, ByteIterator> values, Statement statement) {
        List<String> columns = new ArrayList<>(values.keySet());
        try {
            PreparedStatement change = prepare(statement.of(columns));
            int at = 1;
            for (String column : columns) {
                change.setBytes(at++, values.get(column).toArray());
            }
            change.setString(at, key);
            return change.executeUpdate() == 1 ? Status.OK : Status.UNEXPECTED_STATE;
        } catch (SQLException error) {
            return failed(error);
        }
    }

    private PreparedStatement prepare(String text) throws SQLException {
        PreparedStatement statement = prepared.get(text);
        if (statement == null) {
            statement = connection.prepareStatement(text);
            prepared.put(text, statement);
        }
        return statement;
    }

    private static String list(Set<String> fields) {
        return fields == null ? "*" : String.join(", ", fields);
    }

    private static void take(ResultSet rows, Map<String, ByteIterator> into) throws SQLException {
        ResultSetMetaData columns = rows.getMetaData();
        for (int at = 1; at <= columns.getColumnCount(); at++) {
            into.put(columns.getColumnLabel(at), new ByteArrayByteIterator(rows.getBytes(at)));
        }
    }

    private static Status failed(SQLException error) {
        System.err.println("ERROR " + error.getErrorCode() + ": " + error.getMessage());
        return Status.ERROR;
    }
}
