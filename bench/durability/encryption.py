#!/usr/bin/env python3
"""Measures what encryption at rest costs an update: processor time of `nines dev --dir` with a key and without.

    cargo build --profile dist -p nines
    python3 bench/durability/encryption.py            # writes a Markdown table to standard output

Two servers are up all the time, and take turns at the same load (sysbench, oltp_update_non_index, 189 bytes a row), so that
what else the machine does hits both. A row of the table is a pair of turns; the last one is the median of the ratios.
"""

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from servers import precise_cpu_of  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


class Server:
    """`nines dev` with its data in a directory, and the table of sysbench."""

    def __init__(self, options, directory, *more):
        self.options, self.socket = options, directory / "sock"
        directory.mkdir()
        command = [options.nines, "dev", "--port=0", f"--dir={directory / 'data'}", f"--socket={self.socket}"]
        command += [f"--durability={options.durability}", *more]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if not any(line.startswith("ready") for line in self.process.stdout):
            sys.exit(f"{' '.join(command)} ended before it was ready")
        client = ["mysql", "--no-defaults", "--user=root", f"--socket={self.socket}", "-e", "CREATE DATABASE sbtest"]
        subprocess.run(client, check=True)
        self.sysbench("prepare")

    def sysbench(self, action, *more):
        command = [
            "sysbench", "oltp_update_non_index", "--db-driver=mysql", "--mysql-user=root", "--mysql-db=sbtest",
            f"--mysql-socket={self.socket}", "--tables=1", f"--table-size={self.options.rows}", *more, action,
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def turn(self):
        """Microseconds of processor time of an update."""
        before = precise_cpu_of(self.process.pid)
        text = self.sysbench("run", f"--threads={self.options.clients}", f"--time={self.options.seconds}")
        took = precise_cpu_of(self.process.pid) - before
        updates = int(re.search(r"transactions:\s+(\d+)", text)[1])
        return took / updates * 1e6

    def stop(self):
        self.process.terminate()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nines", default=ROOT / "target/dist/nines", type=Path)
    parser.add_argument("--base", type=Path, help="where the directories go [default: /tmp]")
    parser.add_argument("--rows", default=50_000, type=int)
    parser.add_argument("--clients", default=8, type=int)
    parser.add_argument("--seconds", default=5, type=int)
    parser.add_argument("--rounds", default=9, type=int)
    parser.add_argument("--durability", default="memory", choices=["memory", "disk"], help="what commits wait for")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.base) as base:
        base = Path(base)
        key = base / "key"
        key.touch(mode=0o600)
        key.write_text("5a" * 32)
        plain = Server(options, base / "plain")
        encrypted = Server(options, base / "encrypted", f"--encryption-key-file={key}")
        plain.turn(), encrypted.turn()
        print("| plain, µs an update | encrypted | ratio |\n|---|---|---|")
        ratios = []
        for number in range(options.rounds):
            # Who is first changes, as the machine may become slower or faster meanwhile.
            turns = [plain, encrypted] if number % 2 == 0 else [encrypted, plain]
            took = {server: server.turn() for server in turns}
            ratios.append(took[encrypted] / took[plain])
            print(f"| {took[plain]:.1f} | {took[encrypted]:.1f} | {ratios[-1]:.3f} |", flush=True)
        print(f"| | | median {statistics.median(ratios):.3f} |")
        plain.stop(), encrypted.stop()


if __name__ == "__main__":
    main()
