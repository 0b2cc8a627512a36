"""The simulation finds nothing, says the same thing twice, and would find something if it were there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise

import pytest

from polyloop.kernel import records as r
from polyloop.testing.sim import __main__ as command
from polyloop.testing.sim.grammar import Grammar, Illegal
from polyloop.testing.sim.world import EVENTS, MODES, RATES, World, twin

SEEDS = 20_000 if os.environ.get("POLYLOOP_SOAK") else 130
#: Kinds that nothing in a legal log can do without, wherever they stand.
LOAD_BEARING = ("run_started", "model_intent", "model_result", "action_intent", "action_result", "action_deferred", "action_resolved", "step")


@pytest.mark.parametrize("mode", MODES)
def test_S2_27_S2_28_no_seed_breaks_an_invariant(mode: str) -> None:
    tally = command.survey(range(SEEDS), mode)
    assert [str(failure) for failure in tally.failures] == []
    assert sum(tally.ends.values()) > SEEDS / 3


def test_S2_20_S2_30_sinks_change_nothing() -> None:
    worlds = [twin(seed) for seed in range(SEEDS // 2)]
    assert [str(world.failure) for world in worlds if world.failure] == []
    assert sum(world.counts["sink raises"] + world.counts["sink hangs"] for world in worlds) > SEEDS / 4


def test_every_fault_happens() -> None:
    tally = command.survey(range(1000, 1000 + 2 * SEEDS), "safety")
    assert {*RATES, *EVENTS} - tally.faults.keys() == set()


def test_one_seed_is_one_world_under_any_hash_seed() -> None:
    said = [_command("--seeds", "24", "--jobs", "1", "--json", PYTHONHASHSEED=hash_seed) for hash_seed in ("1", "4242")]
    assert said[0]["digest"] == said[1]["digest"] == json.loads(command.report(command.survey_all(range(24), "all", 1), 24, as_json=True))["digest"]


def test_processes_share_the_seeds_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "SHARE", 40)
    assert command.survey_all(range(120), "safety", 2).digest == command.survey_all(range(120), "safety", 1).digest


def test_a_replay_stops_where_it_is_told() -> None:
    text, failed = command.replay(7, "liveness", 12)
    lines = text.splitlines()
    assert not failed
    assert lines[11].split()[0] == "12"
    assert lines[12] == "seed=7 mode=liveness: no breach"


def test_the_command_reports(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--seeds", "16", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "16 seeds, 0 breaches" in out
    assert "seeds/min/core" in out


# --- the automaton -------------------------------------------------------------------------------------------------


def test_the_automaton_misses_no_record() -> None:
    """Any load-bearing record taken out of a legal log, the chain made good again, is noticed by what follows."""
    missed = []
    for seed in range(30):
        world = World(seed, "safety").run()
        for stream in world.streams:
            frames = _frames(world, stream)
            for i, frame in enumerate(frames):
                for j, sealed in enumerate(frame):
                    later = [*frame[j + 1 :], *(s for f in frames[i + 1 :] for s in f)]
                    told = later and sealed.kind in LOAD_BEARING and not (len(later) == 1 and _ends_anywhere(later[0]))
                    if told and _legal(_without(frames, i, j)):
                        missed.append((seed, sealed.seq, sealed.kind, [s.kind for s in later]))
    assert missed == []


def test_the_automaton_takes_every_prefix() -> None:
    world = World(3, "safety").run()
    frames = _frames(world, world.streams[0])
    assert len(frames) > 3
    assert all(_legal(frames[:i]) for i in range(len(frames) + 1))


def test_the_automaton_refuses_a_false_hash() -> None:
    world = World(3, "safety").run()
    first, *others = _frames(world, world.streams[0])
    forged = r.seal(first[0].prev, 0, first[0].at + 1, first[0].fence, first[0].salt, r.decode(first[0].kind, first[0].body or b""))
    assert not _legal([(forged, *first[1:]), *others])


def _ends_anywhere(sealed: r.Sealed) -> bool:
    return sealed.kind == "run_ended" and any(reason in (sealed.body or b"") for reason in (b'"abandoned"', b'"internal_error"'))


Frames = list[tuple[r.Sealed, ...]]


def _frames(world: World, stream: object) -> Frames:
    shelf = world.store.shelves[stream]
    starts = [*sorted(shelf.frames), len(shelf.records)]
    return [tuple(shelf.records[a:b]) for a, b in pairwise(starts)]


def _without(frames: Frames, i: int, j: int) -> Frames:
    """The log without record j of frame i, sealed anew."""
    kept = [[s for k, s in enumerate(frame) if (n, k) != (i, j)] for n, frame in enumerate(frames)]
    out: Frames = []
    prev, seq = r.ZERO_HASH, 0
    for frame in kept:
        batch = []
        for s in frame:
            batch.append(r.seal(prev, seq, s.at, s.fence, s.salt, r.decode(s.kind, s.body or b"")))
            prev, seq = batch[-1].hash, seq + 1
        if batch:
            out.append(tuple(batch))
    return out


def _legal(frames: Sequence[tuple[r.Sealed, ...]]) -> bool:
    grammar = Grammar()
    try:
        for frame in frames:
            grammar.accept(frame, [json.loads(s.body or b"{}") for s in frame])
    except Illegal:
        return False
    return True


def _command(*args: str, **environment: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-m", "polyloop.testing.sim", *args], check=True, capture_output=True, text=True, env={**os.environ, **environment}
    )
    return json.loads(done.stdout)
