"""The frame format: what is packed comes back, and not one flipped byte goes unseen."""

from __future__ import annotations

import gc
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from polyloop.kernel import records as r
from polyloop.kernel.seams import CorruptStore, Signal
from polyloop.stores import frames
from tests.stores.chains import batches

HEX = st.binary(min_size=16, max_size=16).map(bytes.hex)
KINDS = st.sampled_from(frames.KINDS) | st.text(max_size=12).filter(lambda k: "\n" not in k)


@st.composite
def chains(draw: st.DrawFn) -> list[list[r.Sealed]]:
    out, prev, seq = [], r.ZERO_HASH, 0
    for size in draw(st.lists(st.integers(1, 4), max_size=5)):
        batch = []
        for _ in range(size):
            kind, at, fence, salt, body = draw(st.tuples(KINDS, st.integers(0, 1 << 60), st.integers(0, 1 << 40), HEX, st.binary(max_size=60)))
            digest = r.digest_of(salt, body)
            own = r.chain_hash(prev, seq, kind, at, fence, digest)
            sealed = r.Sealed(seq, kind, at, fence, salt, body, digest, prev, own)
            if draw(st.booleans()):
                sealed = replace(sealed, body=None, salt=draw(st.sampled_from(["", salt])))
            batch.append(sealed)
            prev, seq = own, seq + 1
        out.append(batch)
    return out


def rows(packed: list[list[r.Sealed]]) -> list[frames.Stored]:
    return [(f.first_seq, f.last_seq, f.last_hash, f.body) for f in map(frames.pack, packed)]


@given(chains())
def test_S2_28_what_is_packed_comes_back(written: list[list[r.Sealed]]) -> None:
    loaded = frames.unpack(rows(written))
    assert loaded.records == tuple(s for batch in written for s in batch)
    assert loaded.torn is None


def flips(stored: list[frames.Stored], at: int, rng: random.Random) -> list[list[frames.Stored]]:
    """The stored rows, each time with one byte of row `at` changed: every byte of its body, and some of its hash."""
    row = stored[at]
    out = []
    for i in range(len(row[3])):
        body = bytearray(row[3])
        body[i] ^= rng.randrange(1, 256)
        out.append([*stored[:at], (*row[:3], bytes(body)), *stored[at + 1 :]])
    for i in range(0, 32, 5):
        own = bytearray(row[2])
        own[i] ^= rng.randrange(1, 256)
        out.append([*stored[:at], (row[0], row[1], bytes(own), row[3]), *stored[at + 1 :]])
    return out


def test_log_tail_03_every_flipped_byte_is_found_and_placed() -> None:
    """The last frame is torn, one before it is corrupt from its first record on (log_tail-07: never skipped)."""
    rng = random.Random(11)
    for _ in range(40):
        written = batches(*(rng.randrange(1, 4) for _ in range(5)))
        stored = rows(written)
        for at in range(5):
            for damaged in flips(stored, at, rng):
                if at == 4:
                    loaded = frames.unpack(damaged)
                    assert loaded.torn is not None
                    assert loaded.torn.first_seq == written[4][0].seq
                    assert loaded.torn.lost_hash == damaged[4][2].hex()
                    assert loaded.records == tuple(s for batch in written[:4] for s in batch)
                else:
                    with pytest.raises(CorruptStore) as caught:
                        frames.unpack(damaged)
                    assert caught.value.seq == written[at][0].seq


@pytest.mark.parametrize("missing", [0, 1, 3])
def test_a_missing_frame_is_named_by_its_first_record(missing: int) -> None:
    written = batches(2, 1, 3, 2, 1)
    stored = rows(written)
    del stored[missing]
    with pytest.raises(CorruptStore, match="is missing") as caught:
        frames.unpack(stored)
    assert caught.value.seq == written[missing][0].seq


def test_frames_in_another_order_are_damage() -> None:
    stored = rows(batches(1, 1, 1))
    with pytest.raises(CorruptStore):
        frames.unpack([stored[0], stored[2], stored[1]])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc0",
        msgspec.msgpack.encode([1, []]),
        msgspec.msgpack.encode([1, [[99, 0, 0, b"", b"{}"]]]),
        msgspec.msgpack.encode([1, [[-1, 0, 0, b"", b"{}"]]]),
        msgspec.msgpack.encode([1, [[0, 0, 0, "text", b"{}"]]]),
        msgspec.msgpack.encode({"type": "os.system", "args": ["touch M"]}),
        msgspec.msgpack.encode(msgspec.msgpack.Ext(1, b"cos\nsystem\n")),
    ],
)
def test_hostile_input_09_a_foreign_body_is_data_or_a_typed_error(body: bytes) -> None:
    good = rows(batches(1))
    loaded = frames.unpack([(0, 0, good[0][2], body)])
    assert loaded.records == ()
    assert loaded.torn is not None
    assert frames.last_entry(body) == ("", 0) or body == msgspec.msgpack.encode([1, []])


def test_kinds_are_those_of_the_kernel_in_the_order_of_schema_1() -> None:
    assert frames.KINDS[:15] == (
        "run_started", "model_intent", "model_result", "action_intent", "action_result", "action_deferred", "action_resolved", "step",
        "resume_started", "resume_refused", "replay", "drift_accepted", "tail_repaired", "cancel_requested", "run_ended",
    )  # fmt: skip
    assert set(r.KINDS) <= set(frames.KINDS)


@given(st.binary(max_size=200))
def test_a_blob_is_what_its_digest_says(data: bytes) -> None:
    assert frames.checked(r.sha256(data), data) == data
    with pytest.raises(CorruptStore):
        frames.checked(r.sha256(data), data + b"x")


def test_every_flipped_byte_of_a_blob_is_found() -> None:
    data = bytes(range(256))
    for i in range(256):
        with pytest.raises(CorruptStore):
            frames.checked(r.sha256(data), data[:i] + bytes([data[i] ^ 64]) + data[i + 1 :])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(), x, max_size=3)
)


@given(st.text(), st.text(), JSON, st.integers(1, 1 << 50))
def test_a_signal_comes_back(by: str, token: str, body: object, at: int) -> None:
    sent = Signal(3, "resolve", at, by, token, "answered", body)
    assert frames.unpack_signal(3, frames.pack_signal(sent)) == sent


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b"[1,2,3,4,5,6,7,8,9]", b"\xff"])
def test_a_damaged_signal_is_typed(body: bytes) -> None:
    with pytest.raises(CorruptStore, match="signal 7"):
        frames.unpack_signal(7, body)


def test_loading_leaves_the_collector_as_it_was() -> None:
    stored = rows(batches(1, 1))
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            frames.unpack(stored)
            assert gc.isenabled() == enabled
        finally:
            gc.enable()
