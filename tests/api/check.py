#!/usr/bin/env python3
"""Check a document against its schema: check.py FILE|- KIND [--lines] [--open] [--status N].

KIND: graph, analysis, plan, problem, job, event, results; or a component of schema/api/openapi.json: root, devices,
cache, health, explanation; or an operation and its status, "GET /v1/jobs/{id}" with --status 200: then an undeclared
status fails.
--lines: one document a line (NDJSON), each checked. A member that the schema does not declare is an error, except in
graphs (where unknown members are ignored) and with --open. Exit status 0: all fit; 1: the first faults are printed, one
a line; 2: wrong usage.

As a module: check.faults(document, kind) gives a list of strings; check.reply_faults(…) does so for a whole answer of
the service: status, fields, body.
"""
import argparse
import functools
import json
import os
import re
import sys

import jsonschema

SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "schema")
KINDS = ("graph", "analysis", "plan", "problem", "job", "event", "results", "night")
COMPONENTS = ("root", "devices", "cache", "health", "figures", "workers", "explanation")


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
        out["$ref"] = f"#/$defs/{os.path.basename(file).split('.')[0] or name}{fragment}"
    return out


@functools.lru_cache(maxsize=None)
def bundle(closed):
    defs = {}
    for name in KINDS + ("openapi",):
        file = "api/openapi.json" if name == "openapi" else f"{name}.schema.json"
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


def response(operation, status):
    """An operation's response; KeyError with a sentence when the status is not declared."""
    method, path = operation.split(" ", 1)
    api = bundle(False)["$defs"]["openapi"]
    try:
        responses = api["paths"][path][method.lower()]["responses"]
    except KeyError:
        raise KeyError(f"{operation} is not declared in schema/api/openapi.json") from None
    found = responses.get(str(status)) or responses.get(f"{str(status)[0]}XX")
    if found is None and str(status) in api["x-every-call"]:
        found = api["components"]["responses"]["problem"]
    if found is None:
        raise KeyError(f"{operation} declares no status {status}")
    if "$ref" in found:
        found = api["components"]["responses"][found["$ref"].rsplit("/", 1)[1]]
    return found


def operation_of(method, path):
    """The operation that a request is one of; None: its path or method is not declared. HEAD is GET."""
    method = "GET" if method == "HEAD" else method
    for template, item in bundle(False)["$defs"]["openapi"]["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path.split("?")[0]):
            return f"{method} {template}" if method.lower() in item else None
    return None


def lines_of(ctype, body):
    return [json.loads(x) for x in body.splitlines() if x] if ctype == "application/x-ndjson" else [json.loads(body)]


def reply_faults(method, path, status, fields, body):
    """What is wrong with an answer: its status, type, fields and body against the description. `fields`: a mapping by
    name in any case, as http.client has it; `body`: bytes."""
    ctype = (fields.get("Content-Type") or "").split(";")[0]
    if status in (404, 405, 408, 413, 414, 415, 417, 429, 431, 501, 505) and ctype != "application/problem+json":
        return [f"a refusal as {ctype}"]
    out = [f"no field {name}" for name in ("Server", "Cache-Control") if not fields.get(name)]
    if status in (429, 503) and not (fields.get("Retry-After") or "").isdigit():
        out.append(f"{status} without Retry-After")
    if status == 405 and not fields.get("Allow"):
        out.append("405 without Allow")
    operation = operation_of(method, path)
    if operation is None:
        if status not in (400, 404, 405, 408, 413, 414, 417, 429, 431, 501, 503, 505):
            out.append(f"{status} at a path or method that is not declared")
        return out + (faults(json.loads(body), "problem") if body else [])
    try:
        found = response(operation, status)
    except KeyError as e:
        return out + [e.args[0]]
    out += field_faults(found, fields)
    if "content" not in found:
        return out + (["a body that is not declared"] if body else [])
    content = found["content"].get(ctype)
    if content is None:
        return out + [f"{ctype}, and only {' and '.join(found['content'])} is declared"]
    if body and method != "HEAD" and "json" in ctype and content["schema"] != {"type": "string"}:
        schema = {**content["schema"], "$defs": bundle(True)["$defs"]}
        for document in lines_of(ctype, body):
            out += schema_faults(document, schema)
    return out


def field_faults(found, fields):
    """The fields of ours are declared, and have their values; those that must be there are."""
    out, declared = [], {name.lower(): h for name, h in found.get("headers", {}).items()}
    for name in fields.keys():
        if name.lower().startswith("dovetail-") and name.lower() not in declared:
            out.append(f"the field {name} is not declared")
    for name, h in declared.items():
        value = fields.get(name)
        if value is None and h.get("required"):
            out.append(f"no field {name}")
        if value is not None:
            out += [f"{name}: {f}" for f in schema_faults(value, {**h["schema"], "$defs": bundle(True)["$defs"]})]
    return out


def faults(document, kind, closed=True, status=None):
    closed = closed and kind != "graph"
    if kind in KINDS:
        schema = {"$ref": f"#/$defs/{kind}"}
    elif kind in COMPONENTS:
        schema = {"$ref": f"#/$defs/openapi/components/schemas/{kind}"}
    else:
        try:
            schema = next(iter(response(kind, status)["content"].values()))["schema"]
        except KeyError as e:
            return [e.args[0]]
    return schema_faults(document, {**schema, "$defs": bundle(closed)["$defs"]})


def schema_faults(document, schema):
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
