#!/usr/bin/env python3
"""OLTP beside background work: what is left of its rate and of its times.

    cargo xtask bench steady                       # builds what it needs; or by hand: python3 bench/steady/steady.py
    cargo xtask bench steady --quick               # fewer rows and rounds, for a look

A cluster of processes (management node, two data nodes with two replicas on disk, SQL node) serves sysbench's statements from one
load generator. Two loads are measured for each mix: the saturated one (each client goes on at once), and an open loop (operations
arrive by a fixed schedule at half of that rate, and a time counts from the scheduled arrival). Each is measured alone, and beside
each background work until that has ended. A round whose machine was not quiet, by a probe of both CPUs before and after, is
measured again. Printed are medians of the rounds: a Markdown table and, with --plot, a picture.
"""

import argparse
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import plot  # noqa: E402
import servers  # noqa: E402
import works  # noqa: E402

MIXES = ["point_select", "update", "read_write"]
LOADS = ["half", "saturated"]
# Of one mix, load and work: rates are operations per second, times milliseconds; `seconds` is what the work took, `alone` what it takes
# without any load.
Result = namedtuple("Result", "rate rate_alone p50 p99 p99_9 longest p99_alone seconds alone errors")


class Cluster(servers.NinesProcesses):
    """The cluster that is measured; knows how to restart a data node."""

    def __init__(self, directory, binary, memory):
        super().__init__("nines", directory, binary, memory)

    def restart_data_node(self):
        """Kills a data node, starts it again, waits until it has all its rows."""
        at = 2
        self.processes[at].send_signal(signal.SIGKILL)
        self.processes[at].wait()
        self.start_again(at)
        until = time.monotonic() + servers.PATIENCE * 5
        # It is not missed at once: first the group has to be incomplete, or the wait would be over before it began.
        while self.complete() and time.monotonic() < until - servers.PATIENCE * 5 + 2:
            time.sleep(0.02)
        while not self.complete():
            if time.monotonic() > until:
                raise SystemExit("the data node does not come back")
            time.sleep(0.1)


class Load:
    """The load generator, in sections."""

    def __init__(self, options, cluster, mix, rate):
        command = [
            options.load_generator, "--sections", f"--socket={cluster.socket}", f"--mix={mix}", f"--clients={options.clients}",
            f"--rows={options.rows}", "--warm-up=2", *(f"--pid={process.pid}" for process in cluster.processes[:2] + cluster.processes[3:]),
        ]
        if rate:
            command.append(f"--rate={rate}")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(2.5)
        self.section()

    def section(self):
        """Ends the section: its figures."""
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise Failed(self.process.stderr.read().strip() or "the load generator has ended")
        return json.loads(line)

    def stop(self):
        """Ends the load."""
        try:
            self.process.communicate("", timeout=60)
        except (subprocess.TimeoutExpired, ValueError):
            self.process.kill()
            self.process.wait()


class Failed(Exception):
    """The load or the work has failed; why."""


def spin(seconds, told):
    """How often a CPU goes round in so many seconds."""
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for _ in range(2_000):
            count += 1
    told.put(count)


def probe():
    """What all CPUs together do in a moment, and the share of time that the hypervisor took."""
    before, told = steal(), multiprocessing.Queue()
    spinners = [multiprocessing.Process(target=spin, args=(0.3, told)) for _ in range(os.cpu_count())]
    for spinner in spinners:
        spinner.start()
    count = sum(told.get() for _ in spinners)
    for spinner in spinners:
        spinner.join()
    after = steal()
    return count, (after[0] - before[0]) / max(after[1] - before[1], 1)


