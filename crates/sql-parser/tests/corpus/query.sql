# The list, literals, names.
SELECT 1
SELECT 1;
select 'a' 'b' "c"
SELECT 'it''s', "say ""x""", 'back\\slash\n\t\0\%\_'
SELECT N'national', n'n', _utf8mb4'x', _latin1 'y' COLLATE latin1_bin, _binary x'00FF', _utf8 b'1'
SELECT x'4D7953514C', 0x4d, X'', b'1010', 0b1, B''
SELECT 1.5, .5, 5., 1e10, 1.5E-3, .5e+2, 18446744073709551615, 18446744073709551616, 007
SELECT TRUE, FALSE, NULL, \N
SELECT DATE '2020-01-01', TIME'10:00:00', TIMESTAMP '2020-01-01 10:00:00.5', {d '2020-01-01'}, {t '10:00'}, {ts '2020-01-01 00:00:00'}
SELECT {fn now()}
SELECT *, a FROM t
SELECT t.*, db.t.*, a FROM t, db.t
SELECT a x, b AS y, c 'z', d AS "w", e AS `v``v`
SELECT `select`, `a``b`, t.select, db.t.from FROM t
SELECT _foo, _bar.baz, $a, a$b, ünïcode, `日本` FROM `日本`.ü
SELECT 1a.2b, t.3c, 4d FROM 1a
SELECT account, action, begin, bit, bool, cache, comment, commit, date, day, end, engine, event, first FROM t
SELECT now, count, sum, min, max, substr, cast, trim, position, curdate, date_add FROM t
SELECT count, t.count FROM count
SELECT @a, @`b c`, @'d', @"e", @a.b, @_x, @1
SELECT @@version, @@global.max_connections, @@session.sql_mode, @@local.autocommit, @@persist.x, @@hot_cache.key_buffer_size, @@`sql_mode`
SELECT @@version_comment LIMIT 1
SELECT @a := 1, @b := @a + 1, (@c := 5) * 2
SELECT ?, ? + ? FROM t WHERE a = ? AND b IN (?, ?) LIMIT ?, ?
SELECT a FROM t LIMIT ? OFFSET ?
SELECT DISTINCT a FROM t
SELECT ALL a FROM t
SELECT DISTINCTROW HIGH_PRIORITY STRAIGHT_JOIN SQL_SMALL_RESULT SQL_BIG_RESULT SQL_BUFFER_RESULT SQL_NO_CACHE SQL_CALC_FOUND_ROWS a FROM t
SELECT /*+ MAX_EXECUTION_TIME(1000) NO_INDEX_MERGE(t) */ a FROM t
SELECT /* plain */ a # line
SELECT a -- to the end
SELECT 1 /*! + 1 */ /*!80000 + 2 */ /*!99999 + 4 */
SELECT /*!40001 SQL_NO_CACHE */ * FROM `t`
SELECT 1--1
SELECT 1 FROM DUAL WHERE 1
SELECT a+b*c, -a, +a, - -a, ~a, !a, NOT a, -1, - 1 FROM t
# Clauses.
SELECT a, COUNT(*) FROM t WHERE a > 1 GROUP BY a HAVING COUNT(*) > 2 ORDER BY a DESC, 2 ASC LIMIT 10
SELECT a, b, SUM(c) FROM t GROUP BY a, b WITH ROLLUP
SELECT GROUPING(a), a FROM t GROUP BY a WITH ROLLUP HAVING GROUPING(a) = 0
SELECT a FROM t ORDER BY a + 1, FIELD(a, 3, 1, 2) LIMIT 5 OFFSET 10
SELECT a FROM t LIMIT 10, 5
SELECT a FROM t FOR UPDATE
SELECT a FROM t FOR SHARE
SELECT a FROM t LOCK IN SHARE MODE
SELECT a FROM t1, t2 FOR UPDATE OF t1 NOWAIT FOR SHARE OF t2 SKIP LOCKED
SELECT a, b INTO @a, @b FROM t
SELECT a, b FROM t INTO @a, @b
SELECT a FROM t FOR UPDATE INTO @a
SELECT a INTO local_variable FROM t
SELECT * INTO OUTFILE '/tmp/x' FROM t
SELECT * FROM t INTO OUTFILE '/tmp/x' CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '"' ESCAPED BY '\\' LINES STARTING BY '>' TERMINATED BY '\n'
SELECT a INTO DUMPFILE '/tmp/x' FROM t
SELECT a FROM t WINDOW w AS (PARTITION BY a ORDER BY b), w2 AS (w ROWS UNBOUNDED PRECEDING)
# FROM.
SELECT * FROM t AS x
SELECT * FROM t x, u y
SELECT * FROM db.t
SELECT * FROM t PARTITION (p0, p1) AS x
SELECT * FROM t USE INDEX (a, b) IGNORE INDEX FOR ORDER BY (c) WHERE a = 1
SELECT * FROM t FORCE INDEX (PRIMARY)
SELECT * FROM t USE KEY () WHERE a
SELECT * FROM t FORCE KEY FOR JOIN (a) IGNORE KEY FOR GROUP BY (b)
SELECT * FROM a JOIN b ON a.x = b.x
SELECT * FROM a INNER JOIN b USING (x, y)
SELECT * FROM a CROSS JOIN b
SELECT * FROM a JOIN b JOIN c ON b.x = c.x ON a.x = b.x
SELECT * FROM a JOIN b JOIN c ON b.x = c.x
SELECT * FROM a JOIN b JOIN c JOIN d
SELECT * FROM a LEFT JOIN b ON a.x = b.x
SELECT * FROM a LEFT OUTER JOIN b ON 1 RIGHT JOIN c USING (x)
SELECT * FROM a LEFT JOIN b LEFT JOIN c ON b.x = c.x ON a.x = b.x
SELECT * FROM a NATURAL JOIN b NATURAL LEFT JOIN c NATURAL RIGHT OUTER JOIN d NATURAL INNER JOIN e
SELECT * FROM a STRAIGHT_JOIN b ON a.x = b.x STRAIGHT_JOIN c
SELECT * FROM a LEFT JOIN (b, c) ON a.x = b.x AND a.y = c.y
SELECT * FROM a LEFT JOIN (b JOIN c ON b.x = c.x) ON a.x = b.x
SELECT * FROM (a, b)
SELECT * FROM (a)
SELECT * FROM ((a JOIN b ON 1) JOIN c ON 2)
SELECT * FROM a, b JOIN c ON b.x = c.x, d
SELECT * FROM {OJ a LEFT OUTER JOIN b ON a.x = b.x}
SELECT * FROM (SELECT 1 AS a) AS d
SELECT * FROM (SELECT 1, 2) d (x, y)
SELECT * FROM ((SELECT 1) UNION (SELECT 2)) d
SELECT * FROM ((SELECT 1)) d
SELECT * FROM ((SELECT 1 AS a) AS x JOIN (SELECT 2 AS b) AS y)
SELECT * FROM (VALUES ROW(1, 2), ROW(3, 4)) v
SELECT * FROM t, LATERAL (SELECT t.a + 1 AS b) l
SELECT * FROM t JOIN LATERAL (SELECT * FROM u WHERE u.a = t.a LIMIT 1) AS l ON TRUE
SELECT * FROM JSON_TABLE('[1,2]', '$[*]' COLUMNS (id FOR ORDINALITY, v INT PATH '$')) AS jt
SELECT * FROM t, JSON_TABLE(t.doc, '$.a[*]' COLUMNS (a VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$.x' DEFAULT '"d"' ON EMPTY ERROR ON ERROR, b INT EXISTS PATH '$.y', NESTED PATH '$.z[*]' COLUMNS (c DECIMAL(10,2) PATH '$' NULL ON EMPTY NULL ON ERROR, NESTED '$.q' COLUMNS (d JSON PATH '$')))) jt
# Subqueries.
SELECT (SELECT 1), (SELECT a FROM t LIMIT 1) + 1
SELECT ((SELECT 1)), (((SELECT 1)) + 1), ((1) + (2))
SELECT ((SELECT 1) UNION (SELECT 2) LIMIT 1)
SELECT EXISTS (SELECT * FROM t), NOT EXISTS (SELECT 1)
SELECT * FROM t WHERE a IN (SELECT b FROM u) AND c NOT IN ((SELECT d FROM v))
SELECT * FROM t WHERE a = ANY (SELECT b FROM u) OR a > ALL (SELECT b FROM u) OR a <> SOME (SELECT 1)
SELECT * FROM t WHERE (a, b) IN (SELECT c, d FROM u)
SELECT * FROM t WHERE (a, b) = (1, 2) AND ROW(a, b) < ROW(3, 4) AND (a, b) IN ((1, 2), (3, 4))
SELECT * FROM t WHERE (SELECT COUNT(*) FROM u WHERE u.a = t.a) > 1
SELECT * FROM t WHERE a IN ((SELECT 1) + 1, 2)
SELECT any(1), some(2) FROM t WHERE a = any
# Set operations.
SELECT 1 UNION SELECT 2
SELECT 1 UNION ALL SELECT 2 UNION DISTINCT SELECT 3
SELECT 1 UNION SELECT 2 INTERSECT SELECT 3 EXCEPT SELECT 4
SELECT 1 INTERSECT ALL SELECT 2 INTERSECT SELECT 3
(SELECT 1) UNION (SELECT 2) ORDER BY 1 LIMIT 1
(SELECT 1 LIMIT 1) UNION ALL (SELECT 2 ORDER BY 1)
((SELECT 1 UNION SELECT 2) EXCEPT SELECT 3) ORDER BY 1
(SELECT 1)
((SELECT 1))
(SELECT 1) LIMIT 1
(SELECT 1 LIMIT 2) LIMIT 1
(SELECT a FROM t ORDER BY a LIMIT 2) ORDER BY a DESC
SELECT 1 UNION (SELECT 2 UNION ALL SELECT 3)
SELECT a FROM t UNION TABLE u UNION VALUES ROW(1), ROW(2)
SELECT 1 UNION SELECT 2 FOR UPDATE
TABLE t
TABLE db.t ORDER BY a LIMIT 10
VALUES ROW(1, 'a'), ROW(2, DEFAULT)
VALUES ROW(1), ROW(2) ORDER BY column_0 LIMIT 1
# WITH.
WITH c AS (SELECT 1) SELECT * FROM c
WITH c (a, b) AS (SELECT 1, 2), d AS (SELECT * FROM c) SELECT * FROM d JOIN c
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10) SELECT * FROM n
WITH c AS (SELECT 1) (SELECT * FROM c) ORDER BY 1
SELECT * FROM (WITH c AS (SELECT 1) SELECT * FROM c) d
SELECT (WITH c AS (SELECT 1 AS a) SELECT a FROM c)
WITH c AS (TABLE t) UPDATE t JOIN c ON t.a = c.a SET t.b = 1
WITH c AS (SELECT 1 AS a) DELETE FROM t WHERE a IN (SELECT a FROM c)
# Known programs.
SELECT c FROM sbtest1 WHERE id=?
SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?
SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c
SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, avg(l_discount) AS avg_disc, count(*) AS count_order FROM lineitem WHERE l_shipdate <= date '1998-12-01' - interval '90' day GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus
SELECT o_orderpriority, count(*) AS order_count FROM orders WHERE o_orderdate >= date '1993-07-01' AND o_orderdate < date '1993-07-01' + interval '3' month AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate) GROUP BY o_orderpriority
SELECT cntrycode, count(*) FROM (SELECT substring(c_phone from 1 for 2) AS cntrycode, c_acctbal FROM customer WHERE substring(c_phone from 1 for 2) IN ('13', '31') AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)) AS custsale GROUP BY cntrycode
SELECT VERSION(), @@sql_mode, @@default_storage_engine, @@sql_auto_is_null, @@lower_case_table_names, CONVERT_TZ('2001-01-01 01:00:00','UTC','UTC') IS NOT NULL
/* mysql-connector-j */SELECT @@session.auto_increment_increment AS auto_increment_increment, @@character_set_client AS character_set_client, @@init_connect AS init_connect, @@transaction_isolation AS transaction_isolation
SELECT WORD FROM INFORMATION_SCHEMA.KEYWORDS WHERE RESERVED=1 ORDER BY WORD
SELECT TABLE_NAME, TABLE_COMMENT FROM information_schema.`TABLES` WHERE TABLE_SCHEMA = DATABASE() AND TABLE_TYPE IN ('BASE TABLE', 'VIEW')
SELECT kc.`constraint_name`, kc.`column_name` FROM information_schema.key_column_usage AS kc WHERE kc.table_schema = DATABASE() AND kc.table_name = 't' ORDER BY kc.`ordinal_position`
# Optimizer hints.
SELECT /*+ BKA(t1) NO_BKA(t2, t3@qb) bnl() NO_BNL(@qb) HASH_JOIN(@`q 1` t1, t2) NO_HASH_JOIN(t) */ 1
SELECT /*+ MERGE(d) NO_MERGE(d@a) DERIVED_CONDITION_PUSHDOWN() NO_DERIVED_CONDITION_PUSHDOWN(@q d) */ 1
SELECT /*+ INDEX(t) NO_INDEX(t PRIMARY, `k 2`) JOIN_INDEX(@q t k) NO_JOIN_INDEX(t@q k) GROUP_INDEX(t k) */ 1 FROM t
SELECT /*+ NO_GROUP_INDEX(t k) ORDER_INDEX(t k) NO_ORDER_INDEX(t) MRR(t k) NO_MRR(t) NO_ICP(t) */ a FROM t
SELECT /*+ NO_RANGE_OPTIMIZATION(t k) SKIP_SCAN(t k) NO_SKIP_SCAN(t) INDEX_MERGE(t k) NO_INDEX_MERGE(t) */ a FROM t
SELECT /*+ JOIN_FIXED_ORDER() JOIN_ORDER(a, b@q) JOIN_PREFIX(@q a, b) JOIN_SUFFIX(b) JOIN_FIXED_ORDER(@q) */ 1
SELECT /*+ SEMIJOIN() NO_SEMIJOIN(@q FIRSTMATCH, loosescan) SUBQUERY(@q INTOEXISTS) SUBQUERY(MATERIALIZATION) */ 1
SELECT /*+ QB_NAME(a) MAX_EXECUTION_TIME(1000) RESOURCE_GROUP(g) SET_VAR(a = 16M) SET_VAR(b='x\'y') SET_VAR(c=on) */ 1
SELECT /*+ SET_VAR(a = 1.5) SET_VAR(`b c` = `d`) SET_VAR(e=1e3) */ 1 UNION SELECT /*+ QB_NAME(b) */ 2
SELECT /*+ BKA(t) BOGUS(t) */ a FROM (SELECT /*+ QB_NAME(`a``b`) */ 1 AS a) t WHERE a IN (SELECT /*+ NO_INDEX(u) */ b FROM u)
WITH w AS (SELECT /*+ QB_NAME(w) */ 1) SELECT /*+ NO_MERGE(w) */ * FROM w
INSERT /*+ SET_VAR(foreign_key_checks = OFF) */ INTO t SELECT /*+ NO_INDEX(u k) */ a FROM u
REPLACE /*+ SET_VAR(unique_checks = 0) */ INTO t VALUES (1)
UPDATE /*+ INDEX(t k) QB_NAME(u) */ t SET a = 1 WHERE b IN (SELECT /*+ JOIN_ORDER(u@u) */ 1)
DELETE /*+ NO_INDEX(t PRIMARY) */ FROM t WHERE a = 1
