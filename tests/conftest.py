"""For all tests."""

import os

import pytest
import torch
from tokenizers import Tokenizer

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.text.fast_tokenizer import load_tokenizer

# Tensors are small here: a second thread would mostly wait, and on a busy machine for long.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the same for programs that tests start


@pytest.fixture(scope="session", autouse=True)
def _no_readers_parts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A function that passes a check is kept; not among those of whoever runs the tests."""
    os.environ["BERTEDU_MY_BERT"] = str(tmp_path_factory.mktemp("my_bert"))


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """The tokenizer of the course, 8,192 pieces."""
    return load_tokenizer()


@pytest.fixture(scope="module")
def model() -> BertForPreTraining:
    """Three layers of two heads, not trained; large weights, so that attention is not even."""
    torch.manual_seed(0)
    return BertForPreTraining(BertConfig(8192, 16, 3, 2, 32, 128, initializer_range=0.3)).eval()
