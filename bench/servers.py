"""What every measurement of servers needs: ports, processor time and memory of processes, how peers are started.

A `Server` is one or more processes that end with it, in a directory of its own, asked over a Unix socket.
"""

import json
import os
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PATIENCE = 120


# Given to servers that may not listen there yet.
given_ports = set()


def free_port():
    """A TCP port of the loopback address that nobody listens on, and that was not given before."""
    while True:
        # Below those that the kernel gives to connections, which servers that are being started make.
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            if port not in given_ports and probe.connect_ex(("127.0.0.1", port)) != 0:
                given_ports.add(port)
                return port


def cpu_of(pid):
    """Seconds of processor time of a process by now: user, system."""
    # The name, in parentheses, may hold anything; the numbers follow it.
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) / TICKS, int(fields[12]) / TICKS


def precise_cpu_of(pid):
    """Seconds that the threads of a process have run, to the nanosecond; user and system together."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((thread / "schedstat").read_text().split()[0])
        except (OSError, IndexError):
            pass  # The thread has just ended.
    return total / 1e9


def memory_of(pid):
    """Resident bytes of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) * 1024


def percentiles(buckets, wanted):
    """The value of each wanted part (0.99) of a list of (value, count), sorted by value."""
    total, found = sum(count for _, count in buckets), {}
    seen = 0
    for value, count in buckets:
        seen += count
        for part in wanted:
            if part not in found and seen >= total * part:
                found[part] = value
    return [found.get(part) for part in wanted]


class Server:
    """A server of MySQL's protocol, unless a subclass says otherwise."""

    def __init__(self, name, directory):
        self.name, self.directory = name, Path(directory)
        self.socket = self.directory / "sock"
        # Of TCP, on the loopback address; not every server listens there.
        self.port = free_port()
        self.processes = []
        self.directory.mkdir(parents=True, exist_ok=True)

    def launch(self, command):
        """Starts a process; its output goes to the directory."""
        with open(self.directory / "output", "ab") as output:
            self.processes.append(subprocess.Popen(command, stdout=output, stderr=output))

    def answers(self):
        """Whether it lets one in."""
        return self.sql("SELECT 1") is not None

    def wait(self):
        """Waits until it lets one in."""
        until = time.monotonic() + PATIENCE
        while not self.answers():
            if any(process.poll() is not None for process in self.processes) or time.monotonic() > until:
                self.stop()
                raise SystemExit(f"{self.name} does not start:\n{(self.directory / 'output').read_text()[-4000:]}")
            time.sleep(0.1)

    def fault(self):
        """Why its figures would not count, or nothing."""
        return ""

    def sql(self, statement, database="", path=None):
        """What the client prints, or None if it fails."""
        client = ["mysql", "--no-defaults", "--user=root", f"--socket={path or self.socket}", "--batch", "--local-infile=1", "--connect-timeout=10"]
        done = subprocess.run([*client, "-e", statement, *([database] if database else [])], capture_output=True, text=True)
        self.complaint = done.stderr.strip()
        return done.stdout if done.returncode == 0 else None

    def cpu(self):
        """Seconds of all its processes by now: user, system."""
        both = [cpu_of(process.pid) for process in self.processes]
        return sum(user for user, _ in both), sum(system for _, system in both)

    def precise_cpu(self):
        """Seconds of all its processes by now, to the nanosecond; user and system together."""
        return sum(precise_cpu_of(process.pid) for process in self.processes)

    def memory(self):
        """Resident bytes of all its processes."""
        if any(process.poll() is not None for process in self.processes):
            raise SystemExit(f"a process of {self.name} has ended:\n{(self.directory / 'output').read_text()[-4000:]}")
        return sum(memory_of(process.pid) for process in self.processes)

    def stop(self):
        """Asks the processes to end, and waits."""
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = []


class NinesDev(Server):
    """A cluster of two data nodes in one process."""

    def __init__(self, name, directory, binary, memory="1G"):
        super().__init__(name, directory)
        self.launch([binary, "dev", f"--port={self.port}", f"--socket={self.socket}", f"--data-memory={memory}", "--local-infile"])
        self.wait()


class NinesProcesses(Server):
    """A management node, two data nodes and an SQL node, each a process."""

    def __init__(self, name, directory, binary, memory="1G", replicas=2):
        super().__init__(name, directory)
        self.binary, self.http = binary, free_port()
        self.commands = cluster_commands(binary, self.directory, self.socket, memory, self.http, self.port, replicas)
        self.connect_string = self.commands[1][self.commands[1].index("-c") + 1]
        for command in self.commands:
            self.launch(command)
        self.wait()

    def start_again(self, at):
        """Starts a process that has ended, by its place among the commands."""
        with open(self.directory / "output", "ab") as output:
            self.processes[at] = subprocess.Popen(self.commands[at], stdout=output, stderr=output)

    def complete(self):
        """Whether every node group has all its replicas."""
        told = subprocess.run([self.binary, "ctl", "-c", self.connect_string, "--json", "groups"], capture_output=True, text=True)
        try:
            groups = json.loads(told.stdout)
        except ValueError:
            return False
        return bool(groups) and all(group["copies"] == group["of"] for group in groups)


