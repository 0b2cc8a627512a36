"""Many calls at once, and what one costs: limits with room for a busy machine; `figures` prints the values."""

from __future__ import annotations

import asyncio

import pytest

from tests.gateway.figures import call_cost, crossed, elsewhere, hit_cost, rss_mb


@pytest.fixture(scope="module")
def url():
    with elsewhere() as where:
        yield where


def test_1000_calls_at_once_each_get_their_own_reply_in_bounded_memory(url):
    before = rss_mb()
    assert asyncio.run(crossed(url, 1000)) == 0
    assert rss_mb() - before <= 100


def test_a_call_costs_no_more_than_twice_a_bare_post(url):
    ours, bare = asyncio.run(call_cost(url, 20))
    assert ours <= 2 * bare


def test_a_cache_hit_costs_no_more_than_four_times_a_bare_read(tmp_path, url):
    ours, bare = asyncio.run(hit_cost(tmp_path, url, 100))
    assert ours <= 4 * bare
