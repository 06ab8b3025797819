"""The capstone, by hand: three tokens for the losses, a scripted policy for the evaluation, tables for the runs."""

import math

import pytest
import torch

from testcases.harness.suite.asserts import (
    assert_equal,
    assert_equals_reference,
    assert_leaves_global_random_alone,
    named,
    scenario,
    value_and_gradients,
)
from testcases.lesson12_capstone.examples import ALL, CLIPPED, SCRIPT, stages
from testcases.lesson12_capstone.scenarios import WORDS
from tutorial.lesson12_capstone import evaluate_policy, sft_loss, train_policy, train_sft

LN2 = math.log(2)
NO, YES = False, True
JUDGED = scenario("evaluation_of", of=evaluate_policy)
FITTED = scenario("fitted_of", of=train_sft)
TUNED = scenario("tuned_of", of=train_policy)

# Logits whose probabilities are 1/2, 1/4, 1/4: token 0 costs ln 2, the others 2 ln 2. EVEN gives 1/2, 1/2, 0.
SKEW = [LN2, 0.0, 0.0]
EVEN = [0.0, 0.0, -math.inf]


@named(
    "logits, input_ids, loss_mask, loss",
    {
        # Token 1 is predicted by the logits at 0, token 2 by those at 1.
        "predicted-one-position-before": ([[SKEW, EVEN, EVEN]], [[2, 0, 0]], [[NO, YES, NO]], LN2),
        "the-token-chooses-the-logit": ([[SKEW, EVEN, EVEN]], [[2, 1, 0]], [[NO, YES, NO]], 2 * LN2),
        # (2 ln 2 + ln 2) / 2
        "mean-over-the-tokens": ([[SKEW, EVEN, EVEN]], [[2, 1, 0]], [[NO, YES, YES]], 1.5 * LN2),
        "the-first-token-is-ignored": ([[SKEW, SKEW, EVEN]], [[0, 2, 1]], [[YES, NO, YES]], 2 * LN2),
        # Rows of 2 and 1 tokens: (ln 2 + ln 2 + 2 ln 2) / 3; the mean of the rows' means would be 3/2 ln 2
        "each-token-counts-the-same": (
            [[SKEW, EVEN, EVEN], [SKEW, SKEW, EVEN]],
            [[0, 0, 1], [0, 0, 2]],
            [[NO, YES, YES], [NO, NO, YES]],
            4 / 3 * LN2,
        ),
    },
)
@pytest.mark.points(4)
def test_sft_loss_by_hand(logits, input_ids, loss_mask, loss):
    assert_equal(sft_loss(logits, input_ids, loss_mask), loss)


def test_sft_loss_gradient():
    # By the logits before each token to learn: (p - onehot) / 2. Nothing for the last and for those before token 1.
    answer, grads = value_and_gradients(
        sft_loss, [[SKEW, SKEW, SKEW, SKEW]], [[2, 1, 0, 2]], [[NO, NO, YES, YES]], wrt="logits"
    )
    assert_equal(answer, 1.5 * LN2)
    assert_equal(grads, logits=[[[0.0, 0.0, 0.0], [-0.25, 0.125, 0.125], [0.25, 0.125, -0.375], [0.0, 0.0, 0.0]]])
    # A single token to learn: p - onehot.
    answer, grads = value_and_gradients(sft_loss, [[SKEW, SKEW]], [[2, 1]], [[NO, YES]], wrt="logits")
    assert_equal(grads, logits=[[[0.5, -0.75, 0.25], [0.0, 0.0, 0.0]]])


# Four demonstrations over four tokens: a prompt of one token (its number is the row's), tokens to learn, padding.
# The prompt of row 2 has two tokens.
ROWS = {
    "input_ids": [[0, 2, 3], [1, 3, 0], [2, 2, 3], [3, 2, 0]],
    "attention_mask": [[YES, YES, YES], [YES, YES, NO], [YES, YES, YES], [YES, YES, NO]],
    "loss_mask": [[NO, YES, YES], [NO, YES, NO], [NO, NO, YES], [NO, YES, NO]],
}
UNIFORM = torch.zeros(4, 4, dtype=torch.float64)


@pytest.mark.points(2)
def test_train_sft_first_loss_is_that_of_the_untrained_policy():
    # Four tokens, all alike: ln 4 a token, whatever the batch.
    answer = FITTED(table=UNIFORM, **ROWS, learning_rate=0.1, batch_size=4)
    assert len(answer["losses"]) == 1, "one loss: four rows are one batch"
    assert abs(answer["losses"][0] - 2 * LN2) < 1e-6, "a loss of ln 4 = 1.386294, as a float"
    # After 1, where one token is learned, the 3 has five times the weight of the others: ln(8 / 5) among five.
    table = [[0.0] * 4, [0.0, 0.0, 0.0, math.log(5)], [0.0] * 4, [0.0] * 4]
    answer = FITTED(table=table, **ROWS, learning_rate=0.1, batch_size=4)
    assert_equal(answer["losses"], [(8 * LN2 + math.log(8 / 5)) / 5], atol=1e-6)


