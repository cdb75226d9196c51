-- What a row store is given besides: every foreign key, and the dates that queries ask ranges of.
CREATE INDEX n_regionkey ON nation (n_regionkey);
CREATE INDEX s_nationkey ON supplier (s_nationkey);
CREATE INDEX c_nationkey ON customer (c_nationkey);
CREATE INDEX ps_suppkey ON partsupp (ps_suppkey);
CREATE INDEX o_custkey ON orders (o_custkey);
CREATE INDEX o_orderdate ON orders (o_orderdate);
CREATE INDEX l_partkey_suppkey ON lineitem (l_partkey, l_suppkey);
CREATE INDEX l_suppkey ON lineitem (l_suppkey);
CREATE INDEX l_shipdate ON lineitem (l_shipdate);
CREATE INDEX l_receiptdate ON lineitem (l_receiptdate);
