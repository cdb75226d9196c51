"""What an application does through the Python drivers: connect, change and read rows, prepared
statements, transactions, every type there and back.

Usage: python.py DRIVER HOST PORT [SOCKET]; DRIVER is pymysql, mysqlclient or mysql.connector.
With DB_USER, DB_PASSWORD and DB_CA in the environment it is that user, over TLS.
Exits with a message and a non-zero status at the first difference.
"""

import datetime
import decimal
import json
import os
import sys

DRIVER, HOST, PORT = sys.argv[1], sys.argv[2], int(sys.argv[3])
SOCKET = sys.argv[4] if len(sys.argv) > 4 else None
DATABASE = "connect_" + DRIVER.replace(".", "_")

if DRIVER == "pymysql":
    import pymysql as driver
    from pymysql import err as errors
elif DRIVER == "mysqlclient":
    import MySQLdb as driver
    import MySQLdb as errors
else:
    import mysql.connector as driver
    from mysql.connector import errors


# Python computes with 28 digits unless told otherwise; MySQL's decimals have up to 65.
decimal.getcontext().prec = 65


def login():
    """Who logs in, and how the server is verified."""
    authority = os.environ.get("DB_CA")
    if not authority:
        return {"user": "root"}
    who = {"user": os.environ["DB_USER"], "password": os.environ["DB_PASSWORD"]}
    if DRIVER == "mysqlclient":
        return who | {"ssl": {"ca": authority}}
    return who | {"ssl_ca": authority, "ssl_verify_cert": True, "ssl_verify_identity": True}


def connect(**more):
    """Opens a connection over TCP, or over the socket when `socket` is asked for."""
    where = {"host": HOST, "port": PORT} | login()
    if more.pop("socket", False) and SOCKET:
        where = {"unix_socket": SOCKET, "user": "root"}
    if DRIVER != "mysqlclient":
        more.setdefault("charset", "utf8mb4")
    else:
        more.setdefault("charset", "utf8mb4")
        if HOST == "localhost" and "unix_socket" not in where:
            where["host"] = "127.0.0.1"
    return driver.connect(**where, **more)


def check(what, found, expected):
    """Ends the test when `found` is not what it must be."""
    if found != expected:
        sys.exit(f"{DRIVER}: {what}: found {found!r}, expected {expected!r}")


COLUMNS = [
    ("t", "TINYINT", -128),
    ("ut", "TINYINT UNSIGNED", 255),
    ("s", "SMALLINT", -32768),
    ("m", "MEDIUMINT", 8388607),
    ("i", "INT", -2147483648),
    ("ui", "INT UNSIGNED", 4294967295),
    ("b", "BIGINT", -9223372036854775808),
    ("ub", "BIGINT UNSIGNED", 18446744073709551615),
    ("f", "FLOAT", 1.5),
    ("d", "DOUBLE", -2.2250738585072014e-300),
    ("de", "DECIMAL(30,10)", decimal.Decimal("-12345678901234567890.0123456789")),
    ("c", "CHAR(12)", "Zürich ☃"),
    ("v", "VARCHAR(200)", "line\nquote'\"\\ tab\t nul\0 emoji 😀"),
    ("tx", "TEXT", "long " * 2000),
    ("vb", "VARBINARY(255)", bytes(range(255))),
    ("bl", "BLOB", b"\x00\xff" * 3000),
    ("da", "DATE", datetime.date(2024, 2, 29)),
    ("ti", "TIME(6)", datetime.timedelta(hours=30, minutes=1, seconds=2, microseconds=3)),
    ("dt", "DATETIME(6)", datetime.datetime(2038, 1, 20, 3, 4, 5, 678901)),
    ("ts", "TIMESTAMP(3) NULL", datetime.datetime(2024, 6, 1, 12, 0, 0, 250000)),
    ("y", "YEAR", 2155),
    ("e", "ENUM('small','medium','large')", "medium"),
    ("n", "INT", None),
    ("bo", "BOOL", 1),
]


def argument(name, value):
    """What is given to the driver for a value, where the driver itself would change it."""
    if DRIVER == "mysqlclient" and name == "ti":
        # It writes intervals without their microseconds.
        return "30:01:02.000003"
    return value


