"""Tokenizer and answers of the simulated server."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.core.ngram import NgramRequest, NgramSettings, NgramStore
from spectui.engines.sim.answer import Answer, kind_of
from spectui.engines.sim.ties import FAR, logprobs
from spectui.engines.sim.tokenizer import EOS, VOCAB_SIZE, chat_text, tokenizer


@settings(max_examples=80, deadline=None)
@given(st.text(st.characters(), max_size=60))
def test_any_text_comes_back(text: str) -> None:
    ids = tokenizer().encode(text)
    assert tokenizer().decode(ids, special=True) == text
    assert all(0 < i < VOCAB_SIZE for i in ids) or "<|endoftext|>" in text


def test_ids_are_stable_and_pieces_are_words() -> None:
    assert tokenizer().encode("The river carries a lantern.") == tokenizer().encode("The river carries a lantern.")
    assert len(tokenizer().encode("The river carries a lantern.")) == 6
    assert tokenizer().encode("<|im_start|>user\nHi<|im_end|>")[0] == 1


def test_half_a_character_waits_for_the_other_half() -> None:
    ids = tokenizer().encode("語")
    stream = tokenizer().stream()
    assert [stream.add([i]) for i in ids] == ["", "", "語"]
    cut = tokenizer().stream()
    assert cut.add(ids[:2]) + cut.end() == "\ufffd"


def test_chat_template_ends_where_the_answer_begins() -> None:
    text = chat_text([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}])
    assert text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    with pytest.raises(ValueError, match=r"messages\[0\] has no role"):
        chat_text([{"content": "x"}])


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ("Write ten JSON records of cities.", "records"),
        ("Rename the variable.\n```python\ndef f(x):\n    return x\n```", "code"),
        ("Translate this into French: the ship is late.", "translate"),
        ("How should I plan my week?", "chat"),
        ("Explain how a canal lock works.", "prose"),
    ],
)
def test_kind_by_the_words_of_the_question(prompt: str, kind: str) -> None:
    assert kind_of(chat_text([{"role": "user", "content": prompt}])) == kind


def _answer(prompt: str, seed: int | None = None, ignore_eos: bool = False) -> Answer:
    ids = tokenizer().encode(chat_text([{"role": "user", "content": prompt}]))
    return Answer(tokenizer(), ids, seed, ignore_eos)


def test_same_prompt_same_answer_other_seed_other_answer() -> None:
    first = _answer("What is a tide?").upto(200)[:200]
    assert _answer("What is a tide?").upto(200)[:200] == first
    assert _answer("What is a tide?", seed=1).upto(200)[:200] != first
    assert _answer("What is a tyre?").upto(200)[:200] != first


def test_answers_end_by_themselves_unless_told_not_to() -> None:
    ended = _answer("What is a tide?")
    ended.upto(1500)
    assert ended.end is not None
    assert ended.ids[ended.end] == EOS
    endless = _answer("What is a tide?", ignore_eos=True)
    assert EOS not in endless.upto(1500)
    assert endless.end is None


def test_given_code_is_repeated_with_a_small_edit() -> None:
    code = "def total(prices):\n    amount = 0\n    for price in prices:\n        amount += price\n    return amount\n"
    text = tokenizer().decode(_answer(f"Rewrite this code.\n```python\n{code}```").upto(120))
    assert text.startswith("```python\n")
    assert "    for " in text
    assert "return" in text
    assert code not in text


def _accept_length(store: NgramStore, prompts: list[str]) -> float:
    tokens = steps = 0
    for prompt in prompts:
        answer = _answer(prompt, ignore_eos=True)
        prompt_ids = tokenizer().encode(chat_text([{"role": "user", "content": prompt}]))
        request, count = NgramRequest(store, prompt_ids, answer.upto(240)[0]), 1
        while count < 160:
            drafts = request.draft().accepted(answer.ids[count : count + 20])
            request.commit(answer.ids[count : count + drafts + 1])
            count, steps = count + drafts + 1, steps + 1
        request.finish()
        tokens += count - 1
    return tokens / steps


def test_unrelated_prose_starves_the_store() -> None:
    prompts = ["Explain how a canal lock works.", "What is a tide?", "Describe a night train.", "Why do bridges hum?"]
    assert 1.05 < _accept_length(NgramStore(NgramSettings(num_draft_tokens=8)), prompts) < 1.45


def test_a_fed_store_accepts_more_of_records() -> None:
    names = [f"Write JSON records of number {i}, one a line." for i in range(18)]
    cold = _accept_length(NgramStore(NgramSettings(num_draft_tokens=8)), names[:4])
    fed = NgramStore(NgramSettings(num_draft_tokens=8))
    _accept_length(fed, names[4:])
    assert _accept_length(fed, names[:4]) > cold + 0.3


def _chat_ids(prompt: str) -> list[int]:
    return tokenizer().encode(chat_text([{"role": "user", "content": prompt}]))


def test_an_answer_that_was_begun_is_gone_on_with() -> None:
    whole = _answer("Explain how a canal lock works.").upto(40)
    rest = Answer(tokenizer(), [*_chat_ids("Explain how a canal lock works."), *whole[:15]], None, False)
    assert rest.upto(20)[:20] == whole[15:35]
    other = Answer(tokenizer(), [*_chat_ids("Explain how a canal lock works."), *whole[:14], 999], None, False)
    assert other.upto(20)[:20] != whole[15:35]


def test_greedy_answers_of_servers_that_differ_part_at_a_tie_or_behind_one() -> None:
    prompts = [f"Explain the number {n}." for n in range(12)]
    plain = [_answer(p) for p in prompts]
    tied = [a.tie for a in plain if a.tie is not None]
    assert 2 <= len(tied) <= 10
    for differ, behind in (("near", 0), ("far", FAR)):
        for prompt, base in zip(prompts, plain, strict=True):
            other = Answer(tokenizer(), _chat_ids(prompt), None, False, differ)
            pairs = zip(base.upto(60)[:60], other.upto(60)[:60], strict=True)
            parted = [i for i, (x, y) in enumerate(pairs) if x != y]
            assert parted == ([] if base.tie is None else [base.tie + behind])
    assert Answer(tokenizer(), _chat_ids(prompts[0]), 7, False, "near").tie is None  # sampled text differs anyway


def test_log_probabilities_have_the_shape_of_sglangs() -> None:
    told = logprobs([700, 800, 900], tie=1, top=5)
    assert [row[1] for row in told["output_token_logprobs"]] == [700, 800, 900]
    for at, row in enumerate(told["output_top_logprobs"]):
        values, ids, texts = zip(*row, strict=True)
        assert len(row) == len(set(ids)) == 5
        assert ids[0] == told["output_token_logprobs"][at][1]
        assert list(values) == sorted(values, reverse=True)
        assert set(texts) == {None}
        assert (values[0] - values[1] < 0.1) == (at == 1)
    assert told["output_top_logprobs"][1][1][1] == 801
    assert "output_top_logprobs" not in logprobs([700], tie=None, top=0)
