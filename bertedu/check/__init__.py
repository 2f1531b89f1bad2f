"""Exercises: run the learner's function beside the package's, and name the mistake."""

from bertedu.check import (
    ablation_directionality,
    ablation_size_masking_steps,
    embeddings,
    encoder,
    features_versus_finetuning,
    finetuning_question_answering,
    finetuning_sentence_pairs,
    finetuning_single_sentence,
    finetuning_tagging,
    masked_language_model,
    next_sentence_prediction,
    pretraining,
    reading_attention,
    real_bert,
    self_attention,
    start_here,
    tokenization,
)
from bertedu.check.ablation_directionality import (
    claim,
    difference_interval,
    look_ahead_test,
    play_reader,
    reach,
    together,
)
from bertedu.check.ablation_size_masking_steps import (
    corrupt,
    crossing,
    fair,
    perplexity,
    play_record,
    predict_order,
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
from bertedu.check.features_versus_finetuning import (
    concat_layers,
    feature_test,
    layer_mix,
    play_bert,
    trainable,
)
from bertedu.check.finetuning_question_answering import (
    best_span,
    mark_test,
    score_test,
    windows,
    word_f1,
)
from bertedu.check.finetuning_sentence_pairs import (
    choice_data_test,
    choice_head,
    choice_loss,
    choice_rows,
)
from bertedu.check.finetuning_single_sentence import (
    PlayModel,
    accuracy_test,
    choose,
    class_shares,
    leaked,
    macro_f1,
)
from bertedu.check.finetuning_tagging import (
    align,
    entities,
    entity_f1,
    tag_shares,
    tagging_test,
)
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
from bertedu.check.reading_attention import find_head, refutes, rollout, rollout_test
from bertedu.check.real_bert import first_wrong, loader_test, our_name, published_bert
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
    "PlayModel",
    "accuracy",
    "accuracy_test",
    "adamw",
    "align",
    "attention",
    "best_span",
    "causal_mask",
    "chance",
    "choice_data_test",
    "choice_head",
    "choice_loss",
    "choice_rows",
    "choose",
    "claim",
    "class_shares",
    "clip",
    "concat_layers",
    "corrupt",
    "cosine",
    "crossing",
    "cut_word",
    "decode",
    "difference_interval",
    "embedding_test",
    "encode_pair",
    "entities",
    "entity_f1",
    "fair",
    "feature_test",
    "feed_forward",
    "find_head",
    "first_wrong",
    "gelu",
    "input_sum",
    "join_heads",
    "layer_flops",
    "layer_mix",
    "layer_norm",
    "layer_parameters",
    "layer_test",
    "leak_test",
    "leaked",
    "learning_rate",
    "loader_test",
    "look_ahead_test",
    "lookup",
    "loss_test",
    "macro_f1",
    "majority",
    "mark_test",
    "masking",
    "merge_pieces",
    "mlm_loss",
    "nsp_loss",
    "nsp_loss_test",
    "our_name",
    "pair",
    "pair_score",
    "pair_test",
    "perplexity",
    "play_bert",
    "play_reader",
    "play_record",
    "post_norm_layer",
    "pre_norm_layer",
    "predict_order",
    "published_bert",
    "ranking",
    "reach",
    "refutes",
    "resume_test",
    "rollout",
    "rollout_test",
    "score_test",
    "scores",
    "segment_ids",
    "sinusoids",
    "softmax",
    "solution",
    "split_heads",
    "tag_shares",
    "tagging_test",
    "together",
    "top_words",
    "trainable",
    "training_cost",
    "truncate",
    "unigram_loss",
    "which_can_see",
    "windows",
    "word_f1",
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
            + features_versus_finetuning.SOLUTIONS
            + embeddings.SOLUTIONS
            + finetuning_sentence_pairs.SOLUTIONS
            + masked_language_model.SOLUTIONS
            + next_sentence_prediction.SOLUTIONS
            + finetuning_question_answering.SOLUTIONS
            + pretraining.SOLUTIONS
            + real_bert.SOLUTIONS
            + finetuning_single_sentence.SOLUTIONS
            + finetuning_tagging.SOLUTIONS
            + tokenization.SOLUTIONS
            + self_attention.SOLUTIONS
            + reading_attention.SOLUTIONS
            + ablation_directionality.SOLUTIONS
            + ablation_size_masking_steps.SOLUTIONS,
            name,
        )
    )
