"""Lesson 0: it stays on one screen, and one update of it is one update of the trainer."""

import copy
import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from ppo_by_hand import Generation, PolicyAndValue, PPOConfig, PPOTrainer, RewardModel, critic_from_reward_model
from testcases.course import records
from testcases.harness.catalog import TUTORIAL, lesson_names
from testcases.harness.suite.asserts import named
from tiny_models.checkpoints import REWARD_MODEL, SFT
from tutorial.lesson00_one_screen import __main__ as command
from tutorial.lesson00_one_screen import ppo as screen

FOLDER = TUTORIAL / "lesson00_one_screen"
CLOSE = {"rtol": 0.0, "atol": 1e-6}


class Models:
    """The same weights for both sides."""

    def __init__(self) -> None:
        self.policy, self.reference = (AutoModelForCausalLM.from_pretrained(SFT) for _ in range(2))
        with torch.no_grad():  # so that the KL of the first update is not 0
            generator = torch.Generator().manual_seed(5)
            for weight in self.reference.parameters():
                weight += 0.01 * torch.randn(weight.shape, generator=generator)
        self.reward_model = RewardModel.from_pretrained(REWARD_MODEL)
        self.critic: nn.Module = copy.deepcopy(self.reward_model)

    def weights(self) -> list[Tensor]:
        return [*self.policy.parameters(), *self.critic.parameters()]


@pytest.fixture(scope="module")
def rollout() -> tuple[Tensor, Tensor]:
    """Texts (B, L) and mask (B, T), some of them without a stop token."""
    prompts = screen.tokenizer(screen.PROMPTS, return_tensors="pt").input_ids
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(1)
        texts, mask = screen.sample(AutoModelForCausalLM.from_pretrained(SFT), prompts)
    texts[0, screen.P :], mask[0] = texts[1, screen.P], True
    return texts, mask


def trainer_of(models: Models, texts: Tensor, mask: Tensor) -> PPOTrainer:
    """With the six numbers of the screen, and what the screen says in its code."""
    config = PPOConfig(
        stop_token_ids=(screen.tokenizer.eos_token_id,),
        pad_token_id=screen.tokenizer.pad_token_id,
        max_new_tokens=screen.T,
        lam=screen.LAM,
        num_epochs=screen.EPOCHS,
        num_minibatches=1,
        batch_size=len(texts),
        num_updates=screen.UPDATES,
        learning_rate=screen.LEARNING_RATE,
        clip_epsilon=screen.CLIP_EPSILON,
        value_clip_epsilon=1e9,
        value_coef=0.1,
        kl_coef=screen.KL_COEF,
    )
    with torch.no_grad():
        log_probs = screen.log_probs_of(models.policy, texts) * mask
    generation = Generation(texts[:, screen.P :], log_probs, mask)
    model = PolicyAndValue(models.policy, critic_from_reward_model(models.reward_model))
    models.critic = model.value_model
    return PPOTrainer(
        model,
        models.reward_model,
        models.reference,
        config,
        sampler=lambda *_, **__: generation,
        schedule=lambda updates_done: 1.0,
    )


def test_one_update_is_one_update_of_the_trainer(rollout: tuple[Tensor, Tensor]) -> None:
    texts, mask = rollout
    flat, other = Models(), Models()
    before = [weight.detach().clone() for weight in flat.weights()]
    trainer = trainer_of(other, texts, mask)
    optimizer = torch.optim.Adam(flat.weights(), lr=screen.LEARNING_RATE, eps=1e-5)
    models = (flat.policy, flat.critic, flat.reference, flat.reward_model)
    proxy, kl = screen.update(*models, optimizer, texts, mask, screen.KL_COEF)
    metrics = trainer.training_step(texts[:, : screen.P].tolist())
    torch.testing.assert_close(torch.tensor([proxy, kl]), torch.tensor([metrics["score"], metrics["kl"]]), **CLOSE)
    torch.testing.assert_close(flat.weights(), other.weights(), **CLOSE)
    moved = max(float((new.detach() - old).abs().max()) for new, old in zip(flat.weights(), before, strict=True))
    assert moved > 1e-3  # two steps of 1e-3: what agrees is not that nothing happened
    assert metrics["clip_fraction"] > 0.01 and metrics["ratio_max"] > 1.3, "the second step has clipped tokens"


