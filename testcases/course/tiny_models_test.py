"""The toy environment, on which every lesson relies: its language and truth, annotators, tokenizer and models."""

import math
import random

import pytest
import torch

from testcases.harness.suite.asserts import named
from tiny_models import preferences
from tiny_models.builders import build_gpt2, build_llama
from tiny_models.gold import GOLD_MAX, gold_score, is_well_formed
from tiny_models.language import ADJECTIVES, INTENSIFIERS, NOUNS, VOCABULARY, all_prompts, sample_prompts, sample_review
from tiny_models.preferences import Preference, make_preferences, preference_probability
from tiny_models.tokenizer import MAX_LENGTH, build_tokenizer
from tiny_models.verifier import verify

FILM = "review the film :"
GOOD, BETTER = "the film was good .", "the film was good and lovely ."  # gold 1.5 and 2
WORST = "the sauce was bad and dull and the room was weak and awful ."  # gold -1
BEST = "the film was good and lovely and the plot was superb and brilliant ."  # gold 2


def sample_texts(seed: int, count: int = 300) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    return [(prompt, sample_review(prompt, rng)) for prompt in sample_prompts(count, rng)]


# The grammar again, in another way: one letter for each class of words, and the list of all sentences.
LETTERS = {
    "T": ("the",),
    "N": NOUNS,
    "W": ("was",),
    "I": INTENSIFIERS,
    "A": ADJECTIVES,
    "&": ("and",),
    "B": ("but",),
    ".": (".",),
    "x": ("review", ":", "<eos>", "good.", "The"),
}
CLAUSE_SHAPES = ("TNWA", "TNWIA", "TNWA&A", "TNWIA&A")
SHAPES = [f"{one}." for one in CLAUSE_SHAPES] + [
    f"{one}{joiner}{other}." for one in CLAUSE_SHAPES for joiner in "&B" for other in CLAUSE_SHAPES
]


def spell(shape: str, rng: random.Random) -> str:
    return " ".join(rng.choice(LETTERS[letter]) for letter in shape)


def test_the_parser_knows_every_sentence_shape_from_every_slip_of_one_word() -> None:
    """What it does not know has no gold."""
    rng = random.Random(0)
    slips = {*SHAPES, ""}
    for shape in SHAPES:
        for place in range(len(shape) + 1):
            slips.add(shape[:place] + shape[place + 1 :])
            slips.update(shape[:place] + letter + shape[place:] for letter in LETTERS)
            slips.update(shape[:place] + letter + shape[place + 1 :] for letter in LETTERS)
    texts = {shape: spell(shape, rng) for shape in slips}
    assert {shape for shape in slips if is_well_formed(texts[shape])} == set(SHAPES)
    assert {gold_score(FILM, texts[shape]) for shape in slips - {*SHAPES}} == {0.0}


class OnlyRandom(random.Random):
    """A source of chance that has random() alone, the one method Python keeps stable between versions."""

    def getrandbits(self, k: int) -> int:
        raise AssertionError("choice, sample, shuffle and randint may change with Python: use random() alone")


def test_demonstrations_are_well_formed_and_mediocre_and_the_same_from_one_seed() -> None:
    before = random.getstate()
    texts = sample_texts(1, 2000)
    lengths = {len(review.split()) for _, review in texts}
    assert all(is_well_formed(review) for _, review in texts) and (min(lengths), max(lengths)) == (5, 16)
    scores = [gold_score(prompt, review) for prompt, review in texts]
    assert 0.6 < sum(scores) / len(scores) < 1.2  # room on both sides: PPO must have something to win
    assert min(scores) < 0.0 and max(scores) == GOLD_MAX
    assert texts == sample_texts(1, 2000) != sample_texts(2, 2000)
    rng = OnlyRandom(1)
    assert [sample_review(prompt, rng) for prompt in sample_prompts(2000, rng)] == [review for _, review in texts]
    assert make_preferences([(FILM, BEST, WORST)], rng) and random.getstate() == before


@named(
    "response, gold, verified",
    {
        "an-intensifier-adds-nothing": ("the film was very good .", 1.5, 1.0),
        "a-repeated-adjective-counts-twice": ("the film was good and good .", 2.0, 1.0),
        "neutral-is-zero": ("the film was plain .", 1.0, 1.0),
        "praise-and-blame-cancel": ("the film was good and bad .", 1.0, 1.0),
        "blame-is-subtracted-and-verified": ("the film was bad .", 0.5, 1.0),
        "clauses-add-up": ("the film was good and the plot was dull and weak .", 1.0 + (1 - 2) / 2, 1.0),
        "another-topic-is-irrelevant": ("the book was good .", 0.5, 0.0),
        "half-of-the-clauses": ("the film was good but the sauce was good .", 0.5 + 1.0, 0.0),
        "more-blame-than-counts": (WORST, -1.0, 0.0),
        "spacing-does-not-matter": ("  the film  was good\n. ", 1.5, 1.0),
        "ungrammatical": ("superb superb superb .", 0.0, 0.0),
    },
)
def test_gold_and_the_verifier_by_hand(response: str, gold: float, verified: float) -> None:
    """The verifier sees grammar and topic, and no praise."""
    assert (gold_score(FILM, response), verify(FILM, response)) == (gold, verified)


