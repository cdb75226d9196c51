#!/usr/bin/env python3
"""TPC-H's 22 queries on Nines, MariaDB with InnoDB, and DuckDB, on this machine, in this run.

    pip install pymysql tpchgen-cli duckdb             # and MariaDB's server
    cargo build --profile dist -p nines
    python3 bench/tpch/measure.py --scale 0.1 --rounds 5

Every system holds the same tables with the same keys, and is asked by one connection, query by query, the systems in turns. The
answers are compared with the first system's row by row; then two Markdown tables are printed: time until the last row has
come, and CPU time of all processes of the server. Figures are the smallest of all rounds, after a first one that counts only for
the comparison.

The queries are in the specification's words with the parameters its answers are validated with; what it lets an implementor
choose is noted in the file of the query. These are not results of TPC-H: no refresh functions, no audit, one stream.
"""

import argparse
import datetime
import decimal
import math
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import parameters
import systems
from systems import Refused, TooSlow

ROOT = Path(__file__).resolve().parents[2]
QUERIES = range(1, 23)
# The columns that a query sorts by, from 0; rows that are equal in them may come in any order.
SORTED_BY = {
    1: [0, 1], 2: [0, 2, 1, 3], 3: [1, 2], 4: [0], 5: [1], 6: [], 7: [0, 1, 2], 8: [0], 9: [0, 1], 10: [2], 11: [1],
    12: [0], 13: [1, 0], 14: [], 15: [0], 16: [3, 0, 1, 2], 17: [], 18: [4, 3], 19: [], 20: [0], 21: [1, 0], 22: [0],
}


def plain(value):
    """A value as it is compared: moments at midnight are dates, trailing blanks of CHAR go, whole numbers are decimals."""
    if isinstance(value, datetime.datetime):
        return value.date().isoformat()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str):
        return value.rstrip(" ")
    if isinstance(value, int):
        return decimal.Decimal(value)
    return value


def same(left, right, exact):
    """Whether two values are equal; where one system computes with binary fractions, to the last digit of the decimal one."""
    left, right = plain(left), plain(right)
    if exact or left is None or right is None:
        return left == right
    if isinstance(left, str) or isinstance(right, str):
        return left == right
    # A decimal quotient has as many digits as its type, rounded or cut off: one unit of the last of them.
    places = [value.as_tuple().exponent for value in (left, right) if isinstance(value, decimal.Decimal)]
    unit = 10.0 ** max(places) if places else 0.0
    return abs(float(left) - float(right)) <= max(unit, 1e-9 * abs(float(left)))


def difference(number, expected, found):
    """What is wrong with an answer, or None."""
    if len(expected.rows) != len(found.rows):
        return f"{len(found.rows)} rows instead of {len(expected.rows)}"
    if expected.rows and len(expected.rows[0]) != len(found.rows[0]):
        return f"{len(found.rows[0])} columns instead of {len(expected.rows[0])}"
    exact = [a and b for a, b in zip(expected.exact, found.exact)]
    for at, (left, right) in enumerate(zip(expected.rows, found.rows)):
        for column in SORTED_BY[number]:
            if not same(left[column], right[column], exact[column]):
                return f"row {at + 1} in order has {right[column]!r} instead of {left[column]!r} in column {column + 1}"
    # Ties may be in another order: pair rows by all that is exact.
    key = lambda row: [str(plain(value)) for value, sure in zip(row, exact) if sure]
    for left, right in zip(sorted(expected.rows, key=key), sorted(found.rows, key=key)):
        for column, (a, b) in enumerate(zip(left, right)):
            if not same(a, b, exact[column]):
                return f"{b!r} instead of {a!r} in column {column + 1}"
    return None


def generate(options, directory):
    """The generator's files, made anew unless they are there."""
    if options.data:
        return Path(options.data)
    program = shutil.which("tpchgen-cli") or str(Path(sys.executable).parent / "tpchgen-cli")
    files = directory / "data"
    subprocess.run([program, "-s", str(options.scale), "-o", str(files)], check=True, capture_output=True)
    return files


