"""document.py: how a graph that a script makes is written, for of-triton/ and of-cuda/."""
import json


def text(doc):
    """JSON with a line for each module, buffer and launch."""
    lines = []
    for key, value in doc.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"    {json.dumps(n)}: {json.dumps(v)}" for n, v in value.items())
            lines.append(f"  {json.dumps(key)}: {{\n{inner}\n  }}")
        elif isinstance(value, list):
            inner = ",\n".join(f"    {json.dumps(v)}" for v in value)
            lines.append(f"  {json.dumps(key)}: [\n{inner}\n  ]")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
