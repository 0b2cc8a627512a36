"""Verify finds what was changed, names the record, and is never brought down by what it reads (R42, R52; interface.md, verify)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from polyloop.kernel import records as r
from polyloop.kernel.records import Sealed
from polyloop.kernel.run import Past
from polyloop.kernel.seams import CorruptStore, Deferred, Loaded, NewerSchema
from polyloop.kernel.verify import verify
from polyloop.testing import said
from tests.kernel.desk import Desk, act


def written() -> Desk:
    """A log with a rejection, a wait, a long text, a resume: most kinds there are."""
    lines = [act("look", n=1), act("nope"), act("write", long="x" * 3000), act("submit", summary="s")]
    desk = Desk(lines, {"write": lambda a: said("y" * 2000) if a.approved else Deferred("t", "approval")})
    desk.start()
    desk.log.leave("resolve", "t", "approved", at=desk.clock.now_ms())
    desk.resume()
    return desk


DESK = written()
LOG, BLOBS = DESK.log.records, DESK.log.texts


def sealed(parts: Sequence[tuple[str, bytes]], fences: Sequence[int] = ()) -> list[Sealed]:
    """A forger's log: any bodies, and every hash right."""
    prev, out = r.ZERO_HASH, []
    for seq, (kind, body) in enumerate(parts):
        digest, fence = r.digest_of("00" * 16, body), fences[seq] if fences else 1
        hash_ = r.chain_hash(prev, seq, kind, 1, fence, digest)
        out.append(Sealed(seq, kind, 1, fence, "00" * 16, body, digest, prev, hash_))
        prev = hash_
    return out


def forged(seq: int, **fields: Any) -> list[Sealed]:
    """The log with some fields of one record changed, and the chain made anew."""
    parts = [(s.kind, s.body or b"") for s in LOG]
    parts[seq] = (parts[seq][0], r.canonical(json.loads(parts[seq][1]) | fields))
    return sealed(parts)


def seq_of(kind: str, number: int = 0) -> int:
    return [s.seq for s in LOG if s.kind == kind][number]


def test_a_whole_log_is_verified() -> None:
    verdict = verify(LOG, BLOBS, LOG[-1].hash)
    assert (verdict.ok, verdict.records, verdict.ended, verdict.head_hash, verdict.erased) == (True, len(LOG), True, LOG[-1].hash, 0)
    assert set(DESK.log.kinds) >= {"resume_started", "action_deferred", "action_resolved", "step", "run_ended"}
    verdict = verify(LOG[:7], BLOBS)
    assert (verdict.ok, verdict.ended) == (True, False)
    assert verify([], {}).ok


FLIPS: dict[str, Any] = {
    "seq": lambda s: s.seq + 1,
    "kind": lambda s: "cancel_requested" if s.kind != "cancel_requested" else "step",
    "at": lambda s: s.at + 1,
    "fence": lambda s: s.fence + 1,
    "salt": lambda _: "f" * 32,
    "body": lambda s: s.body.replace(b":", b": ", 1) if b":" in s.body else b"{ }",
    "body_digest": lambda _: "0" * 64,
    "prev": lambda _: "1" * 64,
    "hash": lambda _: "2" * 64,
}


@pytest.mark.parametrize("field", FLIPS)
def test_a_changed_record_is_named(field: str) -> None:
    for seq, s in enumerate(LOG):
        changed = [*LOG[:seq], replace(s, **{field: FLIPS[field](s)}), *LOG[seq + 1 :]]
        verdict = verify(changed, BLOBS)
        assert (verdict.ok, verdict.problem.seq) == (False, seq)
        assert verdict.problem.kind in ("chain", "body")


@given(st.integers(0, len(LOG) - 1), st.data())
@settings(max_examples=100)
def test_any_flipped_byte_of_a_body_is_named(seq: int, data: st.DataObject) -> None:
    body = bytearray(LOG[seq].body or b"")
    body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    verdict = verify([*LOG[:seq], replace(LOG[seq], body=bytes(body)), *LOG[seq + 1 :]], BLOBS)
    assert (verdict.problem.seq, verdict.problem.kind) == (seq, "body")


