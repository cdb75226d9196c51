"""What Django does with foreign keys: migrations that make, alter and drop tables, and the queries of
models that refer to each other.

Usage: django_app.py HOST PORT
With DB_USER, DB_PASSWORD and DB_CA in the environment it is that user, over TLS.
Exits with a message and a non-zero status at the first difference.
"""

import os
import subprocess
import sys
import tempfile
import textwrap

HOST, PORT = sys.argv[1], sys.argv[2]
USER, PASSWORD = os.environ.get("DB_USER", "root"), os.environ.get("DB_PASSWORD", "")
AUTHORITY = os.environ.get("DB_CA")
TLS = {"ssl": {"ca": AUTHORITY}} if AUTHORITY else {}

SETTINGS = f"""
    SECRET_KEY = "none"
    INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "shop"]
    DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
    USE_TZ = True
    DATABASES = {{
        "default": {{
            "ENGINE": "django.db.backends.mysql",
            "NAME": "django_app",
            "USER": "{USER}",
            "PASSWORD": "{PASSWORD}",
            "OPTIONS": {TLS},
            "HOST": "{HOST}",
            "PORT": "{PORT}",
        }}
    }}
"""

FIRST = """
    from django.conf import settings
    from django.db import models


    class Author(models.Model):
        name = models.CharField(max_length=50, unique=True)


    class Publisher(models.Model):
        name = models.CharField(max_length=50)


    class Tag(models.Model):
        word = models.CharField(max_length=30, primary_key=True)


    class Book(models.Model):
        title = models.CharField(max_length=100)
        author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
        publisher = models.ForeignKey(Publisher, null=True, on_delete=models.SET_NULL)
        tags = models.ManyToManyField(Tag)
        owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT)


    class Category(models.Model):
        name = models.CharField(max_length=50)
        parent = models.ForeignKey("self", null=True, on_delete=models.CASCADE)


    class Novel(Book):
        pages = models.IntegerField()
"""

# Another field, a field that becomes a foreign key's target, a renamed field, one made unique, one gone.
SECOND = (
    FIRST.replace('name = models.CharField(max_length=50, unique=True)', 'name = models.CharField(max_length=80, unique=True)')
    .replace("publisher = models.ForeignKey", "house = models.ForeignKey")
    .replace("        parent = models", "        tag = models.ForeignKey(Tag, null=True, on_delete=models.SET_NULL)\n        parent = models")
    .replace("    class Novel(Book):\n        pages = models.IntegerField()\n", "")
    + """

    class Review(models.Model):
        book = models.OneToOneField(Book, on_delete=models.CASCADE, primary_key=True)
        author = models.ForeignKey(Author, to_field="name", on_delete=models.RESTRICT)
        text = models.TextField()
"""
)


def check(what, found, expected):
    """Ends the test when `found` is not what it must be."""
    if found != expected:
        sys.exit(f"django: {what}: found {found!r}, expected {expected!r}")


def write(folder, name, text):
    """Puts a file into the project."""
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(textwrap.dedent(text))


def manage(folder, *words):
    """Runs a command of django-admin in a process of its own: models are read once in each."""
    environment = {**os.environ, "PYTHONPATH": folder, "DJANGO_SETTINGS_MODULE": "project"}
    command = [sys.executable, "-m", "django", *words, "--verbosity", "0"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"django: {' '.join(words)}:\n{done.stdout}{done.stderr}")
    return done.stdout


def create_database():
    """An empty database."""
    import MySQLdb

    connection = MySQLdb.connect(host=HOST, port=int(PORT), user=USER, password=PASSWORD, **TLS)
    cursor = connection.cursor()
    cursor.execute("DROP DATABASE IF EXISTS django_app")
    cursor.execute("CREATE DATABASE django_app CHARACTER SET utf8mb4")
    connection.close()


def keys(cursor):
    """The foreign keys of the database: table, column, what they refer to."""
    cursor.execute(
        "SELECT TABLE_NAME, COLUMN_NAME, REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME"
        " FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA = 'django_app'"
        " AND TABLE_NAME LIKE 'shop%' AND REFERENCED_TABLE_NAME IS NOT NULL ORDER BY 1, 2"
    )
    return cursor.fetchall()


