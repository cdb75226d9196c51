"""The background works: what each does to the cluster, from the statements and commands that an operator would type.

A work has `name`, `prepare`, `run`, which says what is wrong or nothing, and `clean`. `run` alone is timed.
"""

import shutil
import subprocess
import sys
from pathlib import Path

# Rows of one statement that changes many: a transaction has limits.
CHUNK = 100_000
# Rows that a load file has, of which several are loaded.
FILE_ROWS = 200_000


def statement(cluster, text, database="work"):
    """Runs a statement; what is wrong."""
    return "" if cluster.sql(text, database) is not None else cluster.complaint[:200]


def csv_of(directory, first, count, name="rows.csv"):
    """A file of rows of sysbench's table."""
    path = Path(directory) / name
    with open(path, "w") as file:
        for key in range(first, first + count):
            mixed = key * 2_654_435_761 % (1 << 32)
            file.write(f"{key},{mixed % 4_000_000 + 1},{mixed:011d}-{key:0107d},{mixed:011d}-{key:047d}\n")
    return path


def parts(first, count):
    """The first key and the number of rows of each file that is loaded."""
    return [(at, min(FILE_ROWS, first + count - at)) for at in range(first, first + count, FILE_ROWS)]


def load_file(cluster, table, path):
    """Loads a file; what is wrong."""
    return statement(cluster, f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE {table} FIELDS TERMINATED BY ','")


def load(cluster, table, first, count):
    """Fills a table from files, a few hundred thousand rows at a time; what is wrong."""
    for at, rows in parts(first, count):
        wrong = load_file(cluster, table, csv_of(cluster.directory, at, rows))
        if wrong:
            return wrong
    return ""


COLUMNS = "id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT ''"


def fill(cluster, options):
    """Makes the table of the load, that of the works, and tables that stand by."""
    for database in ("sbtest", "work", "many"):
        insist(statement(cluster, f"CREATE DATABASE {database}", ""))
    insist(statement(cluster, f"CREATE TABLE sbtest.sbtest1 ({COLUMNS}, KEY k_1 (k))"))
    insist(load(cluster, "sbtest.sbtest1", 1, options.rows))
    insist(statement(cluster, f"CREATE TABLE work.rows_of_work ({COLUMNS}, KEY k_1 (k))"))
    insist(load(cluster, "work.rows_of_work", 1, options.work_rows))
    for first in range(0, options.tables, 100):
        made = range(first, min(first + 100, options.tables))
        insist(statement(cluster, ";".join(f"CREATE TABLE many.t{number} (id INT PRIMARY KEY, v INT, KEY (v))" for number in made)))


def insist(wrong):
    """Ends everything with what is wrong, if something is."""
    if wrong:
        raise SystemExit(wrong)


class Work:
    """A work that is one statement, with one that undoes it."""

    def __init__(self, name, text, undo=None):
        self.name, self.text, self.undo = name, text, undo

    def prepare(self, cluster):
        """Nothing has to be there but the tables."""

    def run(self, cluster):
        """Runs the statement."""
        return statement(cluster, self.text)

    def clean(self, cluster):
        """Undoes it."""
        if self.undo:
            insist(statement(cluster, self.undo))


class Definitions(Work):
    """A table is made, altered and dropped again and again, among many."""

    def run(self, cluster):
        return statement(cluster, ";".join(
            f"CREATE TABLE many.x{number} (id INT PRIMARY KEY, v INT); ALTER TABLE many.x{number} ADD COLUMN w INT; DROP TABLE many.x{number}"
            for number in range(100)
        ))


class BulkLoad(Work):
    """Files are loaded into a new table. They are written before: that is not the database's work."""

    def __init__(self, name, rows):
        super().__init__(name, "", "DROP TABLE loaded")
        self.rows = rows
        self.files = []

    def prepare(self, cluster):
        insist(statement(cluster, f"CREATE TABLE loaded ({COLUMNS}, KEY k_1 (k))"))
        self.files = self.files or [
            csv_of(cluster.directory, at, rows, f"part-{at}.csv") for at, rows in parts(1, self.rows)
        ]

    def run(self, cluster):
        for path in self.files:
            wrong = load_file(cluster, "loaded", path)
            if wrong:
                return wrong
        return ""


class Delete(Work):
    """Many rows are deleted."""

    def __init__(self, name, rows):
        super().__init__(name, "", "DROP TABLE deleted")
        self.rows = rows

    def prepare(self, cluster):
        insist(statement(cluster, f"CREATE TABLE deleted ({COLUMNS}, KEY k_1 (k))"))
        insist(load(cluster, "deleted", 1, self.rows))

    def run(self, cluster):
        for first in range(1, self.rows + 1, CHUNK):
            wrong = statement(cluster, f"DELETE FROM deleted WHERE id BETWEEN {first} AND {first + CHUNK - 1}")
            if wrong:
                return wrong
        return ""


class UpdateAll(Work):
    """Every row of a table is changed: the log grows until checkpoints are made."""

    def __init__(self, name, rows):
        super().__init__(name, "")
        self.rows = rows

    def run(self, cluster):
        for first in range(1, self.rows + 1, CHUNK):
            wrong = statement(cluster, f"UPDATE rows_of_work SET pad = REVERSE(pad) WHERE id BETWEEN {first} AND {first + CHUNK - 1}")
            if wrong:
                return wrong
        return ""


class Restart(Work):
    """A data node is killed, started again, reads its disk and is copied what it has missed."""

    def run(self, cluster):
        cluster.restart_data_node()
        return ""


class Dump(Work):
    """mysqldump of a table."""

    def run(self, cluster):
        program = shutil.which("mysqldump") or shutil.which("mariadb-dump")
        command = [program, "--no-defaults", "--user=root", f"--socket={cluster.socket}", "--single-transaction", "work", "rows_of_work"]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        return done.stderr.strip()[:200] if done.returncode else ""


class Query(Work):
    """A query of TPC-H, over tables that are made when it is first asked."""

    loaded = False

    def __init__(self, name, number, scale):
        super().__init__(name, "")
        self.number, self.scale = number, scale

    def prepare(self, cluster):
        if Query.loaded:
            return
        tpch = Path(__file__).resolve().parent.parent / "tpch"
        sys.path.insert(0, str(tpch))
        import systems

        files = cluster.directory / "tpch"
        generator = shutil.which("tpchgen-cli") or str(Path(sys.executable).parent / "tpchgen-cli")
        subprocess.run([generator, "-s", str(self.scale), "-o", str(files)], check=True, capture_output=True)
        insist(statement(cluster, "CREATE DATABASE tpch"))
        for text in systems.statements(tpch / "schema.sql"):
            insist(statement(cluster, text, "tpch"))
        for table in systems.TABLES:
            text = f"LOAD DATA LOCAL INFILE '{{}}' INTO TABLE {table} FIELDS TERMINATED BY '|' LINES TERMINATED BY '|\\n'"
            insist(load_in_parts(cluster, files / f"{table}.tbl", text))
        Query.loaded = True

    def run(self, cluster):
        import systems

        return statement(cluster, systems.query(self.number, self.scale), "tpch")


def load_in_parts(cluster, path, text):
    """Loads a file some lines at a time; what is wrong."""
    part = cluster.directory / "part.tbl"
    with open(path, "rb") as lines:
        while piece := [line for _, line in zip(range(FILE_ROWS), lines)]:
            part.write_bytes(b"".join(piece))
            wrong = statement(cluster, text.format(part), "tpch")
            if wrong:
                return wrong
    return ""


NAMES = [
    "create_index", "alter_copy", "definitions", "bulk_load", "delete", "update_all", "q1", "q9", "q18", "restart", "check", "dump",
]


def named(name, options):
    """The work of this name."""
    rows, scale = max(options.work_rows // 4, 1), 0.02 if options.quick else 0.1
    return {
        "create_index": lambda: Work(name, "CREATE INDEX by_pad ON rows_of_work (pad)", "DROP INDEX by_pad ON rows_of_work"),
        "alter_copy": lambda: Work(name, "ALTER TABLE rows_of_work ALGORITHM=COPY, FORCE"),
        "definitions": lambda: Definitions(name, ""),
        "bulk_load": lambda: BulkLoad(name, rows),
        "delete": lambda: Delete(name, rows),
        "update_all": lambda: UpdateAll(name, options.work_rows),
        "q1": lambda: Query(name, 1, scale),
        "q9": lambda: Query(name, 9, scale),
        "q18": lambda: Query(name, 18, scale),
        "restart": lambda: Restart(name, ""),
        "check": lambda: Work(name, "CHECK TABLE rows_of_work"),
        "dump": lambda: Dump(name, ""),
    }[name]()
