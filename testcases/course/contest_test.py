"""The contest's arithmetic by hand, what it may look at, and that it goes on where it was stopped."""

import ast
import json
import math
import re
import shutil
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

from book.figures.lesson12_capstone import RECORDED as DEMO
from solutions.contest import __main__ as command
from solutions.contest import evaluation, methods, plan, record, running
from solutions.contest import world as world_file
from solutions.contest.__main__ import contest, main
from solutions.contest.evaluation import MOST, below_the_bound, bound_of_kl, shares_of_ranks
from solutions.contest.methods import Settings
from solutions.contest.plan import BEST_OF_N, BY_PROXY, METHODS, TUNING_SEEDS, Job, choose, curves, tuning
from solutions.contest.running import Results, run, run_all
from solutions.contest.statistics import Difference, gold_at, mean_of, paired, picked, tokens_to
from solutions.contest.world import FEW, HOME, PRESET, RESPONSES, SITUATIONS, World
from solutions.demo import stack
from solutions.demo.stages import train_reward_stage
from solutions.lesson02_reward_model import RewardModel
from solutions.lesson13_after_ppo import best_of_n_kl
from testcases.harness.catalog import ROOT, SOLUTIONS
from testcases.harness.oracle import stub
from tiny_models.checkpoints import REWARD_MODEL

START = {"kl": 0.0, "gold": 0.9}
CURVE = [
    {"kl": 4.0, "gold": 1.5, "proxy": 1.6},
    {"kl": 1.0, "gold": 1.7, "proxy": 1.2},
    {"kl": 9.0, "gold": 0.2, "proxy": 2.0},
]


def test_an_interval_by_hand():
    """1, 2, 3: mean 2, standard deviation 1, so 2 -+ 4.303 / sqrt(3)."""
    found = mean_of([1.0, 2.0, 3.0])
    assert found.mean == 2.0 and found.high - 2.0 == pytest.approx(4.303 / math.sqrt(3))
    with pytest.raises(ValueError, match="at least two seeds"):
        mean_of([1.0])


@pytest.mark.parametrize(
    "low, high, verdict",
    [
        pytest.param(-0.04, 0.05, "equal", id="within"),
        pytest.param(0.01, 0.04, "better, by less than 0.05", id="above-0-and-too-small-to-matter"),
        pytest.param(-0.04, -0.01, "worse, by less than 0.05", id="below-0-and-too-small-to-matter"),
        pytest.param(-0.04, 0.06, "not decided", id="could-be-larger"),
        pytest.param(0.01, 0.3, "better", id="above-0"),
        pytest.param(-0.3, -0.01, "worse", id="below-0"),
        pytest.param(-0.3, 0.3, "not decided", id="noise"),
    ],
)
def test_one_word_for_an_interval(low, high, verdict):
    assert Difference((low + high) / 2, low, high).verdict == verdict


def test_the_proxy_picks_within_five_nats_and_gold_is_read_between_the_points():
    assert picked(CURVE)["kl"] == 4.0
    assert picked(CURVE[2:])["kl"] == 9.0, "all are too far: the nearest one"
    assert gold_at(CURVE, 1.0, START) == 1.7 and gold_at(CURVE, 2.5, START) == pytest.approx(1.6)
    assert gold_at(CURVE, 0.5, START) == pytest.approx(1.3) and gold_at(CURVE, 9.5, START) is None
    trace = [{"tokens": 2600, "gold": 1.2}, {"tokens": 5100, "gold": 1.8}]
    assert tokens_to(trace, 1.7) == 5100 and tokens_to(trace, 1.9) is None
    assert paired([1.0, None, 3.0], [0.5, 1.0, 1.0]) == [0.5, 2.0]


def test_at_each_kl_a_difference_is_of_all_seeds_or_none():
    """Half of PPO's gold everywhere; a curve that one seed does not follow so far has no entry there."""
    ends = {"PPO": (4.0, 4.0), "RLOO": (4.0, 4.0), "GRPO": (4.0, 2.0)}
    share = {"PPO": 1.0, "RLOO": 0.5, "GRPO": 0.5}
    methods = {
        name: [{"curve": [{"kl": kl, "gold": share[name] * kl}]} for kl in of_seeds] for name, of_seeds in ends.items()
    }
    runs = {"seeds": 2, "sft": [{"kl": 0.0, "gold": 0.0}] * 2, "methods": methods}
    of_rloo, of_grpo = ([one and one.mean for one in record.along_kl(runs, name)] for name in ("RLOO", "GRPO"))
    assert of_rloo == pytest.approx([-kl / 2 for kl in record.ALONG]) and record.ALONG == (1.0, 1.5, 2.0, 2.5, 3.0)
    assert of_grpo[:3] == of_rloo[:3] and of_grpo[3:] == [None, None]


