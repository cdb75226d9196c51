#!/usr/bin/env python3
"""Measures what durability costs and how fast a cluster is back: `nines dev --dir` under sysbench.

    cargo build --profile dist -p nines
    python3 bench/durability/measure.py             # writes Markdown tables to standard output

Figures, each with a directory of its own under --base (put it on the disk that is to be measured):

- durable commits per second at 1, 8 and 64 clients, beside commits in memory
- write throughput with checkpoints running against without, and the lowest second of the run
- bytes written to the redo log and to checkpoints per update, and bytes on disk per row
- the time from the start of the process to `ready`, after a clean stop and after kill -9, with the
  processor time that it took until then and the most memory that it had

Bytes are those the process has handed to the system (wchar of /proc/PID/io), so they are counted with
the engine of threads: writes of io_uring are not in that count.
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
PATIENCE = 600
# No checkpoint begins before several segments are full: with such segments none does.
NO_CHECKPOINTS = "--tune=redo-segment=1G"


class Server:
    """`nines dev` with its data in a directory."""

    def __init__(self, options, directory, *more):
        self.options, self.directory, self.socket = options, directory, directory / "sock"
        directory.mkdir(exist_ok=True)
        began = time.monotonic()
        command = [
            options.nines, "dev", "--port=0", f"--dir={directory / 'data'}", f"--socket={self.socket}",
            *more,
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if line.startswith("ready"):
                self.ready = time.monotonic() - began
                self.cpu, self.memory_peak = self.taken()
                return
        sys.exit(f"{' '.join(command)} ended before it was ready")

    def taken(self):
        """Seconds of processor time, user and system, and the largest resident size in bytes."""
        process = Path(f"/proc/{self.process.pid}")
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        peak = re.search(r"^VmHWM:\s+(\d+) kB", (process / "status").read_text(), re.M)
        return cpu, int(peak[1]) * 1024

    def sql(self, statement):
        """What the client prints."""
        client = ["mysql", "--no-defaults", "--user=root", f"--socket={self.socket}", "--batch"]
        client += ["--skip-column-names", "-e", statement]
        return subprocess.run(client, check=True, capture_output=True, text=True).stdout

    def sysbench(self, script, action, *more, tables=1):
        """Runs a script of sysbench; what it prints."""
        command = [
            "sysbench", script, "--db-driver=mysql", "--mysql-user=root", "--mysql-db=sbtest",
            f"--mysql-socket={self.socket}", f"--tables={tables}",
            f"--table-size={self.options.rows}", *more, action,
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def prepare(self):
        """Makes sysbench's table, and waits until it is on disk."""
        self.sql("CREATE DATABASE sbtest")
        self.sysbench("oltp_update_non_index", "prepare")
        self.sql("SET nines_durability = 'disk'; CREATE TABLE sbtest.last (a INT PRIMARY KEY); "
                 "INSERT INTO sbtest.last VALUES (1)")

    def update(self, threads, seconds):
        """Updates rows; transactions, transactions of each second."""
        text = self.sysbench(
            "oltp_update_non_index", "run", f"--threads={threads}", f"--time={seconds}",
            "--report-interval=1",
        )
        total = int(re.search(r"^\s+transactions:\s+(\d+)", text, re.M)[1])
        return total, [float(tps) for tps in re.findall(r"tps: ([\d.]+)", text)]

    def written(self):
        """Bytes that the process has written."""
        text = Path(f"/proc/{self.process.pid}/io").read_text()
        return int(re.search(r"^wchar: (\d+)", text, re.M)[1])

    def bytes_on_disk(self, pattern):
        """Bytes of the files of one data node whose names fit."""
        node = self.directory / "data" / "node-1"
        return sum(file.stat().st_size for file in node.glob(f"worker-*/{pattern}"))

    def stop(self, how=signal.SIGTERM):
        """Ends the server, and waits."""
        self.process.send_signal(how)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def say(text):
    print(text, file=sys.stderr, flush=True)


