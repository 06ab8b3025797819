"""What lesson 8's suites ask for by name: seeded generators, scripted policies that remember what they were fed, tiny
models. A scripted policy has no weights that matter: its logits come from a table, so every number can be worked out.
"""

# ruff: noqa: F401  looked up by name
from .scenarios_experience import (
    order_agreement,
    order_agreement_without_generator,
    picked,
    place_shares,
    yielded,
    yielded_after_more,
)
from .scenarios_generation import (
    agreement,
    agreement_without_generator,
    counts,
    fed_to_policy,
    generate_agreement,
    generate_agreement_without_generator,
    lm_writes,
    mode_after,
    mode_after_an_error,
    read_again,
    sampled_shares,
    scripted,
    shares,
)
from .scenarios_rollout import (
    collected,
    collected_agreement,
    collected_agreement_without_generator,
    collected_shares,
    evaluated,
    evaluated_by_its_own_base,
    evaluated_with_scores,
    lm_collected,
    lm_evaluated,
    modes_after_an_error_of_the_critic,
    modes_after_collecting,
    seen_by_score,
)