def test_two_runs_are_compared_where_the_one_that_sampled_less_ended():
    """10 of 20 tokens: half-way from 1 to 2. What samples nothing is not compared so."""
    ends = {"PPO": (20, 2.0), "RLOO": (10, 1.2), "GRPO": (40, 2.4), "DPO, own pairs": (0, 1.5)}
    runs = {name: [{"trace": [{"tokens": tokens, "gold": gold}]}] for name, (tokens, gold) in ends.items()}
    found = {name: record.at_equal_tokens({"methods": runs, "sft": [{"gold": 1.0}]}, name) for name in ends}
    halves = {"RLOO": [pytest.approx(1.2 - 1.5)], "GRPO": [pytest.approx(1.7 - 2.0)]}
    assert found == {"PPO": [], "DPO, own pairs": []} | halves


@pytest.mark.parametrize("n", [1, 2, 7, MOST])
def test_shares_of_ranks(n):
    shares = shares_of_ranks(n)
    assert shares.sum().item() == pytest.approx(1.0) and (shares >= -1e-12).all()
    torch.testing.assert_close(shares[-1].item(), n / MOST)  # the best of all is among n of MOST
    torch.testing.assert_close(shares[: n - 1], torch.zeros(n - 1, dtype=shares.dtype))


@pytest.mark.parametrize("n", [1, 2, 5, 50])
def test_the_exact_kl_of_best_of_n_is_that_of_lesson_13(n):
    """Four responses, each as often among 10,000 samples as it is likely."""
    chances = torch.tensor([0.1, 0.4, 0.3, 0.2], dtype=torch.float64)
    rank = torch.arange(4).repeat_interleave((chances * 10_000).round().int())
    lost = below_the_bound(rank[None].double(), chances[rank][None], n)[0]
    up_to = chances.cumsum(0) ** n
    best = up_to - torch.cat([up_to.new_zeros(1), up_to[:-1]])
    of_each = lost[[int((rank == one).nonzero()[0]) for one in range(4)]]
    assert bound_of_kl(n) - float((best * of_each).sum()) == pytest.approx(best_of_n_kl(chances, n), abs=1e-12)


def test_every_method_is_tuned_alike_on_seeds_that_are_not_used_again():
    jobs = list(tuning())
    assert {(name, seed): 8 for name in BY_PROXY for seed in TUNING_SEEDS} == {
        (name, seed): sum((job.method, job.seed) == (name, seed) for job in jobs)
        for name in BY_PROXY
        for seed in TUNING_SEEDS
    }
    chosen = dict.fromkeys(BY_PROXY, Settings(1e-3, 1, 0.1))
    runs = [*curves(chosen, 10, 5), *curves(chosen, 10, 5, FEW)]
    assert len({job.key for job in [*jobs, *runs]}) == len(jobs) + len(runs)
    assert not {job.seed for job in runs} & set(TUNING_SEEDS)
    assert all(len(set(method.coefficients)) == 5 for method in METHODS.values())


def test_settings_are_chosen_by_the_proxy_near_the_sft_model_and_not_by_gold():
    results = {job.key: {"end": {"proxy": 1.0, "kl": 1.0, "gold": 0.0}} for job in tuning()}
    first, second, third, *_ = METHODS["PPO"].candidates()
    for seed in TUNING_SEEDS:
        results[Job("PPO", first, seed).key]["end"] = {"proxy": 9.0, "kl": 6.0, "gold": 2.0}
        results[Job("PPO", second, seed).key]["end"] = {"proxy": 1.0, "kl": 1.0, "gold": 2.0}
        results[Job("PPO", third, seed).key]["end"] = {"proxy": 1.1, "kl": 4.9, "gold": 0.0}
    assert choose(results)["PPO"] == third


