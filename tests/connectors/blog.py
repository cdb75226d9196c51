"""What a publishing system in the style of WordPress does through PyMySQL: its tables have keys over
prefixes and zero dates, its statements are those of many plugins and of a SQL mode without
strictness.

Usage: blog.py HOST PORT. Exits with a message and a non-zero status at the first difference.
"""

import sys

import pymysql
from pymysql import err

HOST, PORT = sys.argv[1], int(sys.argv[2])
ZERO = "0000-00-00 00:00:00"
TEXT = "DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci"

TABLES = {
    "blog_users": """
        ID bigint(20) unsigned NOT NULL auto_increment,
        user_login varchar(60) NOT NULL default '',
        user_email varchar(100) NOT NULL default '',
        user_registered datetime NOT NULL default '0000-00-00 00:00:00',
        user_status int(11) NOT NULL default '0',
        PRIMARY KEY  (ID),
        KEY user_login_key (user_login),
        KEY user_email (user_email)""",
    "blog_usermeta": """
        umeta_id bigint(20) unsigned NOT NULL auto_increment,
        user_id bigint(20) unsigned NOT NULL default '0',
        meta_key varchar(255) default NULL,
        meta_value longtext,
        PRIMARY KEY  (umeta_id),
        KEY user_id (user_id),
        KEY meta_key (meta_key(191))""",
    "blog_posts": """
        ID bigint(20) unsigned NOT NULL auto_increment,
        post_author bigint(20) unsigned NOT NULL default '0',
        post_date datetime NOT NULL default '0000-00-00 00:00:00',
        post_modified datetime NOT NULL default '0000-00-00 00:00:00',
        post_content longtext NOT NULL,
        post_title text NOT NULL,
        post_status varchar(20) NOT NULL default 'publish',
        post_name varchar(200) NOT NULL default '',
        post_parent bigint(20) unsigned NOT NULL default '0',
        post_type varchar(20) NOT NULL default 'post',
        comment_count bigint(20) NOT NULL default '0',
        PRIMARY KEY  (ID),
        KEY post_name (post_name(191)),
        KEY type_status_date (post_type,post_status,post_date,ID),
        KEY post_parent (post_parent),
        KEY post_author (post_author)""",
    "blog_postmeta": """
        meta_id bigint(20) unsigned NOT NULL auto_increment,
        post_id bigint(20) unsigned NOT NULL default '0',
        meta_key varchar(255) default NULL,
        meta_value longtext,
        PRIMARY KEY  (meta_id),
        KEY post_id (post_id),
        KEY meta_key (meta_key(191)),
        KEY meta_value (meta_value(32))""",
    "blog_options": """
        option_id bigint(20) unsigned NOT NULL auto_increment,
        option_name varchar(191) NOT NULL default '',
        option_value longtext NOT NULL,
        autoload varchar(20) NOT NULL default 'yes',
        PRIMARY KEY  (option_id),
        UNIQUE KEY option_name (option_name),
        KEY autoload (autoload)""",
    "blog_terms": """
        term_id bigint(20) unsigned NOT NULL auto_increment,
        name varchar(200) NOT NULL default '',
        slug varchar(200) NOT NULL default '',
        PRIMARY KEY  (term_id),
        KEY slug (slug(191)),
        KEY name (name(191))""",
    "blog_term_relationships": """
        object_id bigint(20) unsigned NOT NULL default 0,
        term_id bigint(20) unsigned NOT NULL default 0,
        term_order int(11) NOT NULL default 0,
        PRIMARY KEY  (object_id,term_id),
        KEY term_id (term_id)""",
    "blog_links": """
        url text NOT NULL,
        rating int(11) NOT NULL default '0',
        UNIQUE KEY url (url(20))""",
}


def check(what, found, expected):
    """Ends the test when `found` is not what it must be."""
    if found != expected:
        sys.exit(f"{what}: found {found!r}, expected {expected!r}")


connection = pymysql.connect(
    host=HOST, port=PORT, user="root", charset="utf8mb4", autocommit=True,
    conv={**pymysql.converters.conversions, 12: str},  # dates as they come: zero dates are no datetime
)
cursor = connection.cursor()


def run(sql, *values):
    """The rows of a statement, or the number of rows it has changed."""
    count = cursor.execute(sql, values or None)
    return list(cursor.fetchall()) if cursor.description else count


def refused(code, sql, *values):
    """Ends the test unless a statement fails with this number."""
    try:
        run(sql, *values)
    except err.MySQLError as error:
        return check(sql, error.args[0], code)
    sys.exit(f"{sql}: went through")


