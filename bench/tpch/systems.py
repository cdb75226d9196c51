"""The systems that answer TPC-H's queries: each is started, filled from the generator's files, and asked.

Every system has `name`, `load`, `run`, `cpu_seconds` and `stop`. `run` gives an `Answer`, or raises `Refused` with the reason
or `TooSlow`. Servers live in a directory of their own, speak on a Unix socket only, and end with the script.
"""

import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import namedtuple
from pathlib import Path

import pymysql

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import servers  # noqa: E402

TABLES = ["region", "nation", "part", "supplier", "partsupp", "customer", "orders", "lineitem"]
PATIENCE = 120
# Beyond the server's own limit, until the client takes the server for stuck.
GRACE = 15
# How many lines of a file one LOAD DATA takes: each is a transaction.
LINES_MAX = 10_000

# Rows, and for each column whether its values are exact; seconds from the question to the last row; the processor's seconds in
# the server; bytes that the data nodes sent to the SQL node, or None where nobody counts them.
Answer = namedtuple("Answer", "rows exact seconds cpu bytes")


class Refused(Exception):
    """The system says no; its words."""


class TooSlow(Exception):
    """No answer within the limit."""


def statements(file):
    """The statements of a file, whose comments are whole lines."""
    lines = [line for line in file.read_text().splitlines() if not line.startswith("--")]
    return [text.strip() for text in "\n".join(lines).split(";") if text.strip()]


def query(number, scale):
    """The text of a query; its parameters are those the specification validates with."""
    text = " ".join(statements(HERE / "queries" / f"q{number:02}.sql"))
    # A number without an exponent, as long as it must be: 0.0001 / 0.1 is 0.001 in decimal.
    fraction = f"{0.0001 / scale:.12f}".rstrip("0")
    return re.sub(r"\bFRACTION\b", fraction, text)


class Server:
    """A server of MySQL's protocol with processes and a directory of its own."""

    def __init__(self, name, directory, limit):
        self.name, self.directory, self.limit = name, directory, limit
        self.socket = directory / "sock"
        self.processes, self.connection = [], None
        directory.mkdir()

    def launch(self, command):
        """Starts a process; its output goes to the directory."""
        with open(self.directory / "output", "ab") as output:
            self.processes.append(subprocess.Popen(command, stdout=output, stderr=output))

    def wait(self):
        """Waits until the server lets one in."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self.connect(None)
                return
            except pymysql.Error as error:
                dead = any(process.poll() is not None for process in self.processes)
                if dead or time.monotonic() > until:
                    text = (self.directory / "output").read_text()
                    raise SystemExit(f"{self.name} does not start: {error}\n{text}") from error
                time.sleep(0.1)

    def connect(self, database="tpch"):
        """Opens the connection anew."""
        self.connection = pymysql.connect(
            unix_socket=str(self.socket), user="root", database=database, autocommit=True, local_infile=True,
            read_timeout=max(self.limit + GRACE, PATIENCE), charset="utf8mb4",
        )

    def execute(self, text):
        """Runs a statement; its rows."""
        with self.connection.cursor() as cursor:
            cursor.execute(text)
            return cursor.fetchall()

    def load(self, files, collation, indexed):
        """Makes the tables and fills them, a few thousand lines at a time."""
        self.execute(f"CREATE DATABASE tpch CHARACTER SET utf8mb4 COLLATE {collation}")
        self.connect()
        for statement in statements(HERE / "schema.sql"):
            self.execute(statement)
        part = self.directory / "part.tbl"
        for table in TABLES:
            with open(files / f"{table}.tbl", "rb") as lines:
                while piece := [line for _, line in zip(range(LINES_MAX), lines)]:
                    part.write_bytes(b"".join(piece))
                    self.execute(
                        f"LOAD DATA LOCAL INFILE '{part}' INTO TABLE {table} FIELDS TERMINATED BY '|' LINES TERMINATED BY '|\\n'"
                    )
        part.unlink()
        if indexed:
            for statement in statements(HERE / "indexes.sql"):
                self.execute(statement)
        for table in TABLES:
            self.execute(f"ANALYZE TABLE {table}{self.analyze}")
        self.execute(self.limiting.format(seconds=self.limit, milliseconds=int(self.limit * 1000)))

    def counts(self):
        """Rows of each table."""
        return {table: self.execute(f"SELECT COUNT(*) FROM {table}")[0][0] for table in TABLES}

    def run(self, text):
        """Asks; the answer."""
        before, crossed, began = self.cpu_seconds(), self.crossed(), time.perf_counter()
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(text)
                rows, columns = cursor.fetchall(), cursor.description
        except pymysql.Error as error:
            raise self.failure(error) from error
        seconds = time.perf_counter() - began
        inexact = (pymysql.constants.FIELD_TYPE.DOUBLE, pymysql.constants.FIELD_TYPE.FLOAT)
        exact = [column[1] not in inexact for column in columns]
        after = self.crossed()
        crossed = None if crossed is None or after is None else after - crossed
        return Answer(rows, exact, seconds, self.cpu_seconds() - before, crossed)

    def failure(self, error):
        """What became of a statement that has no answer."""
        code = error.args[0] if error.args else 0
        # 3024: max_execution_time; 1969: max_statement_time of MariaDB.
        if code in (3024, 1969):
            return TooSlow()
        if code in (2006, 2013):
            # No answer in spite of the server's own limit: leave it alone with its statement.
            lost = self.connection.thread_id()
            self.connect()
            try:
                self.execute(f"KILL {lost}")
            except pymysql.Error:
                pass
            self.execute(self.limiting.format(seconds=self.limit, milliseconds=int(self.limit * 1000)))
            return TooSlow()
        return Refused(f"{code}: {error.args[1] if len(error.args) > 1 else error}")

    def explain(self, text):
        """How the server means to do it, as a text."""
        try:
            rows = self.execute(f"{self.explaining} {text}")
        except pymysql.Error as error:
            return f"refused: {error}"
        return "\n".join("  ".join("" if value is None else str(value) for value in row) for row in rows)

    def cpu_seconds(self):
        """Seconds of the processor that all its processes have used."""
        return sum(servers.precise_cpu_of(process.pid) for process in self.processes)

    def crossed(self):
        """Bytes that have come to the SQL node so far; None if it cannot be said."""
        return None

    def stop(self):
        """Asks the processes to end, and waits."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Nines(Server):
    """A cluster of two data nodes: `nines dev`, or a process for each node."""

    analyze, explaining = "", "EXPLAIN FORMAT=TREE"
    limiting = "SET SESSION max_execution_time = {milliseconds}"
    # What the SQL node was sent by others. In one process messages do not cross a link, and this stays 0.
    METRIC = re.compile(r"^nines_link_received_bytes\S*\s+(\S+)", re.M)

    def __init__(self, binary, directory, limit, memory, processes, query_memory, replicas=None, name="Nines"):
        super().__init__(name, directory, limit)
        self.http = servers.free_port()
        self.separate = processes
        if processes:
            for command in servers.cluster_commands(binary, directory, self.socket, memory, self.http, servers.free_port()):
                self.launch(command)
        else:
            self.launch([
                binary, "dev", "--port=0", f"--socket={self.socket}", f"--data-memory={memory}", f"--http-port={self.http}",
                "--local-infile", *([f"--query-memory={query_memory}"] if query_memory else []),
                *([f"--replicas={replicas}"] if replicas else []),
            ])
        self.wait()

    def crossed(self):
        if not self.separate:
            return None
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=5) as page:
                return int(sum(float(value) for value in self.METRIC.findall(page.read().decode())))
        except OSError:
            return None


