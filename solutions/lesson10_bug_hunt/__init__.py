from .bandit import BanditRun, train_bandit
from .bounded import bounded_error
from .chain import ChainRun, train_chain
from .contexts import ContextRun, train_contexts
from .drift import sampled_drift
from .grouped import sum_in_groups
from .labels import Rows, label_replies
from .moments import Moments, merge_moments
from .my_tests import test_compute_gae, test_compute_ppo_loss, test_compute_rewards, test_response_mask
from .packed import credit_packed
from .pessimism import pessimistic_gain
from .reader import read_prompts
from .sliced import train_sliced
