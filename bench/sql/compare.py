#!/usr/bin/env python3
"""Compares `nines dev` with MariaDB on this machine, in this run: sysbench's scripts over the socket.

What counts is the CPU time a server uses per query, user and system, of all its threads, as /proc
tells it: on a shared machine it is the stable figure. Queries per second are printed beside it.

    cargo build --release -p nines
    python3 bench/sql/compare.py                    # writes a Markdown table to standard output

Both servers start with an empty directory, hold the same tables, and are asked by the same client
over a Unix socket, in turns. MariaDB keeps one copy and flushes its log once a second
(innodb_flush_log_at_trx_commit=2, no binary log); Nines keeps two replicas in memory.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ["oltp_point_select", "oltp_update_index", "oltp_update_non_index", "oltp_read_write"]
PATIENCE = 60
TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """A server process with a directory of its own."""

    def __init__(self, name, command, directory):
        self.name, self.socket = name, directory / "sock"
        self.log = open(directory / "output", "wb")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + PATIENCE
        while self.sql("SELECT 1") is None:
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{name} does not start:\n{(directory / 'output').read_text()}")
            time.sleep(0.1)

    def sql(self, statement):
        """What the client prints, or None if it fails."""
        client = ["mysql", "--no-defaults", "--user=root", f"--socket={self.socket}", "--batch"]
        done = subprocess.run([*client, "-e", statement], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None

    def cpu_seconds(self):
        """User and system time of the process so far."""
        # The name, in parentheses, may hold anything; the numbers follow it.
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self):
        """Resident memory in MB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) // 1024

    def stop(self):
        """Asks the server to end, and waits."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def nines(options, directory):
    """A cluster of two data nodes in one process."""
    command = [options.nines, "dev", "--port=0"]
    return Server("Nines", [*command, f"--socket={directory / 'sock'}"], directory)


def mariadb(_options, directory):
    """MariaDB with InnoDB, its log flushed once a second."""
    data = directory / "data"
    install = ["mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal"]
    user = ["--user=root"] if os.geteuid() == 0 else []
    subprocess.run([*install, *user, f"--datadir={data}"], check=True, capture_output=True)
    program = shutil.which("mariadbd", path=os.environ.get("PATH", "") + ":/usr/sbin")
    command = [
        program, "--no-defaults", *user, f"--datadir={data}", f"--socket={directory / 'sock'}",
        "--skip-networking", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=2",
        "--innodb-buffer-pool-size=1G", "--innodb-doublewrite=0", "--max-connections=200",
    ]
    return Server("MariaDB", command, directory)


def sysbench(server, options, script, action, threads):
    """Runs a script of sysbench; what it prints."""
    command = [
        "sysbench", script, "--db-driver=mysql", "--mysql-user=root", "--mysql-db=sbtest",
        f"--mysql-socket={server.socket}", f"--tables={options.tables}",
        f"--table-size={options.rows}", f"--threads={threads}", f"--time={options.seconds}",
        f"--db-ps-mode={options.ps_mode}",
    ]
    done = subprocess.run([*command, action], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{server.name}: {' '.join(command)} {action}:\n{done.stdout}{done.stderr}")
    return done.stdout


def measure(server, options, script, threads):
    """Microseconds of CPU per query and per transaction, queries per second."""
    # Caches and tables of statements fill before anything is measured.
    warm_up = argparse.Namespace(**{**vars(options), "seconds": 1})
    sysbench(server, warm_up, script, "run", threads)
    before = server.cpu_seconds()
    text = sysbench(server, options, script, "run", threads)
    cpu = server.cpu_seconds() - before
    queries = int(re.search(r"^\s+total:\s+(\d+)", text, re.M)[1])
    transactions = int(re.search(r"^\s+transactions:\s+(\d+)", text, re.M)[1])
    rate = float(re.search(r"queries:\s+\d+\s+\(([\d.]+) per sec", text)[1])
    print(f"{server.name}, {script}, {threads}: {cpu / queries * 1e6:.1f} us", file=sys.stderr)
    return cpu / queries * 1e6, cpu / transactions * 1e6, rate


def compare(servers, options):
    """All measurements, the servers taking turns so that a busy moment meets both."""
    for server in servers:
        if server.sql("CREATE DATABASE sbtest") is None:
            sys.exit(f"{server.name}: CREATE DATABASE sbtest fails")
        sysbench(server, options, "oltp_read_write", "prepare", options.tables)
    results = {server.name: {} for server in servers}
    for script in SCRIPTS:
        for threads in options.threads:
            for server in servers:
                results[server.name][script, threads] = measure(server, options, script, threads)
    return results


def table(results, memory, options):
    """The comparison as Markdown."""
    lines = [
        "| script | threads | Nines µs/query | MariaDB µs/query | ratio | Nines queries/s | MariaDB queries/s |",
        "|---|---|---|---|---|---|---|",
    ]
    ours, theirs = results["Nines"], results["MariaDB"]
    for script in SCRIPTS:
        for threads in options.threads:
            (a, _, rate_a), (b, _, rate_b) = ours[script, threads], theirs[script, threads]
            lines.append(
                f"| {script} | {threads} | {a:.1f} | {b:.1f} | {a / b:.2f} | {rate_a:,.0f} | {rate_b:,.0f} |"
            )
    lines.append("")
    threads = options.threads[0]
    a, b = (results[name]["oltp_read_write", threads][1] for name in ("Nines", "MariaDB"))
    lines.append(
        f"A transaction of oltp_read_write, {threads} thread: {a:.0f} µs (Nines), {b:.0f} µs (MariaDB). "
        f"Memory of the process at the end: {memory['Nines']} MB and {memory['MariaDB']} MB."
    )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser.add_argument("--nines", default=str(target / "release" / "nines"), help="the server's binary")
    parser.add_argument("--tables", type=int, default=2)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of each table")
    parser.add_argument("--seconds", type=int, default=10, help="of each measurement")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--ps-mode", choices=["auto", "disable"], default="auto")
    options = parser.parse_args()
    for program in ["sysbench", "mysql", "mariadb-install-db", options.nines]:
        if not shutil.which(program):
            sys.exit(f"{program} is missing; `cargo xtask clients` installs programs, "
                     "`cargo build --release -p nines` makes the server")
    servers = []
    with tempfile.TemporaryDirectory(prefix="nines-compare-") as base:
        try:
            for start in (nines, mariadb):
                directory = Path(base) / start.__name__
                directory.mkdir()
                servers.append(start(options, directory))
            results = compare(servers, options)
            memory = {server.name: server.memory() for server in servers}
        finally:
            for server in servers:
                server.stop()
    print(table(results, memory, options))


main()