def use_models():
    """Rows made, changed and deleted through models."""
    from django.contrib.auth.models import User
    from django.db import IntegrityError, connection, models, transaction
    from shop.models import Author, Book, Category, Publisher, Review, Tag

    with connection.cursor() as cursor:
        check(
            "foreign keys",
            keys(cursor),
            (
                ("shop_book", "author_id", "shop_author", "id"),
                ("shop_book", "house_id", "shop_publisher", "id"),
                ("shop_book", "owner_id", "auth_user", "id"),
                ("shop_book_tags", "book_id", "shop_book", "id"),
                ("shop_book_tags", "tag_id", "shop_tag", "word"),
                ("shop_category", "parent_id", "shop_category", "id"),
                ("shop_category", "tag_id", "shop_tag", "word"),
                ("shop_review", "author_id", "shop_author", "name"),
                ("shop_review", "book_id", "shop_book", "id"),
            ),
        )
        found = connection.introspection.get_constraints(cursor, "shop_review")
        targets = sorted(c["foreign_key"] for c in found.values() if c["foreign_key"])
        check("introspection", targets, [("shop_author", "name"), ("shop_book", "id")])
    user = User.objects.create_user("root")
    woolf = Author.objects.create(name="Woolf")
    house = Publisher.objects.create(name="Hogarth")
    book = Book.objects.create(title="Orlando", author=woolf, house=house, owner=user)
    Book.objects.bulk_create(Book(title=f"Essay {n}", author=woolf) for n in range(20))
    book.tags.set([Tag.objects.create(word="novel"), Tag.objects.create(word="time")])
    Review.objects.create(book=book, author=woolf, text="my own")
    check("join", Book.objects.filter(tags__word="time", author__name="Woolf").count(), 1)
    check("related", woolf.books.count(), 21)
    for what, break_it in [
        ("a child without parent", lambda: Book.objects.create(title="x", author_id=10**6)),
        ("a parent with children", lambda: raw("DELETE FROM shop_author WHERE id = %s", woolf.id)),
        ("a key that is referred to", lambda: raw("UPDATE shop_author SET name = 'x'")),
    ]:
        try:
            with transaction.atomic():
                break_it()
        except IntegrityError as error:
            check(what, error.args[0] in (1451, 1452), True)
        else:
            sys.exit(f"django: {what}: no error")
    try:
        user.delete()
    except models.ProtectedError:
        pass
    else:
        sys.exit("django: PROTECT: no error")
    house.delete()
    book.refresh_from_db()
    check("SET_NULL", book.house, None)
    parent = None
    for depth in range(20):
        parent = Category.objects.create(name=str(depth), parent=parent, tag_id="time")
    Category.objects.get(name="5").delete()
    check("CASCADE", Category.objects.count(), 5)
    Review.objects.all().delete()
    woolf.delete()
    check("CASCADE to rows of rows", (Book.objects.count(), Book.tags.through.objects.count()), (0, 0))
    connection.check_constraints()


def raw(statement, *arguments):
    """Runs a statement past the models."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)


def main():
    create_database()
    with tempfile.TemporaryDirectory() as folder:
        write(folder, "project.py", SETTINGS)
        write(folder, "shop/__init__.py", "")
        write(folder, "shop/migrations/__init__.py", "")
        write(folder, "shop/models.py", FIRST)
        manage(folder, "makemigrations", "shop")
        manage(folder, "migrate")
        write(folder, "shop/models.py", SECOND)
        answers = os.path.join(folder, "sitecustomize.py")
        with open(answers, "w") as file:
            # The only question is whether the field was renamed.
            file.write("import builtins\nbuiltins.input = lambda *_: 'y'\n")
        manage(folder, "makemigrations", "shop")
        os.remove(answers)
        manage(folder, "migrate")
        sys.path.insert(0, folder)
        os.environ["DJANGO_SETTINGS_MODULE"] = "project"
        import django

        django.setup()
        use_models()
        manage(folder, "migrate", "shop", "0001")
        manage(folder, "migrate", "shop", "zero")
    print("django: ok")


main()
