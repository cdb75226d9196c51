"""TPC-C on the servers that are compared, by the driver in bench/tpcc: two warehouses, no think time."""

import re
import subprocess

WAREHOUSES = 2
CLIENTS = [4, 16]


def driver(program, server, command, *more):
    """Runs the driver; what it prints, and what is wrong."""
    done = subprocess.run([program, command, "--socket", str(server.socket), *more], capture_output=True, text=True)
    faults = [line for line in done.stdout.splitlines() if line.startswith("FAULT")]
    complaint = (faults or done.stderr.strip().splitlines() or done.stdout.strip().splitlines() or ["it failed"])[0]
    return done.stdout, "" if done.returncode == 0 else complaint


def fill(program, server):
    """Makes the database; what is wrong, or nothing."""
    return driver(program, server, "load", "--warehouses", str(WAREHOUSES))[1]


def run(program, server, threads, seconds):
    """Runs the mix: New-Orders done, in so many seconds, their median, 95th and 99th percentile in milliseconds, and what is wrong.

    Afterwards the conditions of the specification's clause 3.3.2 must hold.
    """
    text, wrong = driver(program, server, "run", "--clients", str(threads), "--seconds", str(seconds), "--warm-up", "0")
    row = re.search(r"^\| New-Order \| (\d+) \|[^|]+\| ([0-9.]+) \| ([0-9.]+) \| ([0-9.]+) \|", text, re.M)
    if not row:
        return 0, 0, [None] * 3, wrong or "no New-Order has ended"
    rate = int(re.search(r" s, (\d+) a minute", text)[1]) / 60
    return int(row[1]), int(row[1]) / rate, [float(row[at]) for at in (2, 3, 4)], wrong


def check(program, server):
    """What the specification's consistency conditions have to say, or nothing."""
    return driver(program, server, "check")[1]
