"""The course's own tests of the toy environment's annotators, tokenizer and models."""

import math
import random

import pytest
import torch
from transformers import AutoTokenizer

from testcases.harness.suite.asserts import named
from tiny_models.builders import build_causal_lm
from tiny_models.language import VOCABULARY, all_prompts, sample_prompts, sample_review
from tiny_models.preferences import Preference, label_pair, make_preferences, preference_probability
from tiny_models.tokenizer import MAX_LENGTH, build_tokenizer

FILM = "review the film :"
GOOD, BETTER = "the film was good .", "the film was good and lovely ."  # gold 1.5 and 2
WORST = "the sauce was bad and dull and the room was weak and awful ."  # gold -1
BEST = "the film was good and lovely and the plot was superb and brilliant ."  # gold 2


@named(
    "first, second, temperature, flip, probability",
    {
        "equal-gold-is-even": (GOOD, "the plot was superb .", 0.1, 0.02, 0.5),
        "sigmoid-of-log-3": (BETTER, GOOD, 0.5 / math.log(3), 0.0, 0.75),
        "errors-go-both-ways": (BETTER, GOOD, 0.5 / math.log(3), 0.1, 0.9 * 0.75 + 0.1 * 0.25),
        "a-small-temperature-does-not-overflow": (BEST, WORST, 1e-6, 0.0, 1.0),
        "always-an-error": (BEST, WORST, 1e-6, 1.0, 0.0),
    },
)
def test_preference_probability_by_hand(
    first: str, second: str, temperature: float, flip: float, probability: float
) -> None:
    got = preference_probability(FILM, first, second, temperature, flip)
    assert got == pytest.approx(probability, rel=0, abs=1e-12)


@named("flip, chosen", {"right": (0.0, BEST), "wrong": (1.0, WORST)})
@pytest.mark.parametrize("first, second", [(BEST, WORST), (WORST, BEST)], ids=["best-first", "best-second"])
def test_label_pair_does_not_depend_on_the_order(first: str, second: str, flip: float, chosen: str) -> None:
    preference = label_pair(FILM, first, second, random.Random(0), temperature=1e-6, flip=flip)
    assert preference == Preference(FILM, chosen, WORST if chosen == BEST else BEST)


def test_pairs_without_a_difference_are_dropped_and_the_others_keep_their_order() -> None:
    book = "review the book :"
    pairs = [
        (FILM, GOOD, GOOD),
        (FILM, BEST, WORST),
        (FILM, GOOD, "the plot was superb ."),
        (FILM, "", ""),
        (book, WORST, BEST),
    ]
    labeled = make_preferences(pairs, random.Random(0), temperature=1e-6, flip=0.0)
    assert labeled == [Preference(FILM, BEST, WORST), Preference(book, BEST, WORST)]


