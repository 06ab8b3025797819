"""Lesson 9, by hand: table policies over two to four tokens, a few rows, every number worked out in a comment.

A table policy has a row of logits for the token before; a table critic a value for it. Token 0 is padding, 1 stops.
"""

from __future__ import annotations

import math

import pytest
import torch

from testcases.engine import call, scenario, worth
from tutorial.lesson09_ppo_trainer import PPOTrainer

NAN = math.nan
LN2 = math.log(2)
NO, YES = False, True

RESPONSES = scenario("responses_of", of=PPOTrainer.generate_responses)
WRAPPED_RESPONSES = scenario("wrapped_responses_of", of=PPOTrainer.generate_responses)
REWARDS = scenario("rewards_of", of=PPOTrainer.compute_rewards)
LOSS = scenario("loss_of", of=PPOTrainer.compute_loss)
STEPS = scenario("steps_of", of=PPOTrainer.optimiser_step)
EPOCHS = scenario("epochs_of", of=PPOTrainer.optimise)
UPDATE = scenario("update_of", of=PPOTrainer.training_step)
UPDATES = scenario("real_updates_of", of=PPOTrainer.training_step)
RUN = scenario("run_of", of=PPOTrainer.train)
WRAPPED = scenario("wrapped_loss_of", of=PPOTrainer.compute_loss)
SAVED = scenario("saved_of", of=PPOTrainer.save_checkpoint)
INTERRUPTED = scenario("interrupted_save_of", of=PPOTrainer.save_checkpoint)
LOADED = scenario("loaded_of", of=PPOTrainer.load_checkpoint)
REFUSED = scenario("refused_load_of", of=PPOTrainer.load_checkpoint)
MODE_AFTER_SAVING = scenario("parts_in_training_mode_after", of=PPOTrainer.save_checkpoint)
MODE_AFTER_LOADING = scenario("parts_in_training_mode_after", of=PPOTrainer.load_checkpoint)

# Certain policies: after 2 always 3, after 3 always the stop token (exp(-1000) is 0); or round and round for ever.
SURE = 1000.0
CHAIN = [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, SURE], [0.0, SURE, 0.0, 0.0]]
CIRCLE = [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, SURE], [0.0, 0.0, SURE, 0.0]]
# After 2, at temperature 2: half the logits, so the stop token with 1/4 and 2 with 3/4.
COIN = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [-SURE, 0.0, 2 * math.log(3.0)]]


@pytest.mark.parametrize(
    "actor, prompts, settings, responses, mask",
    [
        pytest.param(CHAIN, ((2,), (3,)), {}, [[3, 1], [1, 0]], [[YES, YES], [YES, NO]], id="rows-end-at-their-stop"),
        pytest.param(CHAIN, ((3,), (3, 2)), {}, [[1, 0], [3, 1]], [[YES, NO], [YES, YES]], id="prompts-of-any-length"),
        pytest.param(
            CIRCLE, ((2,), (3,)), {"max_new_tokens": 3}, [[3, 2, 3], [2, 3, 2]], [[YES] * 3] * 2, id="cut-when-too-long"
        ),
        pytest.param(
            CIRCLE,
            ((2,), (3,)),
            {"stop_token_ids": (1, 2), "max_new_tokens": 5},
            [[3, 2], [2, 0]],
            [[YES, YES], [YES, NO]],
            id="any-of-several-stop-tokens",
        ),
        pytest.param(
            CHAIN, ((2,), (3,)), {"pad_token_id": 1}, [[3, 1], [1, 1]], [[YES, YES], [YES, NO]], id="pad-is-the-stop"
        ),
    ],
)
@worth(3)
def test_generate_responses_by_hand(actor, prompts, settings, responses, mask):
    # Every token is certain: its log-probability is log 1 = 0.
    answer = call(RESPONSES, actor=actor, prompts=prompts, **settings)
    answer.equals(responses=responses, log_probs=[[0.0] * len(mask[0])] * 2, mask=mask)


def is_a_coin(responses, log_probs, mask):
    return (log_probs.exp() - torch.where(responses == 1, 0.25, 0.75))[mask].abs().max() < 1e-12


def test_generate_responses_uses_the_temperature():
    # With 1/4 and 3/4 a row goes on for 3 more tokens on average; at temperature 1 it would be 1/10 and 9/10, so 9.
    answer = call(RESPONSES, actor=COIN, prompts=((2,),) * 64, temperature=2.0, max_new_tokens=3, seed=1)
    answer.satisfies(
        lambda got: is_a_coin(*got.values),
        "log_probs of log(1/4) for the stop token and log(3/4) for token 2: the logits are divided by 2",
    )
    answer.matches_reference()


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_generate_responses_draws_from_the_sampling_generator(calls):
    answer = call(RESPONSES, actor=COIN, prompts=((2,),) * 5, temperature=2.0, max_new_tokens=4, calls=calls, seed=3)
    answer.leaves_global_random_alone().matches_reference()


def test_generate_responses_does_not_depend_on_the_padding_of_the_prompt():
    # The table of places makes token 3 certain behind a prompt of 1 token, and the stop token behind one of 2.
    places = [[0.0, 0.0, 0.0, SURE], [0.0, 2 * SURE, 0.0, 0.0], [0.0, 4 * SURE, 0.0, 0.0], [0.0] * 4, [0.0] * 4]
    blank = [[0.0] * 4] * 4
    answer = call(RESPONSES, actor=blank, prompts=((2,), (2, 2)), places=places, max_new_tokens=2)
    answer.equals(responses=[[3, 1], [1, 0]], log_probs=[[0.0, 0.0], [0.0, 0.0]], mask=[[YES, YES], [YES, NO]])


