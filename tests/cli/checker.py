"""Recompute a run's hash chain from `polyloop export --format chain`. Standard library only; nothing of the project.

python checker.py FILE -> prints the head hash and the number of records; exits 1 naming the first record that is wrong.
"""

import hashlib
import json
import sys
from pathlib import Path


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


prev, count = "0" * 64, 0
with Path(sys.argv[1]).open(encoding="utf-8") as file:
    for line in file:
        r = json.loads(line)
        wrong = r["seq"] != count or r["prev"] != prev
        if r["body"] is not None:
            wrong |= sha(r["salt"] + r["body"]) != r["body_digest"]
            again = json.dumps(json.loads(r["body"]), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            wrong |= again != r["body"] and "\\ud" not in r["body"]
        parts = (prev, r["seq"], r["kind"], r["at"], r["fence"], r["body_digest"])
        if wrong or sha("\n".join(str(p) for p in parts)) != r["hash"]:
            sys.exit(f"record {count} is wrong")
        prev, count = r["hash"], count + 1
sys.stdout.write(f"{prev} {count}\n")
