#!/usr/bin/env python3
"""The SQL of what hosts share keeps to words that PostgreSQL and its distributed kin have in common.

Reads cluster/statements.def and schema/db/postgres/*.sql. Each word of them is in sql-words.txt, or is a name that a
migration defines; operators are from a short list. SQL anywhere else in cluster/ (a text that
begins like a statement) is refused, so that none is overlooked. Prints FILE:LINE: what; exit status 1 if there is any.

Usage: sql.py [ROOT]; sql.py --self-test
"""
import glob
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
OPERATORS = set("= <> < > <= >= << + - * / ( ) , . ; [ ]".split())
TOKEN = re.compile(r"(?P<string>'(?:[^']|'')*')|(?P<comment>--[^\n]*)|(?P<parameter>\$\d+)|(?P<number>\d+)|"
                   r"(?P<word>[A-Za-z_]\w*)|(?P<operator>::|\|\||->>?|#>>?|@>|<@|<>|<=|>=|<<|>>|[^\s\w])|"
                   r"(?P<space>\s+)")
STATEMENT = re.compile(r'"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|BEGIN|COMMIT|ROLLBACK|SET|SHOW|LOCK|LISTEN|'
                       r'NOTIFY|PREPARE|EXECUTE|DECLARE|WITH|TRUNCATE|MERGE|COPY|CALL)\b')


def words():
    out = set()
    with open(os.path.join(HERE, "sql-words.txt"), encoding="utf-8") as f:
        for line in f:
            if not line.startswith("#"):
                out |= {w.lower() for w in line.split()}
    return out


def names(migrations):
    """What they define: tables with their columns, indexes, policies."""
    out = set()
    for text in migrations:
        text = re.sub(r"--[^\n]*", "", text)
        out |= {n.lower() for n in re.findall(r"CREATE (?:TABLE(?: IF NOT EXISTS)?|INDEX|POLICY) (\w+)", text)}
        for body in re.findall(r"CREATE TABLE(?: IF NOT EXISTS)? \w+ \((.*?)\)\s*(?:;|$)", text, re.S):
            depth, column = 0, ""
            for c in body + ",":
                depth += (c == "(") - (c == ")")
                if c == "," and depth == 0:
                    word = column.split()[0] if column.split() else ""
                    if word and word.upper() not in ("PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "CONSTRAINT"):
                        out.add(word.lower())
                    column = ""
                else:
                    column += c
    return out


def check(text, known):
    """(offset, what) of each token that is not in the list."""
    for m in TOKEN.finditer(text):
        kind, token = m.lastgroup, m[0]
        if kind == "word" and token.lower() not in known:
            yield m.start(), f"'{token}' is not in tests/lint/sql-words.txt"
        elif kind == "operator" and token not in OPERATORS:
            yield m.start(), f"'{token}' is an operator that not all of them have"


def statements(text):
    """(line, SQL) of each string of a .def file; strings that follow each other are one."""
    newlines = lambda m: re.sub(r"[^\n]", "", m[0])
    text = re.sub(r"/\*.*?\*/", newlines, text, flags=re.S)
    text = re.sub(r'"(?:\s|\\\n)*"', newlines, text)
    for m in re.finditer(r'"([^"]*)"', text):
        yield text.count("\n", 0, m.start()) + 1, m[1]


def findings(root):
    migrations = {}
    for path in sorted(glob.glob(os.path.join(root, "schema/db/postgres/*.sql"))):
        with open(path, encoding="utf-8") as f:
            migrations[os.path.relpath(path, root)] = f.read()
    table = "cluster/statements.def"
    with open(os.path.join(root, table), encoding="utf-8") as f:
        rows = f.read()
    known = words() | names([*migrations.values(), *(sql for _, sql in statements(rows))])
    for path, text in migrations.items():
        for at, what in check(text, known):
            yield path, text.count("\n", 0, at) + 1, what
    for line, sql in statements(rows):
        for at, what in check(sql, known):
            yield table, line + sql.count("\n", 0, at), what
    for path in sorted(glob.glob(os.path.join(root, "cluster/*.[ch]"))):
        with open(path, encoding="utf-8") as f:
            for n, line in enumerate(f, 1):
                if STATEMENT.search(line):
                    yield os.path.relpath(path, root), n, "SQL belongs into cluster/statements.def"
    if not migrations:
        yield "schema/db/postgres", 1, "there are no migrations"


def self_test():
    known = words() | names(["CREATE TABLE a (b text CHECK (b IN ('x', 'y')), c bigint, PRIMARY KEY (b));"])
    for good in ("SELECT b FROM a WHERE c = $1 -- nextval", "INSERT INTO a (b) VALUES ('nextval')"):
        assert not list(check(good, known)), good
    for bad in ("SELECT nextval('x')", "SELECT pg_advisory_lock(1)", "LISTEN a", "SELECT $1::text", "SELECT b FROM d",
                "SELECT b || c FROM a", "CREATE TEMP TABLE b (c text)", "LOCK TABLE a", "SELECT b->>'x' FROM a"):
        assert list(check(bad, known)), bad
    assert STATEMENT.search('x = " SELECT 1"') and not STATEMENT.search('"SELECTED"')


if __name__ == "__main__":
    self_test()
    root = sys.argv[1] if sys.argv[1:] else os.path.join(HERE, "../..")
    found = [] if root == "--self-test" else list(findings(root))
    for path, line, what in found:
        print(f"{path}:{line}: {what}")
    sys.exit(1 if found else 0)
