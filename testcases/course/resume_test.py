"""Interrupted runs: killed at any update and resumed they equal the undisturbed run, bit for bit; a file that was cut
off, a full disk and another run's checkpoint are each one clear sentence."""

import json
import random
import shutil
import warnings
from pathlib import Path

import numpy
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModel, AutoModelForCausalLM, BitsAndBytesConfig

from ppo_by_hand.core.checkpoints import CHECKPOINT_FILE
from solutions.lesson07_actor_critic import PolicyAndValue, ValueModel
from solutions.lesson09_ppo_trainer import CheckpointFolder, PPOTrainer
from testcases.course.trainers import PROMPTS, Numbers, policy_of, small_trainer
from testcases.harness.suite.asserts import named

UPDATES = 5


class Killed(BaseException):
    """Ends a run where it stands; nothing catches it."""


def moody_reward(prompts: list[str], responses: list[str]) -> list[float]:
    """Draws from every source of random numbers that a user's function may use."""
    noise = random.random() + numpy.random.rand() + torch.rand(()).item()
    return [noise + len(response) / 10 for response in responses]


def trainer(log_dir: Path | None = None, optimizer=None, **settings) -> PPOTrainer:
    parts = {"reward_model": moody_reward, "tokenizer": Numbers(), "optimizer": optimizer}
    options = {"num_updates": UPDATES, "batch_size": 4, "max_new_tokens": 5, "log_dir": log_dir and str(log_dir)}
    return small_trainer(parts=parts, **options | {"kl_target": 0.5, "kl_horizon": 20} | settings)


def seed_everything(seed: int) -> None:
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)


@pytest.fixture(scope="module")
def undisturbed() -> PPOTrainer:
    seed_everything(3)
    run = trainer()
    run.train(PROMPTS)
    return run


def same_state(first: PPOTrainer, second: PPOTrainer) -> bool:
    one, other = first._state(), second._state()
    tensors = all(torch.equal(one["model"][name], other["model"][name]) for name in one["model"])
    rest = ("optimizer", "generators", "kl_coef", "prompts_waiting", "updates_done", "history")
    return tensors and all(str(one[name]) == str(other[name]) for name in rest)


def killed_after(updates: int, folder: CheckpointFolder, **settings) -> None:
    """A run that dies after so many updates, when its checkpoint (if one was due) is written."""
    seed_everything(3)

    def on_update(run: PPOTrainer) -> None:
        folder.save(run)
        if run.updates_done == updates:
            raise Killed

    with pytest.raises(Killed):
        trainer(**settings).train(PROMPTS, on_update)


def resumed(path: Path, **settings) -> PPOTrainer:
    seed_everything(99)
    run, folder = trainer(**settings), CheckpointFolder(path, every=2)
    if not folder.load(run):
        seed_everything(3)
    run.train(PROMPTS, folder.save)
    return run


@pytest.mark.parametrize("updates", [1, 3, UPDATES], ids=["before-a-checkpoint", "after-one", "at-the-end"])
def test_a_run_killed_at_any_update_and_resumed_equals_the_undisturbed_one(updates, tmp_path, undisturbed):
    """Its file of metrics has each update once."""
    killed_after(updates, CheckpointFolder(tmp_path / "run", every=2), log_dir=tmp_path)
    run = resumed(tmp_path / "run", log_dir=tmp_path)
    assert same_state(run, undisturbed)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == [{"update": number, **metrics} for number, metrics in enumerate(run.history, start=1)]


@pytest.fixture(scope="module")
def a_checkpoint(tmp_path_factory) -> Path:
    """After 4 updates."""
    path = tmp_path_factory.mktemp("run")
    killed_after(4, CheckpointFolder(path, every=2))
    return path


@pytest.fixture
def copied(a_checkpoint, tmp_path) -> Path:
    return Path(shutil.copytree(a_checkpoint, tmp_path / "run")) / CHECKPOINT_FILE


def test_a_resumed_run_may_have_fewer_prompts(copied):
    run = trainer()
    run.load_checkpoint(copied.parent)
    assert len(run.train(PROMPTS[:1])) == UPDATES


