"""The budgets of Nines held beside what a comparison found: the second table of `compare.md`."""

from collections import namedtuple

# What is measured, what it may be, and where it comes from: a function of the results that gives (figure, limit, unit), or
# None where what it needs was not run. A figure above its limit has missed; below, where `least` is set.
Budget = namedtuple("Budget", "text figure least", defaults=[False])
# Clients at which CPU per operation is held against a budget: the median over those that were run.
USUAL = (8, 16, 32, 64)


def cpu(results, workload, system="nines", clients=USUAL):
    """Microseconds of all server processes per operation."""
    found = sorted(r.user + r.system for (what, count, name), r in results.items() if (what, name) == (workload, system) and count in clients)
    return found[len(found) // 2] if found else None


def at_most(workload, limit, system="nines", clients=USUAL):
    """CPU per operation, against a number."""
    def figure(results, _):
        found = cpu(results, workload, system, clients)
        return found and (found, limit, "µs")
    return figure


def share_of(workload, other, limit, clients=USUAL):
    """CPU per operation in proportion to another system's."""
    def figure(results, _):
        ours, theirs = cpu(results, workload, "nines", clients), cpu(results, workload, other, clients)
        return ours and theirs and (ours / theirs, limit, "×")
    return figure


def serial_median(results, _):
    """The median of one client's point selects in proportion to the echo server's."""
    ours, floor = (results.get(("oltp_point_select", 1, name)) for name in ("nines", "echo"))
    return ours and floor and ours.p50 and floor.p50 and (ours.p50 / floor.p50, 1.3, "×")


def kept(workload):
    """Operations a second with the most clients, in hundredths of the best number's."""
    def figure(results, _):
        rates = {count: found.rate for count, found in by_clients(results, workload).items()}
        return rates and (100 * rates[max(rates)] / max(rates.values()), 95, "%")
    return figure


def dearer(workload):
    """CPU per operation with the most clients, in proportion to the number with the least."""
    def figure(results, _):
        costs = {count: found.user + found.system for count, found in by_clients(results, workload).items()}
        return costs and (costs[max(costs)] / min(costs.values()), 1.05, "×")
    return figure


def later(workload):
    """99th percentile for each client with the most clients, in proportion to the number that does the most operations."""
    def figure(results, _):
        found = by_clients(results, workload)
        if not found:
            return None
        most, best = max(found), max(found, key=lambda count: found[count].rate)
        return found[most].p99 / most / (found[best].p99 / best), 1, "×"
    return figure


def by_clients(results, workload):
    """A workload's results by number of clients, if there are enough to say what many do: ten times the best number, or 256 at least."""
    found = {count: r for (what, count, name), r in results.items() if (what, name) == (workload, "nines")}
    return found if len(found) > 2 and max(found) >= 256 else {}


def flat(workload, of):
    """A figure with eight times the rows in proportion to that with the usual number; the median over all numbers of clients."""
    def figure(results, _):
        ratios = sorted(
            of(results[what, count, "large"]) / of(r) for (what, count, name), r in results.items()
            if (what, name) == (workload, "nines") and (what, count, "large") in results
        )
        return ratios and (ratios[len(ratios) // 2], 1.1, "×")
    return figure


def of_rows(results, _):
    """CPU of a row that shares its commit with 9,999 in proportion to that of a row with a commit of its own."""
    one, many = cpu(results, "one_commit", clients=(1,)), cpu(results, "many_commits", clients=(1,))
    return one and many and (one / many, 1, "×")


def row_memory(_, memory):
    """Bytes of a row and replica."""
    return memory.get("nines") and (memory["nines"] / 2, 280, "bytes")


def bulk(results, _):
    """Thousands of rows per second of one core."""
    found = cpu(results, "bulk_insert", clients=(1,))
    return found and (1e3 / found, 200, "K/s")


def native(operation, limit):
    """Thousands of operations per second of one core, through the client library."""
    return lambda figures: operation in figures and (figures[operation] / 1e3, limit, "K/s")


# Figures of the client library, by the name of the operation.
NATIVE = [
    Budget("native API, key reads in batches of 100", native("read by key, 100 at a time", 500), least=True),
    Budget("native API, key updates in batches of 100", native("update by key, 100 in a transaction", 100), least=True),
]
# What many clients do, and the workload of it.
MANY = {"point selects": "many_point_select", "updates": "many_update", "read-write transactions": "many_read_write"}
BUDGETS = [
    Budget("point select", at_most("oltp_point_select", 10)),
    Budget("point select as text", at_most("point_select_text", 10)),
    Budget("point select, of the echo server's", share_of("oltp_point_select", "echo", 1.5)),
    Budget("point select, of MariaDB's with one copy", share_of("oltp_point_select", "mariadb", 0.5)),
    Budget("update_non_index, autocommit", at_most("oltp_update_non_index", 30)),
    Budget("update_non_index, of two-node Galera's", share_of("oltp_update_non_index", "galera", 1 / 7)),
    Budget("update_non_index, of MariaDB's with one copy", share_of("oltp_update_non_index", "mariadb", 1)),
    Budget("insert, autocommit", at_most("oltp_insert", 40)),
    Budget("oltp_read_write, a transaction", at_most("oltp_read_write", 400)),
    Budget("oltp_read_write, of two-node Galera's", share_of("oltp_read_write", "galera", 1 / 3)),
    Budget("oltp_read_write, of MariaDB's with one copy", share_of("oltp_read_write", "mariadb", 0.5)),
    Budget("rows of multi-row INSERTs per core", bulk, least=True),
    Budget("p50 of a serial point select, of the echo server's", serial_median),
    *(line for what, workload in MANY.items() for line in (
        Budget(f"{what} kept with the most clients, of the peak", kept(workload), least=True),
        Budget(f"CPU of {what} with the most clients, of the least", dearer(workload)),
        Budget(f"p99 of {what} with the most clients, for each, of the peak's", later(workload)),
    )),
    Budget("p50 of a point select with eight times the rows", flat("oltp_point_select", lambda r: r.p50)),
    Budget("CPU of a point select with eight times the rows", flat("oltp_point_select", lambda r: r.user + r.system)),
    Budget("p50 of an update with eight times the rows", flat("oltp_update_non_index", lambda r: r.p50)),
    Budget("CPU of an update with eight times the rows", flat("oltp_update_non_index", lambda r: r.user + r.system)),
    Budget("a row of a commit of 10,000, of a row committed alone", of_rows),
    Budget("memory per sysbench row and replica", row_memory),
    Budget("point select, four processes, 32 clients", at_most("oltp_point_select", 16, "processes", (32,))),
    Budget("update_non_index, four processes, 32 clients", at_most("oltp_update_non_index", 45, "processes", (32,))),
    Budget("New-Order and what goes with it", at_most("tpcc", 1_500, clients=(4, 16))),
]


def table(results, memory, of_native):
    """The budgets whose figures are there, as Markdown."""
    lines = ["| measure | budget | found | |", "|---|---|---|---|"]
    all_found = [(budget, budget.figure(results, memory)) for budget in BUDGETS]
    all_found += [(budget, budget.figure(of_native)) for budget in NATIVE]
    for budget, found in all_found:
        if not found:
            continue
        figure, limit, unit = found
        is_met = figure >= limit if budget.least else figure <= limit
        text = f"{figure:,.2f}" if unit == "×" else f"{figure:,.0f}" if figure >= 100 else f"{figure:,.1f}"
        bound = f"{limit:.2f}" if isinstance(limit, float) else f"{limit:,}"
        sign = "≥" if budget.least else "≤"
        lines.append(f"| {budget.text} | {sign} {bound} {unit} | {text} {unit} | {'met' if is_met else '**missed**'} |")
    return "\n".join(lines) if len(lines) > 2 else ""