def test_generate_responses_leaves_the_wrapped_model_in_its_mode():
    # On several processes the policy is inside a wrapper. Before the call the model is in evaluation mode.
    answer = call(WRAPPED_RESPONSES, actor=CHAIN, prompts=((2,), (3,)))
    answer.equals(parts_in_training_mode=0).matches_reference()


# The reference is uniform over four tokens: its log-probs are -2 ln 2. A token with log-prob -ln 2 has KL +ln 2, one
# with -3 ln 2 has KL -ln 2. A nat costs 0.5 / ln 2, so these tokens cost +0.5 and -0.5. Scores: 2 for each token 3,
# 0.25 for the stop token. The policy of now (CHAIN) is another one than the policy that sampled.
UNIFORM = [[0.0] * 4] * 4
POINTS = [0.0, 0.25, 0.0, 2.0]
PRICE = 0.5 / LN2


@pytest.mark.parametrize(
    "responses, log_probs, mask, settings, rewards",
    [
        pytest.param([[3, 1]], [[-1.0, -3.0]], [[YES, YES]], {}, [[-0.5, 2.75]], id="score-on-the-last-token"),
        pytest.param(
            [[3, 1], [1, 0]],
            [[-1.0, -3.0], [-1.0, NAN]],
            [[YES, YES], [YES, NO]],
            {},
            [[-0.5, 2.75], [-0.25, 0.0]],
            id="the-last-token-of-each-row",
        ),
        # The score 4 loses the penalty first
        pytest.param([[3, 3]], [[-1.0, -1.0]], [[YES, YES]], {}, [[-0.5, 2.5]], id="a-missing-stop-costs-1"),
        pytest.param(
            [[3, 3]],
            [[-1.0, -1.0]],
            [[YES, YES]],
            {"missing_stop_penalty": 0.25},
            [[-0.5, 3.25]],
            id="a-missing-stop-costs-what-the-config-says",
        ),
        pytest.param(
            [[3, 1]], [[-1.0, -3.0]], [[YES, YES]], {"clip_score": 1.5}, [[-0.5, 2.0]], id="only-the-score-is-clipped"
        ),
        # k2 = (ln 2)^2 / 2 for both tokens
        pytest.param(
            [[3, 1]],
            [[-1.0, -3.0]],
            [[YES, YES]],
            {"kl_estimator": "k2"},
            [[-0.25 * LN2, 2.25 - 0.25 * LN2]],
            id="the-estimator-of-the-config",
        ),
    ],
)
@worth(3)
def test_compute_rewards_by_hand(responses, log_probs, mask, settings, rewards):
    log_probs = LN2 * torch.tensor(log_probs, dtype=torch.float64)
    prompts = ((2,),) * len(mask)
    world = {"actor": CHAIN, "reference": UNIFORM, "reward": POINTS, "prompts": prompts}
    answer = call(REWARDS, **world, responses=responses, log_probs=log_probs, mask=mask, price=PRICE, **settings)
    answer.equals(rewards).has_no_gradient()


def test_compute_rewards_reads_the_reference_at_the_temperature():
    # At temperature 2 the reference's logits (0, 0, 0, 2 ln 5) give 1/8, 1/8, 1/8, 5/8 after 2.
    reference = [[0.0] * 4, [0.0] * 4, [0.0, 0.0, 0.0, 2 * math.log(5.0)], [0.0] * 4]
    answer = call(
        REWARDS,
        actor=CHAIN,
        reference=reference,
        reward=POINTS,
        prompts=((2,),),
        responses=[[1]],
        log_probs=[[-LN2]],
        mask=[[YES]],
        price=PRICE,
        temperature=2.0,
    )
    # KL = ln(1/2) - ln(1/8) = 2 ln 2 costs 1
    answer.equals([[0.25 - 1.0]])


def test_compute_rewards_at_the_price_of_now():
    # config.kl_coef is where the price began: 0.7. By now the controller has come to 0.25 / ln 2.
    answer = call(
        REWARDS,
        actor=CHAIN,
        reference=UNIFORM,
        reward=POINTS,
        prompts=((2,),),
        responses=[[3, 1]],
        log_probs=[[-LN2, -3 * LN2]],
        mask=[[YES, YES]],
        price=0.25 / LN2,
        kl_coef=0.7,
    )
    answer.equals([[-0.25, 2.5]])


def test_compute_rewards_of_a_wrapped_model():
    answer = call(
        REWARDS,
        actor=CHAIN,
        reference=UNIFORM,
        reward=POINTS,
        prompts=((2,),),
        responses=[[3, 1]],
        log_probs=[[-LN2, -3 * LN2]],
        mask=[[YES, YES]],
        price=PRICE,
        wrapped=YES,
    )
    answer.equals([[-0.5, 2.75]])