@pytest.mark.parametrize("seq", range(1, len(LOG) - 1))
def test_a_record_left_out_doubled_or_moved_is_named(seq: int) -> None:
    assert verify([*LOG[:seq], *LOG[seq + 1 :]], BLOBS).problem.seq == seq
    assert verify([*LOG[:seq], LOG[seq - 1], *LOG[seq:]], BLOBS).problem.seq == seq
    assert verify([*LOG[:seq], LOG[seq + 1], LOG[seq], *LOG[seq + 2 :]], BLOBS).problem.seq == seq
    assert verify(LOG[seq:], BLOBS).problem.seq == 0


def test_a_cut_log_is_whole_but_not_against_a_kept_head() -> None:
    """Tamper-evident against a kept head, no more."""
    assert verify(LOG[:-3], BLOBS).ok
    verdict = verify(LOG[:-3], BLOBS, LOG[-1].hash)
    assert (verdict.problem.kind, verdict.problem.seq) == ("head", len(LOG) - 4)
    assert verify(LOG, BLOBS, LOG[5].hash).ok
    assert verify(LOG, BLOBS, r.ZERO_HASH).ok
    assert verify(sealed([(s.kind, s.body or b"") for s in LOG]), BLOBS, LOG[-1].hash).problem.kind == "head"
    assert verify([], {}, LOG[-1].hash).problem.kind == "head"


# --- forged logs whose chain is right ------------------------------------------------------------------------------


def counted(seq: int, **changed: int) -> list[Sealed]:
    return forged(seq, counters=json.loads(LOG[seq].body)["counters"] | changed)


FORGERIES: list[tuple[str, list[Sealed], str, int]] = [
    ("a valid step more", counted(seq_of("step"), valid_steps=2), "counters", seq_of("step")),
    ("a rejection less", counted(seq_of("step", 1), rejections_total=0), "counters", seq_of("step", 1)),
    ("a rejected step said to be valid", forged(seq_of("step", 1), valid=True), "counters", seq_of("step", 1)),
    ("the end's counters", counted(len(LOG) - 1, iterations=1), "counters", len(LOG) - 1),
    ("the end's reason", forged(len(LOG) - 1, reason="cancelled"), "illegal", len(LOG) - 1),
    ("an end in the middle", sealed([(s.kind, s.body) for s in [*LOG[:6], LOG[-1], *LOG[6:]]]), "counters", 6),
    ("an effect without its intent", sealed([(s.kind, s.body) for s in [*LOG[:3], *LOG[4:]]]), "illegal", 3),
    ("a result twice", sealed([(s.kind, s.body) for s in [*LOG[:5], LOG[4], *LOG[5:]]]), "illegal", 5),
    ("something after the end", sealed([(s.kind, s.body) for s in [*LOG, LOG[seq_of("resume_started")]]]), "illegal", len(LOG)),
    ("a start in the middle", sealed([(s.kind, s.body) for s in [*LOG[:6], LOG[0]]]), "illegal", 6),
    ("an approval nobody waited for", forged(seq_of("action_resolved"), token="u"), "illegal", seq_of("action_resolved")),
    ("a kind of a newer schema", sealed([*[(s.kind, s.body) for s in LOG[:3]], ("dream", b"{}")]), "unknown_kind", 3),
    ("a body that is no record", sealed([*[(s.kind, s.body) for s in LOG[:3]], ("step", b"[]")]), "body", 3),
    ("a body that is no JSON", sealed([*[(s.kind, s.body) for s in LOG[:3]], ("step", b"{")]), "body", 3),
    ("a body that is no text", sealed([*[(s.kind, s.body) for s in LOG[:3]], ("step", b'{"\xff":1}')]), "body", 3),
]  # fmt: skip


@pytest.mark.parametrize(("log", "kind", "seq"), [f[1:] for f in FORGERIES], ids=[f[0] for f in FORGERIES])
def test_a_log_no_run_could_have_written_is_named(log: list[Sealed], kind: str, seq: int) -> None:
    verdict = verify(log, BLOBS)
    assert (verdict.ok, verdict.problem.kind, verdict.problem.seq) == (False, kind, seq)
    if kind != "counters" or seq == len(LOG) - 1:
        with pytest.raises(NewerSchema if kind == "unknown_kind" else CorruptStore):
            Past(Loaded(tuple(log)))


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.text(max_size=3)),
    lambda x: st.one_of(st.lists(x, max_size=3), st.dictionaries(st.sampled_from(["path", "blob", "size", "a"]), x, max_size=3)),
    max_leaves=5,
)


