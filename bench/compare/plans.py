"""What is measured with what, in parts: a part starts its systems, fills them, measures round after round, and stops them.

Systems that are idle beside those measured cost memory and some processor time, so a part has those that it compares and no others.
"""

from dataclasses import dataclass, field

from ycsb import core as ycsb


@dataclass
class Part:
    """Systems, and what they are asked."""

    name: str
    systems: list
    workloads: list
    clients: list
    rounds: int
    seconds: int
    # Rows of each of sysbench's tables, or of YCSB's.
    rows: int
    # Numbers of clients of workloads that have others.
    others: dict = field(default_factory=dict)
    # Workloads of systems that do not run all.
    only: dict = field(default_factory=dict)


REPLICATED = ["nines", "processes", "mariadb", "galera"]
BY_ONE = ["oltp_point_select", "oltp_update_non_index", "oltp_insert", "oltp_read_write", "update64"]


def docs(rows):
    """All that docs/benchmarks.md shows of this comparison, in some 40 minutes on two processors."""
    return [
        Part("single rows and transactions", [*REPLICATED, "large", "redis", "echo"],
             ["oltp_point_select", "oltp_update_non_index", "oltp_insert", "oltp_read_write", "point_select_text", "update64"],
             [1, 8, 32], 2, 3, rows, {"point_select_text": [8, 32], "update64": [8]},
             {"large": ["oltp_point_select", "oltp_update_non_index"], "processes": BY_ONE, "galera": BY_ONE}),
        Part("many clients", ["nines", "mariadb", "echo"], ["many_point_select", "many_update", "many_read_write"],
             [8, 32, 64, 256, 1024], 2, 3, rows),
        Part("YCSB", REPLICATED, [f"ycsb_{mix}" for mix in ycsb.MIXES], [8], 2, 5, min(rows, 100_000)),
        Part("TPC-C", REPLICATED, ["tpcc"], [], 2, 5, rows),
        Part("large values and bulk loads", REPLICATED,
             ["values_1k", "values_64k", "bulk_insert", "load_data", "one_commit", "many_commits"], [8], 2, 3, rows),
        Part("native", [], ["native"], [], 1, 1, rows),
    ]


PLANS = {"docs": docs}
