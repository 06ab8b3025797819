"""Parts of one's own in the trainer: an optimizer, a schedule, rows, callbacks."""

import pytest
import torch

from solutions.lesson07_actor_critic import ValueModel
from solutions.lesson09_ppo_trainer import PPOTrainer
from solutions.lesson11_scaling import DistributedPPOTrainer
from testcases.course import hub
from testcases.course.trainers import PROMPTS, TokenSum, config_of, small_trainer
from testcases.harness.catalog import ROOT
from testcases.harness.suite.asserts import named


@pytest.mark.parametrize("kind", [PPOTrainer, DistributedPPOTrainer])
def test_an_optimizer_of_ones_own_takes_the_steps_at_the_rates_of_the_run(kind, tmp_path):
    """Weight decay for matrices alone, in groups of its own; the critic's rate is the config's."""
    made = []

    def optimizer(groups):
        split = []
        for group in groups:
            for is_matrix in (True, False):
                some = [weight for weight in group["params"] if (weight.dim() > 1) == is_matrix]
                split.append({**group, "params": some, "weight_decay": 0.1 * is_matrix})
        made.append(torch.optim.SGD(split, momentum=0.9))
        return made[0]

    settings = {"critic_learning_rate": 0.5, "learning_rate": 0.1, "num_updates": 2}
    run = small_trainer(kind, {"optimizer": optimizer, "schedule": lambda done: (1.0, 0.25)[done]}, **settings)
    history = run.train(PROMPTS)
    assert [metrics["learning_rate"] for metrics in history] == [0.1, 0.025]
    assert [group["lr"] for group in made[0].param_groups] == [0.025, 0.025, 0.125, 0.125]
    assert [group["weight_decay"] for group in made[0].param_groups] == [0.1, 0.0] * 2
    assert all("momentum_buffer" in state for state in made[0].state.values())
    run.save_checkpoint(tmp_path)
    again = small_trainer(kind, {"optimizer": lambda groups: made.clear() or optimizer(groups)}, **settings)
    again.load_checkpoint(tmp_path)
    assert str(again.optimizer.state_dict()) == str(run.optimizer.state_dict())


@named(
    "optimizer",
    {
        "of-a-part": lambda groups: torch.optim.SGD([{**groups[0], "params": groups[0]["params"][:2]}]),
        "at-a-rate-of-its-own": lambda groups: torch.optim.SGD(groups[0]["params"], lr=0.5),
    },
)
def test_an_optimizer_that_would_train_something_else_is_refused(optimizer):
    with pytest.raises(ValueError, match=r"weights that train, each with the lr of its group, got one of [02]; split"):
        small_trainer(parts={"optimizer": optimizer})


SEEN: list[tuple] = []


def counts(prompts, responses, answer):
    SEEN.append((prompts, answer))
    return [float(len(text)) for text in responses]


def language_run(reward, words, kind=PPOTrainer, **settings) -> PPOTrainer:
    parts = {"reward_model": reward, "tokenizer": words}
    return small_trainer(kind, parts, len(words), **hub.TINY | {"num_updates": 1} | settings)


def test_conversations_become_prompts_by_the_lines_of_the_page():
    page = (ROOT / "book/pages/library.md").read_text("utf-8")
    lines = page[page.index("rows = [tokenizer.apply_chat_template") :].partition("```")[0]
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}, {"role": "user", "content": "a"}]
    SEEN.clear()
    words = hub.tokenizer(chat=True)
    names = {"conversations": [talk], "answers": [3], "tokenizer": words, "trainer": language_run(counts, words)}
    exec(lines, names)
    said = "<|user|>hi<|end|><|assistant|>yo<|end|><|user|>a<|end|><|assistant|>"
    assert words.decode(names["rows"][0]["input_ids"]) == said
    assert SEEN[0][1] == [3] * len(SEEN[0][1])
    for talks in ([talk], [{"prompt": talk}]):
        with pytest.raises(ValueError, match=r"; tokenizer\.apply_chat_template\(messages, .* token ids of messages"):
            language_run(counts, words).train(talks)