# Two rows, three real tokens. After 2 the policy gives 1/8, 1/8, 1/4, 1/2, after 3 it is uniform: 1/4.
#   row 0: token 3 (1/2, it was 1/4: ratio 2), then the stop token (1/4, it was 1/2: ratio 1/2); row 1: token 3, ratio 1
#   advantages 1, 1, -2. clip_epsilon 0.25: min(2, 1.25) = 1.25; min(0.5, 0.75) = 0.5; -2
#   policy_loss = -(1.25 + 0.5 - 2) / 3 = 0.25 / 3
#   values 1 (after 2), 2 (after 3), 1; old 0.5, 2, 2; returns 2, 1, 1.5; value clip 1/8: clipped 0.625, 2, 1.875
#   larger squares 1.375^2, 1, 0.5^2: value_loss = (1.890625 + 1 + 0.25) / 6 = 3.140625 / 6
#   entropies 1.75 ln 2, 2 ln 2, 1.75 ln 2: mean 5.5 / 3 ln 2
AFTER_2 = torch.tensor([0.125, 0.125, 0.25, 0.5], dtype=torch.float64)
BATCH = {
    "actor": torch.stack([torch.zeros(4).double(), torch.zeros(4).double(), AFTER_2.log(), torch.zeros(4).double()]),
    "critic": [9.0, 9.0, 1.0, 2.0],
    "prompts": [[2], [2]],
    "responses": [[3, 1], [3, 0]],
    "mask": [[YES, YES], [YES, NO]],
    "log_probs": [[-2 * LN2, -LN2], [-LN2, 0.0]],
    "advantages": [[1.0, 1.0], [-2.0, 0.0]],
    "values": [[0.5, 2.0], [2.0, 0.0]],
    "returns": [[2.0, 1.0], [1.5, 0.0]],
}
EPSILONS = {"clip_epsilon": 0.25, "value_clip_epsilon": 0.125}
POLICY_LOSS, VALUE_LOSS, ENTROPY = 0.25 / 3, 3.140625 / 6, 5.5 / 3 * LN2
# d policy_loss: the first token is clipped. Row 0, token 1: -1/2 (onehot - 1/4) / 3 by the logits after 3; row 1:
# 2 (onehot - p) / 3 by those after 2.
POLICY_SLOPE = torch.tensor(
    [[0.0] * 4, [0.0] * 4, [-0.25 / 3, -0.25 / 3, -0.5 / 3, 1 / 3], [0.125 / 3, -0.375 / 3, 0.125 / 3, 0.125 / 3]],
    dtype=torch.float64,
)
# d entropy = p (-log p - H) for each of the two tokens after 2; the uniform rows are at their maximum.
ENTROPY_SLOPE = torch.zeros(4, 4, dtype=torch.float64)
ENTROPY_SLOPE[2] = 2 / 3 * LN2 * torch.tensor([0.15625, 0.15625, 0.0625, -0.375], dtype=torch.float64)
# d value_loss: the first token is clipped; 1 - 1.5 = -1/2 by the value after 2, 2 - 1 = 1 by that after 3, of 3 tokens
VALUE_SLOPE = torch.tensor([0.0, 0.0, -0.5 / 3, 1 / 3], dtype=torch.float64)


@pytest.mark.parametrize("value_coef, entropy_coef", [(0.5, 0.0), (0.0, 0.25), (2.0, 0.125)])
@worth(2)
def test_compute_loss_by_hand(value_coef, entropy_coef):
    answer = call(LOSS, **BATCH, **EPSILONS, value_coef=value_coef, entropy_coef=entropy_coef)
    answer.equals(
        loss=POLICY_LOSS + value_coef * VALUE_LOSS - entropy_coef * ENTROPY,
        actor_gradient=POLICY_SLOPE - entropy_coef * ENTROPY_SLOPE,
        critic_gradient=value_coef * VALUE_SLOPE,
    )


def test_compute_loss_statistics():
    # approx_kl: ratio - 1 - log(ratio) is 1 - ln 2, -1/2 + ln 2 and 0. One token of three is clipped.
    answer = call(LOSS, **BATCH, **EPSILONS, entropy_coef=0.5)
    answer.equals(
        policy_loss=POLICY_LOSS,
        value_loss=VALUE_LOSS,
        entropy=ENTROPY,
        ratio_mean=3.5 / 3,
        ratio_max=2.0,
        approx_kl=0.5 / 3,
        clip_fraction=1 / 3,
    )


def test_compute_loss_statistics_are_those_of_the_interval():
    # With clip_epsilon 1.5 the ratios 2 and 1/2 are inside: -(2 + 0.5 - 2) / 3, and nothing is clipped.
    answer = call(LOSS, **BATCH, clip_epsilon=1.5, value_coef=0.0)
    answer.equals(loss=-0.5 / 3, policy_loss=-0.5 / 3, clip_fraction=0.0, ratio_max=2.0)


def test_compute_loss_uses_the_temperature():
    # Twice the logits at temperature 2 are the same distribution; the gradient by the logits is half as large.
    batch = {**BATCH, "actor": 2 * BATCH["actor"]}
    answer = call(LOSS, **batch, **EPSILONS, temperature=2.0, value_coef=0.5, entropy_coef=0.5)
    answer.equals(
        loss=POLICY_LOSS + 0.5 * VALUE_LOSS - 0.5 * ENTROPY,
        actor_gradient=(POLICY_SLOPE - 0.5 * ENTROPY_SLOPE) / 2,
        critic_gradient=0.5 * VALUE_SLOPE,
        entropy=ENTROPY,
        ratio_max=2.0,
    )


def test_compute_loss_ignores_what_stands_under_the_mask():
    hidden = {
        name: torch.tensor(BATCH[name], dtype=torch.float64).masked_fill(~torch.tensor(BATCH["mask"]), NAN)
        for name in ("log_probs", "advantages", "values", "returns")
    }
    answer = call(LOSS, **{**BATCH, **hidden}, **EPSILONS, value_coef=0.5, entropy_coef=0.5)
    answer.equals(
        loss=POLICY_LOSS + 0.5 * VALUE_LOSS - 0.5 * ENTROPY,
        actor_gradient=POLICY_SLOPE - 0.5 * ENTROPY_SLOPE,
        critic_gradient=0.5 * VALUE_SLOPE,
    )


def test_compute_loss_with_the_defaults():
    # value_coef 0.1, entropy_coef 0; both epsilons 0.2: min(2, 1.2) + min(0.5, 0.8) - 2 = -0.3; clipped value 0.7, 1.8
    answer = call(LOSS, **BATCH)
    answer.equals(loss=0.1 + 0.1 * (1.3**2 + 1 + 0.25) / 6, policy_loss=0.1, value_loss=(1.3**2 + 1 + 0.25) / 6)