def install():
    """What the system does when it is set up, and when it looks whether its tables are of today."""
    run("CREATE DATABASE blog " + TEXT)
    run("USE blog")
    run("SET NAMES utf8mb4 COLLATE utf8mb4_unicode_520_ci")
    (mode,) = run("SELECT @@SESSION.sql_mode")[0]
    kept = [
        part
        for part in mode.split(",")
        if part not in ("NO_ZERO_DATE", "ONLY_FULL_GROUP_BY", "STRICT_TRANS_TABLES",
                        "STRICT_ALL_TABLES", "NO_ZERO_IN_DATE", "TRADITIONAL", "ANSI")
    ]
    run("SET SESSION sql_mode=%s", ",".join(kept))
    for name, columns in TABLES.items():
        run(f"CREATE TABLE {name} ({columns}) {TEXT}")
    pattern = "blog\\_%"
    check("SHOW TABLES LIKE", [row[0] for row in run("SHOW TABLES LIKE %s", pattern)],
          sorted(TABLES))
    check("another prefix", run("SHOW TABLES LIKE 'blog\\_x%'"), [])
    described = {row[0]: row[1:] for row in run("DESCRIBE blog_postmeta")}
    check("DESCRIBE", described["meta_key"], ("varchar(255)", "YES", "MUL", None, ""))
    check("DESCRIBE", described["meta_id"],
          ("bigint unsigned", "NO", "PRI", None, "auto_increment"))
    full = {row[0]: row for row in run("SHOW FULL COLUMNS FROM blog_posts")}
    check("collation", full["post_title"][2], "utf8mb4_unicode_520_ci")
    check("zero default", full["post_date"][5], ZERO)
    keys = [(row[2], row[4], row[7]) for row in run("SHOW INDEX FROM blog_postmeta")]
    check("SHOW INDEX", keys, [
        ("PRIMARY", "meta_id", None), ("post_id", "post_id", None),
        ("meta_key", "meta_key", 191), ("meta_value", "meta_value", 32),
    ])
    (_, text) = run("SHOW CREATE TABLE blog_postmeta")[0]
    check("SHOW CREATE TABLE", "KEY `meta_value` (`meta_value`(32))" in text, True)


def write():
    """Posts with their metadata, options that are set again and again."""
    posts = [
        ("Straße & Söhne", "strasse", "publish", "2024-01-02 03:04:05"),
        ("100% \\ sure_thing", "sure", "publish", "2024-02-02 00:00:00"),
        ("Entwurf", "entwurf", "draft", ZERO),
    ]
    for title, name, status, date in posts:
        check("a post", run(
            "INSERT INTO blog_posts (post_author, post_date, post_content, post_title, post_status,"
            " post_name) VALUES (1, %s, %s, %s, %s, %s)", date, "x" * 20_000, title, status, name), 1)
    check("LAST_INSERT_ID", cursor.lastrowid, 3)
    # Not strict: what is left out gets its type's zero, what does not fit is cut.
    check("left out", run("INSERT INTO blog_posts (post_title) VALUES ('bare')"), 1)
    check("left out", run("SELECT post_content, post_date FROM blog_posts WHERE post_title='bare'"),
          [("", ZERO)])
    run("UPDATE blog_posts SET post_status = %s WHERE post_name = 'entwurf'", "y" * 40)
    check("cut", run("SELECT LENGTH(post_status) FROM blog_posts WHERE post_name='entwurf'"), [(20,)])
    run("UPDATE blog_posts SET post_modified='2024-13-45' WHERE post_name='entwurf'")
    check("no date", run("SELECT post_modified FROM blog_posts WHERE post_name='entwurf'"), [(ZERO,)])
    for post in (1, 2, 3):
        run("INSERT INTO blog_postmeta (post_id, meta_key, meta_value) VALUES (%s, %s, %s),"
            " (%s, %s, %s)", post, "_edit_last", str(post), post, "_thumb", "v" * 40 + str(post))
    upsert = ("INSERT INTO `blog_options` (`option_name`, `option_value`, `autoload`) VALUES"
              " (%s, %s, %s) ON DUPLICATE KEY UPDATE `option_name` = VALUES(`option_name`),"
              " `option_value` = VALUES(`option_value`), `autoload` = VALUES(`autoload`)")
    check("a new option", run(upsert, "siteurl", "http://one", "yes"), 1)
    check("an option", run(upsert, "siteurl", "http://two", "yes"), 2)
    check("the same", run(upsert, "SITEURL", "http://two", "yes"), 2)
    check("ignored", run("INSERT IGNORE INTO blog_options (option_name, option_value) VALUES"
                         " ('siteurl', 'three'), ('home', 'h')"), 1)
    check("replaced", run("REPLACE INTO blog_options (option_name, option_value) VALUES"
                          " ('home', 'again')"), 2)
    check("options", run("SELECT option_name, option_value FROM blog_options WHERE autoload = 'yes'"
                         " ORDER BY option_name"), [("home", "again"), ("SITEURL", "http://two")])
    check("terms", run("INSERT INTO blog_terms (name, slug) VALUES ('Straße', 'strasse'),"
                       " ('News', 'news')"), 2)
    check("relations", run("INSERT IGNORE INTO blog_term_relationships (object_id, term_id) VALUES"
                           " (1, 1), (1, 2), (2, 2), (1, 1)"), 3)
    run("INSERT INTO blog_links VALUES ('https://example.org/a/1', 1), ('https://example.com', 2)")
    refused(1062, "INSERT INTO blog_links VALUES ('https://example.org/a/2', 3)")


