"""Error rates by simulation: prompts and times drawn from what a real server recorded, seeds fixed beforehand.

Every rate is over 2,000 draws and judged by the binomial bound that chance passes once in a hundred times.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from math import exp

import pytest
from core_records import recorded

from spectui.core.blocks import Block
from spectui.core.stats import (
    Estimate,
    Sequential,
    needs_blocks,
    ratio_of_accept_length,
    ratio_of_throughput,
    wider,
)

DRAWS = 2000
Arms = tuple[list[Block], list[Block]]


def at_most(rate: float) -> float:
    return rate + 2.33 * (rate * (1 - rate) / DRAWS) ** 0.5


def at_least(rate: float) -> float:
    return rate - 2.33 * (rate * (1 - rate) / DRAWS) ** 0.5


@cache
def prompts() -> tuple[tuple[int, int], ...]:
    """Verify steps for 256 tokens of the same prompt, NGRAM and EAGLE-3: the real spread over prompts."""
    levels = [recorded()[s]["concurrency"]["16"]["requests"] for s in ("ngram-8", "eagle3-3-1-4")]
    return tuple((a["spec_verify_ct"], b["spec_verify_ct"]) for a, b in zip(*levels, strict=True))


@cache
def jitter(concurrency: str) -> tuple[float, ...]:
    """Time of equal work over its mean: the real spread over time, of requests without speculation."""
    times = [r["e2e_latency"] for r in recorded()["none"]["concurrency"][concurrency]["requests"]]
    mean = sum(times) / len(times)
    return tuple(t / mean for t in times)


def block(name: int, steps: int, seconds: float) -> Block:
    return Block(str(name), 256, seconds, 255, steps, seconds, 0.05)


def same(rng: random.Random, count: int, level: str, gain: float = 1.0, first: int = 0) -> Arms:
    """A setting against itself; A the faster by ``gain``."""
    a, b = [], []
    for i in range(first, first + count):
        steps = rng.choice(prompts())[0]
        a.append(block(i, steps, steps * 0.01 * rng.choice(jitter(level)) / gain))
        b.append(block(i, steps, steps * 0.01 * rng.choice(jitter(level))))
    return a, b


def unlike(rng: random.Random, count: int, level: str) -> Arms:
    """NGRAM against EAGLE-3, whose gains differ from prompt to prompt."""
    a, b = [], []
    for i in range(count):
        mine, theirs = rng.choice(prompts())
        a.append(block(i, mine, mine * 0.01 * rng.choice(jitter(level))))
        b.append(block(i, theirs, theirs * 0.01 * rng.choice(jitter(level))))
    return a, b


def truth() -> float:
    return sum(b for _, b in prompts()) / sum(a for a, _ in prompts())


def estimate(arms: Arms) -> Estimate:
    found = ratio_of_throughput(*arms)
    assert found is not None
    return found


@pytest.mark.parametrize(("count", "level"), [(5, "16"), (8, "4"), (16, "16"), (32, "4")])
def test_a_setting_against_itself_is_no_difference(count: int, level: str) -> None:
    rng = random.Random(f"itself {count} {level}")
    wrong = sum(estimate(same(rng, count, level)).excludes_one for _ in range(DRAWS))
    assert wrong / DRAWS <= at_most(0.05)


@pytest.mark.parametrize(("count", "level"), [(5, "16"), (8, "16"), (16, "4"), (32, "16")])
def test_nominal_95_per_cent_holds_the_truth(count: int, level: str) -> None:
    rng = random.Random(f"truth {count} {level}")
    held = sum(e.low <= truth() <= e.high for e in (estimate(unlike(rng, count, level)) for _ in range(DRAWS)))
    assert held / DRAWS >= at_least(0.95)
    assert held / DRAWS <= 0.985, "wider than it says: the power is given away"


def test_arms_with_other_prompts_are_taken_as_independent() -> None:
    rng = random.Random("other prompts")
    held = 0
    for _ in range(DRAWS):
        a, _ = unlike(rng, 12, "16")
        _, b = unlike(rng, 16, "16")
        e = estimate((a, [replace(x, id=f"other {x.id}") for x in b]))
        assert not e.paired
        held += e.low <= truth() <= e.high
    assert held / DRAWS >= at_least(0.95)


def test_accept_length_apart_holds_too() -> None:
    rng = random.Random("accept length")
    held = 0
    for _ in range(DRAWS):
        e = ratio_of_accept_length(*unlike(rng, 10, "4"))
        assert e is not None
        held += e.low <= truth() <= e.high
    assert held / DRAWS >= at_least(0.95)


def whole_blocks(rng: random.Random, count: int) -> Arms:
    """Blocks of eight requests that shared the batch, and with it a time in common."""
    arms: Arms = ([], [])
    for i in range(count):
        steps = [rng.choice(prompts())[0] for _ in range(8)]
        for arm in arms:
            wall = sum(steps) / 8 * 0.01 * rng.choice(jitter("4"))
            arm.append(Block(str(i), 2048, wall, 2040, sum(steps), wall * 8, 0.4, 8, "blocks"))
    return arms


def test_few_whole_blocks_are_handled_honestly() -> None:
    rng = random.Random("whole blocks")
    wrong = sum(estimate(whole_blocks(rng, 6)).excludes_one for _ in range(DRAWS))
    assert wrong / DRAWS <= at_most(0.05)


def turns(
    rng: random.Random, blocks: int, each: int, node: float, gain: float = 1.0, first: int = 0
) -> tuple[Arms, Arms]:
    """A setting against itself by turns, on a node whose speed changes by ``node`` from one block to the next; A the
    faster by ``gain``."""
    by_prompt: Arms = ([], [])
    by_block: Arms = ([], [])
    for number in range(first, first + blocks):
        steps = [rng.choice(prompts())[0] for _ in range(each)]
        for prompt, whole, quick in zip(by_prompt, by_block, (gain, 1.0), strict=True):
            slow = exp(rng.gauss(0, node)) / quick
            mine = [block(number * each + i, s, s * 0.01 * slow * rng.choice(jitter("4"))) for i, s in enumerate(steps)]
            prompt += mine
            whole.append(Block(str(number), 256 * each, sum(b.seconds for b in mine), unit="blocks"))
    return by_prompt, by_block


@pytest.mark.parametrize(("blocks", "each"), [(2, 16), (8, 4)])
def test_what_a_block_has_in_common_is_no_evidence_of_the_setting(blocks: int, each: int) -> None:
    rng = random.Random(f"turns {blocks} {each}")
    fooled = wrong = 0
    for _ in range(DRAWS):
        by_prompt, by_block = turns(rng, blocks, each, 0.05)
        alone = estimate(by_prompt)
        both = wider(alone, estimate(by_block))
        assert both is not None
        fooled += alone.excludes_one
        wrong += both.excludes_one
    assert wrong / DRAWS <= at_most(0.05)
    assert fooled / DRAWS > 0.2, "this node changes too little for the test to say anything"


def test_five_per_cent_is_found_over_what_the_node_does_between_blocks() -> None:
    """Four blocks tell little of how they differ: what is asked for must be enough all the same."""
    rng = random.Random("power by turns")
    found = 0
    for _ in range(DRAWS):
        prompts_of, blocks_of = turns(rng, 4, 4, 0.02, 1.05)
        need = needs_blocks(wider(estimate(prompts_of), estimate(blocks_of)) or estimate(prompts_of))
        more = turns(rng, -(-need.more // 4), 4, 0.02, 1.05, first=4)
        joined = [
            tuple(x + y for x, y in zip(*pair, strict=True)) for pair in zip((prompts_of, blocks_of), more, strict=True)
        ]
        whole = wider(*(estimate(arms) for arms in joined))
        found += whole is not None and whole.low > 1.0
    assert found / DRAWS >= at_least(0.80)


def test_five_per_cent_is_found_in_four_of_five_at_the_sample_that_is_asked_for() -> None:
    rng = random.Random("power")
    found = 0
    sizes = []
    for _ in range(DRAWS):
        pilot = same(rng, 16, "4", 1.05)
        need = needs_blocks(estimate(pilot))
        assert need.reachable
        more = same(rng, need.more, "4", 1.05, first=16)
        sizes.append(need.total)
        found += estimate((pilot[0] + more[0], pilot[1] + more[1])).low > 1.0
    assert found / DRAWS >= at_least(0.80)
    assert sorted(sizes)[DRAWS // 2] < 60, "more is asked for than the spread needs"


def test_out_of_reach_is_said_and_what_settles_sooner() -> None:
    rng = random.Random("out of reach")
    need = needs_blocks(estimate(unlike(rng, 32, "16")))
    assert not need.reachable
    assert "out of reach" in need.text
    assert "step time and accept length apart settle sooner" in need.text


def looks(rng: random.Random, gain: float) -> Iterator[tuple[bool, Estimate]]:
    a: list[Block] = []
    b: list[Block] = []
    plan = Sequential(planned=40)
    for first in range(0, 40, 8):
        more = same(rng, 8, "16", gain, first=first)
        a, b = a + more[0], b + more[1]
        stop, shown, plan = plan.look(estimate((a, b)))
        yield stop, shown
        if stop:
            return


def test_looking_five_times_keeps_the_error_rate_and_stops_early_where_it_can() -> None:
    rng = random.Random("looks")
    wrong = sum(any(e.excludes_one for _, e in looks(rng, 1.0)) for _ in range(DRAWS))
    assert wrong / DRAWS <= at_most(0.05)
    early = [len(list(looks(rng, 1.5))) for _ in range(50)]
    assert max(early) < 5
    assert all(list(looks(rng, 1.0))[-1][0] for _ in range(20)), "the last look always stops"
