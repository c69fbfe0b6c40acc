"""What a step of several processes takes, by a model: run it as

    mpiexec -n 2 python scripts/bench/collectives.py [--latency US --bandwidth GBS]

It measures what a message costs between two processes, a + bytes / b, and says what the sum of all
gradients then takes on 2 to 1024 of them: flat (each sends to one, which sends back), in a ring,
and by groups of eight that share a machine (Thakur, Rabenseifner and Gropp, 2005).
"""

from __future__ import annotations

import argparse
import math
import statistics
import time

import pyframe as pf
from pyframe import distributed as dist

GRADIENTS = {"W3": 818_241, "ResNet-18": 11_689_512, "GPT-2 small": 124_439_808}  # numbers
GROUP = 8  # processes of a machine
INSIDE = 10  # times as fast as the network between machines


def measured() -> tuple[float, float]:
    """Seconds of a message without content, and bytes a second of a long one."""
    rank = dist.get_rank()

    def one_way(n: int) -> float:
        x, times = pf.zeros(n), []
        for _ in range(12):
            begin = time.perf_counter()
            for turn in range(2):
                if turn == rank:
                    dist.send(x, 1 - rank)
                else:
                    dist.recv(x, 1 - rank)
            times.append((time.perf_counter() - begin) / 2)
        return statistics.median(times[2:])

    short, long = one_way(1), one_way(1 << 22)
    return short, (1 << 24) / (long - short)


def flat(p: int, n: float, a: float, b: float) -> tuple[float, float]:
    """Seconds, and the most bytes that one process sends: all go to one, and back."""
    return 2 * (p - 1) * (a + n / b), (p - 1) * n


def ring(p: int, n: float, a: float, b: float) -> tuple[float, float]:
    """Each sends 1/p of it to its neighbour, 2 (p - 1) times."""
    return 2 * (p - 1) * (a + n / p / b), 2 * n * (p - 1) / p


def hierarchical(p: int, n: float, a: float, b: float) -> tuple[float, float]:
    """A ring within each machine, one over machines of each one's part, and back."""
    inside = min(p, GROUP)
    within = ring(inside, n, a / INSIDE, b * INSIDE)
    between = ring(math.ceil(p / inside), n / inside, a, b)
    return within[0] + between[0], within[1] + between[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--latency", type=float, help="microseconds of a message (measured)")
    parser.add_argument("--bandwidth", type=float, help="GB/s of a long one (measured)")
    args = parser.parse_args()
    dist.init_process_group()
    if args.latency and args.bandwidth:
        a, b = args.latency * 1e-6, args.bandwidth * 1e9
    elif dist.get_world_size() == 2:
        a, b = measured()
    else:
        parser.error("two processes measure: mpiexec -n 2; or give --latency and --bandwidth")
    if dist.get_rank():
        return
    print(f"a message: {a * 1e6:.1f} µs and {b / 1e9:.2f} GB/s\n")
    print("| gradients | processes | flat | ring | hierarchical | sent by each in a ring |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, numbers in GRADIENTS.items():
        for p in (2, 8, 64, 1024):
            n = 4.0 * numbers
            times = [f"{way(p, n, a, b)[0] * 1e3:.3g} ms" for way in (flat, ring, hierarchical)]
            sent = ring(p, n, a, b)[1] / 1e6
            print(f"| {name} | {p} | {' | '.join(times)} | {sent:.3g} MB |")


if __name__ == "__main__":
    main()
