"""Measures one benchmark, or some parts of it; keeps the result in docs/ and writes the pages that show it.

`pages` measures nothing and writes the pages anew. Each benchmark has a --help with its parts.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from inspect import signature

from lab.benchmarks.shared import keep, machine, write_pages

BENCHMARKS = ("groups", "live", "footprint", "broker", "traffic", "pipeline", "streams", "rebalance")


def main(arguments: list[str]) -> None:
    """Measure what the arguments name."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("benchmark", choices=(*BENCHMARKS, "pages"))
    name = parser.parse_args(arguments[:1]).benchmark
    if name != "pages":
        module = import_module(
            f"lab.benchmarks.{name}"
        )  # only the one that is named: they need Java, Go, Spark or Kafka
        parser = argparse.ArgumentParser(prog=f"scripts/bench {name}", description=module.__doc__)
        for part, (measure, _) in module.PARTS.items():
            text = measure.__doc__.partition("\n")[0]
            if sizes := signature(measure).parameters:
                most = next(iter(sizes.values())).default
                parser.add_argument(f"--{part}", nargs="?", type=int, const=most, metavar="COUNT", help=text)
            else:
                parser.add_argument(f"--{part}", action="store_true", help=text)
        given = vars(parser.parse_args(arguments[1:]))
        for part in [part for part in given if given[part]] or module.PARTS:
            size = [given[part]] if isinstance(given[part], int) and given[part] is not True else []
            keep(name, part, {"machine": machine(), **module.PARTS[part][0](*size)})
    write_pages()


if __name__ == "__main__":
    main(sys.argv[1:])
