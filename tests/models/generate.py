#!/usr/bin/env python3
"""Writes a model of real size as a graph: DIR/graph.json and its kernels, DIR/MODEL.cu. README.md says which there are.
Prints its name and its layers.

usage: generate.py MODEL [--layers N] [--small] [--tokens N] [--large] [--tiles STYLE] [--stage N] -o DIR
"""
import argparse
import json
import os

import resnet
import sized
import transformer

# name: the function that makes it of the options, and layers if nothing else is said
MODELS = {"bert": (transformer.bert, 12), "gpt2": (transformer.gpt2, 1), "resnet": (resnet.resnet, 1),
          "ffn": (sized.ffn, 1), "attention": (sized.attention, 1), "h2o": (sized.h2o, 1),
          "experts": (sized.experts, 1)}


class Options(argparse.Namespace):
    @property
    def heads(self):
        return 16 if self.large else 12

    def title(self, name):
        """The model's name: what differs from the sizes that it has if nothing is said."""
        parts = [name, self.large and "large", self.tiles != "small" and self.tiles, str(self.tokens)]
        return "-".join(p for p in parts if p or p == "")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("model", choices=sorted(MODELS))
    p.add_argument("--layers", type=int, help="default: 12 of bert, 1 of the others")
    p.add_argument("--small", action="store_true", help="a fraction of the sizes: for tests")
    p.add_argument("--tokens", type=int, default=128, help="of transformers (default 128)")
    p.add_argument("--large", action="store_true", help="1024 hidden and 16 heads instead of 768 and 12")
    p.add_argument("--tiles", choices=("small", "scalar", "vector"), default="small",
                   help="of products: small ones (default), or register tiles of 128 x 128")
    p.add_argument("--stage", type=int, choices=(1, 2, 3, 4), default=1, help="of resnet (default 1)")
    p.add_argument("-o", dest="out", required=True, metavar="DIR")
    o = p.parse_args(namespace=Options())
    make, layers = MODELS[o.model]
    o.layers = o.layers or layers
    model = make(o)
    os.makedirs(o.out, exist_ok=True)
    with open(f"{o.out}/{o.model}.cu", "w", encoding="utf-8") as f:
        f.write(model.source())
    with open(f"{o.out}/graph.json", "w", encoding="utf-8") as f:
        json.dump(model.document(f"{o.model}.cu"), f, indent=1)
        f.write("\n")
    print(model.name, o.layers)


if __name__ == "__main__":
    main()
