"""Compressed connections of MySQL's Connector/Python, as C and as Python, in clear and encrypted.

Usage: compressed.py HOST PORT. Exits with a message and a non-zero status at the first difference.
"""

import os
import sys

import mysql.connector


def check(said, found, expected):
    if found != expected:
        sys.exit(f"{said}: {str(found)[:200]!r} instead of {str(expected)[:200]!r}")


def talk(use_pure, ssl_disabled):
    connection = mysql.connector.connect(
        user="root",
        host=sys.argv[1],
        port=int(sys.argv[2]),
        compress=True,
        use_pure=use_pure,
        ssl_disabled=ssl_disabled,
    )
    cursor = connection.cursor()

    def rows(statement, values=()):
        cursor.execute(statement, values)
        return cursor.fetchall()

    check("status", rows("SHOW STATUS LIKE 'Compression'"), [("Compression", "ON")])
    # One long row, many short ones, and rows of which each is longer than a frame.
    check("a long row", len(rows("SELECT REPEAT('xyz', 4000000)")[0][0]), 12_000_000)
    numbers = "WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < 1000) "
    found = rows(numbers + "SELECT a.n * 1000 + b.n FROM s AS a, s AS b WHERE a.n <= 50")
    check("short rows", sorted(row[0] for row in found)[::25_000], [1_001, 26_001])
    found = rows(numbers + "SELECT REPEAT(CHAR(65 + n % 20), 70000 + n) FROM s WHERE n <= 60")
    check("rows", sorted(len(row[0]) for row in found), list(range(70_001, 70_061)))
    # What is sent: text that shrinks, bytes that do not.
    check("text", rows("SELECT LENGTH(%s)", ("q" * 9_000_000,)), [(9_000_000,)])
    noise = os.urandom(3_000_000).hex()
    check("noise", rows("SELECT %s = LOWER(HEX(UNHEX(%s)))", (noise, noise)), [(1,)])
    check("nothing", rows("SELECT ''"), [("",)])
    connection.close()


for pure in (True, False):
    for ssl_disabled in (True, False):
        talk(pure, ssl_disabled)
print("ok")
