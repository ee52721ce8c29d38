#!/usr/bin/env python3
"""Writes a model of real size as a graph: DIR/graph.json and its kernels, DIR/MODEL.cu. README.md says which there are.

usage: generate.py bert|gpt2|resnet [--layers N] -o DIR
"""
import argparse
import json
import os

import nets

# name: the function that makes it, layers of the whole model
MODELS = {"bert": (nets.bert, 12)}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model", choices=sorted(MODELS))
    p.add_argument("--layers", type=int, help="default: the whole model")
    p.add_argument("-o", dest="out", required=True, metavar="DIR")
    o = p.parse_args()
    make, layers = MODELS[o.model]
    model = make(o.layers or layers)
    os.makedirs(o.out, exist_ok=True)
    with open(f"{o.out}/{o.model}.cu", "w", encoding="utf-8") as f:
        f.write(model.source())
    with open(f"{o.out}/graph.json", "w", encoding="utf-8") as f:
        json.dump(model.document(f"{o.model}.cu"), f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
