#!/usr/bin/env python3
"""Check a document against its schema: check.py FILE|- KIND [--lines] [--open] [--status N].

KIND: graph, analysis, plan, problem, job, event, results; or a component of schema/openapi.json: root, devices, cache,
health; or an operation and its status, "GET /v1/jobs/{id}" with --status 200: then an undeclared status fails.
--lines: one document a line (NDJSON), each checked. A member that the schema does not declare is an error, except in
graphs (where unknown members are ignored) and with --open. Exit status 0: all fit; 1: the first faults are printed, one
a line; 2: wrong usage.

As a module: check.faults(document, kind) gives a list of strings.
"""
import argparse
import functools
import json
import os
import sys

import jsonschema

SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "schema")
KINDS = ("graph", "analysis", "plan", "problem", "job", "event", "results")
COMPONENTS = ("root", "devices", "cache", "health", "figures", "workers")


def close(node, inside=False):
    """No undeclared members: additionalProperties false wherever an object lists its properties. Under allOf, anyOf,
    oneOf, if, then, not, a part lists only some of them, so unevaluatedProperties is set on the outer schema
    instead."""
    if isinstance(node, list):
        for v in node:
            close(v, inside)
        return
    if not isinstance(node, dict):
        return
    combined = any(k in node for k in ("allOf", "anyOf", "oneOf", "if"))
    for key, v in node.items():
        if key in ("properties", "$defs", "schemas"):
            for sub in v.values():
                close(sub)
        elif key in ("allOf", "anyOf", "oneOf", "if", "then", "else", "not"):
            close(v, True)
        elif key not in ("enum", "const", "required", "default"):
            close(v)
    if not inside and ("properties" in node or (combined and node.get("type")
                                                == "object")) and "additionalProperties" not in node:
        node["unevaluatedProperties"] = False


def localize(node, name):
    """References of one file, rewritten for the bundle: all of schema/ is one document, so that no resolver is
    needed."""
    if isinstance(node, list):
        return [localize(v, name) for v in node]
    if not isinstance(node, dict):
        return node
    out = {k: localize(v, name) for k, v in node.items() if k not in ("$id", "$schema")}
    if "$ref" in out:
        file, _, fragment = out["$ref"].partition("#")
        out["$ref"] = f"#/$defs/{file.split('.')[0] or name}{fragment}"
    return out


@functools.lru_cache(maxsize=None)
def bundle(closed):
    defs = {}
    for name in KINDS + ("openapi",):
        file = "openapi.json" if name == "openapi" else f"{name}.schema.json"
        with open(os.path.join(SCHEMA, file), encoding="utf-8") as f:
            schema = json.load(f)
        if closed and name != "graph":
            close(schema)
        if closed and name == "plan":  # a launch is a step and more: closed as a whole
            schema["$defs"]["launch"]["unevaluatedProperties"] = False
        defs[name] = localize(schema, name)
    return {"$defs": defs}


def pointer(error):
    return "".join("/" + str(p).replace("~", "~0").replace("/", "~1") for p in error.absolute_path) or "(document)"


def deepest(error):
    """Of a choice that failed, the fault of the branch that came furthest."""
    while error.context:
        error = max(error.context, key=lambda e: len(list(e.absolute_path)))
    return error


def paths():
    """The paths of schema/openapi.json, as it writes them: /v1/jobs/{id}."""
    return list(bundle(False)["$defs"]["openapi"]["paths"])


def response_schema(operation, status):
    """Schema of an operation's response; KeyError with a sentence when the status is not declared."""
    method, path = operation.split(" ", 1)
    api = bundle(False)["$defs"]["openapi"]
    try:
        responses = api["paths"][path][method.lower()]["responses"]
    except KeyError:
        raise KeyError(f"{operation} is not declared in schema/openapi.json") from None
    found = responses.get(str(status)) or responses.get(f"{str(status)[0]}XX")
    if found is None:
        raise KeyError(f"{operation} declares no status {status}")
    if "$ref" in found:
        found = api["components"]["responses"][found["$ref"].rsplit("/", 1)[1]]
    return next(iter(found["content"].values()))["schema"]


def undeclared(operation, status):
    """The faults of an answer whose content has no schema to be held against: an undeclared operation or status."""
    try:
        response_schema(operation, status)
    except KeyError as e:
        return [e.args[0]]
    return []


def faults(document, kind, closed=True, status=None):
    closed = closed and kind != "graph"
    if kind in KINDS:
        schema = {"$ref": f"#/$defs/{kind}"}
    elif kind in COMPONENTS:
        schema = {"$ref": f"#/$defs/openapi/components/schemas/{kind}"}
    else:
        try:
            schema = response_schema(kind, status)
        except KeyError as e:
            return [e.args[0]]
    schema = {**schema, "$defs": bundle(closed)["$defs"]}
    validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    out = []
    for error in sorted(validator.iter_errors(document), key=lambda e: list(map(str, e.absolute_path))):
        e = deepest(error)
        out.append(f"{pointer(e)}: {e.message[:300]}")
    return out


def reject_constant(text):
    raise ValueError(f"{text} is not JSON")


def no_doubles(pairs):
    keys = [k for k, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError("a member occurs twice")
    return dict(pairs)


def parse(text):
    return json.loads(text, parse_constant=reject_constant, object_pairs_hook=no_doubles)


def main():
    p = argparse.ArgumentParser(usage=__doc__.splitlines()[0])
    p.add_argument("file")
    p.add_argument("kind")
    p.add_argument("--lines", action="store_true")
    p.add_argument("--open", action="store_true")
    p.add_argument("--status", type=int)
    o = p.parse_args()
    if o.kind not in KINDS + COMPONENTS and (" " not in o.kind or not o.status):
        p.error(f"unknown kind {o.kind}")
    text = sys.stdin.read() if o.file == "-" else open(o.file, encoding="utf-8").read()
    texts = [t for t in text.split("\n") if t] if o.lines else [text]
    bad = 0
    for i, t in enumerate(texts, 1):
        where = f"{o.file}:{i}: " if o.lines else f"{o.file}: "
        try:
            found = faults(parse(t), o.kind, not o.open, o.status)
        except ValueError as e:
            found = [str(e)]
        for f in found[:20]:
            print(where + f)
        bad += len(found)
    if not texts:
        print(f"{o.file}: empty")
    return 1 if bad or not texts else 0


if __name__ == "__main__":
    sys.exit(main())