def test_what_is_finished_is_not_run_again(tmp_path):
    job = Job("PPO", Settings(1e-3, 1, 0.1), 0)
    Results(tmp_path).keep(job.key, {"end": {"gold": 1.0}})
    Results(tmp_path).keep("another", {"end": {}})
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('\n{"key": "half a li')  # stopped while it wrote
    results, told = Results(tmp_path), []
    run_all([job], results, told.append)
    assert told == [job.key] and results.found[job.key] == {"end": {"gold": 1.0}} and "another" in results.found
    results.keep("one more", {})
    assert "one more" in Results(tmp_path).found


def test_only_the_evaluation_looks_at_the_gold_reward():
    for path in (SOLUTIONS / "contest").glob("*.py"):
        names = {node.id for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Name)}
        assert ("gold_score" in names) == (path.name == "evaluation.py"), path.name


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


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="none"),
        pytest.param('{"settings": {"PPO": ', id="damaged"),
        pytest.param('{"settings": {"PPO": {"lr": 0.1}}}', id="of-another-version"),
        pytest.param('{"settings": {}}', id="without-a-method"),
        pytest.param("[1]", id="something-else"),
    ],
)
def test_without_a_record_the_command_says_what_to_do(text, monkeypatch, tmp_path):
    file = tmp_path / "record.json"
    monkeypatch.setattr(record, "FILE", file)
    if text is not None:
        file.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"^expected the record of tuned settings in .*; run with TUNE=1"):
        record.chosen_settings(Results(tmp_path / "out"), tune=False)


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        pytest.param(["--seeds", "0"], "expected SEEDS in [1, 1000], got 0", id="no-seed"),
        pytest.param(["--seeds", "1001"], "expected SEEDS in [1, 1000], got 1001", id="seeds-of-the-tuning"),
        pytest.param(["--few", "-1"], "expected FEW in [0, 1000], got -1", id="negative"),
        pytest.param(["--out", __file__], "expected OUT to be a folder that can be written, got", id="a-file"),
        pytest.param(
            ["--out", f"{__file__}/a"], "expected OUT to be a folder that can be written, got", id="in-a-file"
        ),
        pytest.param(["--out", ""], "expected OUT to be a new or an empty folder, got .", id="none"),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence, capsys):
    assert main(arguments) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith(f"error: {sentence}"), told


def test_results_of_other_lessons_are_not_taken_and_not_lost(tmp_path):
    Results(tmp_path, "before").keep("a", {"end": {}})
    after = Results(tmp_path, "after")
    assert not after.found
    after.keep("a", {"end": {"gold": 1.0}})
    assert [Results(tmp_path, code).found["a"] for code in ("before", "after")] == [{"end": {}}, {"end": {"gold": 1.0}}]


def test_the_number_of_lessons_changes_with_each_of_them(tmp_path):
    for name in ("lesson01_a", "lesson02_b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file.py").write_text("1", "utf-8")
    before = stack.code_of_lessons(tmp_path)
    assert stack.code_of_lessons(tmp_path) == before
    (tmp_path / "lesson02_b/file.py").write_text("2", "utf-8")
    assert stack.code_of_lessons(tmp_path) != before


def test_an_error_in_a_lesson_says_where(monkeypatch, tmp_path, capsys):
    """A lesson that raises while it is used, in whatever way."""
    file, given = tmp_path / "tutorial/lesson13_after_ppo/losses.py", {}
    exec(compile("def loss():\n    return None + 1\n", file, "exec"), given)
    monkeypatch.setattr(stack, "own_folder", lambda: tmp_path / "tutorial")
    monkeypatch.setattr(command, "_run", lambda *_: given["loss"]())
    assert main([]) == 1
    assert "got tutorial/lesson13_after_ppo/losses.py, line 2: TypeError: unsupp" in capsys.readouterr().err