def read():
    """Lists with counts, searches, joins with metadata."""
    rows = run("SELECT SQL_CALC_FOUND_ROWS blog_posts.ID FROM blog_posts WHERE 1=1 AND"
               " blog_posts.post_type = 'post' AND ((blog_posts.post_status = 'publish'))"
               " ORDER BY blog_posts.post_date DESC LIMIT 0, 1")
    check("the newest", rows, [(2,)])
    check("FOUND_ROWS", run("SELECT FOUND_ROWS()"), [(3,)])
    search = "%" + "100% \\ sure_".replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
    check("escaped", run("SELECT ID FROM blog_posts WHERE post_title LIKE %s", search), [(2,)])
    check("any case", run("SELECT ID FROM blog_posts WHERE post_title LIKE '%%SÖHNE%%'" % ()), [(1,)])
    check("ß is ss", run("SELECT term_id FROM blog_terms WHERE name = 'strasse'"), [(1,)])
    check("by name", run("SELECT ID FROM blog_posts WHERE post_name = %s AND post_type = 'post'"
                         " LIMIT 1", "STRASSE"), [(1,)])
    check("zero date", run("SELECT ID FROM blog_posts WHERE post_date = %s ORDER BY ID", ZERO),
          [(3,), (4,)])
    check("meta", run(
        "SELECT p.ID FROM blog_posts p INNER JOIN blog_postmeta m ON (p.ID = m.post_id)"
        " WHERE m.meta_key = '_thumb' AND m.meta_value = %s GROUP BY p.ID", "v" * 40 + "2"), [(2,)])
    check("meta begins", run("SELECT COUNT(*) FROM blog_postmeta WHERE meta_value LIKE 'vvv%%'" % ()),
          [(3,)])
    check("meta in", run("SELECT post_id, meta_key FROM blog_postmeta WHERE post_id IN (1,2) AND"
                         " meta_key = '_edit_last' ORDER BY meta_id"),
          [(1, "_edit_last"), (2, "_edit_last")])
    plan = run("EXPLAIN SELECT meta_id FROM blog_postmeta WHERE meta_value = 'v'")
    check("the key of values", plan[0][6], "meta_value")
    # Without ONLY_FULL_GROUP_BY.
    check("counts", run("SELECT t.name, COUNT(*) AS c FROM blog_terms t JOIN blog_term_relationships"
                        " r ON r.term_id = t.term_id GROUP BY t.slug ORDER BY c DESC"),
          [("News", 2), ("Straße", 1)])


def clean_up():
    """What goes in one statement over several tables."""
    check("orphans", run("DELETE pm FROM blog_postmeta pm LEFT JOIN blog_posts p ON p.ID = pm.post_id"
                         " WHERE p.ID IS NULL"), 0)
    check("a post", run("DELETE FROM blog_posts WHERE ID = 2"), 1)
    check("orphans", run("DELETE pm FROM blog_postmeta pm LEFT JOIN blog_posts p ON p.ID = pm.post_id"
                         " WHERE p.ID IS NULL"), 2)
    check("prefix", run("DELETE a, b FROM blog_options a, blog_options b WHERE a.option_name LIKE"
                        " 'home' AND b.option_name = 'siteurl'"), 2)
    run("ALTER TABLE blog_posts ADD COLUMN guid varchar(255) NOT NULL default ''")
    run("ALTER TABLE blog_posts DROP INDEX post_name, ADD INDEX post_name (post_name(50))")
    check("after that", run("SELECT ID FROM blog_posts WHERE post_name = 'strasse' AND guid = ''"),
          [(1,)])


install()
write()
read()
clean_up()
print("ok")
