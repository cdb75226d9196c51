// What an application does through go-sql-driver: text and binary protocol, transactions, types.
// Usage: connector HOST PORT
// With DB_USER, DB_PASSWORD and DB_CA in the environment it is that user, over TLS.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

func fail(what string, args ...any) {
	fmt.Fprintf(os.Stderr, "go-sql-driver: "+what+"\n", args...)
	os.Exit(1)
}

func must(err error, what string) {
	if err != nil {
		fail("%s: %v", what, err)
	}
}

func exec(db interface {
	Exec(string, ...any) (sql.Result, error)
}, statement string, args ...any) sql.Result {
	result, err := db.Exec(statement, args...)
	must(err, statement)
	return result
}

func main() {
	address, encryption := fmt.Sprintf("root@tcp(%s:%s)/", os.Args[1], os.Args[2]), "false"
	if authority := os.Getenv("DB_CA"); authority != "" {
		verify(authority)
		encryption = "ours"
		who := os.Getenv("DB_USER") + ":" + os.Getenv("DB_PASSWORD")
		address = fmt.Sprintf("%s@tcp(%s:%s)/", who, os.Args[1], os.Args[2])
	}
	root, err := sql.Open("mysql", address+"?tls="+encryption)
	must(err, "open")
	exec(root, "DROP DATABASE IF EXISTS connect_go")
	exec(root, "CREATE DATABASE connect_go")
	must(root.Close(), "close")
	for _, interpolate := range []bool{false, true} {
		dsn := fmt.Sprintf("%sconnect_go?parseTime=true&interpolateParams=%v&tls=%s", address, interpolate, encryption)
		db, err := sql.Open("mysql", dsn)
		must(err, "open")
		kinds(db, interpolate)
		transactions(db)
		must(db.Close(), "close")
	}
	fmt.Println("go-sql-driver: ok")
}

// Has certificates verified by an authority's file, under the name `ours`.
func verify(authority string) {
	file, err := os.ReadFile(authority)
	must(err, "authority")
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(file) {
		fail("no certificate in %s", authority)
	}
	must(mysql.RegisterTLSConfig("ours", &tls.Config{RootCAs: pool}), "tls")
}

func kinds(db *sql.DB, interpolate bool) {
	exec(db, "DROP TABLE IF EXISTS kinds")
	exec(db, `CREATE TABLE kinds (id BIGINT AUTO_INCREMENT PRIMARY KEY, b BIGINT, ub BIGINT UNSIGNED,
		d DOUBLE, de DECIMAL(30,10), v VARCHAR(200), bl BLOB, dt DATETIME(6), da DATE, n INT, e ENUM('x','y'))`)
	when := time.Date(2038, 1, 20, 3, 4, 5, 678901000, time.UTC)
	day := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
	blob := bytes.Repeat([]byte{0, 255}, 3000)
	result := exec(db, "INSERT INTO kinds (b, ub, d, de, v, bl, dt, da, n, e) VALUES (?,?,?,?,?,?,?,?,?,?)",
		int64(-9223372036854775808), "18446744073709551615", 2.5e-300, "-12345678901234567890.0123456789",
		"quote'\"\\ 😀", blob, when, day, nil, "y")
	if id, _ := result.LastInsertId(); id != 1 {
		fail("last insert id %d", id)
	}
	var b int64
	var ub uint64
	var d float64
	var de, v, e string
	var bl []byte
	var dt, da time.Time
	var n sql.NullInt64
	row := db.QueryRow("SELECT b, ub, d, de, v, bl, dt, da, n, e FROM kinds WHERE id = ?", 1)
	must(row.Scan(&b, &ub, &d, &de, &v, &bl, &dt, &da, &n, &e), "scan")
	if b != -9223372036854775808 || ub != 18446744073709551615 || d != 2.5e-300 ||
		de != "-12345678901234567890.0123456789" || v != "quote'\"\\ 😀" || !bytes.Equal(bl, blob) ||
		!dt.Equal(when) || !da.Equal(day) || n.Valid || e != "y" {
		fail("interpolate %v: a value came back changed: %v %v %v %v %v %v %v %v %v", interpolate, b, ub, d, de, v, dt, da, n, e)
	}
}

func transactions(db *sql.DB) {
	exec(db, "DROP TABLE IF EXISTS accounts")
	exec(db, "CREATE TABLE accounts (id INT PRIMARY KEY, cents INT NOT NULL)")
	exec(db, "INSERT INTO accounts VALUES "+strings.Repeat("(0,0),", 0)+"(1,1000),(2,1000),(3,1000)")
	var group sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for done := 0; done < 20; {
				tx, err := db.Begin()
				must(err, "begin")
				_, err = tx.Exec("UPDATE accounts SET cents = cents - 1 WHERE id = ?", 1+done%3)
				if err == nil {
					_, err = tx.Exec("UPDATE accounts SET cents = cents + 1 WHERE id = ?", 1+(done+1)%3)
				}
				if err == nil {
					err = tx.Commit()
				} else {
					_ = tx.Rollback()
				}
				var known *mysql.MySQLError
				if errors.As(err, &known) && (known.Number == 1213 || known.Number == 1205) {
					continue
				}
				must(err, "transfer")
				done++
			}
		}()
	}
	group.Wait()
	var total int
	must(db.QueryRow("SELECT SUM(cents) FROM accounts").Scan(&total), "sum")
	if total != 3000 {
		fail("money was made or lost: %d", total)
	}
	_, err := db.Exec("INSERT INTO accounts VALUES (1, 0)")
	var known *mysql.MySQLError
	if !errors.As(err, &known) || known.Number != 1062 {
		fail("duplicate key: %v", err)
	}
}