@pytest.mark.parametrize(
    "advantages, loss",
    [
        pytest.param([[1.0, 1.0], [-2.0, 0.0]], 0.0, id="they-cancel"),
        pytest.param([[1.0, 0.0], [-2.0, 0.0]], 1 / 3, id="a-real-token-with-advantage-0-counts"),
    ],
)
def test_compute_loss_before_the_first_step_is_the_mean_advantage(advantages, loss):
    # Where nothing has moved every ratio is 1: the loss is minus the mean advantage, the same for any clip_epsilon.
    old = {"log_probs": [[-LN2, -2 * LN2], [-LN2, 0.0]], "advantages": advantages}
    answer = call(LOSS, **{**BATCH, **old}, value_coef=0.0)
    answer.equals(loss=loss, policy_loss=loss, ratio_mean=1.0, ratio_max=1.0, approx_kl=0.0, clip_fraction=0.0)


def test_compute_loss_goes_through_the_wrapped_model():
    # On several processes the wrapper averages the gradients: a pass of the model inside it would leave each alone.
    answer = call(WRAPPED, **BATCH)
    answer.equals(loss=0.1 + 0.1 * (1.3**2 + 1 + 0.25) / 6, passes_through_the_wrapper=1)
    # Gradient checkpointing of a real model works in training mode only.
    answer.equals(parts_in_training_mode=3)


# Adam's first step moves a weight by -lr g / (|g| + adam_epsilon); with lr 1 and adam_epsilon 1: -g / (|g| + 1).
# Row 0 has one token, row 1 three. Slopes of the actor 4 | 0, 0, 0: mean over tokens 1 (over rows it would be 2);
# of the critic 0 | -4, -4, -4: mean -3. Norm sqrt(10), not clipped.
RAGGED = [[YES, NO, NO], [YES, YES, YES]]
ACTOR_SLOPES = [[4.0, NAN, NAN], [0.0, 0.0, 0.0]]
CRITIC_SLOPES = [[0.0, NAN, NAN], [-4.0, -4.0, -4.0]]
CALM = torch.ones(2, 3).double()
ADAM = {"learning_rate": 1.0, "adam_epsilon": 1.0, "max_grad_norm": 100.0}
MICROBATCHES = pytest.mark.parametrize(
    "size",
    [pytest.param(None, id="one-microbatch"), pytest.param(1, id="row-by-row"), pytest.param(2, id="of-two-rows")],
)


@MICROBATCHES
@worth(3)
def test_optimiser_step_does_not_depend_on_the_microbatches(size):
    answer = call(
        STEPS,
        actor_slopes=ACTOR_SLOPES,
        critic_slopes=CRITIC_SLOPES,
        mask=RAGGED,
        ratios=[CALM],
        micro_batch_size=size,
        **ADAM,
    )
    answer.equals(actor=[-0.5], critic=[0.75], grad_norm=[math.sqrt(10)], skipped_share=[0.0])
    answer.satisfies(
        lambda got: got["microbatches"] == ([[0], [1]] if size == 1 else [[0, 1]]),
        f"microbatches of {size or 'all'} rows, each row in exactly one",
    )


def test_optimiser_step_with_a_smaller_last_microbatch():
    # Three rows of 1, 2 and 1 tokens in microbatches of 2: means 2/3 * 3/4 + 6 * 1/4 = 2, so -2/3; the critic -1: +1/2
    answer = call(
        STEPS,
        actor_slopes=[[2.0, NAN], [0.0, 0.0], [6.0, NAN]],
        critic_slopes=[[-1.0, NAN], [-1.0, -1.0], [-1.0, NAN]],
        mask=[[YES, NO], [YES, YES], [YES, NO]],
        ratios=[torch.ones(3, 2).double()],
        micro_batch_size=2,
        **ADAM,
    )
    answer.equals(actor=[-2 / 3], critic=[0.5])
    answer.satisfies(lambda got: got["microbatches"] == [[0, 1], [2]], "microbatches of rows 0 1 and 2")


@MICROBATCHES
def test_optimiser_step_reports_the_whole_minibatch(size):
    # Ratios 8 | 1, 1, 2: mean 3 over the tokens (14/3 over the rows), largest 8; policy_loss is the mean slope
    ratios = torch.tensor([[8.0, NAN, NAN], [1.0, 1.0, 2.0]]).double()
    options = {"ratios": [ratios], "micro_batch_size": size, **ADAM}
    answer = call(STEPS, actor_slopes=ACTOR_SLOPES, critic_slopes=CRITIC_SLOPES, mask=RAGGED, **options)
    answer.equals(policy_loss=[1.0], ratio_mean=[3.0], ratio_max=[8.0])


@MICROBATCHES
@worth(2)
def test_optimiser_step_clips_the_norm_of_all_gradients(size):
    # Gradients 3 and -4: norm 5, clipped to 2.5: 1.5 and -2, together for both models. torch adds 1e-6 to the norm.
    answer = call(
        STEPS,
        actor_slopes=[[12.0, NAN, NAN], [0.0, 0.0, 0.0]],
        critic_slopes=[[-4.0, NAN, NAN], [-4.0, -4.0, -4.0]],
        mask=RAGGED,
        ratios=[CALM],
        micro_batch_size=size,
        **{**ADAM, "max_grad_norm": 2.5},
    )
    answer.equals(actor=[-1.5 / 2.5], critic=[2 / 3], grad_norm=[5.0], skipped_share=[0.0], atol=1e-5)


def test_optimiser_step_forgets_its_gradients():
    # The same gradients again: both of Adam's means stay g and g^2, so the second step is as long as the first.
    options = {"ratios": [CALM, CALM, CALM], "micro_batch_size": 1, **ADAM}
    answer = call(STEPS, actor_slopes=ACTOR_SLOPES, critic_slopes=CRITIC_SLOPES, mask=RAGGED, **options)
    answer.equals(actor=[-0.5, -1.0, -1.5], critic=[0.75, 1.5, 2.25], grad_norm=[math.sqrt(10)] * 3)