@given(st.integers(0, len(LOG) - 1), st.data())
@settings(max_examples=200)
def test_no_forged_body_brings_it_down(seq: int, data: st.DataObject) -> None:
    """Any field of any record replaced by any value, or any other kind in its place: a verdict, and a typed refusal to continue."""
    kind = data.draw(st.sampled_from([LOG[seq].kind, LOG[seq].kind, *r.KINDS]))
    names = list(r.KINDS[kind].__struct_fields__)
    body = json.loads(LOG[seq].body) if kind == LOG[seq].kind else {}
    body[data.draw(st.sampled_from(names))] = data.draw(json_values)
    parts = [(s.kind, s.body) for s in LOG]
    parts[seq] = (kind, json.dumps(body).encode())
    verdict = verify(sealed(parts), BLOBS)
    assert verdict.records == len(LOG)
    if not verdict.ok and verdict.problem.kind in ("illegal", "body", "unknown_kind"):
        with pytest.raises((CorruptStore, NewerSchema)):
            Past(Loaded(tuple(sealed(parts))))


HOSTILE = [
    ("drift_accepted", {"fields": [{}]}),
    ("drift_accepted", {"fields": [{"path": "tools.look.timeout_s"}]}),
    ("drift_accepted", {"fields": [{"path": "tools.look.timeout_s", "offered": "soon"}]}),
    ("drift_accepted", {"fields": [{"path": "tools.look.description", "offered": {"a": 1}}]}),
    ("drift_accepted", {"fields": [{"path": "tools.look.effect", "offered": "read"}]}),
    ("drift_accepted", {"fields": [{"path": "tools.nobody.timeout_s", "offered": 1}]}),
]


@pytest.mark.parametrize(("kind", "body"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_difference_nobody_could_have_accepted_is_illegal(kind: str, body: dict[str, Any]) -> None:
    log = sealed([*[(s.kind, s.body) for s in LOG[:6]], (kind, r.canonical(body))])
    assert (verify(log, BLOBS).problem.kind, verify(log, BLOBS).problem.seq) == ("illegal", 6)


def test_a_record_of_a_holder_who_had_lost_the_run_is_named() -> None:
    """No store takes one: whoever finds it there has found a store that was written round."""
    parts = [(s.kind, s.body or b"") for s in LOG]
    for seq in range(1, len(LOG)):
        assert verify(sealed(parts, [3] * seq + [4] * (len(LOG) - seq)), BLOBS).ok
        verdict = verify(sealed(parts, [3] * seq + [2] * (len(LOG) - seq)), BLOBS)
        assert (verdict.problem.kind, verdict.problem.seq, verdict.records) == ("fence", seq, len(LOG))


# --- erased ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seq", range(len(LOG)))
def test_an_erased_body_keeps_the_chain(seq: int) -> None:
    gone = replace(LOG[seq], body=None, salt="")
    verdict = verify([*LOG[:seq], gone, *LOG[seq + 1 :]], BLOBS, LOG[-1].hash)
    assert (verdict.ok, verdict.erased) == (True, 1)
    with pytest.raises(CorruptStore) as erased:
        Past(Loaded((*LOG[:seq], gone, *LOG[seq + 1 :])))
    assert erased.value.seq == seq


def test_a_text_is_checked_and_may_be_erased() -> None:
    digest = next(iter(BLOBS))
    assert verify(LOG, {**BLOBS, digest: b"other"}).problem.kind == "blob"
    verdict = verify(LOG, {k: v for k, v in BLOBS.items() if k != digest})
    assert verdict.ok
    assert verdict.erased >= 1
    assert verify(LOG, {}).erased >= len(BLOBS)


def test_a_run_whose_texts_are_erased_is_not_continued() -> None:
    """It would be shown a marker in place of what was said, and run actions without their arguments."""
    whole = Desk([act("look", n=1), act("write", long="x" * 3000), act("submit")])
    whole.start()
    desk = Desk(whole.model.lines, shelf=whole.log.upto(9))
    desk.log.texts.clear()
    with pytest.raises(CorruptStore):
        desk.resume()
    assert (desk.model.seen, desk.actions.asked, desk.log.holder, len(desk.log.records)) == ([], [], "", 9)
    whole.log.texts.clear()
    assert whole.resume().reason == "completed"