def types(connection, prepared):
    """Writes a row of every type and reads it back, also through a prepared statement."""
    cursor = connection.cursor()
    cursor.execute("DROP TABLE IF EXISTS kinds")
    body = ", ".join(f"`{name}` {kind}" for name, kind, _ in COLUMNS)
    cursor.execute(f"CREATE TABLE kinds (id BIGINT AUTO_INCREMENT PRIMARY KEY, {body})")
    names = ", ".join(f"`{name}`" for name, _, _ in COLUMNS)
    marks = ", ".join(["%s"] * len(COLUMNS))
    values = [argument(name, value) for name, _, value in COLUMNS]
    cursors = [connection.cursor()] + ([connection.cursor(prepared=True)] if prepared else [])
    for number, writer in enumerate(cursors, 1):
        writer.execute(f"INSERT INTO kinds ({names}) VALUES ({marks})", values)
        check("rows inserted", writer.rowcount, 1)
        check("last row id", writer.lastrowid, number)
    connection.commit()
    for number, reader in enumerate(cursors):
        # Connector/Python reads a YEAR of a prepared statement as a text, which it is not.
        columns = [column for column in COLUMNS if number == 0 or column[1] != "YEAR"]
        names = ", ".join(f"`{name}`" for name, _, _ in columns)
        reader.execute(f"SELECT {names} FROM kinds WHERE id = %s", (1,))
        row = reader.fetchone()
        for (name, kind, expected), found in zip(columns, row):
            if isinstance(found, bytearray):
                found = bytes(found)
            if isinstance(expected, str) and isinstance(found, bytes):
                found = found.decode()
            check(f"{name} {kind}", found, expected)
        reader.fetchall()
    cursor.execute("SELECT COUNT(*), SUM(de), MAX(dt) FROM kinds")
    row = cursor.fetchone()
    count = len(cursors)
    check("aggregates", (row[0], row[1]), (count, COLUMNS[10][2] * count))
    cursor.execute("DROP TABLE IF EXISTS documents")
    cursor.execute("CREATE TABLE documents (id INT PRIMARY KEY, j JSON, flags SET('a','b','c'))")
    document = {"name": "x", "list": [1, 2.5, None, True]}
    cursor.execute("INSERT INTO documents VALUES (1, %s, 'c,a')", (json.dumps(document),))
    cursor.execute("SELECT j, j->>'$.name', flags FROM documents")
    found, name, flags = cursor.fetchone()
    check("JSON", json.loads(found), document)
    check("JSON path", name if isinstance(name, str) else name.decode(), "x")
    check("SET", flags if isinstance(flags, str) else ",".join(sorted(flags)), "a,c")
    connection.commit()


def transactions(connection):
    """Commit, rollback, what another connection sees, errors with their numbers."""
    other = connect(database=DATABASE)
    cursor, watcher = connection.cursor(), other.cursor()
    cursor.execute("CREATE TABLE accounts (id INT PRIMARY KEY, owner VARCHAR(20) UNIQUE, cents INT)")
    rows = [(n, f"owner {n}", 1000) for n in range(1, 101)]
    cursor.executemany("INSERT INTO accounts VALUES (%s, %s, %s)", rows)
    connection.commit()
    cursor.execute("UPDATE accounts SET cents = cents - 10 WHERE id = 1")
    cursor.execute("UPDATE accounts SET cents = cents + 10 WHERE id = 2")
    watcher.execute("SELECT cents FROM accounts WHERE id IN (1, 2) ORDER BY id")
    check("uncommitted is hidden", [row[0] for row in watcher.fetchall()], [1000, 1000])
    other.rollback()
    connection.commit()
    watcher.execute("SELECT cents FROM accounts WHERE id IN (1, 2) ORDER BY id")
    check("committed is seen", [row[0] for row in watcher.fetchall()], [990, 1010])
    cursor.execute("DELETE FROM accounts WHERE id > 50")
    check("rows deleted", cursor.rowcount, 50)
    connection.rollback()
    cursor.execute("SELECT COUNT(*), SUM(cents) FROM accounts")
    count, total = cursor.fetchone()
    check("rollback", (count, int(total)), (100, 100000))
    for statement, number in [
        ("INSERT INTO accounts VALUES (1, 'x', 0)", 1062),
        ("INSERT INTO accounts VALUES (1000, 'owner 3', 0)", 1062),
        ("SELECT * FROM missing", 1146),
        ("SELECT missing FROM accounts", 1054),
        ("SELEC 1", 1064),
        ("INSERT INTO accounts VALUES (2000, REPEAT('x', 50), 0)", 1406),
    ]:
        try:
            cursor.execute(statement)
        except errors.Error as error:
            check(statement, error.args[0], number)
        else:
            sys.exit(f"{DRIVER}: {statement}: no error")
    connection.rollback()
    cursor.execute("SELECT owner FROM accounts WHERE owner LIKE %s ORDER BY id LIMIT 3", ("owner 1%",))
    check("LIKE", [row[0] for row in cursor.fetchall()], ["owner 1", "owner 10", "owner 11"])
    other.close()


def attributes(connection):
    """Attributes of queries, and of the connection."""
    cursor = connection.cursor()
    cursor.add_attribute("trace", "00-4bf9")
    cursor.execute("SELECT mysql_query_attribute_string('trace'), mysql_query_attribute_string('x')")
    check("query attributes", cursor.fetchall(), [("00-4bf9", None)])
    cursor.clear_attributes()
    cursor.execute(
        "SELECT ATTR_VALUE FROM performance_schema.session_account_connect_attrs "
        "WHERE PROCESSLIST_ID = CONNECTION_ID() AND ATTR_VALUE = 'mysql-connector-python'"
    )
    check("connection attributes", cursor.fetchall(), [("mysql-connector-python",)])


def main():
    first = connect()
    cursor = first.cursor()
    cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
    cursor.execute(f"CREATE DATABASE {DATABASE}")
    first.close()
    connection = connect(database=DATABASE, socket=True)
    types(connection, prepared=False)
    if DRIVER == "mysql.connector":
        # Written in C, its prepared statements take every integer for a signed one.
        pure = connect(database=DATABASE, socket=True, use_pure=True)
        types(pure, prepared=True)
        attributes(pure)
        pure.close()
    transactions(connection)
    if DRIVER != "mysqlclient":
        connection.ping()
    connection.close()
    print(f"{DRIVER}: ok")


main()
