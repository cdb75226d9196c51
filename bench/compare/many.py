"""Many clients on the servers that are compared, by the load generator in bench/src/load.

sysbench has a thread for each client, which takes two thirds to all of what a server takes for an operation and more the more there are:
beside it on the same processors a server is starved, and what it keeps of its peak is what its clients leave it. The generator serves all
clients in one thread.
"""

import json
import subprocess
from collections import namedtuple

MIXES = {"many_point_select": "point_select", "many_update": "update", "many_read_write": "read_write"}
CLIENTS = [8, 32, 64, 256, 1024]
# What only this client knows: the longest time, in milliseconds; operations of the client that got fewest, in proportion to the one that
# got most; operations begun anew for each that was done, as a row was locked or a lock waited for too long.
More = namedtuple("More", "longest fairness retried")


def run(program, server, workload, threads, seconds, tables, rows):
    """Runs a mix: the generator's figures by name, and what is wrong."""
    command = [
        program, "--json", f"--socket={server.socket}", f"--mix={MIXES[workload]}", f"--clients={threads}", f"--seconds={seconds}",
        f"--tables={tables}", f"--rows={rows}", *(f"--pid={process.pid}" for process in server.processes),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return {}, done.stderr.strip() or "it failed"
    return json.loads(done.stdout), ""


def more_of(figures):
    """What the main table has no column for."""
    return More(figures["longest"], figures["fewest"] / max(figures["most"], 1), figures["retries"] / max(figures["operations"], 1))


def table(results, details, systems):
    """The results of many clients as Markdown, with each number of clients held beside the best."""
    lines = [
        "| operation | system | clients | operations/s | of the peak | p50 ms | p99 ms | longest ms | server µs/op | user | system "
        "| of the least | client µs/op | fewest : most | begun anew |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for workload in MIXES:
        for name in systems:
            found = {count: result for (what, count, system), result in results.items() if (what, system) == (workload, name)}
            if not found:
                continue
            peak = max(result.rate for result in found.values())
            least = min(result.user + result.system for result in found.values())
            for count, result in sorted(found.items()):
                more, cpu = details[workload, count, name], result.user + result.system
                dearer = f"{cpu / least:.2f} ×" if least else "–"
                lines.append(
                    f"| {MIXES[workload]} | {name} | {count:,} | {result.rate:,.0f} | {100 * result.rate / peak:.0f} % | {result.p50:,.2f} "
                    f"| {result.p99:,.2f} | {more.longest:,.0f} | **{cpu:,.1f}** | {result.user:,.1f} | {result.system:,.1f} | {dearer} "
                    f"| {result.client:,.1f} | {more.fairness:.2f} | {100 * more.retried:.2f} % |"
                )
    return "\n".join(lines) if len(lines) > 2 else ""
