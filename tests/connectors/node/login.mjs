// Logs in through mysql2 and says over what.
// Usage: node login.mjs HOST PORT USER PASSWORD TLS; TLS is `off`, `on`, or an authority's file.

import fs from 'node:fs';
import mysql from 'mysql2/promise';

const [host, port, user, password, tls] = process.argv.slice(2);
const options = { host, port: Number(port), user, password };
if (tls === 'on') options.ssl = { rejectUnauthorized: false };
else if (tls !== 'off') options.ssl = { ca: fs.readFileSync(tls), rejectUnauthorized: true };

try {
  const connection = await mysql.createConnection(options);
  const [[{ user: current }]] = await connection.query('SELECT CURRENT_USER() AS user');
  const [[{ Value: cipher }]] = await connection.query("SHOW STATUS LIKE 'Ssl_cipher'");
  console.log('user', current, 'cipher', cipher || '-');
  await connection.end();
} catch (error) {
  console.log('refused', error.errno ?? error.message);
}