@pytest.mark.parametrize(
    "ratio, skipped",
    [
        pytest.param(3.9, NO, id="below-the-threshold"),
        pytest.param(4.0, NO, id="at-the-threshold"),
        pytest.param(4.1, YES, id="above-the-threshold"),
        pytest.param(NAN, YES, id="nan"),
        pytest.param(math.inf, YES, id="infinite"),
    ],
)
@worth(2)
def test_optimiser_step_skips_a_spike(ratio, skipped):
    # The spike comes first, then an ordinary step: it must be as if the spike had never been seen.
    options = {"ratios": [ratio * CALM, CALM], "ratio_threshold": 4.0, **ADAM}
    answer = call(STEPS, actor_slopes=ACTOR_SLOPES, critic_slopes=CRITIC_SLOPES, mask=RAGGED, **options)
    answer.equals(
        actor=[0.0, -0.5] if skipped else [-0.5, -1.0],
        critic=[0.0, 0.75] if skipped else [0.75, 1.5],
        grad_norm=[0.0 if skipped else math.sqrt(10), math.sqrt(10)],
        skipped_share=[float(skipped), 0.0],
    )


@pytest.mark.parametrize(
    "first, mean, skipped",
    [
        # 13 / 4: one microbatch and the largest ratio are above the threshold 4, the mean over tokens is not
        pytest.param(10.0, 3.25, NO, id="one-rare-token"),
        # 43 / 4: the last microbatch is below it
        pytest.param(40.0, 10.75, YES, id="a-spike-in-the-first-microbatch"),
    ],
)
def test_optimiser_step_judges_the_mean_ratio_of_the_minibatch(first, mean, skipped):
    ratios = torch.tensor([[first, NAN, NAN], [1.0, 1.0, 1.0]]).double()
    options = {"ratios": [ratios], "ratio_threshold": 4.0, "micro_batch_size": 1, **ADAM}
    answer = call(STEPS, actor_slopes=ACTOR_SLOPES, critic_slopes=CRITIC_SLOPES, mask=RAGGED, **options)
    answer.equals(
        actor=[0.0 if skipped else -0.5],
        critic=[0.0 if skipped else 0.75],
        ratio_mean=[mean],
        skipped_share=[float(skipped)],
    )


QUIET = {"approx_kl": [0.0], "ratio_max": [1.0], "policy_loss": [0.0]}


def sizes_of(got):
    return [len(rows) for rows in got["rows_of_each_step"]]


def epochs_in(got, rows):
    """The row numbers of each epoch, in their order."""
    flat = [row for step in got["rows_of_each_step"] for row in step]
    return [flat[first : first + rows] for first in range(0, len(flat), rows)]


@pytest.mark.parametrize(
    "rows, settings, sizes",
    [
        pytest.param(5, {"num_epochs": 3, "num_minibatches": 2, "batch_size": 5}, [3, 2] * 3, id="a-smaller-last-one"),
        pytest.param(
            6, {"num_epochs": 2, "num_minibatches": 3, "batch_size": 6}, [2, 2, 2] * 2, id="three-of-two-rows"
        ),
        pytest.param(8, {"batch_size": 8}, [2, 2, 2, 2] * 4, id="the-defaults-are-4-epochs-of-4"),
        pytest.param(4, {"num_epochs": 2, "num_minibatches": 1, "batch_size": 4}, [4, 4], id="one-minibatch"),
    ],
)
@worth(2)
def test_optimise_passes_over_every_row_once_an_epoch(rows, settings, sizes):
    answer = call(EPOCHS, sizes=(rows,), **QUIET, **settings)
    answer.satisfies(lambda got: sizes_of(got) == sizes, f"optimiser steps on {', '.join(map(str, sizes))} rows")
    answer.satisfies(
        lambda got: all(sorted(epoch) == list(range(rows)) for epoch in epochs_in(got, rows)),
        f"each of the {rows} rows exactly once in each epoch",
    )
    answer.equals(optimiser_steps=float(len(sizes)))


@pytest.mark.parametrize("seed", [0, 1])
def test_optimise_draws_the_order_anew_from_the_shuffling_generator(seed):
    answer = call(EPOCHS, sizes=(6, 3), **QUIET, num_epochs=3, num_minibatches=3, batch_size=9, seed=seed)
    answer.satisfies(
        lambda got: len({tuple(epoch) for epoch in epochs_in(got, 9)}) == 3, "another order of the rows in each epoch"
    )
    answer.leaves_global_random_alone().matches_reference()


def test_optimise_merges_the_statistics_of_all_steps():
    # Four steps: means 2.5 and 0.25; the largest ratio; the first step's own
    script = {
        "approx_kl": [0.0, 0.0, 0.5, 0.5],
        "ratio_max": [1.25, 1.0, 3.0, 2.0],
        "policy_loss": [1.0, 2.0, 3.0, 4.0],
    }
    answer = call(EPOCHS, sizes=(4,), **script, num_epochs=2, num_minibatches=2, batch_size=4)
    answer.equals(policy_loss=2.5, approx_kl=0.25, ratio_max=3.0, first_ratio_max=1.25, optimiser_steps=4.0)