def test_it_is_one_screen_without_classes() -> None:
    lines = (FOLDER / "ppo.py").read_text("utf-8").splitlines()
    assert len(lines) <= 90
    assert not [line for line in lines if line.lstrip().startswith("class ")]
    assert not [name for name in lesson_names() if name.startswith("lesson00")]


@pytest.mark.parametrize("given", ["abc", "-1", "nan", "inf", ""])
def test_a_wrong_coefficient_gets_one_sentence(given: str) -> None:
    with pytest.raises(SystemExit, match="^expected --kl-coef to be a number of at least 0, .* got "):
        command.main([f"--kl-coef={given}"])


def stand_in(rows: list[Any], kl_coef: Any = 0.09) -> Any:
    """What `load` gives, with these rows in place of a training; an exception among them is raised."""

    def train(kl_coef: float) -> Any:
        for row in rows:
            if isinstance(row, BaseException):
                raise row
            yield row

    return SimpleNamespace(KL_COEF=kl_coef, UPDATES=30, PROMPTS=["review the film :"], train=train)


NAN = RuntimeError("tensor contains either `inf`, `nan`")


@named(
    "end, code, sentence",
    {
        "ctrl-c": (KeyboardInterrupt(), 130, "stopped after 2 of 30 updates\n\nThe picture: "),
        "nan": (NAN, 1, "expected probabilities, got nan; is LEARNING_"),
    },
)
def test_what_ends_a_run_early_is_one_sentence_and_keeps_its_picture(
    end: BaseException, code: int, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(0.1, 0.8, 0.0, "the film was good ."), (0.5, 1.0, 0.2, "the plot was good ."), end]
    assert command.main(["--kl-coef", "0", "--out", str(tmp_path)], lambda: stand_in(rows)) == code
    assert sentence in capsys.readouterr().out
    assert "picture" not in sentence or (tmp_path / "kl_coef-0.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match="^expected --out to be a folder that can be written, got .*; choose another$"):
        command.main(["--out", str(tmp_path / "file" / "x")], lambda: stand_in(rows))


TEXT = (FOLDER / "README.md").read_text("utf-8")


def test_the_text_shows_what_was_recorded() -> None:
    """To record it again: python -m testcases.course.records lesson00."""
    recorded = "".join(records.printed("lesson00")).splitlines()
    shown = re.findall(r"^ +\d+ +-?\d+\.\d\d .*$", TEXT, re.MULTILINE)
    assert len(shown) == 9
    for said in shown:
        assert any(records.is_line(said, line) for line in recorded), said
    priced, free = map(records.rows, records.printed("lesson00"))  # update, proxy, gold and KL
    words = " ".join(TEXT.split())
    assert f"falls from {free[5][2]:.2f} to 0 in three updates" in words and abs(free[8][2]) < 0.005
    assert inspect.signature(screen.train).parameters["kl_coef"].default == screen.KL_COEF
    assert f"`KL_COEF` = {screen.KL_COEF} points of reward" in words
    assert f"the proxy reward is {free[29][1]:.2f}, compared with {priced[29][1]:.2f}." in words


@pytest.mark.slow
def test_without_the_price_a_new_run_is_hacked_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """On every processor, with the digits of its own: both rewards rise, and then only the proxy."""
    monkeypatch.setattr(screen, "UPDATES", 10)
    proxy, gold, kl, _ = zip(*screen.train(0.0), strict=True)
    _, free = map(records.rows, records.printed("lesson00"))
    assert (proxy[0], gold[0]) == pytest.approx(free[0][1:3], abs=0.1) and abs(kl[0]) < 1e-3
    assert proxy[0] + 0.3 < proxy[3] < proxy[9] - 0.3 and gold[0] + 0.2 < max(gold) and gold[9] < 0.5 and kl[9] > 10
