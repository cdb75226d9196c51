#!/usr/bin/env python3
"""What a large catalog costs: how long schema changes take, what others notice, memory, restarts, questions about one table.

    cargo build --profile dist -p nines
    python3 bench/catalog/measure.py                      # 20,000 tables with two secondary indexes each, on a cluster of processes
    python3 bench/catalog/measure.py --tables 2000        # for a look

A management node, two data nodes with two replicas on disk, and an SQL node. One connection makes tables, a hundred in each
command; another reads a row by its key meanwhile, by a fixed schedule. Per thousand tables: times of CREATE TABLE, processor time
for each and memory of every process, times of the reads from their scheduled moment. Then: questions about one of them, a stop and
start of the whole cluster, and a data node that is killed and comes back.
"""

import argparse
import json
import os
import re
import signal
import socket
import struct
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
COLUMNS = "id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(40), KEY a (a), KEY b (b)"
PATIENCE = 900
# Commands of MySQL's protocol, the first byte of an error, and the capabilities of the client: protocol 4.1, secure connection,
# several statements in a command and their results, authentication by plugin.
COM_QUERY, OK, ERROR, END = 3, 0, 255, 254
CAPABILITIES = 1 | 1 << 9 | 1 << 13 | 1 << 15 | 1 << 16 | 1 << 17 | 1 << 19


class Refused(Exception):
    """The server says no; what it says."""


class Session:
    """A connection of MySQL's protocol over a Unix socket, as root without a password."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(str(path))
        self.file, self.sequence = self.socket.makefile("rb"), 0
        self.checked(self.packet())
        self.send(struct.pack("<IIB23x", CAPABILITIES, 1 << 24, 45) + b"root\0\0mysql_native_password\0")
        while (answer := self.checked(self.packet()))[0] != OK:
            if answer[0] == END:
                self.send(b"")

    def packet(self):
        """The next packet of the server."""
        head = self.file.read(4)
        if len(head) < 4:
            raise Refused("the connection is gone")
        self.sequence = head[3] + 1
        return self.file.read(int.from_bytes(head[:3], "little"))

    def send(self, payload):
        """Sends a packet."""
        self.socket.sendall(len(payload).to_bytes(3, "little") + bytes([self.sequence & 255]) + payload)

    def checked(self, packet):
        """The packet, unless it is an error."""
        if packet[0] == ERROR:
            raise Refused(packet[9:].decode(errors="replace"))
        return packet

    def results(self, text):
        """Runs statements; the moment at which each of their results has come, and its number of rows."""
        self.sequence = 0
        self.send(bytes([COM_QUERY]) + text.encode())
        more = True
        while more:
            packet, rows = self.checked(self.packet()), 0
            if packet[0] == OK:
                status = self.status_of_ok(packet)
            else:
                ends = 0
                # Columns, an end, rows, an end.
                while ends < 2:
                    packet = self.checked(self.packet())
                    if packet[0] == END and len(packet) < 9:
                        ends += 1
                    else:
                        rows += ends
                status = struct.unpack_from("<H", packet, 3)[0]
            more = status & 8
            yield time.monotonic(), rows

    @staticmethod
    def status_of_ok(packet):
        """The status of a result without rows, which follows two numbers of variable length."""
        at = 1
        for _ in range(2):
            at += {252: 3, 253: 4, 254: 9}.get(packet[at], 1)
        return struct.unpack_from("<H", packet, at)[0]

    def run(self, text):
        """Runs statements; rows of all results."""
        return sum(rows for _, rows in self.results(text))


def percentile(values, part):
    """The value that so many are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else float("nan")


def read_by_schedule(path, rate):
    """Reads a row by its key at fixed moments, in a process of its own; each line of input asks for the times since the one before."""
    session, times, lock = Session(path), [], threading.Lock()

    def tell():
        for _ in sys.stdin:
            with lock:
                told = list(times)
                times.clear()
            figures = [percentile(told, part) * 1_000 for part in (0.5, 0.99, 0.999, 1)]
            print(json.dumps([len(told), *figures]), flush=True)
        os._exit(0)

    threading.Thread(target=tell, daemon=True).start()
    due, number = time.monotonic(), 0
    while True:
        due += 1 / rate
        number += 1
        pause = due - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        session.run(f"SELECT v FROM others.one WHERE id = {number % 1_000 + 1}")
        with lock:
            times.append(time.monotonic() - due)