@pytest.mark.parametrize("batch_size, sizes", [(1, [1, 1, 1, 1]), (3, [3, 1]), (9, [4])], ids=str)
@pytest.mark.points(3)
def test_train_sft_sees_each_demonstration_once(batch_size, sizes):
    answer = FITTED(table=UNIFORM, **ROWS, learning_rate=0.1, batch_size=batch_size)
    assert answer["batches_apart"] and [*map(len, answer["first_tokens"])] == sizes, (
        f"batches of {', '.join(map(str, sizes))}"
    )
    assert sorted(sum(answer["first_tokens"], [])) == [0, 1, 2, 3], "each of the four rows exactly once"
    assert len(answer["losses"]) == len(sizes), f"{len(sizes)} losses, one for each step"


@pytest.mark.parametrize("seed", [0, 1])
def test_train_sft_draws_the_order_from_its_own_generator(seed):
    answer = FITTED(table=UNIFORM, **ROWS, learning_rate=0.1, batch_size=1, seed=seed)
    assert_leaves_global_random_alone(answer)
    assert_equals_reference(answer, atol=CLIPPED)


@pytest.mark.parametrize("gain", [1.0, 5.0])
def test_train_sft_clips_the_gradients(gain):
    # A sure and wrong policy has slopes of norm sqrt(2) for each token: 1 after clipping. What Adam keeps of it
    # shows in the second step, whose slopes are small. With a gain of 5 single slopes are above 1 as well.
    table = torch.zeros(4, 4, dtype=torch.float64)
    table[:, 1] = 6.0 / gain
    answer = FITTED(table=table, **ROWS, learning_rate=2.0 / gain, batch_size=1, seed=1, gain=gain)
    assert_equals_reference(answer, atol=CLIPPED)


@pytest.mark.parametrize("train_mode", [False, True])
def test_train_sft_trains_in_train_mode_and_leaves_it(train_mode):
    answer = FITTED(table=UNIFORM, **ROWS, learning_rate=0.1, batch_size=2, train_mode=train_mode)
    assert_equal(answer, in_train_mode=YES, left_in_train_mode=NO)


# Gold of the script (relevance + sentiment): 1 + 2/2 = 2; the wrong topic, one bad word: 0 - 1/2; half of it on the
# topic, one good word: 1/2 + 1/2; not well-formed: 0; cut before it stopped: 0. Tokens: 8, 6, 12, 7 and 5.
LONG = dict(list(SCRIPT.items())[:4])


@named(
    "settings",
    {
        "by-default": {},
        # The KL is the sum of k1, whichever estimator the rewards of the training use.
        "rewards-use-k3": {"kl_estimator": "k3"},
        # As on many models of the Hub: the stop token is also padding.
        "the-stop-token-is-padding": {"pad_token_id": 1},
        # The policy stops with token 1.
        "the-first-of-two-stop-tokens": {"stop_token_ids": (1, 2)},
        "the-second-of-two-stop-tokens": {"stop_token_ids": (2, 1)},
    },
)
@pytest.mark.points(5)
def test_evaluate_policy_by_hand(settings):
    answer = JUDGED(prompts=tuple(LONG), script=LONG, max_new_tokens=12, **settings)
    # The reference is uniform, the policy certain: each token has KL ln V. The prompts have 4, 9, 10 and 4 tokens.
    assert_equal(
        answer, gold=(2 - 0.5 + 1 + 0) / 4, valid=3 / 4, kl=33 / 4 * math.log(len(WORDS)), proxy=(27 + 33 / 8) / 4
    )
    assert_equal(answer, responses=" | ".join(text.removesuffix(" <eos>") for text in LONG.values()))
    # The second alone, unkind and off its topic: below 0.
    assert_equal(JUDGED(prompts=tuple(LONG)[1:2], script=LONG, **settings), gold=-0.5)
    # However many there are, each counts: 64 times gold 2, 16 times -1/2.
    prompts = tuple(LONG)[:1] * 64 + tuple(LONG)[1:2] * 16
    assert_equal(JUDGED(prompts=prompts, script=LONG, **settings), gold=1.5)


