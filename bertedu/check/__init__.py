"""Exercises: run the learner's function beside the package's, and name the mistake."""

from bertedu.check import (
    embeddings,
    encoder,
    masked_language_model,
    next_sentence_prediction,
    pretraining,
    self_attention,
    start_here,
    tokenization,
)
from bertedu.check.embeddings import (
    embedding_test,
    input_sum,
    layer_norm,
    layer_parameters,
    lookup,
    segment_ids,
    sinusoids,
)
from bertedu.check.encoder import (
    cosine,
    feed_forward,
    gelu,
    layer_flops,
    layer_test,
    post_norm_layer,
    pre_norm_layer,
    word_vector,
)
from bertedu.check.exercise import show_solution
from bertedu.check.masked_language_model import accuracy, loss_test, masking, mlm_loss, unigram_loss
from bertedu.check.next_sentence_prediction import (
    majority,
    nsp_loss,
    nsp_loss_test,
    pair,
    pair_test,
    ranking,
)
from bertedu.check.pretraining import (
    adamw,
    clip,
    learning_rate,
    resume_test,
    training_cost,
)
from bertedu.check.self_attention import (
    attention,
    causal_mask,
    join_heads,
    leak_test,
    scores,
    softmax,
    split_heads,
)
from bertedu.check.start_here import chance, top_words, which_can_see
from bertedu.check.tokenization import (
    cut_word,
    decode,
    encode_pair,
    merge_pieces,
    pair_score,
    truncate,
)

__all__ = [
    "accuracy",
    "adamw",
    "attention",
    "causal_mask",
    "chance",
    "clip",
    "cosine",
    "cut_word",
    "decode",
    "embedding_test",
    "encode_pair",
    "feed_forward",
    "gelu",
    "input_sum",
    "join_heads",
    "layer_flops",
    "layer_norm",
    "layer_parameters",
    "layer_test",
    "leak_test",
    "learning_rate",
    "lookup",
    "loss_test",
    "majority",
    "masking",
    "merge_pieces",
    "mlm_loss",
    "nsp_loss",
    "nsp_loss_test",
    "pair",
    "pair_score",
    "pair_test",
    "post_norm_layer",
    "pre_norm_layer",
    "ranking",
    "resume_test",
    "scores",
    "segment_ids",
    "sinusoids",
    "softmax",
    "solution",
    "split_heads",
    "top_words",
    "training_cost",
    "truncate",
    "unigram_loss",
    "which_can_see",
    "word_vector",
]


def solution(name: str) -> None:
    """Print the package's own source of what an exercise asks for: the package is the answer book.

    An unknown name prints the names of all exercises.
    """
    print(
        show_solution(
            start_here.SOLUTIONS
            + encoder.SOLUTIONS
            + embeddings.SOLUTIONS
            + masked_language_model.SOLUTIONS
            + next_sentence_prediction.SOLUTIONS
            + pretraining.SOLUTIONS
            + tokenization.SOLUTIONS
            + self_attention.SOLUTIONS,
            name,
        )
    )