class Reader:
    """The other process, in sections."""

    def __init__(self, path, rate):
        command = [sys.executable, __file__, "--read", str(path), "--rate", str(rate)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def section(self):
        """Number of reads since the last call; p50, p99, p99.9 and longest in ms."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else [0, *[float("nan")] * 4]

    def stop(self):
        self.process.kill()
        self.process.wait()


class Cluster(servers.NinesProcesses):
    """The cluster that is measured, which can be stopped and started."""

    def __init__(self, directory, binary, memory):
        super().__init__("nines", directory, binary, memory)

    def ended(self):
        """The names of processes that have ended."""
        return [name for name, process in zip(ROLES, self.processes) if process.poll() is not None]

    def wait_complete(self):
        until = time.monotonic() + PATIENCE
        while not self.complete():
            if time.monotonic() > until:
                print("  it does not become complete", flush=True)
                return
            time.sleep(0.1)

    def serves(self):
        """Waits until a statement is answered."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                Session(self.socket).run("SELECT v FROM others.one WHERE id = 1")
                return
            except (OSError, Refused):
                time.sleep(0.05)
        print("  it does not serve", flush=True)

    def cpus(self):
        return [servers.precise_cpu_of(process.pid) for process in self.processes]

    def rss(self):
        return [servers.memory_of(process.pid) / 1e6 for process in self.processes]

    def output_since(self, offset):
        with open(self.directory / "output", "rb") as file:
            file.seek(offset)
            return file.read().decode(errors="replace")

    def output_size(self):
        return (self.directory / "output").stat().st_size


def create(cluster, options):
    """Makes the tables."""
    session = Session(cluster.socket)
    session.run("CREATE DATABASE others; CREATE TABLE others.one (id INT PRIMARY KEY, v INT)")
    session.run("INSERT INTO others.one VALUES " + ",".join(f"({key},{key})" for key in range(1, 1_001)))
    session.run("CREATE DATABASE many")
    reader = Reader(cluster.socket, options.rate)
    time.sleep(1)
    reader.section()
    time.sleep(options.alone)
    alone = reader.section()
    print(f"reads alone: {alone[0]} of them, p50 {alone[1]:.2f} p99 {alone[2]:.2f} p99.9 {alone[3]:.2f} longest {alone[4]:.1f} ms", flush=True)
    first_rss = cluster.rss()
    print("memory before, MB: " + ", ".join(f"{name} {size:.0f}" for name, size in zip(ROLES, first_rss)), flush=True)
    print("| tables | CREATE p50 ms | p99 | longest | CPU ms each: " + " | ".join(ROLES) + " | MB: " + " | ".join(ROLES) + " | reads/s | p50 ms | p99 | p99.9 | longest |")
    print("|" + "---|" * 18, flush=True)
    cpus, began, times = cluster.cpus(), time.monotonic(), []
    for first in range(0, options.tables, 100):
        made = range(first, min(first + 100, options.tables))
        before = time.monotonic()
        for at, _ in session.results(";".join(f"CREATE TABLE many.t{number} ({COLUMNS})" for number in made)):
            times.append((at - before) * 1_000)
            before = at
        if made.stop % options.step == 0 or made.stop == options.tables:
            now, took = cluster.cpus(), time.monotonic() - began
            each = [(after - before) * 1_000 / len(times) for before, after in zip(cpus, now)]
            count, *others = reader.section()
            cells = [f"{made.stop}", *(f"{percentile(times, part):.1f}" for part in (0.5, 0.99, 1)), *(f"{value:.2f}" for value in each)]
            cells += [*(f"{size:.0f}" for size in cluster.rss()), f"{count / took:.0f}", *(f"{value:.2f}" for value in others)]
            print("| " + " | ".join(cells) + " |", flush=True)
            cpus, began, times = cluster.cpus(), time.monotonic(), []
            if ended := cluster.ended():
                raise SystemExit(f"ended: {ended}\n{cluster.output_since(0)[-6000:]}")
    reader.stop()
    rss = cluster.rss()
    print("memory of a table, KB: " + ", ".join(f"{name} {(after - before) * 1_000 / options.tables:.1f}" for name, before, after in zip(ROLES, first_rss, rss)), flush=True)
    return first_rss


def questions(cluster, options):
    """Times of questions about one table."""
    session, middle = Session(cluster.socket), options.tables // 2
    asked = [
        f"SHOW TABLE STATUS FROM many LIKE 't{middle}'",
        f"SHOW TABLES FROM many LIKE 't{middle}'",
        f"SHOW FULL COLUMNS FROM many.t{middle}",
        f"SHOW CREATE TABLE many.t{middle}",
        f"SHOW INDEX FROM many.t{middle}",
        f"SELECT * FROM information_schema.tables WHERE table_schema = 'many' AND table_name = 't{middle}'",
        f"SELECT * FROM information_schema.columns WHERE table_schema = 'many' AND table_name = 't{middle}'",
        f"SELECT * FROM information_schema.statistics WHERE table_schema = 'many' AND table_name = 't{middle}'",
        f"SELECT * FROM information_schema.key_column_usage WHERE table_schema = 'many' AND table_name = 't{middle}'",
        f"SELECT * FROM information_schema.table_constraints WHERE table_schema = 'many' AND table_name = 't{middle}'",
        f"SELECT * FROM information_schema.referential_constraints WHERE constraint_schema = 'many' AND table_name = 't{middle}'",
        f"SELECT * FROM information_schema.partitions WHERE table_schema = 'many' AND table_name = 't{middle}'",
        f"SELECT * FROM information_schema.triggers WHERE event_object_schema = 'many' AND event_object_table = 't{middle}'",
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'many'",
        "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = 'many'",
        "SHOW TABLES FROM many",
        "SHOW TABLE STATUS FROM many",
        "USE many",
        f"ALTER TABLE many.t{middle} ADD COLUMN c INT",
        f"INSERT INTO many.t{middle} (a, b) VALUES (1, 'x')",
        f"DROP TABLE many.t{middle}; CREATE TABLE many.t{middle} ({COLUMNS})",
    ]
    print("questions, ms (median of 5; rows):")
    for text in asked:
        if "ADD COLUMN" in text:
            turns = [f"ALTER TABLE many.t{middle} ADD COLUMN c{turn} INT" for turn in range(5)]
        else:
            turns = [text] * 5
        times, rows = [], 0
        for turn in turns:
            before = time.monotonic()
            try:
                rows = session.run(turn)
            except Refused as refused:
                rows = f"refused: {refused}"
            times.append((time.monotonic() - before) * 1_000)
        print(f"  {percentile(times, 0.5):8.2f}  {rows} rows  {text[:110]}", flush=True)
    client = ["--no-defaults", "--user=root", f"--socket={cluster.socket}"]
    for command in (["mysql", *client, "-e", "SELECT 1"], ["mysql", *client, "-A", "-e", "SELECT 1", "many"], ["mysql", *client, "-e", "SELECT 1", "many"],
                    ["mysqldump", *client, "--no-data", "--compact", "--no-tablespaces", "many", f"t{middle}"]):
        before = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True)
        print(f"  {(time.monotonic() - before) * 1_000:8.1f}  {' '.join(command[:1] + command[4:])}  {done.stderr.strip()[:200]}", flush=True)


