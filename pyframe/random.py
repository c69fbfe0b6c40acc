"""Random numbers: seeds, generators and their states, under the names of torch.random."""

from pyframe.ops.random.draws import (
    Generator as Generator,
    default_generator as default_generator,
    fork_rng as fork_rng,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    permutation as permutation,
    seed as seed,
    set_rng_state as set_rng_state,
)
