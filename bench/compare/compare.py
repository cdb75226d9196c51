#!/usr/bin/env python3
"""Nines beside its peers on this machine: the same load on each, in turns, several rounds.

    cargo xtask bench compare --plan docs           # builds what it needs; or by hand: python3 bench/compare/compare.py

Systems: `nines` (two replicas, one process), `large` (the same with eight times the rows), `processes` (two replicas, four
processes), `mariadb` (InnoDB, one copy), `galera` (two nodes of it), `redis` and `echo`, a server that does nothing: floors.
All are asked over Unix sockets, by YCSB over TCP, by clients on the same machine; logs are flushed once a second at most. What counts is server CPU per operation, user and
system apart, of all processes of a system, from /proc: on a shared machine it is the stable figure. Medians of the rounds.
"""

import argparse
import json
import os
import platform
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

import budgets  # noqa: E402
import many  # noqa: E402
import plans  # noqa: E402
import plot  # noqa: E402
import servers  # noqa: E402
import tpcc  # noqa: E402
from ycsb import core as ycsb  # noqa: E402

OLTP = [
    "oltp_point_select", "point_select_text", "oltp_read_only", "oltp_update_non_index", "oltp_update_index", "oltp_read_write", "oltp_write_only",
    "select_random_points", "select_random_ranges", "oltp_insert", "oltp_delete",
]
YCSB = [f"ycsb_{mix}" for mix in ycsb.MIXES]
VALUES = {"values_1k": 1 << 10, "values_64k": 64 << 10}
BULK = ["bulk_insert", "load_data", "one_commit", "many_commits"]
# `native` has no server: our client library and data nodes in one thread.
WORKLOADS = [*OLTP, "update64", *many.MIXES, *YCSB, "tpcc", *VALUES, *BULK, "native"]
SYSTEMS = ["nines", "large", "processes", "mariadb", "galera", "redis", "echo"]
# Rows of `large` for each of the others'.
LARGER = 8
REDIS = {"oltp_point_select": ["-t", "get"], "update64": ["-t", "set", "-d", "64"]}
# What a server shows that answers every query with the same row.
ECHO = ["oltp_point_select", "point_select_text", *many.MIXES]
# Those that need the rows of sysbench's tables.
FILLED = [*OLTP, "update64", *many.MIXES]
# Bytes of all large values together, at most: they are written anew for each measurement.
VALUES_SIZE = 64 << 20
# Rows of a bulk load, by how much a server does at a time: ticks of 10 ms are what processor time is counted in.
BULK_ROWS = {"bulk_insert": 100_000, "load_data": 100_000, "one_commit": 10_000, "many_commits": 10_000}

# An operation is an event of the script, one of YCSB's, a New-Order and what goes with it, a row of a bulk load. Rates per second, times in milliseconds and microseconds.
Result = namedtuple("Result", "rate p50 p95 p99 user system client")


class Failed(Exception):
    """The system does not do it; its words."""


def insist(wrong):
    """Fails with what is wrong, if something is."""
    if wrong:
        raise Failed(wrong[:200])


def start(name, options, base):
    """Starts a system."""
    directory = Path(base) / name
    if name in ("nines", "large"):
        return servers.NinesDev(name, directory, options.nines, options.memory)
    if name == "processes":
        return servers.NinesProcesses(name, directory, options.nines, options.memory)
    if name == "mariadb":
        return servers.MariaDB(name, directory, options.memory)
    if name == "galera":
        return servers.Galera(name, directory, options.memory)
    return servers.Redis(name, directory) if name == "redis" else servers.Echo(name, directory, options.echo)


