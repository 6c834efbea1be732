"""The search as one graph finds what the search in NumPy finds, for every method and option."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seq2seq_chat.search.engine import Hypotheses
from tests.search.table_model import TableModel
from tests.search.table_model import settings as decoding

pytestmark = pytest.mark.usefixtures("unoptimized_graphs")

RULES: list[dict[str, Any]] = [
    {},
    {"min_length": 3},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2, "allow_unknown": False},
    {"repetition_penalty": 1.7, "min_length": 2},
    {"repetition_penalty": 3.0, "no_repeat_ngram_size": 3},
]
METHODS: list[dict[str, Any]] = [
    {},
    {"beam_width": 1},
    {"beam_width": 3, "n_best": 2, "length_penalty": 0.9},
    {"beam_width": 2, "length_penalty": 3.0},
    {"beam_width": 9, "length_penalty": 2.5},
    {"beam_width": 4, "n_best": 3, "beam_groups": 2, "diversity_penalty": 0.8},
    {"beam_width": 6, "beam_groups": 3, "diversity_penalty": 4.0, "length_penalty": 0.5},
    {"method": "sample", "n_best": 7},
    {"method": "sample", "n_best": 2, "temperature": 0.4, "top_k": 3},
    {"method": "sample", "n_best": 3, "top_k": 4, "top_p": 0.8},
]


@pytest.fixture(scope="module")
def model() -> TableModel:
    return TableModel(words=6, steps=4, seeds=[0, 1, 2, 3, 4])


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_both_searches_agree(model: TableModel, method: dict[str, Any], rules: dict[str, Any]) -> None:
    settings = decoding(**method, **rules)
    found, expected = model.graph_search(settings, seed=5), model.search(settings, seed=5)
    real = np.isfinite(expected.scores)  # hypotheses that do not exist may have any words
    np.testing.assert_array_equal(np.isfinite(found.scores), real)
    for name, one, other in zip(Hypotheses._fields, found, expected, strict=True):
        if name in ("scores", "ranks"):
            np.testing.assert_allclose(one[real], other[real], rtol=1e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(one[real], other[real], err_msg=name)
