"""The same number is the same everywhere: what texts say of `make demo` is one recorded run of seed 0."""

import json

from book.figures.lesson12_capstone import RECORDED
from testcases.engine.catalog import ROOT, SOLUTIONS, TUTORIAL

RUN = json.loads(RECORDED.read_text("utf-8"))


def test_the_table_of_lesson_12_is_the_recorded_run():
    text = (TUTORIAL / "lesson12_capstone/README.md").read_text("utf-8").replace("**", "")
    for name, title in (("sft", "SFT"), ("ppo", "PPO, `kl_coef = 0.09`"), ("no_kl", "PPO without KL penalty")):
        one = RUN[name]
        distance = f"{one['kl']:.0f} nats" if one["kl"] > 0.5 else "0"
        row = f"| {title} | {one['proxy']:.2f} | {one['gold']:.2f} | {distance} | {one['valid']:.0%} |"
        assert row.replace("%", " %") in text, row
    assert RUN["no_kl"]["response"] in " ".join(text.split())
    assert RUN["kl_coef"] == 0.09


def test_the_first_of_the_ten_seeds_is_the_recorded_run():
    (first,) = [
        run for run in json.loads((SOLUTIONS / "apps/ten_seeds.json").read_text("utf-8"))["runs"] if not run["seed"]
    ]
    for name in ("sft", "ppo", "no_kl"):
        assert all(round(number, 4) == RUN[name][key] for key, number in first[name].items()), name
    sft, ppo = first["sft"]["gold"], first["ppo"]["gold"]
    row = f"| 0 | {first['reward_model']['accuracy']:.3f} | {sft:.2f} | {ppo:.2f} |"
    assert row in (ROOT / "book/pages/benchmarks.md").read_text("utf-8")
