"""Asks a program that counts what it executes what its users ask, so that the compiler learns which paths matter.

Prints nothing but what it does; the profiles are written by the program when it ends, where `LLVM_PROFILE_FILE` says. Each kind of
work gets some seconds: which share it has matters little, that a path is taken at all matters much.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

import servers  # noqa: E402 - found by the path above

TABLES = ["--tables=2", "--table-size=20000"]
# The scripts, how they prepare, and with how many clients.
ONE_PROCESS = [
    ("oltp_point_select", "auto", 1), ("oltp_point_select", "auto", 8), ("oltp_point_select", "disable", 8),
    ("oltp_update_non_index", "auto", 8), ("oltp_update_index", "disable", 8), ("oltp_insert", "auto", 8),
    ("oltp_read_write", "auto", 8), ("oltp_read_write", "auto", 32), ("oltp_read_write", "disable", 8),
    ("oltp_delete", "auto", 8),
]
FOUR_PROCESSES = [("oltp_point_select", "auto", 8), ("oltp_read_write", "auto", 8), ("oltp_update_non_index", "auto", 8)]


def run(command):
    """Runs a program that must succeed."""
    print("+", *command, flush=True)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])


def sysbench(server, script, action, *more):
    """Runs a script of sysbench."""
    run(["sysbench", script, "--db-driver=mysql", "--mysql-user=root", "--mysql-db=sbtest", f"--mysql-socket={server.socket}",
         "--events=0", *TABLES, *more, action])


def ask(server, statement, database):
    """Asks one statement that must be answered."""
    if server.sql(statement, database) is None:
        raise SystemExit(f"{statement}: {server.complaint}")


def scripts(server, chosen, seconds):
    """Rows of sysbench, and its scripts."""
    ask(server, "CREATE DATABASE sbtest", "")
    sysbench(server, "oltp_read_write", "prepare")
    for script, prepared, clients in chosen:
        sysbench(server, script, "run", f"--db-ps-mode={prepared}", f"--threads={clients}", f"--time={seconds}")


def main():
    """Reads the options, trains."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nines", required=True, help="the program that counts")
    options.add_argument("--tpcc", required=True, help="the driver of TPC-C")
    options.add_argument("--seconds", type=int, default=3, help="of each kind of work")
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as base:
        server = servers.NinesDev("nines", f"{base}/dev", options.nines)
        scripts(server, ONE_PROCESS, options.seconds)
        path = f"--socket={server.socket}"
        run([options.tpcc, "load", path, "--warehouses=1"])
        for clients in (4, 16):
            run([options.tpcc, "run", path, f"--clients={clients}", f"--seconds={options.seconds * 2}"])
        for statement in (HERE / "queries.sql").read_text().split(";\n"):
            for _ in range(3 if statement.strip() else 0):
                ask(server, statement, "tpcc")
        server.stop()
        server = servers.NinesProcesses("processes", f"{base}/processes", options.nines)
        scripts(server, FOUR_PROCESSES, options.seconds)
        server.stop()


if __name__ == "__main__":
    main()
