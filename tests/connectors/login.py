"""Logs in through a Python driver and says over what.

Usage: login.py DRIVER HOST PORT USER PASSWORD TLS; DRIVER is pymysql, mysqlclient or
mysql.connector, TLS is `off`, `on`, or the file of an authority that has signed the server's
certificate. Prints CURRENT_USER() and the cipher; a refusal by its number.
"""

import sys

DRIVER, HOST, PORT, USER, PASSWORD, TLS = sys.argv[1:]
where = {"host": HOST, "port": int(PORT), "user": USER, "password": PASSWORD}

if DRIVER == "pymysql":
    import pymysql as driver
    from pymysql import err as errors

    if TLS == "off":
        where["ssl_disabled"] = True
    elif TLS == "on":
        where["ssl"] = {"check_hostname": False, "verify_mode": False}
    else:
        where.update(ssl_ca=TLS, ssl_verify_cert=True, ssl_verify_identity=True)
elif DRIVER == "mysqlclient":
    import MySQLdb as driver
    import MySQLdb as errors

    if TLS == "on":
        where["ssl"] = {"cipher": "TLS_AES_256_GCM_SHA384"}
    elif TLS != "off":
        where["ssl"] = {"ca": TLS}
else:
    import mysql.connector as driver
    from mysql.connector import errors

    if TLS == "off":
        where["ssl_disabled"] = True
    elif TLS != "on":
        where.update(ssl_ca=TLS, ssl_verify_cert=True, ssl_verify_identity=True)

try:
    connection = driver.connect(**where)
except errors.Error as error:
    print("refused", error.args[0])
    sys.exit(0)
cursor = connection.cursor()
cursor.execute("SELECT CURRENT_USER()")
(user,) = cursor.fetchone()
cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
_, cipher = cursor.fetchone()
print("user", user, "cipher", cipher or "-")