def sysbench(server, script, action, threads=1, seconds=1, more=(), database="sbtest"):
    """Runs a script of sysbench; what it prints."""
    own = HERE / f"{script}.lua"
    command = [
        "sysbench", str(own) if own.exists() else script, "--db-driver=mysql", "--mysql-user=root", f"--mysql-db={database}",
        f"--mysql-socket={server.socket}", f"--threads={threads}", f"--time={seconds}", "--events=0", "--histogram", *more, action,
    ]
    environment = {**os.environ, "LUA_PATH": "/usr/share/sysbench/?.lua;;"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        errors = [line for line in (done.stdout + done.stderr).splitlines() if "FATAL" in line] or [done.stderr]
        words = re.sub(r".*(function failed: \S+ |returned error )", "", errors[0].strip())
        raise Failed(re.sub(r" for query .*", "", words)[:120])
    return done.stdout


def rows_of(server, part):
    """Rows of each of sysbench's tables."""
    return part.rows * (LARGER if server.name == "large" else 1)


def arguments(server, options, part, workload):
    """The script of a workload, and its options."""
    if workload in VALUES:
        rows = max(min(part.rows // 100, VALUES_SIZE // VALUES[workload]), 10)
        return "values", [f"--table-size={rows}", f"--bytes={VALUES[workload]}"]
    more = [f"--tables={options.tables}", f"--table-size={rows_of(server, part)}"]
    if workload == "point_select_text":
        return "oltp_point_select", [*more, "--db-ps-mode=disable"]
    return workload, [*more, "--db-ps-mode=auto"]


def timed(server, work):
    """Runs `work`, which says how many operations it did, in how many seconds, and what their percentiles were.

    A client's start and end are in the processor time, and not in the seconds.
    """
    before, mine = server.cpu(), resource.getrusage(resource.RUSAGE_CHILDREN)
    count, seconds, times = work()
    after, ours = server.cpu(), resource.getrusage(resource.RUSAGE_CHILDREN)
    if count == 0:
        raise Failed("no operation has ended")
    client = ours.ru_utime + ours.ru_stime - mine.ru_utime - mine.ru_stime
    micro = [(b - a) / count * 1e6 for a, b in zip(before, after)]
    return Result(count / seconds, *times, *micro, client / count * 1e6)


def run_sysbench(server, options, part, workload, threads):
    """A workload that is a script."""
    script, more = arguments(server, options, part, workload)
    # Rows that are gone make all that comes later cheaper, so they are others.
    database = "sbdelete" if workload == "oltp_delete" else "sbtest"
    if database == "sbdelete":
        if server.sql(f"DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}") is None:
            raise Failed(server.complaint)
        sysbench(server, script, "prepare", options.tables, more=more, database=database)

    def work(seconds=part.seconds):
        text = sysbench(server, script, "run", threads, seconds, more, database)
        buckets = [(float(value), int(many)) for value, many in re.findall(r"^ *([0-9.]+) \|\**\s+(\d+)$", text, re.M)]
        took = float(re.search(r"^\s+total time:\s+([0-9.]+)s", text, re.M)[1])
        return int(re.search(r"^\s+transactions:\s+(\d+)", text, re.M)[1]), took, servers.percentiles(buckets, [0.5, 0.95, 0.99])

    # Caches and tables of statements fill before anything is measured.
    work(1)
    return timed(server, work)


def run_many(server, options, part, workload, threads):
    """Many clients of our own; also what the table of them shows beside."""
    found, wrong = many.run(options.load_generator, server, workload, threads, part.seconds, options.tables, rows_of(server, part))
    insist(wrong)
    names = ["rate", "p50", "p95", "p99", "server_user", "server_system", "client"]
    return Result(*(found[name] for name in names)), many.more_of(found)


def run_ycsb(server, options, part, workload, threads):
    """A core workload of YCSB."""

    def work():
        count, seconds, times, wrong = ycsb.run(options.ycsb, server, workload[-1], threads, part.seconds)
        insist(wrong)
        return count, seconds, times

    if not hasattr(server, "ycsb_rows"):
        insist(ycsb.fill(options.ycsb, server, part.rows))
    return timed(server, work)


def run_tpcc(server, options, part, threads):
    """TPC-C's mix, and afterwards its consistency."""

    def work(seconds=part.seconds):
        count, took, times, wrong = tpcc.run(options.tpcc, server, threads, seconds)
        insist(wrong)
        return count, took, times

    if not hasattr(server, "has_tpcc"):
        insist(tpcc.fill(options.tpcc, server))
        server.has_tpcc = True
    work(1)
    result = timed(server, work)
    insist(tpcc.check(options.tpcc, server))
    return result


def run_redis(server, part, workload, threads):
    """A look-up or an overwrite by key, by Redis' own client."""
    command = ["redis-benchmark", "-s", str(server.socket), *REDIS[workload], "-c", str(threads), "-r", str(part.rows), "--csv"]

    def work(count):
        text = subprocess.run([*command, "-n", str(count)], check=True, capture_output=True, text=True).stdout
        return text.splitlines()[-1].replace('"', "").split(",")

    rate = float(work(20_000)[1])
    count = max(int(rate * part.seconds), 1_000)

    def timed_work():
        # test, rps, average, min, p50, p95, p99, max
        fields = [float(field) for field in work(count)[1:7]]
        return count, count / fields[0], fields[3:]

    return timed(server, timed_work)


def run_bulk(server, workload):
    """So many rows at once or one by one; an operation is a row."""
    if server.sql("DROP TABLE IF EXISTS bulk; CREATE TABLE bulk (id INT PRIMARY KEY, k INT, c CHAR(120))", "sbtest") is None:
        raise Failed(server.complaint)
    count = BULK_ROWS[workload]
    rows = [f"{i},{i * 7919 % count},'{i:0119}'" for i in range(count)]
    file = server.directory / "bulk"
    if workload == "load_data":
        file.write_text("".join(f"{row}\n" for row in rows).replace("'", ""))
        text = f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE bulk FIELDS TERMINATED BY ','"
    elif workload == "bulk_insert":
        text = ";".join(
            "INSERT INTO bulk VALUES " + ",".join(f"({row})" for row in rows[at:at + 1000]) for at in range(0, count, 1000)
        )
    else:
        text = ";\n".join(f"INSERT INTO bulk VALUES ({row})" for row in rows)
        text = f"BEGIN;\n{text};\nCOMMIT" if workload == "one_commit" else text
    file = server.directory / "statements"
    file.write_text(text + ";\n")
    command = ["mysql", "--no-defaults", "--user=root", f"--socket={server.socket}", "--local-infile=1", "sbtest"]

    def work():
        began = time.monotonic()
        with open(file) as statements:
            done = subprocess.run(command, stdin=statements, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(done.stderr.strip()[:200])
        return count, time.monotonic() - began, [None] * 3

    result = timed(server, work)
    if (server.sql("SELECT COUNT(*) FROM bulk", "sbtest") or "").split()[-1:] != [str(count)]:
        raise Failed("rows are missing")
    return result


def fill(server, options, part):
    """Makes the tables; bytes of memory a row of sysbench's tables takes, where there are any."""
    if server.name == "echo":
        return None
    if server.name == "redis":
        subprocess.run(
            ["redis-benchmark", "-s", str(server.socket), "-t", "set", "-d", "120", "-r", str(part.rows), "-n", str(part.rows * 3), "-q"],
            check=True, capture_output=True,
        )
        return None
    if server.sql("CREATE DATABASE sbtest") is None:
        raise Failed(server.complaint)
    if not set(part.workloads) & set(FILLED):
        return None
    before = server.memory()
    sysbench(server, "oltp_read_write", "prepare", options.tables, more=arguments(server, options, part, "oltp_read_write")[1])
    return (server.memory() - before) / (options.tables * rows_of(server, part))


def run_native(options, part):
    """Operations a second of processor time by our client library, without SQL and sockets, by name."""
    done = subprocess.run([options.native, "--json", "--rows", str(min(part.rows, 200_000))], capture_output=True, text=True)
    insist("" if done.returncode == 0 else done.stderr.replace("\n", " ").strip() or "it failed")
    return {figure["name"]: figure["value"] for figure in json.loads(done.stdout)}


def measure(server, options, part, workload, threads):
    """One measurement: the result, and of many clients what the main table has no column for."""
    more = None
    if server.name == "redis":
        result = run_redis(server, part, workload, threads)
    elif workload in BULK:
        result = run_bulk(server, workload)
    elif workload in YCSB:
        result = run_ycsb(server, options, part, workload, threads)
    elif workload == "tpcc":
        result = run_tpcc(server, options, part, threads)
    elif workload in many.MIXES:
        result, more = run_many(server, options, part, workload, threads)
    else:
        if workload in VALUES:
            if server.sql("DROP TABLE IF EXISTS large_values", "sbtest") is None:
                raise Failed(server.complaint)
            script, values = arguments(server, options, part, workload)
            sysbench(server, script, "prepare", more=values)
        result = run_sysbench(server, options, part, workload, threads)
    # A cluster that has lost a node on the way is cheaper than a whole one.
    insist(server.fault())
    return result, more


def can(system, workload):
    """Whether the workload means something to the system."""
    if system in ("echo", "redis"):
        return workload in (ECHO if system == "echo" else REDIS)
    return workload in OLTP and workload != "oltp_delete" if system == "large" else workload != "native"


def clients_of(workload, part):
    """With how many clients a workload is run."""
    usual = {**dict.fromkeys(BULK, [1]), "tpcc": tpcc.CLIENTS}
    return part.others.get(workload) or usual.get(workload) or part.clients


class Found:
    """What was measured by now, by workload, clients and system."""

    def __init__(self):
        self.results, self.details, self.refused = {}, {}, {}
        # By system; by operation; of systems that did not start, their words; lines of a table.
        self.memory, self.native, self.absent, self.parts = {}, {}, {}, []

    def medians(self):
        return {key: median(found) for key, found in self.results.items()}

    def detail_medians(self):
        return {key: many.More(*map(statistics.median, zip(*found))) for key, found in self.details.items()}


def compare(running, options, part, found):
    """A part's measurements, the systems taking turns so that a busy moment meets all."""
    for turn in range(part.rounds):
        for workload in part.workloads:
            for threads in clients_of(workload, part):
                for server in running:
                    key = (workload, threads, server.name)
                    if not can(server.name, workload) or workload not in part.only.get(server.name, [workload]) or key in found.refused:
                        continue
                    try:
                        result, more = measure(server, options, part, workload, threads)
                    except Failed as why:
                        found.refused[key] = str(why)
                        print(f"{turn + 1} {workload} {threads} {server.name}: {why}", file=sys.stderr, flush=True)
                        continue
                    found.results.setdefault(key, []).append(result)
                    if more:
                        found.details.setdefault(key, []).append(more)
                    cpu = result.user + result.system
                    print(f"{turn + 1} {workload} {threads} {server.name}: {cpu:.1f} us, {result.rate:,.0f}/s", file=sys.stderr, flush=True)


def median(found):
    """The median of each figure."""
    columns = [[value for value in column if value is not None] for column in zip(*found)]
    return Result(*(statistics.median(column) if column else None for column in columns))


def facts(options):
    """The machine, and what was run on it."""
    cpu = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    memory = int(re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) >> 20
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT).stdout.strip()
    load = os.getloadavg()[1]
    built = time.strftime("%Y-%m-%d %H:%M", time.localtime(os.stat(shutil.which(options.nines)).st_mtime)) if shutil.which(options.nines) else "–"
    name = cpu[1] if cpu else platform.machine()
    return (
        f"{name}, {os.cpu_count()} CPUs, {memory} GB, Linux {platform.release()}; load {load:.1f} before the start; work tree at {commit}, "
        f"program built {built}; "
        f"{options.tables} × {options.rows:,} rows, {time.strftime('%Y-%m-%d')}."
    )


def native_table(native):
    """What the client library does, as Markdown."""
    lines = ["| native operation | a core's second | µs each |", "|---|---|---|"]
    return "\n".join(lines + [f"| {name} | {rate:,.0f} | {1e6 / rate:.2f} |" for name, rate in native.items()])


def parts_table(found):
    """What the parts were and took, and how quiet the machine was meanwhile, as Markdown."""
    lines = [
        "| part | systems | rounds | seconds each | took, in all | of it start and fill | idle systems, of a CPU | taken by other machines |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join(lines + found.parts + [f"\n{name} was not measured: {why}" for name, why in found.absent.items()])


def table(results, refused, memory):
    """The comparison as Markdown; many clients have a table of their own."""
    text = lambda value, digits: "–" if value is None else f"{value:,.{digits}f}"
    lines = [
        "| workload | clients | system | operations/s | p50 ms | p95 ms | p99 ms | server µs/op | user | system | client µs/op |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    shown = [key for key in [*results, *refused] if key[0] not in many.MIXES or key in refused]
    for workload, threads, name in sorted(set(shown), key=lambda key: (WORKLOADS.index(key[0]), key[1], SYSTEMS.index(key[2]))):
        found = results.get((workload, threads, name))
        if (workload, threads, name) in refused:
            lines.append(f"| {workload} | {threads} | {name} | refused: {refused[workload, threads, name]} |" + " |" * 7)
            continue
        cells = [
            text(found.rate, 0), *(text(value, 2) for value in found[1:4]), f"**{found.user + found.system:,.1f}**",
            text(found.user, 1), text(found.system, 1), text(found.client, 1),
        ]
        lines.append(f"| {workload} | {threads} | {name} | " + " | ".join(cells) + " |")
    rows = [f"{name} {round(grown)}" for name, grown in memory.items()]
    if rows:
        lines += ["", f"Memory that a row of sysbench's tables takes, bytes of all copies together: {', '.join(rows)}."]
    return "\n".join(lines) if len(lines) > 2 else ""


def report(found, machine, options):
    """Writes what was measured by now."""
    results = found.medians()
    texts = [
        machine, parts_table(found), table(results, found.refused, found.memory), many.table(results, found.detail_medians(), SYSTEMS),
        native_table(found.native) if found.native else "", budgets.table(results, found.memory, found.native),
    ]
    text = "\n\n".join(filter(None, texts)) + "\n"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "compare.md").write_text(text)
    shown = {key: result for key, result in results.items() if key[0] not in many.MIXES}
    (options.out / "compare.svg").write_text(plot.bars(shown, WORKLOADS, SYSTEMS, machine))
    return text


def busy():
    """Processor time of the machine by now, in ticks: all, and what other machines on the same processors took."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(fields), fields[7]


def run_part(part, options, found):
    """Starts a part's systems, measures, stops them. What does not start is left out, and said."""
    began, ticks, running, failed = time.monotonic(), busy(), [], []
    print(f"{part.name}: {time.strftime('%H:%M:%S')}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="nines-compare-") as base:
        # A server that becomes another user has its files there.
        os.chmod(base, 0o711)
        try:
            for name in part.systems:
                try:
                    running.append(start(name, options, base))
                    grown = fill(running[-1], options, part)
                except (Failed, SystemExit) as why:
                    found.absent[name] = str(why)
                    failed += [server for server in running if server.name == name]
                    running = [server for server in running if server.name != name]
                    print(f"{name} is left out: {why}", file=sys.stderr, flush=True)
                    continue
                if grown:
                    found.memory.setdefault(name, grown)
            filled = time.monotonic()
            idle, pause = sum(server.precise_cpu() for server in running), 3
            time.sleep(pause)
            idle = (sum(server.precise_cpu() for server in running) - idle) / pause
            if "native" in part.workloads:
                found.native = run_native(options, part)
            compare(running, options, part, found)
        finally:
            for server in [*running, *failed]:
                server.stop()
    after = busy()
    stolen = (after[1] - ticks[1]) / max(after[0] - ticks[0], 1)
    found.parts.append(
        f"| {part.name} | {', '.join(part.systems) or '–'} | {part.rounds} | {part.seconds} | {time.monotonic() - began:.0f} s "
        f"| {filled - began:.0f} s | {100 * idle:.1f} % | {100 * stolen:.1f} % |"
    )


def options_of(argv):
    """Reads the command line."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "dist"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nines", default=str(target / "nines"), help="the server's binary")
    parser.add_argument("--echo", default=str(target / "echo"), help="the binary of the server that does nothing")
    parser.add_argument("--load-generator", default=str(target / "load_generator"), help="the binary of many clients")
    parser.add_argument("--native", default=str(target / "native"), help="the binary that uses our client library")
    parser.add_argument("--tpcc", default=str(target / "tpcc"), help="the binary of TPC-C's driver")
    parser.add_argument("--ycsb", default="", help="the folder of YCSB's jars and of our binding's classes")
    parser.add_argument("--quick", action="store_true", help="some minutes: few workloads, 1 and 8 clients, one short round")
    parser.add_argument("--plan", choices=plans.PLANS, help="a choice of all that follows: docs, all that docs/benchmarks.md shows")
    parser.add_argument("--parts", nargs="+", metavar="WORD", help="of a plan only the parts whose names contain one of these")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, metavar="WORKLOAD", help=", ".join(WORKLOADS))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, metavar="SYSTEM", help=", ".join(SYSTEMS))
    parser.add_argument("--clients", type=int, nargs="+")
    parser.add_argument("--many-clients", type=int, nargs="+", help="of the workloads many_…")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=int, help="of each measurement")
    parser.add_argument("--tables", type=int, help="of sysbench")
    parser.add_argument("--rows", type=int, help="rows of each table")
    parser.add_argument("--memory", default="2G", help="for data: of each data node, of InnoDB's buffer pool")
    parser.add_argument("--out", type=Path, default=Path("compare"), help="folder of the table and the plot")
    options = parser.parse_args(argv)
    options.rows = options.rows or (20_000 if options.quick else 500_000)
    options.tables = options.tables or (1 if options.plan else 2)
    return options


def parts_of(options):
    """What the options ask for: a plan's parts with what they change in them, or one part."""
    if options.plan:
        parts = plans.PLANS[options.plan](options.rows)
        if options.parts:
            parts = [part for part in parts if any(word in part.name for word in options.parts)]
        for part in parts:
            part.systems = [name for name in part.systems if name in (options.systems or SYSTEMS)]
            part.workloads = [name for name in part.workloads if name in (options.workloads or WORKLOADS)]
            part.rounds = options.rounds or part.rounds
            part.seconds = options.seconds or part.seconds
        return [part for part in parts if part.workloads]
    quick = ["oltp_point_select", "oltp_update_non_index", "oltp_read_write", "update64", "many_point_select", "load_data"]
    workloads = options.workloads or (quick if options.quick else WORKLOADS)
    clients = options.clients or ([1, 8] if options.quick else [1, 8, 32, 64, 256])
    crowds = options.many_clients or ([8, 64, 256] if options.quick else many.CLIENTS)
    systems = options.systems or SYSTEMS
    if not set(workloads) & set(OLTP):
        systems = [name for name in systems if name != "large"]
    rounds, seconds = options.rounds or (1 if options.quick else 3), options.seconds or (3 if options.quick else 10)
    return [plans.Part("all", systems, workloads, clients, rounds, seconds, options.rows, dict.fromkeys(many.MIXES, crowds))]


def needs(systems, workloads):
    """Programs that are missing, with the Debian package of each."""
    programs = {"sysbench": "sysbench", "mysql": "mariadb-client"}
    if systems & {"mariadb", "galera"}:
        programs["mariadb-install-db"] = "mariadb-server"
    if "redis" in systems:
        programs.update({"redis-server": "redis-server", "redis-benchmark": "redis-tools"})
    if "galera" in systems:
        # The second is how its script finds out whether rsync listens.
        programs.update({"rsync": "rsync", "ss": "iproute2"})
    if workloads & set(YCSB):
        programs["java"] = "default-jre-headless"
    missing = {package for program, package in programs.items() if not shutil.which(program)}
    if "galera" in systems and not Path(servers.Galera.PROVIDER).exists():
        missing.add("galera-4")
    return sorted(missing)


def main():
    options = options_of(sys.argv[1:])
    parts = parts_of(options)
    systems, workloads = {name for part in parts for name in part.systems}, {name for part in parts for name in part.workloads}
    if missing := needs(systems, workloads):
        sys.exit("programs are missing; install them with\n  "
                 f"sudo apt-get install --no-install-recommends {' '.join(missing)}")
    binaries = {options.nines: {"nines", "large", "processes"} & systems, options.echo: "echo" in systems, options.tpcc: "tpcc" in workloads,
                options.load_generator: set(many.MIXES) & workloads, options.native: "native" in workloads}
    for binary in [binary for binary, wanted in binaries.items() if wanted]:
        if not shutil.which(binary):
            sys.exit(f"{binary} is missing: cargo build --profile dist -p nines -p bench -p tpcc")
    if workloads & set(YCSB) and not Path(options.ycsb, "classes").is_dir():
        sys.exit("--ycsb must name the folder that `cargo xtask bench compare` has made")
    machine, found, text = facts(options), Found(), ""
    for part in parts:
        run_part(part, options, found)
        # Hours of measuring are not lost with what comes after them.
        text = report(found, machine, options)
    print(text)
    if found.absent:
        sys.exit(f"not all was measured: {', '.join(found.absent)}")


if __name__ == "__main__":
    main()
