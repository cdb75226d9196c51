// What an application does through mysql2: text and binary protocol, transactions, every type.
// Usage: node connector.mjs HOST PORT
// With DB_USER, DB_PASSWORD and DB_CA in the environment it is that user, over TLS.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import mysql from 'mysql2/promise';

const [host, port] = [process.argv[2], Number(process.argv[3])];
const { DB_USER, DB_PASSWORD, DB_CA } = process.env;
const login = DB_CA
  ? { user: DB_USER, password: DB_PASSWORD, ssl: { ca: fs.readFileSync(DB_CA), rejectUnauthorized: true } }
  : { user: 'root' };
const options = { host, port, ...login, supportBigNumbers: true, bigNumberStrings: true, dateStrings: true };

const columns = [
  ['t', 'TINYINT', -128], ['ut', 'TINYINT UNSIGNED', 255], ['s', 'SMALLINT', -32768],
  ['m', 'MEDIUMINT', 8388607], ['i', 'INT', -2147483648], ['ui', 'INT UNSIGNED', 4294967295],
  ['b', 'BIGINT', '-9223372036854775808'], ['ub', 'BIGINT UNSIGNED', '18446744073709551615'],
  ['f', 'FLOAT', 1.5], ['d', 'DOUBLE', -2.5e-300], ['de', 'DECIMAL(30,10)', '-12345678901234567890.0123456789'],
  ['c', 'CHAR(12)', 'Zürich ☃'], ['v', 'VARCHAR(200)', 'quote\'"\\ emoji 😀'], ['tx', 'TEXT', 'long '.repeat(2000)],
  ['vb', 'VARBINARY(255)', Buffer.from([...Array(255).keys()])], ['bl', 'BLOB', Buffer.alloc(6000, 0xff)],
  ['da', 'DATE', '2024-02-29'], ['ti', 'TIME', '30:01:02'], ['dt', 'DATETIME', '2038-01-20 03:04:05'],
  ['ts', 'TIMESTAMP NULL', '2024-06-01 12:00:00'], ['y', 'YEAR', 2155], ['e', "ENUM('small','large')", 'large'],
  ['n', 'INT', null],
];

const connection = await mysql.createConnection(options);
await connection.query('DROP DATABASE IF EXISTS connect_mysql2');
await connection.query('CREATE DATABASE connect_mysql2');
await connection.changeUser({ database: 'connect_mysql2' });
await connection.query(`CREATE TABLE kinds (id INT AUTO_INCREMENT PRIMARY KEY,
  ${columns.map(([name, kind]) => `\`${name}\` ${kind}`).join(', ')})`);
const names = columns.map(([name]) => `\`${name}\``).join(', ');
const marks = columns.map(() => '?').join(', ');
const values = columns.map(([, , value]) => value);
for (const run of ['query', 'execute']) {
  const [done] = await connection[run](`INSERT INTO kinds (${names}) VALUES (${marks})`, values);
  assert.equal(done.affectedRows, 1);
  assert.equal(done.insertId, run === 'query' ? 1 : 2);
}
for (const run of ['query', 'execute']) {
  const [rows] = await connection[run](`SELECT ${names} FROM kinds WHERE id = ?`, [2]);
  assert.equal(rows.length, 1);
  for (const [name, kind, expected] of columns) {
    assert.deepEqual(rows[0][name], expected, `${run}: ${name} ${kind}`);
  }
}
await connection.beginTransaction();
const [changed] = await connection.execute('UPDATE kinds SET n = ? WHERE id = ?', [7, 1]);
assert.equal(changed.affectedRows, 1);
await connection.rollback();
const [[row]] = await connection.query('SELECT n FROM kinds WHERE id = 1');
assert.equal(row.n, null);
await assert.rejects(connection.query('INSERT INTO kinds (id) VALUES (1)'), { errno: 1062, sqlState: '23000' });
await assert.rejects(connection.execute('SELECT * FROM missing'), { errno: 1146, code: 'ER_NO_SUCH_TABLE' });
await connection.ping();
await connection.end();

const pool = mysql.createPool({ ...options, database: 'connect_mysql2', connectionLimit: 8 });
const counts = await Promise.all([...Array(64)].map(() => pool.query('SELECT COUNT(*) AS n FROM kinds')));
for (const [[{ n }]] of counts) assert.equal(Number(n), 2);
await pool.end();
console.log('mysql2: ok');
