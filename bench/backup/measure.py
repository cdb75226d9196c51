#!/usr/bin/env python3
"""What backups cost: sysbench's read_write beside one, and the processor time of a backup and of a restore.

    cargo build --profile dist -p nines
    python3 bench/backup/measure.py                       # 1,000,000 rows, two data nodes with two replicas on disk
    python3 bench/backup/measure.py --rows 100000 --replicas 1 --seconds 10

A management node, data nodes and an SQL node as processes. Sysbench runs alone and beside backups, one after the other, in turns. Then one
backup and one restore of all rows, nobody else asking for anything: processor time of every process, rows for each second of it.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import servers  # noqa: E402

ROLES = ["management", "data 1", "data 2", "sql"]


class Cluster(servers.NinesProcesses):
    """The cluster that is measured."""

    def cpus(self):
        return [servers.precise_cpu_of(process.pid) for process in self.processes]

    def run(self, text):
        """Runs a statement; its output."""
        client = ["mysql", "--no-defaults", "--user=root", f"--socket={self.socket}", "--batch", "--skip-column-names", "-e", text]
        return subprocess.run(client, check=True, capture_output=True, text=True).stdout


def sysbench(cluster, options, seconds):
    """Transactions a second, p99 in ms, errors."""
    command = ["sysbench", "oltp_read_write", f"--mysql-socket={cluster.socket}", "--mysql-user=root", "--mysql-db=sbtest",
               f"--tables={options.tables}", f"--table-size={options.rows // options.tables}", f"--threads={options.threads}",
               f"--time={seconds}", "--percentile=99", "--mysql-ignore-errors=1213,1205,1020", "run"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    of = lambda pattern: float(re.search(pattern, text).group(1))
    return of(r"transactions: .*\((\S+) per sec"), of(r"99th percentile: +(\S+)"), of(r"ignored errors: +(\d+)")


def measured(cluster, what, rows, statement):
    """Runs a statement, and tells what it took."""
    before, began = cluster.cpus(), time.monotonic()
    cluster.run(statement)
    took = time.monotonic() - began
    cpus = [after - first for first, after in zip(before, cluster.cpus())]
    each = ", ".join(f"{name} {cpu:.2f}" for name, cpu in zip(ROLES, cpus))
    print(f"{what}: {took:.1f} s, CPU s: {each}; {rows / sum(cpus):,.0f} rows per CPU second", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default="target/dist/nines")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", default="", help="max_rate of the backups beside: 20M")
    parser.add_argument("--replicas", type=int, default=2, choices=[1, 2])
    parser.add_argument("--memory", default="2G", help="DataMemory of each data node")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nines-backup-") as place:
        place = Path(place)
        cluster = Cluster("nines", place / "cluster", Path(options.binary).resolve(), options.memory, options.replicas)
        try:
            work(cluster, options, place)
        finally:
            cluster.stop()


def beside(cluster, options, place):
    """Alone and beside backups in turns, so that what else the machine does meets both."""
    alone, loaded, number, errors = [], [], 0, 0
    how = f" WITH max_rate = '{options.rate}'" if options.rate else ""
    for _ in range(options.rounds):
        alone.append(sysbench(cluster, options, options.seconds))
        figures = []
        load = threading.Thread(target=lambda: figures.append(sysbench(cluster, options, options.seconds)))
        load.start()
        while load.is_alive():
            cluster.run(f"BACKUP DATABASE sbtest INTO '{place}/beside-{number}'{how}")
            shutil.rmtree(place / f"beside-{number}")
            number += 1
        load.join()
        loaded += figures
    mean = lambda figures, at: sum(figure[at] for figure in figures) / len(figures)
    errors = sum(figure[2] for figure in loaded)
    print(f"alone {mean(alone, 0):.0f} transactions/s, p99 {mean(alone, 1):.1f} ms; beside {number} backups{how} {mean(loaded, 0):.0f} "
          f"({mean(loaded, 0) / mean(alone, 0):.0%}), p99 {mean(loaded, 1):.1f} ms ({mean(loaded, 1) / mean(alone, 1):.1f} times), "
          f"{errors:.0f} statements repeated", flush=True)


def work(cluster, options, place):
    cluster.run("CREATE DATABASE sbtest")
    prepare = ["sysbench", "oltp_read_write", f"--mysql-socket={cluster.socket}", "--mysql-user=root", "--mysql-db=sbtest",
               f"--tables={options.tables}", f"--table-size={options.rows // options.tables}", "prepare"]
    subprocess.run(prepare, check=True, capture_output=True)
    if options.seconds:
        beside(cluster, options, place)
    measured(cluster, "backup", options.rows, f"BACKUP DATABASE sbtest INTO '{place}/alone'")
    cluster.run("DROP DATABASE sbtest")
    time.sleep(2)
    measured(cluster, "restore", options.rows, f"RESTORE DATABASE sbtest FROM '{place}/alone'")
    count = sum(int(cluster.run(f"SELECT COUNT(*) FROM sbtest.sbtest{at + 1}")) for at in range(options.tables))
    print(f"rows: {count}", flush=True)


if __name__ == "__main__":
    main()
