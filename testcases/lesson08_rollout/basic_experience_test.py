"""Lesson 8, by hand: rows of an experience, and minibatches that deal each of them once."""

import pytest
import torch
from torch import Tensor

from testcases.harness.suite.asserts import assert_equal, assert_leaves_global_random_alone, named, scenario
from testcases.lesson08_rollout.examples import readable
from tutorial.lesson08_rollout import Experience, ExperienceBuffer

# Experience.rows


def cut(stored: dict[str, Tensor], index: list[int], prompt: slice, response: slice) -> dict[str, Tensor]:
    """These rows of what is stored, and these columns of its prompts and of its responses."""
    length, steps = stored["input_ids"].shape[1], stored["mask"].shape[1]
    both = [*range(length - steps)[prompt], *range(length - steps, length)[response]]
    columns = {"input_ids": both, "attention_mask": both}
    return {
        name: tensor[index] if tensor.dim() == 1 else tensor[index][:, columns.get(name, response)]
        for name, tensor in stored.items()
    }


FOUR = [1, 3, 2, 2], [2, 1, 4, 3]


@named(
    "lengths, index, prompt_columns, response_columns",
    {
        # Prompts of 1, 3, 2, 2 tokens, padded to 3; responses of 2, 1, 4, 3, padded to 4
        "all-rows-keep-all-columns": (FOUR, [0, 1, 2, 3], slice(0, 3), slice(0, 4)),
        "one-row-loses-its-padding": (FOUR, [0], slice(2, 3), slice(0, 2)),
        "long-prompt-short-response": (FOUR, [1], slice(0, 3), slice(0, 1)),
        "short-prompt-long-response": (FOUR, [2], slice(1, 3), slice(0, 4)),
        "as-long-as-the-longest-in-the-order-asked": (FOUR, [3, 0], slice(1, 3), slice(0, 3)),
        "a-row-twice": (FOUR, [2, 2, 1], slice(0, 3), slice(0, 4)),
        "one-stored-row": (([2], [3]), [0], slice(0, 2), slice(0, 3)),
    },
)
@pytest.mark.points(5)
def test_rows_by_hand(lengths, index, prompt_columns, response_columns):
    stored = readable(*lengths)
    expected = cut(stored, index, prompt_columns, response_columns)
    assert_equal(scenario("picked", of=Experience.rows)(tensors=stored, index=index), expected)


def test_rows_goes_by_the_masks_not_by_the_token_ids():
    # Token 0 is a real token here, at the start of the prompt and at the end of the response; rewards may be 0 as well.
    stored = readable([2, 2], [2, 1])
    stored["input_ids"] = torch.tensor([[0, 7, 8, 0], [6, 7, 0, 0]])
    stored = {name: torch.zeros_like(t) if t.dim() == 2 and t.is_floating_point() else t for name, t in stored.items()}
    assert_equal(
        scenario("picked", of=Experience.rows)(tensors=stored, index=[0]),
        {name: tensor[:1] for name, tensor in stored.items()},
    )


# ExperienceBuffer.minibatches

YIELDED = scenario("yielded", of=ExperienceBuffer.minibatches)


def rows_of(prompts: list[int], responses: list[int], first: int = 0) -> list[dict[str, Tensor]]:
    """Each row of `readable`, without its padding."""
    whole, longest, rows = readable(prompts, responses, first), max(prompts), []
    for number, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        one = cut(whole, [number], slice(longest - prompt, longest), slice(response))
        rows.append({name: tensor[0] for name, tensor in one.items()})
    return rows


# Two batches: prompts of 2 and 3 tokens, responses of up to 3 and 4
TWO, THREE = ([2, 1], [3, 1]), ([1, 3, 2], [2, 4, 1], 2)
BATCHES = readable(*TWO), readable(*THREE)


@named(
    "size, sizes",
    {
        "one-row-at-a-time": (1, [1, 1, 1, 1, 1]),
        "the-last-one-is-smaller": (2, [2, 2, 1]),
        "three-and-two": (3, [3, 2]),
        "all-at-once": (5, [5]),
    },
)
@named("epochs", {"first-epoch": 1, "second-epoch": 2})
@pytest.mark.points(6)
def test_minibatches_deal_every_row_once(size, sizes, epochs):
    # Each row comes back whole, cut to its length.
    answer = YIELDED(batches=BATCHES, size=size, seed=5, epochs=epochs)
    assert_equal(answer["sizes"], sizes)
    assert_equal(answer["rows in the buffer"], 5)
    assert_equal(answer["columns to spare"], 0)
    assert_equal(answer["rows"], (*rows_of(*TWO), *rows_of(*THREE)))


@pytest.mark.points(2)
def test_minibatches_deal_what_is_stored_now():
    # After an epoch over the first batch the buffer is cleared.
    answer = YIELDED(batches=BATCHES, size=2, seed=7, forget=True)
    assert_equal(answer["rows"], tuple(rows_of(*THREE)))
    assert_equal(answer["tensors held after a clear"], 0)


@pytest.mark.points(2)
def test_minibatches_are_shuffled_by_the_generator():
    rows = readable([2] * 1_500, [3] * 1_500)
    answer = scenario("order_agreement", of=ExperienceBuffer.minibatches)(tensors=rows, size=200, seed=0)
    assert_equal(
        answer,
        {
            "each row once": True,
            "same seed": True,
            "same generator once more": False,
            "other seed": False,
            "as they were stored": False,
            "each minibatch as it was stored": False,
            "each minibatch of neighbors": False,
            "most rows beside their neighbor": False,
            "up as often as down": True,
        },
    )
    assert_leaves_global_random_alone(answer)