class Unpushed(Nines):
    """The same where data nodes do nothing but find rows by keys and ranges."""

    def __init__(self, *options):
        super().__init__(*options, name="unpushed")

    def connect(self, database="tpch"):
        super().connect(database)
        self.execute("SET SESSION nines_pushdown = OFF")


class MariaDB(Server):
    """MariaDB with InnoDB."""

    analyze, explaining = " PERSISTENT FOR ALL", "EXPLAIN"
    limiting = "SET SESSION max_statement_time = {seconds}"

    def __init__(self, directory, limit, memory):
        super().__init__("MariaDB", directory, limit)
        self.launch(servers.mariadb_command(directory, self.socket, memory, ["--skip-networking", "--skip-log-bin"]))
        self.wait()


class DuckDB:
    """DuckDB in this process, its tables in memory."""

    name = "DuckDB"

    def __init__(self, limit):
        import duckdb  # Only who asks for it needs it.

        self.module, self.limit = duckdb, limit
        self.connection = duckdb.connect(":memory:")

    def load(self, files, _collation, indexed):
        """Makes the tables and fills them."""
        for statement in statements(HERE / "schema.sql"):
            self.connection.execute(statement)
        for table in TABLES:
            names = [row[0] for row in self.connection.execute(f"DESCRIBE {table}").fetchall()]
            # Lines end with a separator, hence one column more.
            columns = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(len(names) + 1))
            chosen = ", ".join(f"c{i}" for i in range(len(names)))
            self.connection.execute(
                f"INSERT INTO {table} SELECT {chosen} FROM read_csv('{files}/{table}.tbl', delim='|', header=false, quote='', "
                f"escape='', columns={{{columns}}}, auto_detect=false)"
            )
        del indexed  # Zone maps are its indexes.

    def counts(self):
        """Rows of each table."""
        return {t: self.connection.execute(f"SELECT COUNT(*) FROM {t}").fetchone()[0] for t in TABLES}

    def run(self, text):
        """Asks; the answer."""
        timer = threading.Timer(self.limit, self.connection.interrupt)
        before, began = time.process_time(), time.perf_counter()
        timer.start()
        try:
            result = self.connection.execute(text)
            types = [str(column[1]) for column in result.description]
            rows = result.fetchall()
        except self.module.InterruptException as error:
            raise TooSlow() from error
        except self.module.Error as error:
            raise Refused(str(error).splitlines()[0]) from error
        finally:
            timer.cancel()
        seconds = time.perf_counter() - began
        exact = [kind not in ("DOUBLE", "FLOAT") for kind in types]
        return Answer(rows, exact, seconds, time.process_time() - before, None)

    def explain(self, text):
        """Its plan."""
        return self.connection.execute(f"EXPLAIN {text}").fetchall()[0][1]

    def cpu_seconds(self):
        """Seconds of the processor that this process has used."""
        return time.process_time()

    def stop(self):
        """Lets the tables go."""
        self.connection.close()