def start(options, directory):
    """The systems asked for, empty."""
    of_nines = (options.limit, options.memory, options.processes, options.query_memory, options.replicas)
    makers = {
        "mariadb": lambda: systems.MariaDB(directory / "mariadb", options.limit, options.memory),
        "duckdb": lambda: systems.DuckDB(options.limit),
        "nines": lambda: systems.Nines(options.nines, directory / "nines", *of_nines),
        "unpushed": lambda: systems.Unpushed(options.nines, directory / "unpushed", *of_nines),
    }
    return [makers[name]() for name in options.systems]


class Results:
    """What came of every query on every system."""

    def __init__(self):
        # The best of the rounds that count, or the first answer if none does; the first system's answers; what went wrong.
        self.answers, self.expected, self.failures = {}, {}, {}

    def add(self, name, number, answer, turn):
        """Keeps the best of all rounds but the first."""
        old = self.answers.get((name, number))
        if old and turn > 1:
            answer = answer._replace(seconds=min(old.seconds, answer.seconds), cpu=min(old.cpu, answer.cpu))
        self.answers[name, number] = answer

    def compare(self, name, number, answer):
        """Compares an answer with the first system's; says and keeps what is wrong."""
        expected = self.expected.setdefault(number, answer)
        wrong = difference(number, expected, answer)
        if wrong:
            self.failures[name, number] = "wrong"
            print(f"{name} Q{number} wrong: {wrong}", file=sys.stderr)
        elif expected is answer and all(value is None for row in answer.rows for value in row):
            print(f"Q{number} has no answer that could be wrong", file=sys.stderr)

    def text(self, name, number, field):
        """A cell of a table."""
        failure, answer = self.failures.get((name, number)), self.answers.get((name, number))
        if failure or not answer:
            return failure or "–"
        value = getattr(answer, field)
        return "–" if value is None else f"{value:,}" if field == "bytes" else milliseconds(value)


def milliseconds(seconds):
    """A time with three digits."""
    value = seconds * 1000
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def measure(all_systems, options):
    """Asks everything, in rounds; the first is not timed. Who failed is not asked again."""
    results = Results()
    for turn in range(options.rounds + 1):
        for number in options.queries:
            text = systems.query(number, options.scale)
            for system in all_systems:
                if (system.name, number) not in results.failures:
                    ask(system, number, text, turn, results, options)
        print(f"round {turn} of {options.rounds}", file=sys.stderr)
    return results


def vary(all_systems, options):
    """Asks every query with other parameters so many times, and compares; nothing is timed."""
    source, wrong = random.Random(options.seed), 0
    for number in options.queries:
        empty, results = 0, Results()
        for _ in range(options.variants):
            text = parameters.substitute(number, systems.query(number, options.scale), source)
            results.expected.clear()
            results.failures.clear()
            for system in all_systems:
                ask(system, number, text, 0, results, options)
            if results.failures:
                print(f"Q{number}: {results.failures}\n{text}")
            wrong += "wrong" in results.failures.values()
            answer = results.expected.get(number)
            empty += answer is not None and all(value is None for row in answer.rows for value in row)
        print(f"Q{number}: {options.variants} times, {empty} of them without an answer")
    return 1 if wrong else 0


def ask(system, number, text, turn, results, options):
    """Puts a question; keeps the answer, or why there is none."""
    try:
        answer = system.run(text)
    except TooSlow:
        results.failures[system.name, number] = f"> {options.limit:g} s"
        print(f"{system.name} Q{number}: none within {options.limit:g} s", file=sys.stderr)
    except Refused as reason:
        results.failures[system.name, number] = "refused"
        print(f"{system.name} Q{number} refused: {reason}", file=sys.stderr)
    else:
        print(f"{system.name} Q{number}: {milliseconds(answer.seconds)} ms", file=sys.stderr)
        results.compare(system.name, number, answer)
        results.add(system.name, number, answer, turn)