ALIKE = {
    "equal-texts": [{"prompt": "dog", "answer": 1}, {"prompt": "dog", "answer": 2}],
    "words-that-the-tokenizer-does-not-know": [{"prompt": "É", "answer": 1}, {"prompt": "Ü", "answer": 2}],
    "tensors": [{"prompt": "dog", "answer": torch.ones(2)}, {"prompt": "dog", "answer": torch.zeros(2)}],
}


@pytest.mark.parametrize("kind", [PPOTrainer, DistributedPPOTrainer])
@named("rows", ALIKE)
def test_the_columns_of_a_row_belong_to_it_and_not_to_its_text(rows, kind):
    """Also in chunks, with several samples of each, and where an update is called without `train`."""
    for settings in ({}, {"batch_size": 4, "samples_per_prompt": 2, "micro_rollout_batch_size": 3}):
        SEEN.clear()
        run = language_run(counts, hub.tokenizer(), kind, **settings)
        run.train(rows)
        run.training_step([*rows, *rows])
        got = [
            (prompt, id(answer)) for prompts, answers in SEEN for prompt, answer in zip(prompts, answers, strict=True)
        ]
        said = [row["prompt"] if "prompt" in row else hub.tokenizer().decode([9]) for row in rows]
        assert set(got) == {(text, id(row["answer"])) for text, row in zip(said, rows, strict=True)}
        assert got[-4:] == [(text, id(row["answer"])) for text, row in zip(said * 2, rows * 2, strict=True)]


ENDED = "prompts end with a stop token, after which the policy would learn to go on"
TWICE = "prompts begin with two <|user|>"
DOUBTS = {
    "ends-with-a-stop-token": ([[9, 10], [9, 1], {"prompt": "dog<|end|>"}], f"check: 2 of 3 {ENDED}", TWICE),
    "begins-twice": (["<|user|><|user|>dog", "<|user|>dog", [2, 2, 9]], f"check: 2 of 3 {TWICE}", ENDED),
}


@pytest.mark.parametrize("kind", [PPOTrainer, DistributedPPOTrainer])
@named("prompts, said, not_said", DOUBTS)
def test_prompts_that_a_tokenizer_has_spoiled_are_said_and_taken(prompts, said, not_said, kind, capsys):
    words = hub.tokenizer()
    words.bos_token = "<|user|>"
    run = language_run(TokenSum(), words, kind)
    assert len(run.train(prompts)) == 1
    told = capsys.readouterr().err
    assert told.count(said) >= 1 and not_said not in told.split("check: update")[0]


def test_padding_that_a_rows_attention_mask_marks_is_not_read():
    """The same run as of the bare token ids; a data set that was tokenized with padding has such rows."""
    rows = []
    for number, ids in enumerate(PROMPTS):
        pads, real = [0] * (6 - len(ids)), [1] * len(ids)
        tokens, mask = (pads + ids, pads + real) if number % 2 else (ids + pads, real + pads)
        rows.append({"input_ids": tokens, "attention_mask": torch.tensor(mask) if number else mask})
    assert small_trainer().train(rows) == small_trainer().train(PROMPTS)


def test_a_critic_starts_from_a_classifier_as_a_copy():
    from transformers import AutoModelForSequenceClassification

    for family in ("gpt2", "llama"):
        config = config_of(family, num_labels=1)
        classifier = AutoModelForSequenceClassification.from_config(config).requires_grad_(False).eval()
        critic = ValueModel.from_classifier(classifier)
        ids = torch.tensor([[5, 6, 7]])
        score = classifier(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0, 0]
        torch.testing.assert_close(critic(ids, torch.ones_like(ids).bool())[0, -1], score)
        own = {weight.data_ptr() for weight in classifier.parameters()}
        assert all(weight.requires_grad and weight.data_ptr() not in own for weight in critic.parameters())
    with pytest.raises(ValueError, match="expected a sequence classifier whose head is one linear layer"):
        ValueModel.from_classifier(small_trainer().policy)
