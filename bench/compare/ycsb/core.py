"""YCSB's core workloads, run by YCSB's own core from Maven over Connector/J and the binding beside this file.

The folder of jars and classes is made by `cargo xtask bench compare`. Clients come by TCP: Connector/J knows no Unix sockets.
"""

import re
import subprocess

# The workload files of YCSB 0.17.0: proportions of kinds of operations, and how keys are drawn.
MIXES = {
    "A": {"read": 0.5, "update": 0.5, "keys": "zipfian"},
    "B": {"read": 0.95, "update": 0.05, "keys": "zipfian"},
    "C": {"read": 1, "keys": "zipfian"},
    "D": {"read": 0.95, "insert": 0.05, "keys": "latest"},
    "E": {"scan": 0.95, "insert": 0.05, "keys": "zipfian"},
    "F": {"read": 0.5, "readmodifywrite": 0.5, "keys": "zipfian"},
}
KINDS = ["read", "update", "insert", "scan", "readmodifywrite"]
# More than are done in any run's time. The constant of Zipf's law is computed over the rows that so many could insert.
OPERATIONS = 3_000_000
FIELDS = ", ".join(f"field{at} VARCHAR(100) NOT NULL" for at in range(10))


def client(folder, server, properties, phase, threads):
    """Runs YCSB's client; what it prints."""
    url = f"jdbc:mysql://127.0.0.1:{server.port}/ycsb?sslMode=DISABLED&useServerPrepStmts=true"
    every = {"workload": "site.ycsb.workloads.CoreWorkload", "db.url": url, "measurementtype": "hdrhistogram",
             "hdrhistogram.percentiles": "50,95,99", **properties}
    command = ["java", "-cp", f"{folder}/classes:{folder}/*", "site.ycsb.Client", phase, "-db", "MySqlBinding", "-threads", str(threads)]
    for name, value in every.items():
        command += ["-p", f"{name}={value}"]
    done = subprocess.run(command, capture_output=True, text=True)
    errors = [line for line in done.stderr.splitlines() if line.startswith(("ERROR", "site.ycsb.DBException"))]
    wrong = errors or [] if done.returncode == 0 else [*errors, done.stderr.replace("\n", " ")[-200:]]
    return done.stdout, wrong[0] if wrong else ""


def fill(folder, server, rows):
    """Makes the table; what is wrong, or nothing."""
    if server.sql(f"CREATE DATABASE ycsb; CREATE TABLE ycsb.usertable (ycsb_key VARCHAR(64) NOT NULL PRIMARY KEY, {FIELDS})") is None:
        return server.complaint
    server.ycsb_rows = rows
    return client(folder, server, {"recordcount": rows}, "-load", 8)[1]


def run(folder, server, mix, threads, seconds):
    """Runs a workload: operations done, in so many seconds, their median, 95th and 99th percentile in milliseconds, and what is wrong.

    Seconds are without the start of the virtual machine; times are those of reads, in E of scans.
    """
    # Every proportion is given: YCSB's defaults are not zero.
    properties = {
        **{f"{kind}proportion": MIXES[mix].get(kind, 0) for kind in KINDS}, "requestdistribution": MIXES[mix]["keys"],
        "recordcount": server.ycsb_rows, "operationcount": OPERATIONS, "maxexecutiontime": seconds,
    }
    text, wrong = client(folder, server, properties, "-t", threads)
    counts = {name: int(count) for name, count in re.findall(r"^\[([A-Z-]+)\], Operations, (\d+)", text, re.M)}
    # The next run draws from the rows that this one has inserted, and inserts behind them.
    server.ycsb_rows += counts.get("INSERT", 0)
    # A read-modify-write is counted as a read and an update too.
    twice = counts.get("READ-MODIFY-WRITE", 0)
    done = sum(counts.get(name, 0) for name in ("READ", "UPDATE", "INSERT", "SCAN")) - twice
    kind = "SCAN" if mix == "E" else "READ"
    names = ("50thPercentile", "95thPercentile", "99thPercentile")
    times = [re.search(rf"^\[{kind}\], {name}Latency\(us\), (\d+)", text, re.M) for name in names]
    took = re.search(r"^\[OVERALL\], RunTime\(ms\), (\d+)", text, re.M)
    return done, int(took[1]) / 1000 if took else 0, [int(time[1]) / 1000 if time else None for time in times], wrong
