"""Reads the binary log with python-mysql-replication, and prints what it finds.

Arguments: host, port, user, password, file, position. With a file `gtid` the position is a set of GTIDs.
"""

import sys

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import GtidEvent, QueryEvent, XidEvent
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

host, port, user, password, file, position = sys.argv[1:]
where = {"host": host, "port": int(port), "user": user, "passwd": password}
if file == "gtid":
    start = {"auto_position": position}
else:
    start = {"log_file": file, "log_pos": int(position), "resume_stream": True}
ROWS = [DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent]
stream = BinLogStreamReader(
    connection_settings=where,
    server_id=4711,
    only_events=[GtidEvent, QueryEvent, XidEvent, *ROWS],
    **start,
)
for event in stream:
    place = f"{stream.log_file}:{stream.log_pos}"
    if isinstance(event, GtidEvent):
        print(place, "GTID", event.gtid)
    elif isinstance(event, QueryEvent):
        print(place, "QUERY", event.query)
    elif isinstance(event, XidEvent):
        print(place, "XID", event.xid)
    else:
        for row in event.rows:
            print(place, type(event).__name__, event.schema, event.table, sorted(row.items()))
stream.close()
print("end")