S = 1 / (1 + math.exp(-0.5 / 0.1))


@named(
    "first, second, probability",
    {
        "equal-gold-is-even": (GOOD, "the plot was superb .", 0.5),
        "errors-go-both-ways": (BETTER, GOOD, 0.98 * S + 0.02 * (1 - S)),
        "a-worse-one-is-chosen-by-error": (WORST, BEST, 0.02),
    },
)
def test_preference_probability_by_hand(first, second, probability) -> None:
    assert preference_probability(FILM, first, second) == pytest.approx(probability, rel=0, abs=1e-12)


def test_pairs_are_labeled_in_either_order_and_dropped_without_a_difference(monkeypatch) -> None:
    pairs = [(FILM, GOOD, GOOD), (FILM, BEST, WORST), (FILM, GOOD, "the plot was superb ."), (FILM, WORST, BEST)]
    for flip, chosen in ((0.0, (BEST, WORST)), (1.0, (WORST, BEST))):
        monkeypatch.setattr(preferences, "FLIP", flip)
        labeled = make_preferences(pairs, random.Random(0))
        assert labeled == [Preference(FILM, *chosen)] * 2


PADS = pytest.mark.parametrize("pad_is_eos", [False, True], ids=["pad-is-not-eos", "pad-is-eos"])


@PADS
def test_decode_is_the_inverse_of_encode(pad_is_eos: bool) -> None:
    tokenizer = build_tokenizer(pad_is_eos)
    for text in all_prompts() + [" ".join(pair) for pair in sample_texts(5)]:
        token_ids = tokenizer.encode(text)
        assert len(token_ids) == len(text.split()) < MAX_LENGTH
        assert tokenizer.unk_token_id not in token_ids
        assert tokenizer.decode(token_ids) == text
        assert tokenizer.decode([*token_ids, tokenizer.eos_token_id], skip_special_tokens=True) == text


@PADS
def test_special_tokens_and_padding_on_the_left(pad_is_eos: bool) -> None:
    tokenizer = build_tokenizer(pad_is_eos)
    assert len(tokenizer) == len(VOCABULARY) + 3 and tokenizer.model_max_length == MAX_LENGTH
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<eos>", "<eos>" if pad_is_eos else "<pad>")
    assert tokenizer.encode("the film was great . <eos>").count(tokenizer.unk_token_id) == 1
    assert tokenizer.encode("good . <eos>")[-1] == tokenizer.eos_token_id
    batch = tokenizer([FILM, "tell me about the film :"], padding=True, return_tensors="pt")
    pad = tokenizer.pad_token_id
    assert set(batch) == {"input_ids", "attention_mask"}  # token_type_ids would make a Llama's forward fail
    assert batch["input_ids"][0].tolist() == [pad, pad, *tokenizer.encode(FILM)]
    assert batch["attention_mask"].tolist() == [[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]]


def model_of(architecture: str, **settings):
    build = {"gpt2": build_gpt2, "llama": build_llama}[architecture]
    return build(64, **{"eos_token_id": 1, "pad_token_id": 0, **settings})


@pytest.fixture(params=["gpt2", "llama"])
def architecture(request: pytest.FixtureRequest) -> str:
    return request.param


def test_a_model_has_the_shape_that_was_asked_for_and_the_weights_of_its_seed(architecture: str) -> None:
    shape = {"n_layer": 3, "n_embd": 24, "n_head": 2, "n_positions": 32}
    before = torch.get_rng_state(), random.getstate()
    model, again, other = (model_of(architecture, seed=seed, **shape) for seed in (7, 7, 8))
    assert torch.equal(torch.get_rng_state(), before[0]) and random.getstate() == before[1]
    config = model.config
    got = (config.num_hidden_layers, config.hidden_size, config.num_attention_heads, config.max_position_embeddings)
    assert got == (3, 24, 2, 32) and not model.training
    assert (config.vocab_size, config.eos_token_id, config.pad_token_id, config.bos_token_id) == (64, 1, 0, None)
    first, same, another = (torch.cat([one.flatten() for one in each.parameters()]) for each in (model, again, other))
    assert torch.equal(first, same) and not torch.equal(first, another)
