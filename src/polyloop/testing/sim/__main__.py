"""`python -m polyloop.testing.sim`: run seeds, print what they met, and for each breach the one line that replays it.

--seeds N [--start S] [--mode safety|liveness|swarm|twin|all] [--jobs 2] [--json]
--replay SEED --mode MODE [--until EVENT]     the events of one seed, up to the breach or to EVENT
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from msgspec import Struct

from .world import MODES, Failure, World, twin

#: Seeds a process takes at a time.
SHARE = 250
MODE_NAMES = (*MODES, "twin", "all")


class Tally(Struct):
    """What a share of seeds met. `digest` is one hash over the logs of all of them."""

    faults: Counter[str]
    ends: Counter[str]
    failures: list[Failure]
    digest: str
    cpu_s: float


def mode_of(seed: int, mode: str) -> str:
    """Under `all` the modes take turns, and every 16th seed is run twice, with and without sinks."""
    return mode if mode != "all" else "twin" if seed % 16 == 15 else MODES[seed % len(MODES)]


def survey(seeds: Sequence[int], mode: str) -> Tally:
    tally, digests, before = Tally(Counter(), Counter(), [], "", 0.0), hashlib.sha256(), os.times()
    for seed in seeds:
        chosen = mode_of(seed, mode)
        world = twin(seed) if chosen == "twin" else World(seed, chosen).run()
        tally.faults += world.counts
        tally.ends += world.judge.ends
        digests.update(world.digest.encode())
        if world.failure is not None:
            tally.failures.append(world.failure)
    after = os.times()
    tally.digest, tally.cpu_s = digests.hexdigest(), after.user + after.system - before.user - before.system
    return tally


def survey_all(seeds: range, mode: str, jobs: int) -> Tally:
    shares = [seeds[i : i + SHARE] for i in range(0, len(seeds), SHARE)]
    if jobs == 1 or len(shares) == 1:
        tallies = [survey(share, mode) for share in shares]
    else:
        with ProcessPoolExecutor(jobs) as pool:
            tallies = list(pool.map(survey, shares, [mode] * len(shares)))
    whole = Tally(Counter(), Counter(), [], hashlib.sha256("".join(t.digest for t in tallies).encode()).hexdigest(), 0.0)
    for t in tallies:
        whole.faults += t.faults
        whole.ends += t.ends
        whole.failures += t.failures
        whole.cpu_s += t.cpu_s
    return whole


def table(title: str, counts: Counter[str]) -> str:
    return "\n".join([title, *(f"  {name:40} {count:8}" for name, count in sorted(counts.items(), key=lambda x: (-x[1], x[0])))])


def report(tally: Tally, count: int, *, as_json: bool) -> str:
    rate = round(count / tally.cpu_s * 60) if tally.cpu_s else 0
    lines = [str(failure) for failure in tally.failures]
    if as_json:
        said = {"seeds": count, "failures": lines, "faults": tally.faults, "ends": tally.ends, "digest": tally.digest, "seedsPerCoreMinute": rate}
        return json.dumps(said, sort_keys=True)
    verdict = f"{count} seeds, {len(lines)} breaches, {rate} seeds/min/core, digest {tally.digest[:16]}"
    return "\n".join([table("faults", tally.faults), table("ends", tally.ends), verdict, *lines])


def replay(seed: int, mode: str, until: int) -> tuple[str, bool]:
    chosen = mode_of(seed, mode)
    world = twin(seed, trace=True) if chosen == "twin" else World(seed, chosen, trace=True, until=until).run()
    return "\n".join([*(world.trace or ()), str(world.failure or f"seed={seed} mode={chosen}: no breach")]), world.failure is not None


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m polyloop.testing.sim")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--mode", choices=MODE_NAMES, default="all")
    parser.add_argument("--replay", type=int)
    parser.add_argument("--until", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    if args.replay is not None:
        text, failed = replay(args.replay, args.mode, args.until)
    else:
        tally = survey_all(range(args.start, args.start + args.seeds), args.mode, args.jobs)
        text, failed = report(tally, args.seeds, as_json=args.json), bool(tally.failures)
    sys.stdout.write(text + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