@pytest.mark.parametrize("coefficient", [0, 4])
@pytest.mark.parametrize("name", [name for name in METHODS if name != "DPO, own pairs"])
def test_every_method_that_samples_takes_the_same_number_of_responses(name, coefficient, monkeypatch):
    """Counted where they are asked for: each has one token, and nothing is trained."""
    world, counted = World(plan.FIRST_SEED), []
    world.reward_model = RewardModel.from_pretrained(REWARD_MODEL)

    def sample(world, policy, prompts, sampling, score):
        counted.append(len(prompts))
        ids, none = torch.ones(len(prompts), 2, dtype=torch.long), torch.zeros(len(prompts), 1)
        return methods.Rollout(ids, ids, none == 0, none, none, torch.rand(len(prompts), generator=sampling), 1)

    def trainer(model, reward, reference, config, tokenizer):
        counted.append(config.num_updates * config.batch_size)
        return SimpleNamespace(train=lambda *_: None, policy=None, history=[])

    for given, fake in {"_sample": sample, "PPOTrainer": trainer, "train_sft": None, "_step": None}.items():
        monkeypatch.setattr(methods, given, fake or (lambda *_: None))
    METHODS[name].run(world, Settings(1e-3, 1, METHODS[name].coefficients[coefficient]), lambda *_: None)
    assert sum(counted) == RESPONSES


def given_to_the_runs(monkeypatch, out) -> dict[tuple[str, int], list]:
    """Situation and seed -> the reward model and the pairs that each run of a contest meets; nothing is trained."""
    given: dict[tuple[str, int], list] = {}
    nowhere = evaluation.Point(0.0, 0.0, 0.0, 0.0, 0.0)

    def note(world, *_):
        given.setdefault((world.situation, world.seed), []).append((world.reward_model, world.pairs[0]))
        return methods.Trained(None, 0)

    def labels(_, preset, tokenizer, seed):
        return SimpleNamespace(reward_model=[preset.preference_pairs, seed])

    def pairs(_, preset, tokenizer, seed):
        return [[(preset.preference_pairs, seed)] * 1000]

    for module, name, fake in (
        (world_file, "train_reward_stage", labels),
        (world_file, "annotated_pairs", pairs),
        (world_file, "make_scorer", lambda reward_model: reward_model),
        (running, "evaluate", lambda *_: nowhere),
        (evaluation, "evaluate", lambda *_: nowhere),
        (running, "best_of_n", lambda world, counts, _: ([nowhere] * len(counts), note(world).sampled)),
    ):
        monkeypatch.setattr(module, name, fake)
    for name, method in METHODS.items():
        monkeypatch.setitem(METHODS, name, replace(method, run=note))
    contest({HOME: 2, FEW: 2}, out, False, False, Console(quiet=True))
    return given


def check_paired(given: dict[tuple[str, int], list]) -> None:
    runs = {HOME: len(METHODS) * 5 + 1, FEW: len(BY_PROXY) * 5 + 1}
    assert {key: len(met) for key, met in given.items()} == {key: runs[key[0]] for key in product((HOME, FEW), (0, 1))}
    for (situation, seed), met in given.items():
        assert {id(reward_model) for reward_model, _ in met} == {id(met[0][0])}, "one for all methods of a seed"
        assert met == [([SITUATIONS[situation], seed], (SITUATIONS[situation], seed))] * len(met), "the seed's own"


def test_each_seed_has_its_own_reward_model_that_all_methods_share(monkeypatch, tmp_path):
    check_paired(given_to_the_runs(monkeypatch, tmp_path))
    kept = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text("utf-8").splitlines()]
    assert {one["code"] for one in kept} == {stack.code_of_lessons(SOLUTIONS)}, "results are of the lessons as they are"


def test_two_seeds_train_two_reward_models_and_a_seed_the_same_one_twice():
    world, small = World(0), replace(PRESET, preference_pairs=64, held_out_pairs=16)
    first, again, other = (
        train_reward_stage(world.sft, small, world.tokenizer, seed).reward_model.state_dict() for seed in (0, 0, 1)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first if name.endswith("c_attn.weight"))


@pytest.mark.slow
@pytest.mark.xdist_group("capstone")
def test_a_run_gives_the_same_numbers_again_and_counts_what_it_costs():
    world = World(plan.FIRST_SEED, HOME)
    for name in ("rejection sampling", "RLOO, verifier"):
        job = Job(name, Settings(1e-3, 1, METHODS[name].middle), world.seed)
        one, other = run(job, world), run(job, world)
        assert one["end"] == other["end"] and one["trace"] == other["trace"]
        cost = one["cost"]
        assert 2048 * 5 < cost["sampled"] <= 2048 * 20 and 0 < cost["forward_backward"] < cost["forward"]


def minus(one: Difference) -> str:
    return f"{one.mean:+.2f} [{one.low:+.2f}, {one.high:+.2f}], {one.verdict}"