def steal():
    """Ticks that were stolen, and all."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    return fields[7], sum(fields[:8])


def is_quiet(before, after):
    """Whether two probes differ by less than 5 %, and little was stolen."""
    return abs(before[0] - after[0]) < 0.05 * max(before[0], after[0]) and max(before[1], after[1]) < 0.05


def beside(options, cluster, load, work):
    """Runs a work beside a load: figures of the load before and meanwhile, and how long the work took."""
    work.prepare(cluster)
    load.section()
    time.sleep(options.seconds)
    alone = load.section()
    began = time.monotonic()
    wrong = work.run(cluster)
    seconds = time.monotonic() - began
    # A work that ends at once is looked at a little longer: what it has left behind counts too.
    time.sleep(max(0, options.least - seconds))
    figures = load.section()
    work.clean(cluster)
    if wrong:
        raise Failed(wrong)
    return alone, figures, seconds


def measure(options, cluster, mix, name, rate, work, without):
    """A round, repeated until the machine was quiet, some times at most."""
    for _ in range(options.tries):
        before = probe()
        load = Load(options, cluster, mix, rate if name == "half" else None)
        try:
            alone, figures, seconds = beside(options, cluster, load, work)
        finally:
            load.stop()
        if is_quiet(before, probe()):
            break
        print(f"  {mix} {name} beside {work.name}: the machine was not quiet", file=sys.stderr)
    errors = sum(int(count) for key, count in figures.items() if key.startswith("error_"))
    return Result(
        figures["rate"], alone["rate"], figures["p50"], figures["p99"], figures["p99_9"], figures["longest"], alone["p99"], seconds, without, errors,
    )


def saturated_rate(options, cluster, mix):
    """Operations per second when each client goes on at once."""
    load = Load(options, cluster, mix, None)
    try:
        time.sleep(options.seconds)
        return load.section()["rate"]
    finally:
        load.stop()


def median(results):
    """The median of each figure."""
    return Result(*(statistics.median(values) for values in zip(*results)))


def table(medians):
    """The figures as Markdown; what misses the budget is in bold."""
    lines = [
        "| mix | load | beside | operations/s | rate kept | p50 ms | p99 ms | p99 of that alone | p99.9 ms | longest ms | the work: s | of that alone | retried |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (mix, load, work), found in medians.items():
        kept, slower, longer = found.rate / found.rate_alone, found.p99 / found.p99_alone, found.seconds / max(found.alone, 0.001)
        mark = lambda text, misses: f"**{text}**" if misses else text
        lines.append(
            f"| {mix} | {load} | {work} | {found.rate:,.0f} | {mark(f'{100 * kept:.0f} %', kept < 0.5)} | {found.p50:.2f} | {found.p99:.2f} "
            f"| {mark(f'{slower:.1f}', slower > 2)} | {found.p99_9:.1f} | {found.longest:,.0f} | {found.seconds:.1f} | {mark(f'{longer:.1f}', longer > 3)} "
            f"| {found.errors:.0f} |"
        )
    return "\n".join(lines)


def options_of(arguments):
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nines", required=True, help="the program")
    parser.add_argument("--load-generator", required=True, help="the load generator")
    parser.add_argument("--rows", type=int, default=4_000_000, help="rows of the table that is read and written [4,000,000]")
    parser.add_argument("--work-rows", type=int, default=4_000_000, help="rows of the table that background works are about [4,000,000]")
    parser.add_argument("--tables", type=int, default=2_000, help="tables that are there when definitions change [2,000]")
    parser.add_argument("--memory", default="4G", help="data memory of each data node [4G]")
    parser.add_argument("--clients", type=int, default=8, help="connections of the load [8]")
    parser.add_argument("--seconds", type=float, default=5, help="how long a load is measured alone [5]")
    parser.add_argument("--least", type=float, default=3, help="how long it is measured beside a work, at least [3]")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, of which medians are shown [5]")
    parser.add_argument("--tries", type=int, default=3, help="how often a round is measured that was not quiet [3]")
    parser.add_argument("--mixes", default=",".join(MIXES), help="of point_select, update, read_write")
    parser.add_argument("--loads", default=",".join(LOADS), help="of half, saturated")
    parser.add_argument("--works", default=",".join(works.NAMES), help=f"of {', '.join(works.NAMES)}")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the rows, one round, 2 s")
    parser.add_argument("--json", help="a file for all results")
    parser.add_argument("--plot", help="a file for the picture, SVG")
    parser.add_argument("--check", action="store_true", help="end with an error if a budget is missed")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rows, options.work_rows, options.tables = options.rows // 20, options.work_rows // 20, options.tables // 10
        options.rounds, options.seconds, options.memory = 1, 2, "1G"
    return options


def main():
    options = options_of(sys.argv[1:])
    results = {}
    with tempfile.TemporaryDirectory(prefix="nines-steady-") as directory:
        cluster = Cluster(directory, options.nines, options.memory)
        try:
            began = time.monotonic()
            works.fill(cluster, options)
            print(f"filled in {time.monotonic() - began:.0f} s", file=sys.stderr)
            chosen = [works.named(name, options) for name in options.works.split(",")]
            without = {}
            for work in chosen:
                work.prepare(cluster)
                began = time.monotonic()
                wrong = work.run(cluster)
                without[work.name] = time.monotonic() - began
                work.clean(cluster)
                print(f"{work.name} alone: {without[work.name]:.1f} s {wrong or ''}", file=sys.stderr)
            for turn in range(options.rounds):
                for mix in options.mixes.split(","):
                    rate = int(saturated_rate(options, cluster, mix) / 2)
                    for name in options.loads.split(","):
                        for work in chosen:
                            try:
                                found = measure(options, cluster, mix, name, rate, work, without[work.name])
                            except Failed as failed:
                                print(f"  {mix} {name} beside {work.name}: {failed}", file=sys.stderr)
                                continue
                            results.setdefault((mix, name, work.name), []).append(found)
                            print(f"  round {turn + 1}: {mix} {name} beside {work.name}: {found}", file=sys.stderr)
        finally:
            cluster.stop()
    medians = {key: median(found) for key, found in results.items()}
    print(table(medians))
    if options.json:
        Path(options.json).write_text(json.dumps([[*key, [found._asdict() for found in all_found]] for key, all_found in results.items()]))
    if options.plot:
        Path(options.plot).write_text(plot.steady(medians))
    missed = [key for key, found in medians.items() if found.rate < 0.5 * found.rate_alone or found.p99 > 2 * found.p99_alone]
    if options.check and missed:
        raise SystemExit(f"a budget is missed: {', '.join(' '.join(key) for key in missed)}")


if __name__ == "__main__":
    main()
