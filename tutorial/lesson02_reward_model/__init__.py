from .reward_model import (
    PreferenceBatch,
    RewardModel,
    RewardModelConfig,
    ScalarHead,
    calibrate,
    last_token_index,
    pairwise_loss,
    preference_accuracy,
    ranking_loss,
    token_pairwise_loss,
    train_reward_model,
)