def by_name(differences: dict[str, Difference], verifier: bool = False) -> str:
    of_these = {name: one for name, one in differences.items() if name.endswith("verifier") == verifier}
    text = "; ".join(f"{name.removesuffix(', verifier')} {minus(one)}" for name, one in of_these.items())
    return text.replace("DPO, sampled pairs", "DPO on sampled pairs")


def at_an_equal_kl(one: Difference) -> str:
    return f"{one.mean:+.2f} gold at an equal KL, {one.verdict}"


def of_differences(found: dict) -> list[str]:
    """Sentences about the gold reward of one method minus that of PPO."""
    home, few = (record.differences(found["situations"][situation]) for situation in (HOME, FEW))
    at_kl, of_few = home["at_kl"], few["at_kl"]
    to_level = {name: record.by_seed(found["situations"][HOME], name)["to_level"] for name in ("PPO", "RLOO")}
    more = mean_of(paired(to_level["RLOO"], to_level["PPO"]))
    return [
        f"RLOO {minus(at_kl['RLOO'])}; GRPO {minus(at_kl['GRPO'])}",
        f"DPO on the reward model's own pairs {minus(at_kl['DPO, own pairs'])}",
        f"on sampled pairs {minus(at_kl['DPO, sampled pairs'])}",
        f"rejection sampling {minus(at_kl['rejection sampling'])}; best of n {minus(at_kl[BEST_OF_N])}",
        f"RLOO {minus(of_few['RLOO'])}; GRPO {minus(of_few['GRPO'])}",
        f"DPO on sampled pairs {minus(of_few['DPO, sampled pairs'])}",
        f"rejection sampling {minus(of_few['rejection sampling'])}; best of n {minus(of_few[BEST_OF_N])}",
        f"DPO {few['gold']['DPO, own pairs'].mean:+.2f} gold, {few['gold']['DPO, own pairs'].verdict}",
        f"RLOO {at_an_equal_kl(of_few['RLOO'])}",
        f"RLOO {at_an_equal_kl(at_kl['RLOO'])}; GRPO {at_an_equal_kl(at_kl['GRPO'])}; no critic",
        *(f"| {at_an_equal_kl(at_kl[f'DPO, {pairs} pairs'])} |" for pairs in ("own", "sampled")),
        f"{by_name(home['at_tokens'])}; with the verifier {by_name(home['at_tokens'], verifier=True)}",
        by_name(few["at_tokens"]),
        f"{mean_of(to_level['PPO']).mean / 1000:.0f} thousand sampled tokens to a gold reward of 1.7, RLOO "
        f"about {more.mean / 1000:.0f} [{more.low / 1000:.0f}, {more.high / 1000:.0f}] thousand more",
    ]


def statements(found: dict) -> list[str]:
    """Every other sentence with a number that page and lesson take from the record, made from it."""
    runs = found["situations"][HOME]
    means, costs, settings = record.means(runs), record.costs(runs), record.settings_of(found)
    start = {what: sum(one[what] for one in runs["sft"]) / runs["seeds"] for what in ("gold", "verified")}
    eight = [next(point for point in run["curve"] if point["n"] == 8) for run in runs["methods"][BEST_OF_N]]
    tokens = sum(run["tokens_per_answer"] for run in runs["methods"][BEST_OF_N]) / runs["seeds"]
    trained = {name: cost["forward_backward"] / costs["PPO"]["forward_backward"] for name, cost in costs.items()}
    checked = means["PPO, verifier"]
    kept = [point for run in runs["methods"]["rejection sampling"] for point in run["curve"]]
    far = [point["kl"] for point in kept if point["coefficient"] >= 8]
    two = {what: sum(p[what] for p in kept if p["coefficient"] == 2) / runs["seeds"] for what in ("gold", "kl")}
    jobs = [
        *tuning(),
        *(job for name, some in found["situations"].items() for job in curves(settings, some["seeds"], 5, name)),
    ]
    hours = sum(record.costs(found["situations"][job.situation])[job.method]["seconds"] for job in jobs) / 3600
    return [
        f"{len(jobs)} runs of the record train for about {hours:.1f} hours of one core",
        f"{runs['seeds']} seeds, and {found['situations'][FEW]['seeds']} seeds of the second situation",
        f"RLOO trains {trained['RLOO']:.0%} of the token positions that PPO trains, GRPO {trained['GRPO']:.0%}",
        f"best of 8 has a gold reward of {sum(one['gold'] for one in eight) / len(eight):.2f} and costs "
        f"{8 * tokens:.0f} tokens per answer in place of {tokens:.0f}",
        f"{eight[0]['kl']:.4f} for n = 8, where the bound log n - (n - 1) / n is {eight[0]['kl_bound']:.4f}",
        f"its KL is beyond 5 nats in {sum(kl > 5 for kl in far)} of {len(far)} runs with n of 8 or more",
        f"does well with an n of 2, a gold reward of {two['gold']:.2f} at a KL of {two['kl']:.1f}",
        f"the verifier accepts {checked['verified']:.0%} of the responses of a policy that PPO trained on it, and "
        f"{start['verified']:.0%} of the SFT model's",
        f"their gold reward is {checked['gold']:.2f}, the SFT model's {start['gold']:.2f}",
    ]