@pytest.mark.parametrize(
    "limit, steps, policy_loss",
    [
        pytest.param(0.7, 3, 2.0, id="in-the-middle-of-the-second-epoch"),
        # (1 + 2) / 2
        pytest.param(0.2, 2, 1.5, id="at-the-end-of-the-first-epoch"),
        pytest.param(0.8, 6, 3.5, id="the-limit-itself-is-allowed"),
        pytest.param(None, 6, 3.5, id="without-a-limit"),
    ],
)
@worth(2)
def test_optimise_stops_when_the_policy_has_moved_far_enough(limit, steps, policy_loss):
    script = {
        "approx_kl": [0.1, 0.3, 0.8, 0.1, 0.1, 0.1],
        "ratio_max": [1.0],
        "policy_loss": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    }
    settings = {"num_epochs": 3, "num_minibatches": 2, "batch_size": 4, "max_update_kl": limit}
    answer = call(EPOCHS, sizes=(4,), **script, **settings)
    answer.equals(optimiser_steps=float(steps), policy_loss=policy_loss)
    answer.satisfies(lambda got: len(got["rows_of_each_step"]) == steps, f"{steps} optimiser steps")


# The prompts [2] and [3] get the certain responses [3, stop] and [stop]: log-probs 0. The reference is uniform over 4:
# each token has KL 2 ln 2 and costs 0.5 at the price 0.25 / ln 2. Scores 3.5 (0.5 + 2 + 1, prompt included) and 3.
#   rewards [-0.5, 3], [2.5]; values [1, 0.5], [0.5]; gamma 1, lam 0.5: deltas -0.5 + 0.5 - 1 = -1, 2.5; 2
#   advantages [-1 + 0.5 * 2.5, 2.5] = [0.25, 2.5], [2]; returns [1.25, 3], [2.5]
WORLD = {
    "actor": CHAIN,
    "critic": [0.0, 0.0, 1.0, 0.5],
    "reference": UNIFORM,
    "reward": [0.0, 1.0, 0.5, 2.0],
    "prompts": ((2,), (3,)),
    "lam": 0.5,
    "kl_coef": 0.25 / LN2,
}
RAW = [[0.25, 2.5], [2.0, 0.0]]
# mean 4.75 / 3; deviations -4, 2.75, 1.25 thirds; variance (16 + 7.5625 + 1.5625) / 9 / 2
WHITE = torch.tensor([[-4.0, 2.75], [1.25, 0.0]]).double() / 3 / math.sqrt(25.125 / 18 + 1e-8)


@worth(2)
def test_training_step_whitens_the_advantages_but_not_the_returns():
    call(UPDATE, **WORLD).equals(
        given_rewards=[[-0.5, 3.0], [2.5, 0.0]],
        given_advantages=WHITE,
        given_returns=[[1.25, 3.0], [2.5, 0.0]],
        given_values=[[1.0, 0.5], [0.5, 0.0]],
        given_log_probs=[[0.0, 0.0], [0.0, 0.0]],
    )


def test_training_step_leaves_the_advantages_raw_if_told_so():
    call(UPDATE, **WORLD, whiten_advantages=False).equals(given_advantages=RAW, given_returns=[[1.25, 3.0], [2.5, 0.0]])


def test_training_step_returns_the_metrics_of_rollout_and_epochs():
    # KL 4 ln 2 and 2 ln 2: 3 ln 2 a response. The stand-in for optimise reports 0.5, 0.01 and 8 steps.
    call(UPDATE, **WORLD).equals(
        score=3.25,
        kl=3 * LN2,
        kl_coef=0.25 / LN2,
        response_length=1.5,
        stopped_share=1.0,
        policy_loss=0.5,
        approx_kl=0.01,
        optimiser_steps=8.0,
    )


@pytest.mark.parametrize(
    "target, factor",
    [
        # error 0.1, 2 responses of the horizon 20: 1 + 0.1 * 2 / 20
        pytest.param(3 * LN2 / 1.1, 1.01, id="a-tenth-too-far"),
        pytest.param(3 * LN2 / 0.9, 0.99, id="a-tenth-too-near"),
        pytest.param(LN2, 1.02, id="the-error-is-clipped"),
        pytest.param(None, 1.0, id="a-fixed-price"),
    ],
)
@worth(2)
def test_training_step_moves_the_price_after_the_epochs(target, factor):
    answer = call(UPDATE, **WORLD, kl_target=target, kl_horizon=20)
    answer.equals(price_in_the_epochs=0.25 / LN2, price_after=factor * 0.25 / LN2, kl_coef=0.25 / LN2)


@pytest.mark.parametrize("updates_done, rate", [(6, 0.125), (7, 0.0625)])
def test_training_step_follows_the_learning_rate_and_counts(updates_done, rate):
    # 8 updates in all, learning_rate 0.5: a quarter is left before update 6, an eighth before update 7.
    answer = call(UPDATE, **WORLD, learning_rate=0.5, num_updates=8, updates_done=updates_done)
    answer.equals(learning_rate=rate, updates_done=updates_done + 1)


def test_training_step_calls_optimise_once_and_clears_the_buffer():
    call(UPDATE, **WORLD).equals(calls_of_optimise=1, left_in_buffer=0)


# Random-looking tables over three tokens, 3 prompts, all real.
REAL = {
    "actor": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [-2.0, 0.0, 0.5]],
    "critic": [0.0, 0.25, 0.5],
    "reference": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [-2.0, 1.0, 0.0]],
    "reward": [0.0, 1.0, 0.25],
    "prompts": ((2,), (2, 2), (2, 2, 2), (2, 2)),
    "batch_size": 4,
    "num_minibatches": 2,
    "num_epochs": 2,
    "max_new_tokens": 4,
    "num_updates": 3,
}


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@worth(2)
def test_training_step_that_cannot_move_keeps_the_ratio_at_1(temperature):
    # The check to make first in any trainer: with a learning rate of almost 0, new and old policy are one.
    answer = call(UPDATES, **REAL, learning_rate=1e-200, temperature=temperature)
    for name in ("first_ratio_max", "ratio_max", "ratio_mean"):
        answer.part(name).equals([1.0], atol=1e-9)
    answer.equals(clip_fraction=[0.0], skipped_share=[0.0], optimiser_steps=[4.0])


