#!/usr/bin/env python3
"""Figures of a cluster of separate processes on this machine: how long a writer waits when nodes die or
stand still, what an empty cluster costs, what links cost, how many nodes can be started, and what
spinning is worth.

usage: measure.py BINARY [--only PART] [--rounds N]
parts: clients, gaps, idle, links, many, rejoin, spin

Needs PyMySQL and sysbench. CPU time is of all server processes, user and system, from /proc.
"""

import argparse
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import sys
import threading
import time
from pathlib import Path

import pymysql

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from servers import cpu_of, free_port, memory_of, percentiles  # noqa: E402


class Cluster:
    """Processes with a directory of their own."""

    def __init__(self, binary, data=2, sql=1, replicas=2, memory="128M", more="", secure=False):
        self.binary = binary
        self.directory = tempfile.mkdtemp(prefix="nines-bench-")
        self.ports = {node: free_port() for node in [*range(1, data + 1), 49, *range(151, 151 + sql)]}
        if secure:
            certify(self.directory, self.ports)
            names = [("Authority", "ca"), ("Certificate", "%n"), ("Key", "%n-key")]
            files = [f"Tls{name}={self.directory}/{file}.pem" for name, file in names]
            more = "\n".join([more, *files, "[mysqld default]", *files, "[ndb_mgmd default]", *files])
        lines = [
            "[ndbd default]",
            f"NoOfReplicas={replicas}",
            f"DataMemory={memory}",
            f"DataDir={self.directory}",
            more,
            f"[ndb_mgmd]\nNodeId=49\nHostName=127.0.0.1\nPortNumber={self.ports[49]}\nDataDir={self.directory}",
        ]
        for node in range(1, data + 1):
            lines.append(f"[ndbd]\nNodeId={node}\nHostName=127.0.0.1\nServerPort={self.ports[node]}")
        lines += [f"[mysqld]\nNodeId={node}" for node in range(151, 151 + sql)]
        self.config = os.path.join(self.directory, "config.ini")
        with open(self.config, "w") as file:
            file.write("\n".join(lines) + "\n")
        self.processes = {}
        self.sql_options = []

    def start(self):
        began = time.monotonic()
        for node in self.ports:
            self.launch(node)
        for node in self.ports:
            self.wait(node)
        return time.monotonic() - began

    def launch(self, node):
        connect = f"127.0.0.1:{self.ports[49]}"
        if node == 49:
            command = ["management", "-f", self.config]
        elif node > 150:
            path = self.socket(node)
            command = ["sql", "-c", connect, f"--port={self.ports[node]}", f"--socket={path}", "--initialize-insecure",
                       *self.sql_options]
        else:
            command = ["data", "-c", connect]
        log = open(self.log(node), "w")
        self.processes[node] = subprocess.Popen(
            [self.binary, *command, f"--node-id={node}"], stdout=log, stderr=log
        )

    def wait(self, node):
        until = time.monotonic() + 120
        while time.monotonic() < until:
            with open(self.log(node)) as log:
                if any(line.startswith("ready") for line in log):
                    return
            time.sleep(0.005)
        raise RuntimeError(f"node {node} is not ready: see {self.log(node)}")

    def log(self, node):
        return os.path.join(self.directory, f"{node}.log")

    def socket(self, node):
        return os.path.join(self.directory, f"{node}.sock")

    def kill(self, node, how=signal.SIGKILL):
        self.processes[node].send_signal(how)
        if how == signal.SIGKILL:
            self.processes.pop(node).wait()

    def connect(self, node=151):
        return pymysql.connect(unix_socket=self.socket(node), user="root", autocommit=True)

    def wait_until_complete(self, nodes):
        query = "SELECT COUNT(*) FROM nines.nodes WHERE role = 'data' AND status = 'active'"
        while True:
            try:
                with self.connect() as connection, connection.cursor() as cursor:
                    cursor.execute(query)
                    if cursor.fetchone()[0] == nodes:
                        return
            except pymysql.Error:
                pass
            time.sleep(0.02)

    def driver(self):
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT node_id FROM nines.nodes WHERE role = 'data' ORDER BY joined_at LIMIT 1")
            return cursor.fetchone()[0]

    def cpu(self):
        """Seconds of CPU time by now."""
        return sum(sum(cpu_of(process.pid)) for process in self.processes.values())

    def memory(self):
        """Megabytes that the processes hold."""
        return sum(memory_of(process.pid) for process in self.processes.values()) / (1 << 20)

    def stop(self):
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


