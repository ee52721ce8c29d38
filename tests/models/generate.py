#!/usr/bin/env python3
"""Writes a model of real size as a graph: DIR/graph.json and its kernels, DIR/MODEL.cu. README.md says which there are.
Prints its name and its layers.

usage: generate.py bert|gpt2|resnet [--layers N] [--small] -o DIR
"""
import argparse
import json
import os

import resnet
import transformer

# name: the function that makes it, and layers if nothing else is said
MODELS = {"bert": (transformer.bert, 12), "gpt2": (transformer.gpt2, 1), "resnet": (resnet.resnet, 1)}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model", choices=sorted(MODELS))
    p.add_argument("--layers", type=int, help="default: 12 of bert, 1 of the others")
    p.add_argument("--small", action="store_true", help="a fraction of the sizes: for tests")
    p.add_argument("-o", dest="out", required=True, metavar="DIR")
    o = p.parse_args()
    make, layers = MODELS[o.model]
    model = make(o.layers or layers, o.small)
    os.makedirs(o.out, exist_ok=True)
    with open(f"{o.out}/{o.model}.cu", "w", encoding="utf-8") as f:
        f.write(model.source())
    with open(f"{o.out}/graph.json", "w", encoding="utf-8") as f:
        json.dump(model.document(f"{o.model}.cu"), f, indent=1)
        f.write("\n")
    print(model.name, o.layers or layers)


if __name__ == "__main__":
    main()