def test_training_step_keeps_the_reference_of_the_beginning():
    # The policy cannot move, and the reference must not: the second update sees a KL from the same reference.
    answer = call(UPDATES, **REAL, updates=3, learning_rate=0.05, adam_epsilon=0.1, kl_target=0.5, kl_horizon=8)
    answer.satisfies(lambda got: got["kl"][1:].abs().min() > 1e-3, "a KL from the reference that stays away from 0")
    answer.matches_reference()


def test_training_step_starts_each_update_with_the_ratio_1():
    answer = call(UPDATES, **REAL, updates=3, learning_rate=0.2, adam_epsilon=0.1)
    answer.part("first_ratio_max").equals([1.0, 1.0, 1.0], atol=1e-9)
    answer.satisfies(lambda got: got["ratio_max"].min() > 1.001, "a ratio that leaves 1 in the steps after the first")


@worth(2)
def test_train_uses_each_prompt_once_before_any_comes_again():
    # 5 prompts (tokens 2 to 6), 5 updates of 2: each prompt twice, and the first five draws are all different.
    answer = call(RUN, available=5, batch_size=2, num_minibatches=1, num_updates=5)
    answer.satisfies(lambda got: [len(batch) for batch in got["batches"]] == [2] * 5, "5 batches of 2 prompts")
    answer.satisfies(
        lambda got: [sorted(sum(got["batches"], [])[first : first + 5]) for first in (0, 5)] == [[2, 3, 4, 5, 6]] * 2,
        "each of the five prompts once among the first five, and once among the next five",
    )


@pytest.mark.parametrize("seed", [0, 5])
def test_train_shuffles_the_prompts(seed):
    answer = call(RUN, available=12, batch_size=6, num_minibatches=1, num_updates=4, seed=seed)
    answer.satisfies(
        lambda got: sum(got["batches"], [])[:12] != list(range(2, 14)), "another order than that of the list"
    )
    answer.leaves_global_random_alone().matches_reference()


@pytest.mark.parametrize(
    "done, updates",
    [pytest.param(0, 4, id="a-new-run"), pytest.param(3, 1, id="resumed"), pytest.param(4, 0, id="over")],
)
def test_train_runs_the_updates_that_are_left(done, updates):
    answer = call(RUN, available=3, batch_size=2, num_minibatches=1, num_updates=4, updates_done=done)
    answer.satisfies(lambda got: len(got["batches"]) == updates, f"{updates} updates")
    answer.satisfies(
        lambda got: [one["score"] for one in got["history"]] == [0.0, 1.0, 2.0, 3.0],
        "a history of all 4 updates, those before the checkpoint included",
    )
    answer.satisfies(lambda got: got["returned"] == got["history"], "the history as the answer")


def test_train_calls_on_update_after_each_update():
    # Each entry: updates done, length of the history, number of updates run
    answer = call(RUN, available=3, batch_size=2, num_minibatches=1, num_updates=3)
    answer.satisfies(
        lambda got: got["on_update"] == [[1, 1, 1], [2, 2, 2], [3, 3, 3]],
        "on_update after each update, with the trainer, when its metrics are in the history",
    )


def test_train_calls_on_update_only_after_the_checks():
    # The KL of the third update is infinite: it is in the history, and the run ends before on_update could save it.
    answer = call(RUN, available=3, batch_size=2, num_minibatches=1, num_updates=5, diverges_in=3)
    answer.satisfies(lambda got: "stopped at update 3" in (got["error"] or ""), "the DivergedError of the log")
    answer.satisfies(lambda got: got["on_update"] == [[1, 1, 1], [2, 2, 2]], "on_update after the updates 1 and 2 only")
    answer.satisfies(lambda got: len(got["history"]) == 3, "a history of 3 updates")


def test_train_keeps_the_history_of_an_interrupted_run():
    answer = call(RUN, available=3, batch_size=2, num_minibatches=1, num_updates=5, stop_after=2)
    answer.satisfies(lambda got: got["error"] == "stopped by the user", "the error of on_update to come through")
    answer.satisfies(
        lambda got: [one["score"] for one in got["history"]] == [0.0, 1.0], "the metrics of both finished updates"
    )


@pytest.mark.parametrize("done", [0, 2])
def test_train_writes_to_tensorboard(done):
    answer = call(RUN, available=3, batch_size=2, num_minibatches=1, num_updates=4, updates_done=done, log=True)
    wanted = [[name, value, step + 1] for step in range(done, 4) for name, value in
              (("score", float(step)), ("kl", step / 10))]  # fmt: skip
    answer.satisfies(
        lambda got: (
            [[name, round(value, 9), step] for name, value, step in got["tensorboard"][1:-1]]
            == [[name, round(value, 9), step] for name, value, step in wanted]
        ),
        f"score and kl of the updates {done + 1} to 4, each with the number of its update",
    )


@pytest.mark.parametrize("done", [0, 2])
def test_train_writes_every_update_into_the_metrics_file(done):
    # A resumed run begins the file with the updates that its history holds.
    answer = call(RUN, available=3, batch_size=2, num_minibatches=1, num_updates=4, updates_done=done, log=True)
    wanted = [{"update": step + 1, "score": float(step), "kl": step / 10} for step in range(4)]
    answer.satisfies(lambda got: got["metrics_file"] == wanted, "one line for each of the updates 1 to 4")


def test_train_writes_no_tensorboard_without_a_log_dir():
    answer = call(RUN, available=3, batch_size=2, num_minibatches=1, num_updates=2)
    answer.satisfies(lambda got: got["tensorboard"] == [], "nothing written: config.log_dir is None")