class OneProcess(Cluster):
    """`nines dev`: the same nodes in one process, with a disk."""

    def launch(self, node):
        if node == 151:
            log = open(self.log(node), "w")
            command = ["dev", f"--port={self.ports[node]}", f"--socket={self.socket(node)}", f"--dir={self.directory}/dev",
                       "--data-memory=128M", "--http-port=0"]
            self.processes[node] = subprocess.Popen([self.binary, *command], stdout=log, stderr=log)

    def wait(self, node):
        if node == 151:
            super().wait(node)


def certify(directory, nodes):
    """Puts an authority, and a certificate of each node with its key, into a directory."""
    openssl = lambda *arguments: subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True).stdout
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *new_key, "-subj", "/CN=bench", "-keyout", "ca-key.pem", "-out", "ca.pem")
    spki = openssl("pkey", "-in", "ca-key.pem", "-pubout", "-outform", "DER")
    authority = hashlib.sha256(spki).hexdigest()[:32]
    for node in nodes:
        role = "data" if node < 49 else "management" if node == 49 else "sql"
        Path(directory, "extensions").write_text(
            f"subjectAltName=URI:nines://{authority}/{role}/{node}\n"
            "extendedKeyUsage=serverAuth,clientAuth\nkeyUsage=digitalSignature\nbasicConstraints=CA:FALSE\n"
        )
        openssl("req", *new_key, "-subj", f"/CN={node}", "-keyout", f"{node}-key.pem", "-out", "request.pem")
        openssl("x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca-key.pem", "-days", "2",
                "-extfile", "extensions", "-out", f"{node}.pem")
        os.chmod(os.path.join(directory, f"{node}-key.pem"), 0o600)


class Writer(threading.Thread):
    """Changes a row by autocommit every millisecond, and notes the longest time between two answers."""

    def __init__(self, cluster):
        super().__init__(daemon=True)
        self.connection = cluster.connect()
        with self.connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS gaps")
            cursor.execute("CREATE TABLE IF NOT EXISTS gaps.t (id INT PRIMARY KEY, n INT)")
            for row in range(64):
                cursor.execute(f"REPLACE INTO gaps.t VALUES ({row}, 0)")
        self.longest = 0.0
        self.errors = []
        self.done = 0
        self.stopped = False

    def run(self):
        last = time.monotonic()
        with self.connection.cursor() as cursor:
            while not self.stopped:
                try:
                    cursor.execute(f"UPDATE gaps.t SET n = n + 1 WHERE id = {self.done % 64}")
                    self.done += 1
                except pymysql.Error as error:
                    self.errors.append(str(error))
                now = time.monotonic()
                self.longest = max(self.longest, now - last)
                last = now
                time.sleep(0.001)

    def take(self):
        longest, self.longest = self.longest, 0.0
        return longest * 1000