def test_evaluate_policy_counts_a_response_that_was_cut_as_invalid():
    # "the battery was lovely ." is a review, but its stop token never came: after five words the policy was cut.
    script = {prompt: SCRIPT[prompt] for prompt in ("review the film :", "tell me about the phone :")}
    answer = JUDGED(prompts=tuple(script), script=script, max_new_tokens=5)
    assert_equal(answer, gold=0.0, valid=0.0)
    # With room for three more it writes padding: that is no stop token either. The other one stops in time.
    answer = JUDGED(prompts=tuple(script), script=script, max_new_tokens=8)
    assert_equal(answer, gold=1.0, valid=0.5)
    answer = JUDGED(prompts=tuple(script)[:1], script=script, max_new_tokens=8)
    assert_equal(answer, gold=2.0, valid=1.0)


def test_evaluate_policy_reads_the_reference_at_the_temperature():
    # After ":" the reference gives "the" the logit 4 ln 2, all else 0; at temperature 2 this is 2 ln 2: 4 / (V + 3).
    reference = torch.zeros(len(WORDS), len(WORDS), dtype=torch.float64)
    reference[WORDS.index(":"), WORDS.index("the")] = 4 * LN2
    script = {"review the film :": "the <eos>"}
    answer = JUDGED(prompts=tuple(script), script=script, reference=reference, temperature=2.0, max_new_tokens=4)
    assert_equal(answer, kl=math.log(len(WORDS) + 3) - math.log(4) + math.log(len(WORDS)))


@named("trains", {"in-train-mode": ALL, "only-dropout-in-train-mode": ALL[1::2]})
def test_evaluate_policy_reads_the_reference_without_dropout(trains):
    # The policy is certain of its 6 tokens; the reference gives "film" after "the" 1/2, and the others 1/V each.
    reference = torch.zeros(len(WORDS), len(WORDS), dtype=torch.float64)
    reference[WORDS.index("the"), WORDS.index("film")] = math.log(len(WORDS) - 1)
    script = {"review the film :": "the film was bad . <eos>"}
    answer = JUDGED(prompts=tuple(script), script=script, reference=reference, in_train_mode=trains)
    assert_equal(answer, kl=5 * math.log(len(WORDS)) + LN2)
    assert_equal(answer, left_in_another_mode=[])


PROMPTS = ("review the film :", "a friend asks : how was the book ?", "review the song :")
STAGES = stages(torch.Generator().manual_seed(11))
RUN = {"num_updates": 2, "batch_size": 4, "num_epochs": 1, "learning_rate": 0.05}


@named("frozen", {"trainable": NO, "frozen": YES})
@pytest.mark.points(2)
def test_train_policy_leaves_the_sft_model_as_it_was(frozen):
    answer = TUNED(**STAGES, prompts=PROMPTS, frozen=frozen, **RUN)
    assert_equal(
        answer, sft_afterwards=STAGES["sft"], sft_requires_gradients_afterwards=not frozen, reference=STAGES["sft"]
    )
    assert (answer["policy"] - STAGES["sft"]).abs().max() > 0.01, "a policy that has moved from the SFT model"
    assert torch.equal(answer["policy"], answer["policy_of_the_trainer"]), "the policy of the trainer"
    assert_equal(answer, sft_left_in_another_mode=[], seeds_the_global_generator=NO)


@pytest.mark.points(3)
def test_train_policy_starts_actor_and_critic_where_the_stages_ended():
    # At a learning rate of almost 0 nothing moves: the policy is the SFT model, the critic the reward model.
    answer = TUNED(**STAGES, prompts=PROMPTS, **{**RUN, "learning_rate": 1e-30})
    assert_equal(
        answer,
        policy=STAGES["sft"],
        critic_backbone=STAGES["reward_backbone"],
        critic_head=STAGES["reward_head"],
        kl=torch.zeros(2),
        atol=1e-6,
    )


def test_train_policy_goes_on_from_a_checkpoint():
    # The first run was stopped after update 1 of 2: the second does update 2, and ends where one run would have ended.
    answer = TUNED(**STAGES, prompts=PROMPTS, resume_after=1, **RUN)
    assert_equal(answer, on_update=[2])
    assert_equals_reference(answer, rtol=1e-5, atol=1e-5)


def test_train_policy_does_not_start_anew_where_the_checkpoint_is_missing():
    with pytest.raises(FileNotFoundError):
        TUNED(**STAGES, prompts=PROMPTS, resume_after=0, **RUN)


def test_train_policy_trains_the_critic_and_not_the_reward_model():
    answer = TUNED(**STAGES, prompts=PROMPTS, **RUN)
    assert_equal(
        answer,
        reward_backbone_afterwards=STAGES["reward_backbone"],
        reward_head_afterwards=STAGES["reward_head"],
        reward_requires_gradients_afterwards=NO,
    )
    assert (answer["critic_backbone"] - STAGES["reward_backbone"]).abs().max() > 0.01 and (
        answer["critic_head"] - STAGES["reward_head"]
    ).abs().max() > 0.01, "a critic whose backbone and head have moved"