def restart(cluster, options, first_rss, how):
    """Stops all, starts all."""
    session = Session(cluster.socket)
    session.run("INSERT INTO others.one VALUES (100000, 1) ON DUPLICATE KEY UPDATE v = 1")
    time.sleep(2)
    for process in cluster.processes:
        process.send_signal(how)
    before = time.monotonic()
    for name, process in zip(ROLES, cluster.processes):
        process.wait(PATIENCE)
        print(f"  {name} has ended after {time.monotonic() - before:.1f} s", flush=True)
    offset, before = cluster.output_size(), time.monotonic()
    for at in range(len(cluster.commands)):
        cluster.start_again(at)
    cluster.serves()
    print(f"whole restart ({how.name}): serves after {time.monotonic() - before:.1f} s", flush=True)
    cluster.wait_complete()
    print(f"  all replicas after {time.monotonic() - before:.1f} s; CPU s: {', '.join(f'{cpu:.1f}' for cpu in cluster.cpus())}", flush=True)
    print("  its log:\n" + "\n".join("    " + line for line in cluster.output_since(offset).splitlines()[:options.lines]), flush=True)
    count = Session(cluster.socket).run("SHOW TABLES FROM many")
    print(f"  tables: {count}; ended: {cluster.ended()}")
    time.sleep(5)
    rss = cluster.rss()
    print("  memory of a table, KB: " + ", ".join(f"{name} {(after - before) * 1_000 / options.tables:.1f}" for name, before, after in zip(ROLES, first_rss, rss)), flush=True)