def table(results, names, options, field):
    """A Markdown table of one kind of figure with ratios to Nines."""
    others = [name for name in names if name != "Nines"] if "Nines" in names else []
    heads = ["query", *(f"{name} ms" for name in names), *(f"Nines : {name}" for name in others)]
    if field == "seconds" and options.processes:
        heads.append("bytes to the SQL node")
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    ratios = {name: [] for name in others}
    for number in options.queries:
        cells = [f"Q{number}", *(results.text(name, number, field) for name in names)]
        for other in others:
            pair = [results.answers.get((name, number)) for name in ("Nines", other)]
            failed = any((name, number) in results.failures for name in ("Nines", other))
            if all(pair) and not failed and getattr(pair[1], field) > 0:
                ratio = getattr(pair[0], field) / getattr(pair[1], field)
                ratios[other].append(ratio)
                cells.append(f"{ratio:.2f}")
            else:
                cells.append("–")
        if field == "seconds" and options.processes:
            failed = ("Nines", number) in results.failures
            cells.append("–" if failed else results.text("Nines", number, "bytes"))
        lines.append("| " + " | ".join(cells) + " |")
    means = [f"**geometric mean of {len(ratios[name])}: {mean(ratios[name])}**" for name in others]
    lines.append("| " + " | ".join(["", *("" for _ in names), *means]) + " |")
    return "\n".join(lines)


def mean(ratios):
    """The geometric mean as text."""
    return f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}" if ratios else "–"


def report(results, all_systems, options):
    """Everything as Markdown."""
    names = [system.name for system in all_systems]
    replicas = f", NoOfReplicas={options.replicas}" if options.replicas else ""
    keys = "with the indexes of indexes.sql" if options.indexed else "primary keys only"
    print(f"Scale factor {options.scale:g}, {keys}, {options.rounds} rounds, limit {options.limit:g} s a query{replicas}.\n")
    print("Time until the last row:\n")
    print(table(results, names, options, "seconds"))
    print("\nCPU time of the server:\n")
    print(table(results, names, options, "cpu"))
    return 1 if "wrong" in results.failures.values() else 0


def arguments():
    """What the user wants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nines", default=ROOT / "target/dist/nines", help="the program")
    parser.add_argument("--scale", type=float, default=0.01, help="scale factor: 1 is 8.7 million rows")
    parser.add_argument("--data", help="a folder with the generator's files of that scale")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count")
    parser.add_argument("--limit", type=float, default=60, help="seconds a query may take")
    parser.add_argument("--indexed", action="store_true", help="with secondary indexes, in both servers")
    parser.add_argument("--processes", action="store_true", help="Nines as separate processes; counts bytes to the SQL node")
    parser.add_argument("--memory", default="2G", help="of each data node, and InnoDB's buffer pool")
    parser.add_argument("--query-memory", help="what statements of Nines may keep, as 2G; the rest goes to temporary files")
    parser.add_argument("--replicas", type=int, help="of each row in Nines, without --processes")
    parser.add_argument("--collation", default="utf8mb4_bin", help="of all text in both servers")
    parser.add_argument("--systems", default="mariadb,duckdb,nines", help="the first is what others are compared with; `unpushed` is Nines with nines_pushdown off")
    parser.add_argument("--queries", default=",".join(map(str, QUERIES)))
    parser.add_argument("--variants", type=int, help="instead of measuring, compares answers for so many sets of parameters")
    parser.add_argument("--seed", type=int, default=1, help="of those parameters")
    parser.add_argument("--explain", action="store_true", help="also prints the plans of Nines")
    options = parser.parse_args()
    options.systems = options.systems.split(",")
    options.queries = [int(number) for number in options.queries.split(",")]
    return options


def main():
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="nines-tpch-") as folder:
        files = generate(options, Path(folder))
        all_systems = []
        try:
            all_systems = start(options, Path(folder))
            for system in all_systems:
                system.load(files, options.collation, options.indexed)
                counts = {table: sum(1 for _ in open(files / f"{table}.tbl", "rb")) for table in systems.TABLES}
                if system.counts() != counts:
                    sys.exit(f"{system.name} has loaded {system.counts()} instead of {counts}")
                print(f"{system.name} is loaded", file=sys.stderr)
            if options.explain:
                for number in options.queries:
                    plan = all_systems[-1].explain(systems.query(number, options.scale))
                    print(f"Q{number}\n{plan}\n", file=sys.stderr)
            if options.variants:
                return vary(all_systems, options)
            return report(measure(all_systems, options), all_systems, options)
        finally:
            for system in all_systems:
                system.stop()


if __name__ == "__main__":
    sys.exit(main())