def budget(found: dict) -> str:
    """Said on page and in lesson: responses are what is equal, tokens nearly."""
    costs = record.costs(found["situations"][HOME])
    sampled = [costs[name]["sampled"] / 1000 for name in BY_PROXY if costs[name]["sampled"]]
    return f"{found['responses']:,} responses, {min(sampled):.0f} to {max(sampled):.0f} thousand tokens"


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    pages = {"page": ROOT / "book/pages/contest.md", "lesson": ROOT / "tutorial/lesson13_after_ppo/README.md"}
    return {name: " ".join(path.read_text("utf-8").split()) for name, path in pages.items()}


def test_the_page_prints_the_recorded_tables(texts):
    for rows in record.tables(record.recorded()).values():
        assert " ".join(record.for_page(rows).split()) in texts["page"]


def test_what_page_and_lesson_say_is_what_the_record_says(texts):
    found = record.recorded()
    for sentence in [*statements(found), *of_differences(found)]:
        assert sentence in texts["page"], sentence
    assert found["command"] in texts["page"] and found["date"] in texts["page"]
    assert f"{found['situations'][HOME]['seeds']} seeds" in texts["lesson"]
    assert all(budget(found) in text for text in texts.values())
    assert f"to each of {SITUATIONS[HOME]} prompts, {SITUATIONS[FEW]} in the second situation" in texts["page"]
    every = running.TRACE_EVERY * record.costs(found["situations"][HOME])["PPO"]["sampled"] / found["responses"]
    assert f"every {running.TRACE_EVERY} responses, which is about {every / 1000:.0f} thousand tokens" in texts["page"]


def by_another_rule(runs: dict, name: str, by: str, max_kl: float) -> Difference:
    """Gold minus PPO's, where the best by `by` within `max_kl` is chosen."""
    ends = [[picked(run["curve"], by, max_kl)["gold"] for run in runs["methods"][one]] for one in (name, "PPO")]
    return mean_of(paired(*ends))


def test_what_the_page_says_of_its_rule_of_five_nats(texts):
    runs = record.recorded()["situations"][HOME]
    of_ppo = [
        sum(picked(run["curve"], "proxy", kl)["gold"] for run in runs["methods"]["PPO"]) / runs["seeds"]
        for kl in (4, 8)
    ]
    four = {name: record._interval(by_another_rule(runs, name, "proxy", 4.0)) for name in ("RLOO", BEST_OF_N)}
    known = {name: record._interval(by_another_rule(runs, name, "gold", 99.0)) for name in ("RLOO", "GRPO", BEST_OF_N)}
    for said in (
        f"PPO's gold reward is {of_ppo[0]:.2f} and RLOO is {four['RLOO']}, with 8 nats PPO's is {of_ppo[1]:.2f}",
        f"its +0.15 becomes {four[BEST_OF_N]} with 4 nats",
        f"RLOO would be {known['RLOO']}, GRPO {known['GRPO']} and best of n {known[BEST_OF_N]}",
    ):
        assert said in texts["page"], said
    best = [max(run["curve"], key=lambda point: point["gold"])["kl"] for run in runs["methods"]["PPO"]]
    assert 2 < sum(best) / len(best) < 3 and "Gold rewards are highest at 2 to 3 nats" in texts["page"]
    assert max(point["kl"] for run in runs["methods"][BEST_OF_N] for point in run["curve"]) < 2.55