def cluster_commands(binary, directory, path, memory, http, sql_port, replicas=2):
    """Writes the configuration of a cluster of separate processes; the commands that start them."""
    management, data = free_port(), [free_port(), free_port()]
    lines = [
        "[ndbd default]", f"NoOfReplicas={replicas}", f"DataMemory={memory}", f"DataDir={directory}",
        "[ndb_mgmd]", "NodeId=49", "HostName=127.0.0.1", f"PortNumber={management}", f"DataDir={directory}",
    ]
    for node, port in enumerate(data, 1):
        lines += ["[ndbd]", f"NodeId={node}", "HostName=127.0.0.1", f"ServerPort={port}"]
    lines += ["[mysqld]", "NodeId=151", f"HttpPort={http}"]
    config = Path(directory) / "config.ini"
    config.write_text("\n".join(lines) + "\n")
    connect = f"127.0.0.1:{management}"
    return [
        [binary, "management", "-f", str(config), "--node-id=49"],
        *([binary, "data", "-c", connect, f"--node-id={node}"] for node in (1, 2)),
        [
            binary, "sql", "-c", connect, "--node-id=151", f"--port={sql_port}", f"--socket={path}",
            "--initialize-insecure", "--local-infile",
        ],
    ]


def daemon_user():
    """Whom a server that was started by root runs as: the account that Debian's package makes, where there is one.

    A state transfer of Galera fails as root: rsync's daemon then writes as `nobody`, who may not.
    """
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("mysql").pw_name
    except KeyError:
        return "root"


def mariadb_command(directory, path, memory, options=(), user="root"):
    """Makes an empty data directory of MariaDB; the command that serves it: InnoDB, its log flushed once a second.

    `user` is whom it becomes if root starts it; the directory is made that account's, and those above must let it pass.
    """
    data = Path(directory) / "data"
    as_user = [f"--user={user}"] if os.geteuid() == 0 else []
    if as_user:
        shutil.chown(directory, user)
    install = ["mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal"]
    subprocess.run([*install, *as_user, f"--datadir={data}"], check=True, capture_output=True)
    program = shutil.which("mariadbd", path=os.environ.get("PATH", "") + ":/usr/sbin")
    return [
        program, "--no-defaults", *as_user, f"--datadir={data}", f"--socket={path}", "--innodb-flush-log-at-trx-commit=2",
        f"--innodb-buffer-pool-size={memory}", "--innodb-doublewrite=0", "--local-infile=1", "--max-connections=2000",
        "--max-prepared-stmt-count=1000000", *options,
    ]


class MariaDB(Server):
    """MariaDB with InnoDB: one copy."""

    def __init__(self, name, directory, memory="1G"):
        super().__init__(name, directory)
        self.launch(mariadb_command(self.directory, self.socket, memory, [
            "--skip-log-bin", f"--port={self.port}", "--bind-address=127.0.0.1",
        ], daemon_user()))
        self.wait()


class Galera(Server):
    """Two nodes of MariaDB, replicated by Galera; the first is asked, the processes of both count.

    Both are empty when the second joins; it counts as there when it has the first one's state and says so itself.
    """

    PROVIDER = "/usr/lib/galera/libgalera_smm.so"
    # That the second has joined the group is true long before it has the rows, and also while its transfer fails.
    READY = ("wsrep_local_state_comment\tSynced", "wsrep_cluster_size\t2", "wsrep_ready\tON")

    def __init__(self, name, directory, memory="1G"):
        super().__init__(name, directory)
        ports = [free_port() for _ in range(4)]
        user = daemon_user()
        if user:
            # Of the first node's socket.
            shutil.chown(self.directory, user)
        self.sockets = []
        for node, (group, incremental) in enumerate((ports[:2], ports[2:])):
            home = self.directory / f"node{node}"
            home.mkdir()
            self.sockets.append(self.socket if node == 0 else home / "sock")
            port = self.port if node == 0 else free_port()
            peers = "" if node == 0 else f"127.0.0.1:{ports[0]}"
            self.launch(mariadb_command(home, self.sockets[node], memory, [
                "--skip-networking=0", f"--port={port}", "--bind-address=127.0.0.1", "--wsrep-on=ON", f"--wsrep-provider={self.PROVIDER}",
                "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", f"--wsrep-cluster-address=gcomm://{peers}",
                "--wsrep-node-address=127.0.0.1", f"--wsrep-node-name=n{node}", "--wsrep-sst-method=rsync", "--wsrep-slave-threads=2",
                f"--wsrep-sst-receive-address=127.0.0.1:{free_port()}",
                f"--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{group};ist.recv_addr=127.0.0.1:{incremental};gcache.size=256M",
                *(["--wsrep-new-cluster"] if node == 0 else []),
            ], user))
            # The second node's transfer needs the first to be there.
            self.wait()
        until = time.monotonic() + PATIENCE
        while wrong := self.fault():
            if any(process.poll() is not None for process in self.processes) or time.monotonic() > until:
                self.stop()
                raise SystemExit(f"{name}: the second node does not join, {wrong}:\n{(self.directory / 'output').read_text()[-4000:]}")
            time.sleep(0.2)

    def fault(self):
        for node, path in enumerate(self.sockets):
            state = self.sql("SHOW STATUS LIKE 'wsrep%'", path=path) or ""
            if missing := [line.replace("\t", " ") for line in self.READY if line not in state]:
                return f"node {node + 1} is not {', '.join(missing)}"
        return ""

    def stop(self):
        # One by one: a node that leaves while the other does may wait for it.
        both = self.processes
        for process in reversed(both):
            self.processes = [process]
            super().stop()
        self.processes = []


class Echo(Server):
    """Our server that does nothing: the floor of socket, client and machine."""

    def __init__(self, name, directory, binary):
        super().__init__(name, directory)
        self.launch([binary, str(self.socket)])
        self.wait()


class Redis(Server):
    """Redis without persistence: the floor of a look-up by key over a socket."""

    def __init__(self, name, directory):
        super().__init__(name, directory)
        self.launch(["redis-server", "--port", "0", "--unixsocket", str(self.socket), "--save", "", "--appendonly", "no"])
        self.wait()

    def answers(self):
        return subprocess.run(["redis-cli", "-s", str(self.socket), "ping"], capture_output=True).returncode == 0