@named(
    "wrong, rule",
    {
        "temperature-zero": ({"temperature": 0.0}, "finite temperature > 0, got 0.0"),
        "temperature-nan": ({"temperature": math.nan}, "temperature"),
        "flip-above-one": ({"flip": 1.01}, r"flip to be a probability in \[0, 1\], got 1.01"),
    },
)
def test_an_impossible_annotator_is_refused(wrong: dict[str, float], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        label_pair(FILM, GOOD, BETTER, random.Random(0), **wrong)


@pytest.fixture(scope="module", params=[False, True], ids=["pad-is-not-eos", "pad-is-eos"])
def pad_is_eos(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture(scope="module", params=["built", "loaded"])
def tokenizer(pad_is_eos: bool, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    built = build_tokenizer(pad_is_eos)
    if request.param == "built":
        return built
    folder = tmp_path_factory.mktemp("tokenizer")
    built.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def test_decode_is_the_inverse_of_encode(tokenizer) -> None:
    rng = random.Random(5)
    pairs = [(prompt, sample_review(prompt, rng)) for prompt in sample_prompts(300, rng)]
    texts = all_prompts() + [text for pair in pairs for text in (pair[1], " ".join(pair))]
    for text in texts:
        token_ids = tokenizer.encode(text)
        assert len(token_ids) == len(text.split())
        assert tokenizer.unk_token_id not in token_ids
        assert tokenizer.decode(token_ids) == text
        assert tokenizer.decode([*token_ids, tokenizer.eos_token_id], skip_special_tokens=True) == text


def test_special_tokens(tokenizer, pad_is_eos: bool) -> None:
    assert len(tokenizer) == len(VOCABULARY) + 3
    assert (tokenizer.pad_token_id == tokenizer.eos_token_id) == pad_is_eos
    assert tokenizer.eos_token == "<eos>"
    assert tokenizer.pad_token == ("<eos>" if pad_is_eos else "<pad>")
    assert tokenizer.encode("the film was great . <eos>").count(tokenizer.unk_token_id) == 1
    assert tokenizer.encode("good . <eos>")[-1] == tokenizer.eos_token_id
    assert tokenizer.model_max_length == MAX_LENGTH
    assert tokenizer.clean_up_tokenization_spaces is False


def test_prompts_are_padded_on_the_left(tokenizer) -> None:
    batch = tokenizer(["review the film :", "tell me about the film :"], padding=True, return_tensors="pt")
    pad = tokenizer.pad_token_id
    assert set(batch) == {"input_ids", "attention_mask"}  # token_type_ids would make a Llama's forward fail
    assert batch["input_ids"][0].tolist() == [pad, pad, *tokenizer.encode("review the film :")]
    assert batch["attention_mask"].tolist() == [[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]]


SETTINGS = {"eos_token_id": 1, "pad_token_id": 0}


@pytest.fixture(params=["gpt2", "llama"])
def architecture(request: pytest.FixtureRequest) -> str:
    return request.param


def logits_of(model: torch.nn.Module, **inputs: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(**inputs).logits


def same_weights(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    pairs = zip(one.state_dict().items(), other.state_dict().items(), strict=True)
    return all(name == same and torch.equal(weight, twin) for (name, weight), (same, twin) in pairs)


def test_the_shape_is_the_one_asked_for(architecture: str) -> None:
    shape = {"n_layer": 3, "n_embd": 24, "n_head": 2, "n_positions": 32}
    model = build_causal_lm(architecture, 50, **shape, **SETTINGS)
    config = model.config
    got = (config.num_hidden_layers, config.hidden_size, config.num_attention_heads, config.max_position_embeddings)
    assert got == (3, 24, 2, 32)
    assert (config.vocab_size, config.eos_token_id, config.pad_token_id) == (50, 1, 0)
    assert config.bos_token_id is None
    assert logits_of(model, input_ids=torch.zeros(2, 5, dtype=torch.long)).shape == (2, 5, 50)
    assert not model.training


def test_the_seed_determines_every_weight(architecture: str) -> None:
    torch.manual_seed(1)
    once = build_causal_lm(architecture, 64, seed=7, **SETTINGS)
    torch.manual_seed(2)
    assert same_weights(once, build_causal_lm(architecture, 64, seed=7, **SETTINGS))
    assert not same_weights(once, build_causal_lm(architecture, 64, seed=8, **SETTINGS))


def test_building_leaves_the_global_random_state_alone(architecture: str) -> None:
    torch.manual_seed(3)
    before, python_before = torch.get_rng_state(), random.getstate()
    build_causal_lm(architecture, 64, seed=7, **SETTINGS)
    assert torch.equal(torch.get_rng_state(), before)
    assert random.getstate() == python_before


def test_two_passes_agree_unless_dropout_is_asked_for(architecture: str) -> None:
    tokens = torch.arange(12).reshape(1, 12)
    for dropout, agree in ((0.0, True), (0.5, False)):
        model = build_causal_lm(architecture, 64, dropout=dropout, **SETTINGS)
        assert torch.equal(logits_of(model, input_ids=tokens), logits_of(model, input_ids=tokens))
        model.train()
        assert torch.equal(logits_of(model, input_ids=tokens), logits_of(model, input_ids=tokens)) == agree


def test_only_gpt2_suffers_from_left_padding_without_position_ids(architecture: str) -> None:
    model = build_causal_lm(architecture, 64, **SETTINGS)
    tokens = torch.arange(3, 9).reshape(1, 6)
    padded = torch.nn.functional.pad(tokens, (4, 0), value=0)
    mask = padded != 0
    alone = logits_of(model, input_ids=tokens)
    counted = (mask.long().cumsum(1) - 1).clamp(min=0)
    right = logits_of(model, input_ids=padded, attention_mask=mask.long(), position_ids=counted)[:, 4:]
    naive = logits_of(model, input_ids=padded, attention_mask=mask.long())[:, 4:]
    assert torch.allclose(alone, right, rtol=0, atol=1e-5)
    assert torch.allclose(alone, naive, rtol=0, atol=1e-5) == (architecture == "llama")


@named(
    "wrong, rule",
    {
        "width-not-divisible": ({"n_embd": 66}, "n_embd=66, n_head=4"),
        "odd-head": ({"n_embd": 60}, "rotary positions turn them in pairs"),
        "pad-outside": ({"pad_token_id": -1}, "pad_token_id"),
    },
)
def test_an_impossible_model_is_refused(architecture: str, wrong: dict[str, int], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        build_causal_lm(architecture, 64, **{**SETTINGS, **wrong})


def test_an_unknown_architecture_is_refused_with_the_choices() -> None:
    with pytest.raises(ValueError, match="gpt2, llama, got 'bert'"):
        build_causal_lm("bert", 64, **SETTINGS)