def commits(options, base):
    """Commits per second, by level and number of clients."""
    lines = ["| clients | commits/s in memory | commits/s on disk | on disk, ms each |", "|---|---|---|---|"]
    rates = {}
    for level in ("memory", "disk"):
        server = Server(options, base / level, f"--durability={level}")
        try:
            server.prepare()
            for threads in (1, 8, 64):
                server.update(threads, 2)
                total, _ = server.update(threads, options.seconds)
                rates[level, threads] = total / options.seconds
                say(f"{level}, {threads} clients: {rates[level, threads]:.0f} commits/s")
        finally:
            server.stop()
        shutil.rmtree(base / level)
    for threads in (1, 8, 64):
        memory, disk = rates["memory", threads], rates["disk", threads]
        each = threads / disk * 1_000
        lines.append(f"| {threads} | {memory:,.0f} | {disk:,.0f} | {each:.1f} |")
    return lines


def checkpoints(options, base):
    """Throughput with and without checkpoints; bytes per update."""
    results = {}
    for name, more in (("without", [NO_CHECKPOINTS]), ("with", [])):
        server = Server(options, base / name, "--io=threads", *more)
        try:
            server.prepare()
            server.update(options.threads, 5)
            before = server.written()
            total, seconds = server.update(options.threads, options.long)
            results[name] = total, seconds, server.written() - before
            say(f"{name} checkpoints: {total / options.long:.0f} updates/s, "
                f"lowest second {min(seconds):.0f}")
        finally:
            server.stop()
        shutil.rmtree(base / name)
    lines = ["| checkpoints | updates/s | lowest second | bytes written per update and replica |",
             "|---|---|---|---|"]
    for name, (total, seconds, written) in results.items():
        rate = total / options.long
        share = min(seconds) / (sum(seconds) / len(seconds))
        lines.append(f"| {name} | {rate:,.0f} | {min(seconds):,.0f} ({share:.0%} of the mean) | "
                     f"{written / total / 2:,.0f} |")
    (without, _, _), (running, _, _) = results["without"], results["with"]
    lines += ["", f"With checkpoints {running / without:.0%} of the updates without. What is written without "
              "is the redo log, the difference is checkpoints; the answers to clients are in both."]
    return lines


def restart(options, base):
    """Time until the cluster serves again."""
    server = Server(options, base / "restart")
    lines = ["| restart | ready after, s | CPU until then, s | memory at most, MB | rows |",
             "|---|---|---|---|---|"]

    def line(name, server, rows):
        return (f"| {name} | {server.ready:.2f} | {server.cpu:.2f} | "
                f"{server.memory_peak / 1e6:,.0f} | {rows:,} |")

    server.prepare()
    rows = int(server.sql("SELECT COUNT(*) FROM sbtest.sbtest1"))
    size = server.bytes_on_disk("checkpoint-*"), server.bytes_on_disk("redo-*")
    for name, how in (("after a clean stop", signal.SIGTERM), ("after kill -9", signal.SIGKILL)):
        server.stop(how)
        server = Server(options, base / "restart")
        found = int(server.sql("SELECT COUNT(*) FROM sbtest.sbtest1"))
        if found != rows:
            sys.exit(f"{found} rows of {rows} are back")
        say(f"ready {name}: {server.ready:.2f} s")
        lines.append(line(name, server, rows))
    # An empty cluster takes this much: electing a leader and the like.
    server.stop()
    empty = Server(options, base / "empty")
    empty.stop()
    empty = Server(options, base / "empty")
    lines.append(line("of an empty cluster", empty, 0))
    empty.stop()
    lines += ["", f"A data node had {size[0] / rows:,.0f} bytes of checkpoints and {size[1] / rows:,.0f} of "
              "redo log per row right after the load."]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser.add_argument("--nines", default=str(target / "dist" / "nines"), help="the server's binary")
    parser.add_argument("--base", help="where the data goes [default: the temporary directory]")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table")
    parser.add_argument("--seconds", type=int, default=10, help="of each measurement of commits")
    parser.add_argument("--long", type=int, default=300, help="seconds of the runs with checkpoints")
    parser.add_argument("--threads", type=int, default=16, help="clients of the runs with checkpoints")
    parser.add_argument("--only", choices=["commits", "checkpoints", "restart"])
    options = parser.parse_args()
    for program in ["sysbench", "mysql", options.nines]:
        if not shutil.which(program):
            sys.exit(f"{program} is missing; `cargo xtask clients` installs programs, "
                     "`cargo build --profile dist -p nines` makes the server")
    with tempfile.TemporaryDirectory(prefix="nines-durability-", dir=options.base) as base:
        for figure in (commits, checkpoints, restart):
            if options.only in (None, figure.__name__):
                print("\n".join(figure(options, Path(base))), end="\n\n", flush=True)


main()
