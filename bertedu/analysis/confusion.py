"""Which class is taken for which."""

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib import pyplot as plt

from bertedu.analysis.views import Picture, heat_map, style, write_in_cell


@style()
def confusion_map(
    right: Sequence[float], said: Sequence[float], labels: Sequence[str], title: str
) -> Picture:
    """Draw how often each class (a row) was called each class (a column), darker for more.

    ``right`` and ``said`` hold the number of a class for each example. A perfect model would have
    a dark diagonal and nothing else.
    """
    counts = torch.zeros(len(labels), len(labels))
    pairs = np.array([right, said], dtype=int)
    np.add.at(counts.numpy(), tuple(pairs), 1)
    shares = counts / counts.sum(dim=1, keepdim=True).clamp(min=1)
    size = max(3.5, 0.55 * len(labels))
    figure, axes = plt.subplots(figsize=(size + 2.5, size + 1))
    heat_map(axes, shares, labels)
    for row, column in np.argwhere(counts.numpy() > 0).tolist():
        dark = float(shares[row, column]) > 0.5
        write_in_cell(axes, row, column, f"{int(counts[row, column])}", dark, fontsize=11)
    axes.set(xlabel="said", ylabel="right")
    axes.set_title(title, fontsize=15)
    wrong = [(int(n), i, j) for (i, j), n in np.ndenumerate(counts.numpy()) if i != j and n]
    alt = f"{title}: {int(counts.trace())} of {pairs.shape[1]} on the diagonal."
    if wrong:
        _, row, column = max(wrong)
        alt += f" Most often {labels[row]} was called {labels[column]}."
    return Picture(figure, alt)
