#!/usr/bin/env python3
"""Nines beside its peers on this machine: the same load on each, in turns, several rounds.

    cargo xtask bench compare                       # builds what it needs; or by hand: python3 bench/compare/compare.py

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
WORKLOADS = [*OLTP, "update64", *YCSB, "tpcc", *VALUES, *BULK, "native"]
SYSTEMS = ["nines", "large", "processes", "mariadb", "galera", "redis", "echo"]
# Rows of `large` for each of the others'.
LARGER = 8
REDIS = {"oltp_point_select": ["-t", "get"], "update64": ["-t", "set", "-d", "64"]}
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


def sysbench(server, options, script, action, threads=1, seconds=1, more=()):
    """Runs a script of sysbench; what it prints."""
    own = HERE / f"{script}.lua"
    command = [
        "sysbench", str(own) if own.exists() else script, "--db-driver=mysql", "--mysql-user=root", "--mysql-db=sbtest",
        f"--mysql-socket={server.socket}", f"--threads={threads}", f"--time={seconds}", "--events=0", "--histogram", *more, action,
    ]
    environment = {**os.environ, "LUA_PATH": "/usr/share/sysbench/?.lua;;"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        errors = [line for line in (done.stdout + done.stderr).splitlines() if "FATAL" in line] or [done.stderr]
        words = re.sub(r".*(function failed: \S+ |returned error )", "", errors[0].strip())
        raise Failed(re.sub(r" for query .*", "", words)[:120])
    return done.stdout


def rows_of(server, options):
    """Rows of each of sysbench's tables."""
    return options.rows * (LARGER if server.name == "large" else 1)


def arguments(server, options, workload):
    """The script of a workload, and its options."""
    if workload in VALUES:
        return "values", [f"--table-size={max(options.rows // 100, 10)}", f"--bytes={VALUES[workload]}"]
    more = [f"--tables={options.tables}", f"--table-size={rows_of(server, options)}"]
    if workload == "point_select_text":
        return "oltp_point_select", [*more, "--db-ps-mode=disable"]
    return workload, [*more, "--db-ps-mode=auto"]


def timed(server, work):
    """Runs `work`, which says how many operations it did and what their percentiles were."""
    before, mine, began = server.cpu(), resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    count, times = work()
    seconds = time.monotonic() - began
    after, ours = server.cpu(), resource.getrusage(resource.RUSAGE_CHILDREN)
    if count == 0:
        raise Failed("no operation has ended")
    client = ours.ru_utime + ours.ru_stime - mine.ru_utime - mine.ru_stime
    micro = [(b - a) / count * 1e6 for a, b in zip(before, after)]
    return Result(count / seconds, *times, *micro, client / count * 1e6)


def run_sysbench(server, options, workload, threads):
    """A workload that is a script."""
    script, more = arguments(server, options, workload)

    def work(seconds=options.seconds):
        text = sysbench(server, options, script, "run", threads, seconds, more)
        buckets = [(float(value), int(many)) for value, many in re.findall(r"^ *([0-9.]+) \|\**\s+(\d+)$", text, re.M)]
        return int(re.search(r"^\s+transactions:\s+(\d+)", text, re.M)[1]), servers.percentiles(buckets, [0.5, 0.95, 0.99])

    # Caches and tables of statements fill before anything is measured.
    work(1)
    return timed(server, work)


def run_ycsb(server, options, workload, threads):
    """A core workload of YCSB."""

    def work():
        count, times, wrong = ycsb.run(options.ycsb, server, workload[-1], threads, options.seconds)
        insist(wrong)
        return count, times

    if not hasattr(server, "ycsb_rows"):
        insist(ycsb.fill(options.ycsb, server, options.rows))
    return timed(server, work)


def run_tpcc(server, options, threads):
    """TPC-C's mix, and afterwards its consistency."""

    def work(seconds=options.seconds):
        count, times, wrong = tpcc.run(options.tpcc, server, threads, seconds)
        insist(wrong)
        return count, times

    if not hasattr(server, "has_tpcc"):
        insist(tpcc.fill(options.tpcc, server))
        server.has_tpcc = True
    work(1)
    result = timed(server, work)
    insist(tpcc.check(options.tpcc, server))
    return result


def run_redis(server, options, workload, threads):
    """A look-up or an overwrite by key, by Redis' own client."""
    command = ["redis-benchmark", "-s", str(server.socket), *REDIS[workload], "-c", str(threads), "-r", str(options.rows), "--csv"]

    def work(count):
        text = subprocess.run([*command, "-n", str(count)], check=True, capture_output=True, text=True).stdout
        return text.splitlines()[-1].replace('"', "").split(",")

    rate = float(work(20_000)[1])
    count = max(int(rate * options.seconds), 1_000)
    # test, rps, average, min, p50, p95, p99, max
    return timed(server, lambda: (count, [float(field) for field in work(count)[4:7]]))