def gaps(binary, rounds):
    cluster = Cluster(binary)
    cluster.start()
    writer = Writer(cluster)
    writer.start()
    found = {}
    for _ in range(rounds):
        for fault in ["none", "kill data node", "kill the driver of epochs", "freeze data node", "kill management node"]:
            cluster.wait_until_complete(2)
            time.sleep(0.7)
            driver = cluster.driver()
            writer.take()
            if fault == "none":
                time.sleep(1)
            elif fault == "kill management node":
                cluster.kill(49)
                time.sleep(1.5)
                cluster.launch(49)
                cluster.wait(49)
            else:
                node = driver if "driver" in fault else 3 - driver
                if fault == "freeze data node":
                    cluster.kill(node, signal.SIGSTOP)
                    time.sleep(4)
                    gap = writer.take()
                    cluster.kill(node, signal.SIGCONT)
                    found.setdefault(fault, []).append(gap)
                    continue
                cluster.kill(node)
                time.sleep(1.5)
                gap = writer.take()
                found.setdefault(fault, []).append(gap)
                cluster.launch(node)
                cluster.wait(node)
                cluster.wait_until_complete(2)
                found.setdefault("a data node comes back", []).append(writer.take())
                continue
            found.setdefault(fault, []).append(writer.take())
    writer.stopped = True
    writer.join()
    with cluster.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT SUM(n) FROM gaps.t")
        total = cursor.fetchone()[0]
    cluster.stop()
    print(f"gaps of a writer of 1 ms: {writer.done} changes, {total} there, {len(writer.errors)} failed statements")
    for fault, values in found.items():
        values.sort()
        print(f"  {fault:<28} median {values[len(values) // 2]:7.1f} ms  longest {values[-1]:7.1f} ms  of {len(values)}")


def idle(binary, _rounds):
    cluster = Cluster(binary)
    ready = cluster.start()
    time.sleep(3)
    before, began = cluster.cpu(), time.monotonic()
    time.sleep(20)
    share = (cluster.cpu() - before) / (time.monotonic() - began)
    print(f"empty cluster of 1 management, 2 data, 1 SQL node: ready in {ready:.2f} s, "
          f"{share * 100:.1f} % of a core, {cluster.memory():.0f} MB")
    cluster.stop()


def links(binary, rounds):
    scripts = ["oltp_point_select", "oltp_update_non_index"]
    found = {}
    tcp = "UseShm=0\n[mysqld default]\nUseShm=0\n[ndbd default]"
    clusters = {
        "shared memory": Cluster(binary, more="UseShm=1\n[mysqld default]\nUseShm=1\n[ndbd default]"),
        "Unix sockets": Cluster(binary, more="UseShm=2\n[mysqld default]\nUseShm=2\n[ndbd default]"),
        "TCP": Cluster(binary, more=tcp),
        "TLS": Cluster(binary, more=tcp, secure=True),
        "one process": OneProcess(binary),
    }
    for name, cluster in clusters.items():
        cluster.start()
        kind = name if name == "shared memory" else name.removesuffix(" sockets") + " sockets"
        assert name == "one process" or kind in Path(cluster.log(151)).read_text(), name
        with cluster.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE sb")
        sysbench(cluster, scripts[0], "prepare")
    cases = [(script, clients) for script in scripts for clients in [1, 32]]
    for _ in range(rounds):
        for case in cases:
            for name, cluster in clusters.items():
                before = cluster.cpu()
                events = sysbench(cluster, case[0], "run", clients=case[1])
                found.setdefault((*case, name), []).append((cluster.cpu() - before) / events * 1e6)
    for (script, clients, name), values in found.items():
        ratios = sorted(value / one for value, one in zip(values, found[script, clients, "one process"]))
        print(f"  {script:<24} {clients:2} clients  {name:<13} {sorted(values)[len(values) // 2]:6.1f} us of CPU, all servers, "
              f"{ratios[len(ratios) // 2]:.2f} of one process")
    for cluster in clusters.values():
        cluster.stop()