def test_what_the_texts_say_of_rloo_over_the_kl(texts):
    """One KL alone would have been a choice: the difference is large near the SFT model and small beyond."""
    runs = record.recorded()["situations"][HOME]
    of_rloo = dict(zip(record.ALONG, record.along_kl(runs, "RLOO"), strict=True))
    assert [one.verdict for one in of_rloo.values()] == ["worse"] * 2 + ["worse, by less than 0.05"] * 2 + ["equal"]
    least = min(of_rloo[kl].mean for kl in (2.0, 2.5, 3.0))
    for text in texts.values():
        assert f"at most {-least:.2f} below PPO" in text and f"{-of_rloo[1.0].mean:.2f}" in text
    assert f"{-of_rloo[1.5].mean:.2f} at 1.5 nats and {-of_rloo[1.0].mean:.2f} at 1" in texts["lesson"]
    assert all(one.verdict == "worse" for one in record.along_kl(runs, "GRPO"))
    assert "GRPO is below PPO at each of these" in texts["lesson"]
    roots = {}
    for name, kl in (("GRPO", 2.0), ("RLOO", 1.0)):
        golds = (
            [gold_at([rooted(p) for p in run["curve"]], math.sqrt(kl), rooted(start)) for run, start in pairs]
            for pairs in (list(zip(runs["methods"][one], runs["sft"], strict=True)) for one in (name, "PPO"))
        )
        roots[name] = mean_of(paired(*golds)).mean
    assert f"give GRPO {roots['GRPO']:+.2f} at 2 nats and RLOO {roots['RLOO']:+.2f} at 1 nat" in texts["page"]


def rooted(point: dict) -> dict:
    return point | {"kl": math.sqrt(max(point["kl"], 0.0))}


def test_the_page_says_how_many_intervals_it_holds(texts):
    found = re.findall(r"[+-]\d\.\d\d \[[+-]\d\.\d\d, [+-]\d\.\d\d\]", texts["page"])
    runs = record.recorded()["situations"].values()
    over_kl = sum(
        one is not None for of in runs for name in (*BY_PROXY[1:], BEST_OF_N) for one in record.along_kl(of, name)
    )
    assert 35 <= len(found) - over_kl <= 45 and 35 <= over_kl <= 45, (len(found), over_kl)
    assert "about 40 such intervals, and about 40 more in the tables over the KL" in texts["page"]


def test_what_the_page_says_of_the_tuning_holds(texts):
    chosen = record.settings_of(record.recorded())
    at_the_edge = [name for name, one in chosen.items() if one.learning_rate == max(METHODS[name].rates)]
    assert at_the_edge == ["RLOO", "GRPO", "rejection sampling"]
    assert (sum(one.epochs == max(plan.EPOCHS) for one in chosen.values()), len(chosen)) == (4, 6)
    assert f"larger number of epochs, {max(plan.EPOCHS)}, and groups always have {world_file.GROUP}" in texts["page"]
    assert "RLOO, GRPO and rejection sampling took the highest learning rate that they were offered" in texts["page"]


@pytest.mark.slow
def test_a_reward_model_learns_from_as_many_comparisons_as_the_page_says(texts):
    """Prompts are no comparisons: pairs without a difference are dropped. Sampling may round otherwise elsewhere."""
    found = [len(World(plan.FIRST_SEED, situation).pairs) for situation in (HOME, FEW)]
    said = [
        int(one.replace(",", ""))
        for one in re.search(r"about ([\d,]+) comparisons.*?about (\d+) in", texts["page"]).groups()
    ]
    assert found == [pytest.approx(one, rel=0.05) for one in said]
    assert f"{RESPONSES // 2:,} pairs of new responses" in texts["page"]


def test_with_too_small_a_coefficient_the_proxy_rises_and_gold_falls(texts):
    """Said of three methods on the page."""
    situations = record.recorded()["situations"]
    for name, runs in product(("PPO", "RLOO", "GRPO"), situations.values()):
        smallest, middle = ([run["curve"][place] for run in runs["methods"][name]] for place in (0, 2))
        proxy, gold = (sum(a[w] - b[w] for a, b in zip(smallest, middle, strict=True)) for w in ("proxy", "gold"))
        assert proxy > 0 > gold, name
    assert "with the smallest coefficient PPO, RLOO and GRPO have a higher proxy reward" in texts["page"]


