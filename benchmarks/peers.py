"""`make bench-peers`: this runtime beside its peers, in one run, interleaved: W(200, 4 KB), then the same killed at its last model call.

python benchmarks/peers.py [--repeats N] [--json FILE]. Needs the environment of the peers (.bench, made by make) and a C compiler.
Scratch as in `run.py`.
What a peer does better is said first. Versions are those of harness/requirements.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path

from run import Line, measure

STEPS, BYTES = 200, 4096
OURS = "kernel:d"
PEERS = {
    OURS: "PolyLoop", "kernel": "PolyLoop, loop shared", "lg:sqlite": "LangGraph, SQLite", "dbosp:sqlite": "DBOS, SQLite",
    "pai:sqlite": "Pydantic AI + DBOS, SQLite",
}  # fmt: skip
#: What is compared: title, mode, key, digits, whether more is better.
COLUMNS: list[tuple[str, str, str, int, bool]] = [
    ("steps/s", "run", "steps_s", 0, True),
    ("p99 ms", "run", "p99_ms", 1, False),
    ("CPU ms/step", "run", "cpu_ms_step", 2, False),
    ("syncs/step", "run", "fsyncs_step", 2, False),
    ("disk/payload", "run", "disk_ratio", 2, False),
    ("RSS MB", "run", "rss_mb", 0, False),
    ("calls repeated after kill -9", "resume", "repeated_calls", 0, False),
    ("s to the next call after kill -9", "resume", "to_first_call_s", 3, False),
]


def measured(repeats: int, scratch: str) -> dict[str, dict[str, list[Line]]]:
    """Peer -> mode -> lines, every peer once per round. A peer that fails keeps its error as a line."""
    lines: dict[str, dict[str, list[Line]]] = {peer: {"run": [], "resume": []} for peer in PEERS}
    for _ in range(repeats):
        for mode in ("run", "resume"):
            for peer in PEERS:
                lines[peer][mode].append(_one(peer, mode, scratch))
    return lines


def _one(peer: str, mode: str, scratch: str) -> Line:
    try:
        line = measure(f"{peer}/{STEPS}/{BYTES}/1/{mode}/1/120", scratch)
    except SystemExit as failed:
        return {"err": str(failed)}
    return {**line, "disk_ratio": line["disk_bytes"] / (line["payload_step"] * STEPS)}


def medians(lines: dict[str, list[Line]]) -> dict[str, float]:
    """Title -> median of the lines that have it."""
    found: dict[str, float] = {}
    for title, mode, key, _, _ in COLUMNS:
        values = [float(line[key]) for line in lines[mode] if line.get(key) is not None]
        if values:
            found[title] = statistics.median(values)
    return found


def losses(table: dict[str, dict[str, float]]) -> list[str]:
    """Where a peer is better than we are."""
    mine, out = table[OURS], list[str]()
    for peer, row in table.items():
        for title, _, _, digits, more in COLUMNS:
            if peer.startswith("kernel") or title not in row or title not in mine:
                continue
            if row[title] > mine[title] if more else row[title] < mine[title]:
                out.append(f"{PEERS[peer]} is better in {title}: {row[title]:.{digits}f}, ours {mine[title]:.{digits}f}")
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_TMP")) as scratch:
        lines = measured(asked.repeats, scratch)
    table = {peer: medians(modes) for peer, modes in lines.items()}
    for said in losses(table) or ["No peer is better in anything measured here."]:
        print(said)
    titles = [title for title, *_ in COLUMNS]
    print(f"\n| W({STEPS}, {BYTES} B), median of {asked.repeats} | {' | '.join(titles)} |\n|{'---|' * (len(titles) + 1)}")
    for peer, row in table.items():
        cells = [f"{row[title]:.{digits}f}" if title in row else "-" for title, _, _, digits, _ in COLUMNS]
        print(f"| {PEERS[peer]} | {' | '.join(cells)} |")
    for peer, modes in lines.items():
        for line in (line for mode in modes.values() for line in mode if "err" in line):
            print(f"{PEERS[peer]} failed: {line['err'][-300:]}")
    if asked.json:
        asked.json.write_text(json.dumps({"medians": table, "lines": lines}, indent=1) + "\n")
    if any("err" in line for mode in lines[OURS].values() for line in mode):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