def flip_a_bit(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGED = "expected a whole checkpoint, got .*cut off or damaged; start a new run"
UNFIT = {
    "cut-off": (lambda content: content[: len(content) // 2], {}, DAMAGED),
    "a-flipped-bit": (flip_a_bit, {}, DAMAGED),
    "other-settings": (bytes, {"kl_coef": 0.3}, "of a run with the same settings, got kl_coef 0.05 in"),
    "another-optimizer": (
        *(bytes, {"optimizer": lambda groups: torch.optim.SGD(groups)}),
        "of a run with the same optimizer, got momentum of group 0 missing in .* and 0 here",
    ),
}


@named("damage, settings, sentence", UNFIT)
def test_a_checkpoint_that_does_not_fit_is_refused_before_anything_is_replaced(damage, settings, sentence, copied):
    copied.write_bytes(damage(copied.read_bytes()))
    run = trainer(**settings)
    before = str(run._state())
    with pytest.raises(ValueError, match=sentence):
        CheckpointFolder(copied.parent).load(run)
    assert str(run._state()) == before


def test_a_run_that_was_stopped_in_the_middle_of_a_step_goes_on_in_the_same_process(tmp_path, undisturbed):
    """As in a notebook: gradients of the half step must not reach the next one."""
    seed_everything(3)
    run = trainer()
    compute_loss, calls = run.compute_loss, []

    def interrupted(batch):
        calls.append(batch)
        loss, statistics = compute_loss(batch)
        if len(calls) == 6:
            loss.backward()
            raise Killed
        return loss, statistics

    run.compute_loss = interrupted
    with pytest.raises(Killed):
        run.train(PROMPTS, CheckpointFolder(tmp_path, every=1).save)
    run.load_checkpoint(tmp_path)
    run.train(PROMPTS)
    assert same_state(run, undisturbed)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path, undisturbed):
    folder = CheckpointFolder(tmp_path, every=2)

    def on_update(run: PPOTrainer) -> None:
        if run.updates_done == 3:
            (tmp_path / f"{CHECKPOINT_FILE}.unfinished").symlink_to("/dev/full")
        folder.save(run)

    seed_everything(3)
    with pytest.raises(OSError, match="expected room for a checkpoint in .*, got: "):
        trainer().train(PROMPTS, on_update)
    (tmp_path / f"{CHECKPOINT_FILE}.unfinished").unlink()
    assert torch.load(tmp_path / CHECKPOINT_FILE, weights_only=True)["updates_done"] == 2
    assert same_state(resumed(tmp_path), undisturbed)


def test_the_checkpoint_and_the_metrics_of_another_run_are_kept(tmp_path):
    """From the first update on, also where it would be written over only later."""
    trainer(tmp_path, num_updates=2).train(PROMPTS, CheckpointFolder(tmp_path).save)
    before = (tmp_path / CHECKPOINT_FILE).read_bytes()
    run = trainer(tmp_path, seed=1)
    with pytest.raises(ValueError, match=r"expected a folder without the checkpoint of another run, got .*\.load\("):
        run.train(PROMPTS, CheckpointFolder(tmp_path).save)
    assert run.updates_done == 1 and (tmp_path / CHECKPOINT_FILE).read_bytes() == before
    first, second = ((tmp_path / name).read_text().splitlines() for name in ("metrics-1.jsonl", "metrics.jsonl"))
    assert len(first) == 2 and len(second) == 1 and first[0] != second[0]


def adapted(tmp_path: Path, quantized: dict | None = None, rank: int = 2) -> PPOTrainer:
    """A run in which adapters are trained, and the critic's head; its base is loaded as a user loads it."""
    if not (tmp_path / "base").is_dir():
        sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 12}
        policy_of("llama", **sizes).save_pretrained(tmp_path / "base")
    more = {} if quantized is None else {"quantization_config": BitsAndBytesConfig(**quantized)}
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft asks transformers by an older name
        policy = AutoModelForCausalLM.from_pretrained(tmp_path / "base", **more)
        policy = get_peft_model(policy, LoraConfig(r=rank, target_modules=["q_proj", "down_proj"]))
        critic = ValueModel(AutoModel.from_pretrained(tmp_path / "base", **more).requires_grad_(False))
    parts = {"model": PolicyAndValue(policy, critic), "ref_model": None, "reward_model": moody_reward}
    return small_trainer(parts=parts | {"tokenizer": Numbers()}, num_updates=4, learning_rate=1e-2)


QUANTIZED = {"whole": None, "4-bits": {"load_in_4bit": True, "bnb_4bit_compute_dtype": torch.float32}}


@pytest.mark.filterwarnings("ignore:bitsandbytes")  # of a kernel for one row, which needs no gradient
@named("quantized", QUANTIZED)
def test_a_checkpoint_of_adapters_holds_what_is_trained_and_resumes(quantized, tmp_path):
    if quantized is not None:
        pytest.importorskip("bitsandbytes", reason="a quantized base needs bitsandbytes")
    whole = adapted(tmp_path, quantized)
    seed_everything(3)
    whole.train(PROMPTS, lambda run: run.updates_done == 2 and run.save_checkpoint(tmp_path))
    saved = torch.load(tmp_path / CHECKPOINT_FILE, weights_only=True)["model"]
    trained = {name for name, weight in whole.model.named_parameters() if weight.requires_grad}
    assert trained == {name for name in saved if "lora" in name or "head" in name} == saved.keys()
    again = adapted(tmp_path, quantized)
    again.load_checkpoint(tmp_path)
    assert again.train(PROMPTS) == whole.history


def test_a_checkpoint_of_other_adapters_is_refused(tmp_path):
    """A frozen weight may lack and a trained one may not."""
    run = adapted(tmp_path)
    run.save_checkpoint(tmp_path)
    other = r"with the same models, got policy.*lora_A.* \(2, 64\) in .* and \(3, 64\) here; give"
    with pytest.raises(ValueError, match=other):
        adapted(tmp_path, rank=3).load_checkpoint(tmp_path)
    run.policy.get_input_embeddings().requires_grad_(True)
    lacks = r"with the same models, got .*embed_tokens.* missing in .* and \(12, 64\) here; "
    with pytest.raises(ValueError, match=lacks):
        run.load_checkpoint(tmp_path)


def test_a_checkpoint_of_a_machine_with_other_devices_goes_on(copied):
    """The state of a GPU's generator has 16 bytes, a CPU's 5,056; and each GPU has a global generator of its own."""
    state = torch.load(copied, weights_only=True)
    state["generators"]["sampling"] = torch.zeros(16, dtype=torch.uint8)
    state["generators"]["gpu 0"] = torch.zeros(16, dtype=torch.uint8)
    del state["generators"]["torch"]
    torch.save(state, copied)
    run = trainer()
    run.load_checkpoint(copied.parent)
    assert run.updates_done == 4 and len(run.train(PROMPTS)) == UPDATES