def spread_of_kl(runs: list[dict]) -> float:
    """From the point with the smallest mean KL to that with the largest."""
    means = [sum(point["kl"] for point in at) / len(runs) for at in zip(*(run["curve"] for run in runs), strict=True)]
    return max(means) - min(means)


def test_what_else_the_texts_say_without_a_number_holds(texts):
    runs = record.recorded()["situations"][HOME]
    at_kl, at_tokens, means = *(record.differences(runs)[what] for what in ("at_kl", "at_tokens")), record.means(runs)
    assert all(one.verdict.startswith("worse") for one in at_tokens.values())
    assert "both runs read where the shorter one ended) all are below PPO" in texts["page"]
    assert f"tokens* RLOO is {-at_tokens['RLOO'].mean:.2f} below PPO" in texts["lesson"]
    assert at_kl[BEST_OF_N].verdict == "better" and "best of n is hard to beat" in texts["lesson"]
    assert f"The interval of best of n ends at {at_kl[BEST_OF_N].high:.4f}" in texts["page"]
    apart = {name: spread_of_kl(runs["methods"][name]) for name in ("GRPO", "PPO", "RLOO")}
    assert max(apart, key=lambda name: apart[name]) == "GRPO"
    assert "GRPO's five points lie farther apart in KL than PPO's and RLOO's" in texts["page"]
    middle = {
        name: sum(run["curve"][2]["kl"] for run in runs["methods"][name]) / runs["seeds"] for name in ("PPO", "RLOO")
    }
    assert f"whose runs end at {middle['PPO']:.1f} nats there, RLOO's at {middle['RLOO']:.1f}" in texts["page"]
    costs = record.costs(runs)
    verified = [costs[name]["sampled"] for name in METHODS if METHODS[name].tuned_as]
    assert all(round(one / 1000) == 15 for one in verified) and "15 thousand with the verifier" in texts["page"]
    few = record.recorded()["situations"][FEW]
    ends = zip(*(run["curve"] for run in few["methods"]["DPO, own pairs"]), strict=True)
    assert all(sum(point["kl"] for point in at) / few["seeds"] < 1 for at in ends)
    assert "it stays below a KL of 1 on average" in texts["page"]
    decided = [one.verdict for what in record.differences(few).values() for one in what.values()]
    assert (
        not any(one.startswith("better") for one in decided)
        and "No method is decided to be better than PPO here" in texts["page"]
    )
    beaten = ("DPO, own pairs", "DPO, sampled pairs", "rejection sampling")
    assert all(at_kl[name].verdict == "worse" for name in beaten)
    assert "At a KL of 2 DPO is below PPO, and so is rejection sampling" in texts["lesson"]
    start = sum(one["gold"] for one in runs["sft"]) / runs["seeds"]
    assert means["PPO, verifier"]["verified"] > 0.95
    gains = {name: means[name]["gold"] - start for name in ("PPO", "PPO, verifier")}
    assert gains["PPO, verifier"] < 0.25 * gains["PPO"]
    assert "The verifier's policy passes its check and is hardly better than SFT" in texts["lesson"]


def test_what_the_page_says_of_entropy_holds_of_the_recorded_demo(texts):
    run = json.loads(DEMO.read_text("utf-8"))
    start, free, held = (run[name]["entropy"][place] for name, place in (("no_kl", 0), ("no_kl", -1), ("ppo", -1)))
    said = f"begins with {start:.2f} nats per token and ends with {free:.2f} without a penalty, {held:.2f} with it"
    assert said in texts["page"] and f"In {len(run['ppo']['entropy'])} updates" in texts["page"]
    assert start == run["ppo"]["entropy"][0] > held > free > start / 2, "a fall, and no collapse"


def test_the_record_is_whole_and_of_the_methods_as_they_are():
    found = record.recorded()
    for situation, runs in found["situations"].items():
        assert set(runs["methods"]) == {*plan.competitors(situation), BEST_OF_N}
        assert all(len(of) == runs["seeds"] == len(runs["sft"]) for of in runs["methods"].values())
        for name, of in runs["methods"].items():
            if name != BEST_OF_N:
                for run_ in of:
                    assert tuple(point["coefficient"] for point in run_["curve"]) == METHODS[name].coefficients
    assert record.settings_of(found).keys() == set(BY_PROXY) and found["memory"].keys() == {*METHODS, BEST_OF_N}