def run_bulk(server, options, workload):
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
        with open(file) as statements:
            done = subprocess.run(command, stdin=statements, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(done.stderr.strip()[:200])
        return count, [None] * 3

    result = timed(server, work)
    if (server.sql("SELECT COUNT(*) FROM bulk", "sbtest") or "").split()[-1:] != [str(count)]:
        raise Failed("rows are missing")
    return result


def fill(server, options):
    """Makes the tables; bytes of memory a row of sysbench's tables takes."""
    if server.name in ("echo", "redis"):
        if server.name == "redis":
            subprocess.run(
                ["redis-benchmark", "-s", str(server.socket), "-t", "set", "-d", "120", "-r", str(options.rows), "-n",
                 str(options.rows * 3), "-q"], check=True, capture_output=True,
            )
        return None
    if server.sql("CREATE DATABASE sbtest") is None:
        raise SystemExit(f"{server.name}: {server.complaint}")
    before = server.memory()
    sysbench(server, options, "oltp_read_write", "prepare", options.tables, more=arguments(server, options, "oltp_read_write")[1])
    return (server.memory() - before) / (options.tables * rows_of(server, options))


def run_native(options):
    """Operations a second of processor time by our client library, without SQL and sockets, by name."""
    done = subprocess.run([options.native, "--json", "--rows", str(min(options.rows, 200_000))], capture_output=True, text=True)
    insist("" if done.returncode == 0 else done.stderr.replace("\n", " ").strip() or "it failed")
    return {figure["name"]: figure["value"] for figure in json.loads(done.stdout)}


def measure(server, options, workload, threads):
    """One measurement."""
    if server.name == "redis":
        return run_redis(server, options, workload, threads)
    if workload in BULK:
        return run_bulk(server, options, workload)
    if workload in YCSB:
        return run_ycsb(server, options, workload, threads)
    if workload == "tpcc":
        return run_tpcc(server, options, threads)
    if workload in VALUES and server.name != "echo":
        if server.sql("DROP TABLE IF EXISTS large_values", "sbtest") is None:
            raise Failed(server.complaint)
        script, more = arguments(server, options, workload)
        sysbench(server, options, script, "prepare", more=more)
    return run_sysbench(server, options, workload, threads)


def can(system, workload):
    """Whether the workload means something to the system."""
    answers_rows = system not in ("echo", "redis")
    of_tables = workload in [*BULK, *YCSB, "tpcc"]
    if workload == "native":
        return False
    if system == "large":
        return workload in OLTP
    return answers_rows or (workload in REDIS if system == "redis" else not of_tables)


def clients_of(workload, options):
    """With how many clients a workload is run."""
    return [1] if workload in BULK else tpcc.CLIENTS if workload == "tpcc" else options.clients


def compare(all_servers, options):
    """All measurements, the systems taking turns so that a busy moment meets all; by workload, clients and system."""
    results, refused = {}, {}
    for turn in range(options.rounds):
        for workload in options.workloads:
            for threads in clients_of(workload, options):
                for server in all_servers:
                    key = (workload, threads, server.name)
                    if not can(server.name, workload) or key in refused:
                        continue
                    try:
                        found = measure(server, options, workload, threads)
                    except Failed as why:
                        refused[key] = str(why)
                        print(f"{turn + 1} {workload} {threads} {server.name}: {why}", file=sys.stderr, flush=True)
                        continue
                    results.setdefault(key, []).append(found)
                    cpu = found.user + found.system
                    print(f"{turn + 1} {workload} {threads} {server.name}: {cpu:.1f} us", file=sys.stderr, flush=True)
    return {key: median(found) for key, found in results.items()}, refused


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
        f"{options.tables} × {options.rows:,} rows, {options.rounds} rounds of {options.seconds} s, {time.strftime('%Y-%m-%d')}."
    )


def native_table(native):
    """What the client library does, as Markdown."""
    lines = ["| native operation | a core's second | µs each |", "|---|---|---|"]
    return "\n".join(lines + [f"| {name} | {rate:,.0f} | {1e6 / rate:.2f} |" for name, rate in native.items()])


