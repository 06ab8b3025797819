"""The contest's arithmetic by hand, what it may look at, and that it goes on where it was stopped."""

import copy
import json
import math
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModelForCausalLM

from book.figures.lesson12_capstone import RECORDED as DEMO
from solutions.contest import loop, methods, record, running
from solutions.contest.__main__ import main
from solutions.contest.loop import BATCH, MINIBATCHES, PRESET, Job, World
from solutions.contest.methods import METHODS, RESPONSES
from solutions.contest.record import Difference, gold_at, mean_of, minus_ppo
from solutions.contest.running import BEST_OF_N, MOST, SFT, curves, make_world, run, run_all, shares_of_ranks
from solutions.demo import stack
from solutions.demo.stages import train_reward_stage
from solutions.lesson02_reward_model import RewardModel
from solutions.lesson09_ppo_trainer import PPOTrainer
from testcases.course.trainers import small_policy
from testcases.harness.catalog import ROOT, SOLUTIONS
from testcases.harness.oracle.mutations import stub
from tiny_models import checkpoints
from tiny_models.tokenizer import build_tokenizer


def test_an_interval_by_hand():
    """1, 2, 3: mean 2, standard deviation 1, so 2 -+ 4.303 / sqrt(3)."""
    found = mean_of([1.0, 2.0, 3.0])
    assert found.mean == 2.0 and found.high - 2.0 == pytest.approx(4.303 / math.sqrt(3))
    assert str(Difference(0.034, -0.02, 0.1)) == "+0.03 [-0.02, +0.10]"


def test_gold_is_read_on_lines_over_the_root_of_the_kl():
    curve = [{"kl": 4.0, "gold": 1.5}, {"kl": -0.001, "gold": 0.9}, {"kl": 1.0, "gold": 1.7}]
    assert gold_at(curve, 1.0) == pytest.approx(1.7) and gold_at(curve, 4.0) == pytest.approx(1.5)
    assert gold_at(curve, 2.25) == pytest.approx(1.6) and gold_at(curve, 0.25) == pytest.approx(1.3)
    assert gold_at(curve, 4.1) is None


def test_a_difference_is_paired_by_seed_and_of_all_seeds_or_none():
    """RLOO has half of PPO's gold; GRPO's second seed does not go so far."""
    ends = {"PPO": (4.0, 9.0), "RLOO": (4.0, 9.0), "GRPO": (4.0, 1.0)}
    rows = [{"method": SFT, "seed": seed, "kl": 0.0, "gold": 0.0} for seed in (0, 1)]
    for name, of_seeds in ends.items():
        share = 1.0 if name == "PPO" else 0.5
        rows += [{"method": name, "seed": seed, "kl": kl, "gold": share * kl**0.5} for seed, kl in enumerate(of_seeds)]
    assert minus_ppo(rows, "RLOO", 2.0).mean == pytest.approx(-(2**0.5) / 2)
    assert minus_ppo(rows, "GRPO", 1.0).mean == pytest.approx(-0.5) and minus_ppo(rows, "GRPO", 1.5) is None


def test_shares_of_ranks():
    """Of 7 responses the best is none of the 6 worst; and the best of all is among them in 7 of MOST cases."""
    n, shares = 7, shares_of_ranks(7)
    assert shares.sum().item() == pytest.approx(1.0) and (shares >= -1e-12).all()
    torch.testing.assert_close(shares[-1].item(), n / MOST)
    torch.testing.assert_close(shares[: n - 1], torch.zeros(n - 1, dtype=shares.dtype))


def test_what_is_finished_is_not_run_again_and_that_of_other_lessons_is_not_taken(tmp_path, monkeypatch):
    job, new = Job("PPO", 0, 1e-3, 1, 0.1), Job("PPO", 1, 1e-3, 1, 0.1)
    for name in ("ours", "others"):
        (tmp_path / name / "lesson01").mkdir(parents=True)
        (tmp_path / name / "lesson01" / "file.py").write_text(name, "utf-8")
    ours, others = (running.results_file(tmp_path, tmp_path / name) for name in ("ours", "others"))
    monkeypatch.setattr(running, "make_world", lambda seed: SimpleNamespace(seed=seed))
    monkeypatch.setattr(running, "run", lambda job, world: {job: {"gold": 1.0 + world.seed}})
    assert [row["gold"] for row in run_all([job], ours)] == [1.0] and not others.exists()
    monkeypatch.setattr(running, "run", lambda job, world: {job: {"gold": 3.0}})
    assert [row["gold"] for row in run_all([job, new], ours)] == [1.0, 3.0]
    monkeypatch.setattr(running, "run", lambda *_: 1 / 0)
    assert run_all([job, new], ours) == list(running.read_results(ours).values())


