#!/usr/bin/env python3
"""Many small data nodes on one machine: how long they take to form a cluster, what each takes of memory and processor time, and
whether clients notice that some are killed.

    cargo build --profile dist -p nines
    python3 bench/many_nodes/measure.py                   # 48 data nodes of one worker, two replicas, in memory
    python3 bench/many_nodes/measure.py --nodes 8         # for a look

A management node, the data nodes, and an SQL node, each a process. After a look at the idle cluster one client changes rows with
autocommit by the `mariadb` client, while one data node of each of three node groups is killed with SIGKILL, the driver of epochs
among them, and started again. At the end the sum of all rows must be the number of changes that were acknowledged.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MANAGEMENT, SQL = 145, 146
PATIENCE = 300
TICK = 1 / os.sysconf("SC_CLK_TCK")
ACTIVE = "SELECT COUNT(*) FROM nines.nodes WHERE role = 'data' AND status = 'active'"


class Cluster:
    """The processes, in a directory of their own."""

    def __init__(self, program, nodes, workers, port, directory):
        self.program, self.count, self.directory = program, nodes, Path(directory)
        self.port, self.processes = port, {}
        lines = ["[ndbd default]", "NoOfReplicas=2", f"DataDir={directory}", "Diskless=1", "DataMemory=16M"]
        lines += [f"NumCPUs={workers}", "AllowInsecure=1", "[ndb_mgmd]", f"NodeId={MANAGEMENT}", "HostName=127.0.0.1"]
        lines += [f"PortNumber={port}", f"DataDir={directory}", "AllowInsecure=1"]
        for node in self.nodes():
            lines += ["[ndbd]", f"NodeId={node}", "HostName=127.0.0.1", f"ServerPort={port + node}"]
        lines += ["[mysqld]", f"NodeId={SQL}", "AllowInsecure=1"]
        (self.directory / "config.ini").write_text("\n".join(lines) + "\n")

    def nodes(self):
        """The ids of the data nodes."""
        return range(1, self.count + 1)

    def launch(self, node):
        """Starts a process."""
        connect = ["-c", f"127.0.0.1:{self.port}"]
        if node == MANAGEMENT:
            role = ["management", "-f", str(self.directory / "config.ini")]
        elif node == SQL:
            role = ["sql", *connect, f"--port={self.port + 200}", f"--socket={self.socket()}", "--workers=1"]
            role += ["--initialize-insecure", "--allow-insecure"]
        else:
            role = ["data", *connect]
        with open(self.directory / f"node-{node}.log", "ab") as log:
            command = [self.program, *role, f"--node-id={node}"]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory)
        self.processes[node] = process

    def socket(self):
        """Where the SQL node listens."""
        return self.directory / "sql.sock"

    def ask(self, statement):
        """What the SQL node answers; nothing if it does not."""
        command = ["mariadb", "-u", "root", f"--socket={self.socket()}", "-N", "-B", "-e", statement]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        return answer.stdout.strip() if answer.returncode == 0 else None

    def until_active(self, count):
        """Waits until so many data nodes are complete; for how long."""
        began = time.monotonic()
        while self.ask(ACTIVE) != str(count):
            if time.monotonic() - began > PATIENCE:
                sys.exit(f"not {count} data nodes after {PATIENCE} s, but {self.ask(ACTIVE)}; see {self.directory}")
            time.sleep(0.05)
        return time.monotonic() - began

    def end(self):
        """Ends all processes."""
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()


def memory(process):
    """Kilobytes of a process: its own, and its share of what it has with others."""
    lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def computed(process):
    """Seconds of processor time of a process."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * TICK


def spread(values, form):
    """The smallest, the middle and the largest one."""
    values = sorted(values)
    return " / ".join(format(value, form) for value in (values[0], values[len(values) // 2], values[-1]))


class Changes(threading.Thread):
    """One client that adds to rows until it is told to stop; each statement must succeed."""

    def __init__(self, cluster):
        super().__init__()
        self.cluster, self.done, self.failed, self.stopped = cluster, 0, 0, False
        self.longest = 0.0

    def run(self):
        while not self.stopped:
            began = time.monotonic()
            answer = self.cluster.ask(f"UPDATE d.t SET n = n + 1 WHERE id = {self.done % 64}")
            self.longest = max(self.longest, time.monotonic() - began)
            if answer is None:
                self.failed += 1
            else:
                self.done += 1


def watch_idle(cluster, seconds):
    """Prints what the data nodes take while nobody asks anything."""
    processes = [cluster.processes[node] for node in cluster.nodes()]
    sizes = [memory(process) / 1024 for process in processes]
    print(f"memory of a data node: {spread(sizes, '.1f')} MB, together {sum(sizes):.0f} MB", flush=True)
    before = [computed(process) for process in processes]
    time.sleep(seconds)
    spent = [(computed(process) - was) / seconds * 100 for process, was in zip(processes, before)]
    print(f"idle: {spread(spent, '.2f')} % of a core, together {sum(spent):.0f} %", flush=True)


def measure(cluster):
    """Tells the story and prints its figures."""
    began = time.monotonic()
    for node in [MANAGEMENT, *cluster.nodes(), SQL]:
        cluster.launch(node)
    cluster.until_active(cluster.count)
    print(f"{cluster.count} data nodes are complete {time.monotonic() - began:.1f} s after the first was started", flush=True)
    watch_idle(cluster, 20)
    rows = ",".join(f"({row}, 0)" for row in range(64))
    if cluster.ask(f"CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, n INT); INSERT INTO d.t VALUES {rows}") is None:
        sys.exit("the table is not made")
    changes = Changes(cluster)
    changes.start()
    time.sleep(2)
    killed = [1, cluster.count // 2, cluster.count]
    for node in killed:
        cluster.processes[node].send_signal(signal.SIGKILL)
        cluster.processes[node].wait()
    print(f"three were killed; seen after {cluster.until_active(cluster.count - 3):.2f} s", flush=True)
    time.sleep(2)
    for node in killed:
        cluster.launch(node)
    print(f"they are complete again after {cluster.until_active(cluster.count):.2f} s", flush=True)
    time.sleep(1)
    changes.stopped = True
    changes.join()
    total = int(cluster.ask("SELECT SUM(n) FROM d.t") or -1)
    print(f"{changes.done} changes, the longest took {changes.longest:.2f} s, {changes.failed} failed; the sum is {total}")
    return total == changes.done and changes.failed == 0


def main():
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=48, help="data nodes: an even number")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--port", type=int, default=23500, help="the first of 201 ports")
    parser.add_argument("--program", default=str(ROOT / "target/dist/nines"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        cluster = Cluster(options.program, options.nodes, options.workers, options.port, directory)
        try:
            good = measure(cluster)
        finally:
            cluster.end()
    sys.exit(0 if good else "changes are lost, doubled or refused")


if __name__ == "__main__":
    main()