def table(results, refused, memory, options):
    """The comparison as Markdown."""
    text = lambda value, digits: "–" if value is None else f"{value:,.{digits}f}"
    lines = [
        "| workload | clients | system | operations/s | p50 ms | p95 ms | p99 ms | server µs/op | user | system | client µs/op |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for workload, threads, name in sorted(
        [*results, *refused], key=lambda key: (options.workloads.index(key[0]), key[1], SYSTEMS.index(key[2]))
    ):
        found = results.get((workload, threads, name))
        if found is None:
            lines.append(f"| {workload} | {threads} | {name} | refused: {refused[workload, threads, name]} |" + " |" * 7)
            continue
        cells = [
            text(found.rate, 0), *(text(value, 2) for value in found[1:4]), f"**{found.user + found.system:,.1f}**",
            text(found.user, 1), text(found.system, 1), text(found.client, 1),
        ]
        lines.append(f"| {workload} | {threads} | {name} | " + " | ".join(cells) + " |")
    rows = [f"{name} {round(grown)}" for name, grown in memory.items() if grown]
    lines += ["", f"Memory that a row of sysbench's tables takes, bytes of all copies together: {', '.join(rows)}."]
    return "\n".join(lines)


def options_of(argv):
    """Reads the command line."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nines", default=str(target / "nines"), help="the server's binary")
    parser.add_argument("--echo", default=str(target / "echo"), help="the binary of the server that does nothing")
    parser.add_argument("--native", default=str(target / "native"), help="the binary that uses our client library")
    parser.add_argument("--tpcc", default=str(target / "tpcc"), help="the binary of TPC-C's driver")
    parser.add_argument("--ycsb", default="", help="the folder of YCSB's jars and of our binding's classes")
    parser.add_argument("--quick", action="store_true", help="some minutes: few workloads, 1 and 8 clients, one short round")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, metavar="WORKLOAD", help=", ".join(WORKLOADS))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS, metavar="SYSTEM", help=", ".join(SYSTEMS))
    parser.add_argument("--clients", type=int, nargs="+")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=int, help="of each measurement")
    parser.add_argument("--tables", type=int, default=2)
    parser.add_argument("--rows", type=int, help="rows of each table")
    parser.add_argument("--memory", default="2G", help="for data: of each data node, of InnoDB's buffer pool")
    parser.add_argument("--out", type=Path, default=Path("compare"), help="folder of the table and the plot")
    options = parser.parse_args(argv)
    quick = ["oltp_point_select", "oltp_update_non_index", "oltp_read_write", "update64", "load_data"]
    options.workloads = options.workloads or (quick if options.quick else WORKLOADS)
    options.clients = options.clients or ([1, 8] if options.quick else [1, 8, 32, 64, 256])
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.seconds = options.seconds or (3 if options.quick else 10)
    options.rows = options.rows or (20_000 if options.quick else 500_000)
    return options


def needs(options):
    """Programs that are missing, with the Debian package of each."""
    peers = set(options.systems)
    programs = {"sysbench": "sysbench", "mysql": "mariadb-client"}
    if peers & {"mariadb", "galera"}:
        programs["mariadb-install-db"] = "mariadb-server"
    if "redis" in peers:
        programs.update({"redis-server": "redis-server", "redis-benchmark": "redis-tools"})
    if "galera" in peers:
        programs["rsync"] = "rsync"
    if set(options.workloads) & set(YCSB):
        programs["java"] = "default-jre-headless"
    missing = {package for program, package in programs.items() if not shutil.which(program)}
    if "galera" in peers and not Path(servers.Galera.PROVIDER).exists():
        missing.add("galera-4")
    return sorted(missing)


def main():
    options = options_of(sys.argv[1:])
    if missing := needs(options):
        sys.exit("programs are missing; install them with\n  "
                 f"sudo apt-get install --no-install-recommends {' '.join(missing)}")
    binaries = {options.nines: {"nines", "large", "processes"} & set(options.systems), options.echo: "echo" in options.systems,
                options.tpcc: "tpcc" in options.workloads, options.native: "native" in options.workloads}
    for binary in [binary for binary, wanted in binaries.items() if wanted]:
        if not shutil.which(binary):
            sys.exit(f"{binary} is missing: cargo build --release -p nines -p bench -p tpcc")
    if set(options.workloads) & set(YCSB) and not Path(options.ycsb, "classes").is_dir():
        sys.exit("--ycsb must name the folder that `cargo xtask bench compare` has made")
    machine, running = facts(options), []
    with tempfile.TemporaryDirectory(prefix="nines-compare-") as base:
        try:
            memory = {}
            for name in options.systems:
                running.append(start(name, options, base))
                memory[name] = fill(running[-1], options)
            native = run_native(options) if "native" in options.workloads else {}
            results, refused = compare(running, options)
        finally:
            for server in running:
                server.stop()
    options.out.mkdir(parents=True, exist_ok=True)
    tables = [table(results, refused, memory, options), native_table(native) if native else "", budgets.table(results, memory, native)]
    text = "\n\n".join([machine, *filter(None, tables)]) + "\n"
    (options.out / "compare.md").write_text(text)
    (options.out / "compare.svg").write_text(plot.bars(results, options.workloads, SYSTEMS, machine))
    print(text)


if __name__ == "__main__":
    main()