def test_a_stack_without_an_exercise_is_told_before_anything_runs(monkeypatch, tmp_path, capsys):
    file = "lesson13_after_ppo/losses.py"
    shutil.copytree(SOLUTIONS, tmp_path / "tutorial", ignore=lambda *_: ["demo", "contest", "__pycache__"])
    (tmp_path / "tutorial" / file).write_text(stub(SOLUTIONS / file), "utf-8")
    monkeypatch.setattr(stack, "own_folder", lambda: tmp_path / "tutorial")
    assert main(["--out", str(tmp_path / "out")]) == 1 and not (tmp_path / "out").exists()
    told = capsys.readouterr().err
    assert told.startswith("error: the contest is waiting for lesson 13: `clipped_token_losses` in tutorial/"), told
    code = " ".join(path.read_text("utf-8") for path in (SOLUTIONS / "contest").glob("*.py"))
    assert not [name for some in stack.OF_THE_CONTEST.values() for name in some if re.search(rf"\b{name}\b", code)]


@pytest.fixture(scope="module")
def world() -> World:
    """Of seed 0, with the shipped reward model instead of a trained one, and a seventh of the pairs."""
    shipped = SimpleNamespace(reward_model=RewardModel.from_pretrained(checkpoints.REWARD_MODEL))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "train_reward_stage", lambda *_: shipped)
        patch.setattr(running, "PRESET", replace(PRESET, preference_pairs=700, held_out_pairs=20))
        return make_world(0)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_every_method_that_samples_takes_the_same_number_of_responses(name, world, monkeypatch):
    """Counted where they are asked for, in a contest of 2 updates; DPO has as many pairs as could be sampled."""
    budget, counted, pairs = 2 * BATCH, [], []
    monkeypatch.setattr(loop, "UPDATES", 2)
    monkeypatch.setattr(methods, "RESPONSES", budget)
    monkeypatch.setattr(methods, "PAIRS", budget // 2)

    def counting(of, place, counts=counted):
        def call(*given):
            counts.append(len(given[place]))
            return of(*given)

        return call

    for owner, function, place in ((loop, "sample", 2), (methods, "sample", 2), (PPOTrainer, "training_step", 1)):
        monkeypatch.setattr(owner, function, counting(getattr(owner, function), place))
    monkeypatch.setattr(methods, "encode_preferences", counting(methods.encode_preferences, 1, pairs))
    job = Job(name, 0, 1e-3, 1, METHODS[name].coefficients[0])
    tokens, _ = METHODS[name].run(replace(world, pairs=world.pairs[:200]), job)
    takes_none = name in ("DPO, all pairs", "DPO, own pairs")
    assert sum(counted) == (0 if takes_none else budget) and (tokens > 5 * budget) == (not takes_none)
    assert pairs == {"DPO, all pairs": [200], "DPO, own pairs": [64]}.get(name, pairs) and sum(pairs) <= 200


def read_by(model, found):
    """The log-probabilities of the sampled tokens, in plain PyTorch."""
    places = (found.visible.long().cumsum(1) - 1).clamp(min=0)
    logits = model(input_ids=found.ids, attention_mask=found.visible, position_ids=places).logits
    length = found.mask.shape[1]
    return logits[:, -length - 1 : -1].log_softmax(-1).gather(-1, found.responses[..., None]).squeeze(-1)


def sampled(score: float = 2.0) -> tuple[torch.nn.Module, loop.Rollout]:
    """A policy, and its responses to 8 prompts, which a reference reads and a reward model gives this score."""
    tokenizer = build_tokenizer()
    policy, reference = (small_policy(seed, len(tokenizer)).double() for seed in (1, 2))
    scores = score + torch.arange(8, dtype=torch.float64) / 100
    world = SimpleNamespace(tokenizer=tokenizer, sft=reference, proxy=lambda *_: scores)
    prompts = ["review the film :", "how was the book ?"] * 4
    found = loop.sample(world, policy, prompts, torch.Generator().manual_seed(3))
    for model, told in ((policy, found.log_probs), (reference, found.ref_log_probs)):
        torch.testing.assert_close(told[found.mask], read_by(model, found)[found.mask], rtol=0, atol=1e-9)
    is_ended = (found.responses == tokenizer.eos_token_id).any(dim=1)
    torch.testing.assert_close(found.scores, (scores - (~is_ended).double()).clamp(-5, 5))
    assert 0 < is_ended.sum() < 8
    return policy, found


def test_a_sample_is_read_by_the_reference_and_a_response_without_an_end_loses_1():
    for score in (2.0, 9.0, -9.0):
        sampled(score)


def test_an_update_is_epochs_of_minibatches_of_whole_responses_until_the_policy_has_moved_far_enough(monkeypatch):
    """Against a loop in plain PyTorch: the same rows, the gradient clipped to 1, one step each."""
    for most, steps in ((99.0, 2 * MINIBATCHES), (0.0, 1)):
        monkeypatch.setattr(loop, "MAX_UPDATE_KL", most)
        policy, rollout = sampled()
        by_hand, advantages = copy.deepcopy(policy), loop.grpo_advantages(rollout, 0.3)
        monkeypatch.setattr(loop, "UPDATES", 1)
        monkeypatch.setattr(loop, "sample", lambda *_, rollout=rollout: rollout)
        monkeypatch.setattr(loop, "copy_of_sft", lambda _, policy=policy: policy)
        monkeypatch.setattr(loop, "make_optimizer", lambda policy: torch.optim.SGD(policy.parameters()))
        world = SimpleNamespace(prompts=[], generator=lambda: torch.Generator().manual_seed(5))
        job = Job("GRPO", 0, 3.0, 2, 0.3)  # the first of six updates of the warm-up has a sixth of this rate
        loop.train(loop.grpo_advantages, loop.grpo_loss, world, job)
        shuffling = torch.Generator().manual_seed(5)
        orders = [torch.randperm(8, generator=shuffling).split(8 // MINIBATCHES) for _ in range(2)]
        for index in [index for order in orders for index in order][:steps]:
            part = rollout.rows(index)
            loss = loop.grpo_loss(read_by(by_hand, part), part, advantages[index], 0.3)
            slopes = torch.autograd.grad(loss, list(by_hand.parameters()))
            norm = torch.stack([slope.square().sum() for slope in slopes]).sum().sqrt()
            with torch.no_grad():
                for weight, slope in zip(by_hand.parameters(), slopes, strict=True):
                    weight -= 0.5 * slope * min(1.0, 1.0 / (norm.item() + 1e-6))
        for one, other in zip(policy.parameters(), by_hand.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def test_two_seeds_train_two_reward_models():
    tokenizer, sft = build_tokenizer(), AutoModelForCausalLM.from_pretrained(checkpoints.SFT).eval()
    small = replace(PRESET, preference_pairs=64, held_out_pairs=16)
    first, other = (train_reward_stage(sft, small, tokenizer, seed).reward_model.state_dict() for seed in (0, 1))
    assert not any(torch.equal(first[name], other[name]) for name in first if name.endswith("c_attn.weight"))


@pytest.mark.slow
def test_a_run_gives_the_same_numbers_again_and_costs_what_the_page_says(world, texts, monkeypatch):
    """Pairs without a difference are dropped, and sampling may round otherwise elsewhere."""
    (said,) = re.search(r"about ([\d,]+) comparisons remain", texts["page"]).groups()
    assert len(world.pairs) / 700 == pytest.approx(int(said.replace(",", "")) / PRESET.preference_pairs, rel=0.05)
    assert f"to each of {PRESET.preference_pairs} prompts" in texts["page"]
    assert f"{methods.PAIRS:,} pairs of new responses" in texts["page"]
    monkeypatch.setattr(loop, "UPDATES", 4)
    job = Job("GRPO", world.seed, 1e-3, 1, METHODS["GRPO"].middle)
    some = replace(world, evaluation_prompts=world.evaluation_prompts[:64])
    one, other = (run(job, some)[job] for _ in range(2))
    assert one.pop("seconds") > 0 < other.pop("seconds")
    responses = 4 * BATCH
    assert one == other and responses * 5 < one["tokens"] <= responses * 20


def statements(runs: list[dict]) -> dict[str, str]:
    """Every sentence with a number that page and lesson take from the record, made from it."""
    sampled = [record.mean(record.middle(runs, name), "tokens") / 1000 for name in record.ran(runs)]
    trained = [one for name, one in zip(record.ran(runs), sampled, strict=True) if one and name != BEST_OF_N]
    rloo = {kl: minus_ppo(runs, "RLOO", kl).mean for kl in record.ALONG}
    eight = record.middle(runs, BEST_OF_N)
    tokens = record.mean(eight, "tokens") / 1000
    kept = [run for run in runs if run["method"] == "rejection sampling"]
    two = [run for run in kept if run["coefficient"] == 2]
    far = [run["kl"] > 5 for run in kept if run["coefficient"] >= 8]
    return {
        "BUDGET": f"{RESPONSES:,} responses, {min(trained):.0f} to {max(trained):.0f} thousand tokens",
        "RLOO_FAR": f"at 2 to 3 nats RLOO is at most {-min(rloo[2.0], rloo[2.5], rloo[3.0]):.2f} below PPO",
        "RLOO_NEAR": f"by {-rloo[1.5]:.2f} at 1.5 nats and {-rloo[1.0]:.2f} at 1",
        "BEST": f"best of 8 has a gold reward of {record.mean(eight, 'gold'):.2f} and costs "
        f"{tokens:.0f} tokens per answer instead of {tokens / 8:.0f}",
        "REJECTION": f"reaches a gold reward of {record.mean(two, 'gold'):.2f} at a KL of {record.mean(two, 'kl'):.1f}."
        f" With a large n it keeps only a few texts and imitates them again and again. As a result, its KL exceeds "
        f"5 nats in {sum(far)} of the {len(far)} runs with an n of 8 or more.",
        "ALL_PAIRS": str(minus_ppo(runs, "DPO, all pairs", 2.0)),
        "SAMPLED_PAIRS": str(minus_ppo(runs, "DPO, sampled pairs", 2.0)),
        "N_SEEDS": str(len({run["seed"] for run in runs})),
    }


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    pages = {"page": ROOT / "book/pages/contest.md", "lesson": ROOT / "tutorial/lesson13_after_ppo/README.md"}
    return {name: " ".join(path.read_text("utf-8").split()) for name, path in pages.items()}


def test_the_page_prints_the_record(texts):
    runs = record.recorded()
    for table in (record.over_kl(runs), record.ends(runs)):
        assert " ".join(record.as_text(table).split()) in texts["page"]
    for sentence in statements(runs).values():
        assert sentence in texts["page"], sentence
    intervals = sum(cell.endswith("]") for row in record.over_kl(runs) for cell in row)
    assert abs(intervals - 40) <= 5 and "about 40 of them" in texts["page"]


def test_the_lesson_says_what_the_record_says(texts):
    runs = record.recorded()
    said = statements(runs)
    for name in ("BUDGET", "RLOO_FAR", "RLOO_NEAR"):
        assert said[name] in texts["lesson"], said[name]
    assert f"We recorded the contest with {said['N_SEEDS']} seeds" in texts["lesson"]
    assert all(minus_ppo(runs, "GRPO", kl).high < 0 for kl in record.ALONG)
    assert all("GRPO is below PPO at each of these" in text for text in texts.values())
    assert all(minus_ppo(runs, name, 2.0).high < 0 for name in ("DPO, all pairs", "rejection sampling"))
    assert "At a KL of 2 DPO is below PPO, and so is rejection sampling" in texts["lesson"]
    assert minus_ppo(runs, "DPO, all pairs", 1.0).high > 0
    assert all(minus_ppo(runs, "DPO, all pairs", kl).high < 0 for kl in record.ALONG if kl >= 1.5)
    assert "At 1 nat these runs can't tell DPO from PPO, but from 1.5 nats on DPO is below PPO" in texts["page"]
    assert minus_ppo(runs, BEST_OF_N, 2.0).low > 0 and "best of n is hard to beat" in texts["lesson"]


def test_what_the_page_says_of_entropy_holds_of_the_recorded_demo(texts):
    run = json.loads(DEMO.read_text("utf-8"))
    start, free, held = (run[name]["entropy"][place] for name, place in (("no_kl", 0), ("no_kl", -1), ("ppo", -1)))
    said = f"begins with {start:.2f} nats per token and ends with {free:.2f} without a penalty and {held:.2f} with it"
    assert said in texts["page"] and f"over {len(run['ppo']['entropy'])} updates" in texts["page"]
    assert start == run["ppo"]["entropy"][0] > held > free > start / 2, "a fall, and no collapse"


def test_the_record_is_of_the_methods_as_they_are():
    """In order: curves of two and more seeds have all coefficients."""
    runs = record.recorded()
    assert [Job(*(row[name] for name in Job._fields)) for row in runs] == curves(10), "make contest SEEDS=10"