def clients(binary, rounds):
    """Point selects by prepared statements over TCP, with TLS and without, one beside the other."""
    cluster = Cluster(binary)
    # sysbench wants three files of these names where it runs, one of them a certificate that the node trusts.
    certify(cluster.directory, [151])
    for file, name in [("ca", "cacert"), ("151", "client-cert"), ("151-key", "client-key")]:
        os.symlink(f"{file}.pem", os.path.join(cluster.directory, f"{name}.pem"))
    cluster.sql_options = [f"--tls-{kind}={cluster.directory}/{file}.pem"
                           for kind, file in [("ca", "ca"), ("cert", "151"), ("key", "151-key")]]
    cluster.start()
    with cluster.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE sb")
        cursor.execute("CREATE USER bench IDENTIFIED BY 'bench'")
        cursor.execute("GRANT ALL ON sb.* TO bench")
    sysbench(cluster, "oltp_point_select", "prepare")
    found = {}
    for number in (1, 8, 32):
        for at in range(rounds + 1):
            for name in ("plain", "TLS") if at % 2 else ("TLS", "plain"):
                before = [sum(cpu_of(process.pid)) for process in cluster.processes.values()]
                events = over_tcp(cluster, number, tls=name == "TLS")
                after = [sum(cpu_of(process.pid)) for process in cluster.processes.values()]
                nodes = [(b - a) / events * 1e6 for a, b in zip(before, after)]
                sql = nodes[list(cluster.processes).index(151)]
                # The first round warms up, and lets the password be known.
                if at:
                    found.setdefault((number, name), []).append((sum(nodes), sql))
    for number in (1, 8, 32):
        plain, tls = (found[number, name] for name in ("plain", "TLS"))
        for at, servers in enumerate(("all servers", "the SQL node")):
            middle = [sorted(value[at] for value in values)[len(values) // 2] for values in (plain, tls)]
            ratios = sorted(b[at] / a[at] for a, b in zip(plain, tls))
            print(f"  point select {number:2} clients  {middle[0]:6.1f} us of CPU plain  {middle[1]:6.1f} us TLS  "
                  f"ratio {ratios[len(ratios) // 2]:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}), {servers}")
    cluster.stop()


def over_tcp(cluster, number, tls):
    output = subprocess.run(
        ["sysbench", "oltp_point_select", "--mysql-host=127.0.0.1", f"--mysql-port={cluster.ports[151]}",
         "--mysql-user=bench", "--mysql-password=bench", "--mysql-db=sb", "--tables=1", "--table-size=10000",
         f"--threads={number}", "--time=4", "--db-ps-mode=auto", f"--mysql-ssl={'on' if tls else 'off'}", "run"],
        capture_output=True, text=True, cwd=cluster.directory)
    found = re.search(r"total number of events:\s+(\d+)", output.stdout)
    if not found:
        raise RuntimeError(output.stdout + output.stderr)
    return int(found.group(1))


def sysbench(cluster, script, command, rows=10_000, clients=32):
    output = subprocess.run(
        ["sysbench", script, f"--mysql-socket={cluster.socket(151)}", "--mysql-user=root", "--mysql-db=sb",
         "--tables=1", f"--table-size={rows}", f"--threads={1 if command == 'prepare' else clients}", "--time=5", "--db-ps-mode=disable", command],
        capture_output=True, text=True, check=True).stdout
    for line in output.splitlines():
        if "total number of events" in line:
            return int(line.split()[-1])
    return 0


def many(binary, _rounds):
    cluster = Cluster(binary, data=24, sql=16, more="NumCPUs=1\nDiskless=1")
    ready = cluster.start()
    with cluster.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE d")
        cursor.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
        values = ",".join(f"({row}, {row})" for row in range(1000))
        cursor.execute(f"INSERT INTO d.t VALUES {values}")
    for node in range(151, 167):
        with cluster.connect(node) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM d.t")
            assert cursor.fetchone()[0] == 1000
    time.sleep(3)
    before, began = cluster.cpu(), time.monotonic()
    time.sleep(10)
    share = (cluster.cpu() - before) / (time.monotonic() - began)
    print(f"24 data nodes and 16 SQL nodes: ready in {ready:.1f} s, {cluster.memory():.0f} MB, "
          f"idle at {share * 100:.0f} % of a core; each SQL node sees all rows")
    cluster.stop()


def rejoin(binary, _rounds):
    rows = 1_000_000
    cluster = Cluster(binary, memory="1G")
    cluster.start()
    with cluster.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE sb")
    sysbench(cluster, "oltp_point_select", "prepare", rows)
    cluster.kill(2)
    time.sleep(1)
    with cluster.connect() as connection, connection.cursor() as cursor:
        for start in range(0, rows, 20_000):
            cursor.execute(f"UPDATE sb.sbtest1 SET pad = 'x' WHERE id BETWEEN {start + 1} AND {start + 1_000}")
        cluster.launch(2)
        began = time.monotonic()
        cluster.wait(2)
        taken = time.monotonic() - began
        cursor.execute("SELECT SUM(slots), SUM(changed), SUM(bytes) FROM nines.copies WHERE to_node_id = 2")
        slots, changed, size = cursor.fetchone()
    print(f"data node back with its disk after 5 % of {rows} rows changed: {taken:.1f} s to ready, "
          f"{changed} of {slots} slots and {int(size) / 1e6:.1f} MB sent")
    cluster.stop()


def spin(binary, rounds):
    """Each way of waiting: what it costs an idle cluster, and what a client that asks one thing after the other notices."""
    ways = {
        "StaticSpinning, 0 us": "SpinMethod=StaticSpinning",
        "StaticSpinning, 50 us": "SpinMethod=StaticSpinning\nSchedulerSpinTimer=50",
        "CostBasedSpinning": "SpinMethod=CostBasedSpinning",
        "LatencyOptimisedSpinning": "SpinMethod=LatencyOptimisedSpinning",
        "DatabaseMachineSpinning": "SpinMethod=DatabaseMachineSpinning",
    }
    print(f"serial point selects, {rounds} times 5 s; idle for 10 s; {os.cpu_count()} CPUs")
    for name, setting in ways.items():
        cluster = Cluster(binary, more=f"{setting}\n[mysqld default]\n{setting}\n[ndbd default]")
        cluster.start()
        with cluster.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE sb")
        sysbench(cluster, "oltp_point_select", "prepare")
        time.sleep(3)
        before, began = cluster.cpu(), time.monotonic()
        time.sleep(10)
        idle_share = (cluster.cpu() - before) / (time.monotonic() - began) * 100
        found = []
        for _ in range(rounds):
            before = cluster.cpu()
            events, median = serial(cluster, "oltp_point_select")
            found.append((median, (cluster.cpu() - before) / events * 1e6, events / 5))
        found.sort()
        median, cost, rate = found[len(found) // 2]
        print(f"  {name:<26} idle {idle_share:5.1f} % of a core, p50 {median:5.0f} us, "
              f"{cost:6.1f} us of CPU, {rate:6.0f} a second", flush=True)
        cluster.stop()


def serial(cluster, script):
    """One client for five seconds: how much it did, and the median of its waits in microseconds."""
    output = subprocess.run(
        ["sysbench", script, f"--mysql-socket={cluster.socket(151)}", "--mysql-user=root", "--mysql-db=sb",
         "--tables=1", "--table-size=10000", "--threads=1", "--time=5", "--histogram", "run"],
        capture_output=True, text=True, check=True).stdout
    buckets = re.findall(r"^ *([0-9.]+) \|\**\s+(\d+)$", output, re.MULTILINE)
    if not buckets:
        raise RuntimeError(f"sysbench has no histogram:\n{output}")
    buckets = [(float(value), int(count)) for value, count in buckets]
    (median,) = percentiles(buckets, [0.5])
    return sum(count for _, count in buckets), median * 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--only", choices=["clients", "gaps", "idle", "links", "many", "rejoin", "spin"])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    parts = {"clients": clients, "idle": idle, "gaps": gaps, "links": links, "many": many, "rejoin": rejoin, "spin": spin}
    for name, part in parts.items():
        if options.only in (None, name):
            part(os.path.abspath(options.binary), options.rounds)


if __name__ == "__main__":
    main()