# A trainer in the middle of a run; the file it leaves is read by the reference's load_checkpoint.
IN_THE_MIDDLE = {"updates_done": 3, "learning_rate": 0.025, "scores_in_history": [0.0, 2.0, 4.0], "price": 0.125}


@pytest.mark.parametrize("as_path", [YES, NO], ids=["path", "text"])
@worth(2)
def test_save_checkpoint_keeps_what_the_next_update_needs(as_path):
    # Weights k / 8 + 2 minus a step of 0.1; Adam's momentum is a tenth of the gradient 2; 5 - 2 prompts are waiting.
    answer = call(SAVED, marks=(2.0,), learning_rate=0.1, as_path=as_path)
    answer.equals(
        **IN_THE_MIDDLE,
        actor=torch.arange(9).double().reshape(3, 3) / 8 + 1.9,
        critic=[0.9, 1.025, 1.15],
        momentum=[0.2, 0.2],
        atol=1e-5,
    )
    answer.satisfies(lambda got: len(got["prompts_waiting"]) == 3, "the 3 prompts that are waiting")
    answer.matches_reference()


def test_save_checkpoint_makes_the_folder_and_leaves_one_file():
    answer = call(SAVED, marks=(1.0,), folder="runs/today/checkpoint")
    answer.satisfies(lambda got: got["files"] == ["trainer.pt"], "one file, trainer.pt, in a folder that was missing")
    answer.matches_reference()


def test_save_checkpoint_leaves_the_model_in_its_mode():
    call(MODE_AFTER_SAVING, method="save_checkpoint").equals(3)


def test_save_checkpoint_replaces_an_older_one():
    answer = call(SAVED, marks=(1.0, 4.0), kl_target=6.0)
    answer.equals(price=0.25, updates_done=3, scores_in_history=[0.0, 4.0, 8.0])
    answer.satisfies(lambda got: got["files"] == ["trainer.pt"], "one file, trainer.pt")
    answer.matches_reference()


@pytest.mark.parametrize(
    "while_renaming, error",
    [(NO, "no space left on device"), (YES, "the disk is gone")],
    ids=["while-writing", "while-renaming"],
)
@worth(2)
def test_save_checkpoint_that_is_interrupted_leaves_the_old_one(while_renaming, error):
    # The disk fails while the second checkpoint (price 1 / 16) is written: the first (price 3 / 16) must be whole.
    answer = call(INTERRUPTED, first=3.0, second=1.0, while_renaming=while_renaming)
    answer.satisfies(lambda got: got["error"] == error, "the OSError to come through")
    answer.satisfies(lambda got: not got["written_elsewhere"], "the unfinished file in the directory itself")
    answer.equals(price=0.1875, scores_in_history=[0.0, 3.0, 6.0])
    answer.matches_reference()


@pytest.mark.parametrize("as_path", [YES, NO], ids=["path", "text"])
@worth(2)
def test_load_checkpoint_restores_what_the_next_update_needs(as_path):
    answer = call(LOADED, mark=2.0, learning_rate=0.1, as_path=as_path)
    answer.equals(
        **IN_THE_MIDDLE,
        actor=torch.arange(9).double().reshape(3, 3) / 8 + 1.9,
        critic=[0.9, 1.025, 1.15],
        momentum=[0.2, 0.2],
        atol=1e-5,
    )
    answer.satisfies(lambda got: len(got["prompts_waiting"]) == 3, "the 3 prompts that were waiting")
    answer.matches_reference()


def test_load_checkpoint_restores_the_adaptive_price():
    call(LOADED, mark=4.0, kl_target=6.0, kl_coef=0.7).equals(price=0.25).matches_reference()


def test_load_checkpoint_leaves_nothing_of_another_run():
    # The trainer that loads is in the middle of a run of its own; all of that has to go.
    answer = call(LOADED, mark=2.0, mark_before=3.0, learning_rate=0.1)
    answer.equals(**IN_THE_MIDDLE)
    answer.satisfies(lambda got: len(got["prompts_waiting"]) == 3, "the 3 prompts that were waiting")
    answer.matches_reference()


def test_load_checkpoint_restores_the_random_states():
    # The new trainer is at the start of its random numbers: after loading it must draw what the saved one would have,
    # and so must torch's, Python's and numpy's global generators, which are at another place by then.
    call(LOADED, mark=3.0, seed=1, with_global_draws=True).matches_reference()


def test_load_checkpoint_leaves_the_model_in_its_mode():
    call(MODE_AFTER_LOADING, method="load_checkpoint").equals(3)


@pytest.mark.parametrize("wrapped", [NO, YES], ids=["one-process", "wrapped"])
def test_load_checkpoint_leaves_optimiser_and_models_together(wrapped):
    # One step with gradient 1 after loading: it has to move the weights that the trainer uses.
    answer = call(LOADED, mark=1.0, learning_rate=0.5, wrapped=wrapped)
    answer.satisfies(
        lambda got: (got["actor_one_step_later"] < got["actor"] - 0.01).all(), "an optimiser step that moves the actor"
    )
    answer.matches_reference()


@pytest.mark.parametrize("other", [{"width": 2}, {"width": 4}, {"content": "of other names"}], ids=str)
def test_load_checkpoint_refuses_models_of_another_shape(other):
    call(LOADED, mark=1.0, **other).raises(ValueError)


def test_load_checkpoint_that_is_refused_leaves_the_run_as_it_was():
    # Price 3 / 16 and history of the run that goes on; the file of the other, wider models has 1 / 16 and 0, 1, 2.
    answer = call(REFUSED, mark=1.0, mark_before=3.0, width=4)
    answer.equals(error="ValueError", price=0.1875, scores_in_history=[0.0, 3.0, 6.0])
    answer.matches_reference()