def restart_data_node(cluster, options):
    """Kills a data node, starts it again while a row is read by a schedule."""
    reader = Reader(cluster.socket, options.rate)
    time.sleep(1)
    reader.section()
    offset, before = cluster.output_size(), time.monotonic()
    cluster.processes[2].send_signal(signal.SIGKILL)
    cluster.processes[2].wait()
    time.sleep(2)
    cluster.start_again(2)
    started = time.monotonic()
    cluster.wait_complete()
    took = time.monotonic() - started
    count, *others = reader.section()
    reader.stop()
    print(f"data node killed and started: all replicas {took:.1f} s after its start; reads meanwhile {count / (time.monotonic() - before):.0f}/s "
          f"p50 {others[0]:.2f} p99 {others[1]:.2f} p99.9 {others[2]:.2f} longest {others[3]:.1f} ms; CPU s: {', '.join(f'{cpu:.1f}' for cpu in cluster.cpus())}; ended: {cluster.ended()}")
    print("  its log:\n" + "\n".join("    " + line for line in cluster.output_since(offset).splitlines()[:options.lines]), flush=True)


def slow_steps(cluster):
    """What the cluster counted as long steps."""
    told = cluster.sql("SELECT * FROM nines.slow_steps ORDER BY 1, 2") or cluster.complaint
    print("slow steps:\n" + "\n".join("    " + line for line in told.splitlines()), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = HERE.parents[1]
    parser.add_argument("--nines", default=root / "target/dist/nines", help="the program")
    parser.add_argument("--base", help="where the directory of the cluster is made")
    parser.add_argument("--tables", type=int, default=20_000, help="tables [20,000]")
    parser.add_argument("--step", type=int, default=1_000, help="tables of each line [1,000]")
    parser.add_argument("--memory", default="4G", help="data memory of each data node [4G]")
    parser.add_argument("--rate", type=float, default=200, help="reads per second of the other connection [200]")
    parser.add_argument("--alone", type=float, default=5, help="seconds in which reads are measured alone [5]")
    parser.add_argument("--lines", type=int, default=40, help="lines of the log that are shown [40]")
    parser.add_argument("--skip", default="", help="of questions, restart, node")
    parser.add_argument("--hold", action="store_true", help="wait for a line of input before it all ends")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read_by_schedule(options.read, options.rate)
    with tempfile.TemporaryDirectory(prefix="nines-catalog-", dir=options.base) as directory:
        cluster = Cluster(directory, str(options.nines), options.memory)
        try:
            before = time.monotonic()
            first_rss = create(cluster, options)
            print(f"made in {time.monotonic() - before:.0f} s", flush=True)
            slow_steps(cluster)
            if "questions" not in options.skip:
                questions(cluster, options)
            if "node" not in options.skip:
                restart_data_node(cluster, options)
            if "restart" not in options.skip:
                restart(cluster, options, first_rss, signal.SIGTERM)
                slow_steps(cluster)
            if options.hold:
                print("pids: " + ", ".join(f"{name} {process.pid}" for name, process in zip(ROLES, cluster.processes)), flush=True)
                input()
        finally:
            print(cluster.output_since(0)[-3000:] if cluster.ended() else "", flush=True)
            cluster.stop()


if __name__ == "__main__":
    main()
