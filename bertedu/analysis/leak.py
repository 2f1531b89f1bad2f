"""What has a state read? Change a word, and see which states move.

The test asks no model what it may see; it looks. If the state of a word stays the same whatever
stands on its right, it has not read the right, whatever masks are said to be in place.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from matplotlib import pyplot as plt
from torch import Tensor

from bertedu.analysis.views import Picture, heat_map, style
from bertedu.model.features import Encoder

States = Callable[[Tensor], Tensor]  # ids (B, S) -> (B, S, D)
MOVED = 1e-4  # of its length: less is rounding


def states_of(encoder: Encoder) -> States:
    """Return a function from ids (B, S), one segment without padding, to states (B, S, D)."""
    encoder.eval()

    @torch.inference_mode()
    def states(ids: Tensor) -> Tensor:
        real = torch.ones_like(ids, dtype=torch.bool)
        return encoder(ids, torch.zeros_like(ids), real).tokens

    return states


def _refuse_known(ids: Tensor, new_id: int) -> None:
    if (ids == new_id).any():
        raise ValueError(f"{new_id} stands in the text: choose another id to put in")


def movement(states: States, ids: Tensor, new_id: int) -> Tensor:
    """Say how far the state of each token moves when each token of ``ids`` (S,) becomes ``new_id``.

    Returns (S, S): row i, column j is the length of the change of state i when token j changes, in
    lengths of the state. Rows are readers and columns what is read, as in attention. Raises
    ValueError if ``new_id`` stands in the text: there nothing would change, and nothing be seen.
    """
    _refuse_known(ids, new_id)
    before = states(ids[None])[0]  # (S, D)
    changed = ids.repeat(len(ids), 1)
    changed.fill_diagonal_(new_id)  # row j: token j is another
    moved = (states(changed) - before).norm(dim=-1)  # (changed, state)
    return (moved / before.norm(dim=-1)).T


def beyond_sum(states: States, ids: Tensor, at: int, new_id: int) -> Tensor:
    """Say what changing two tokens does to one state beyond the sum of the single changes.

    If a state is a function of the left plus a function of the right, as in a pair of one-way
    models side by side, a change on the left and one on the right add up exactly.

    Returns (S, S): row j, column k is the length of h(jk) - h(j) - h(k) + h at state ``at``, in
    lengths of the state h; 0 on the diagonal. Raises ValueError if ``new_id`` stands in the text.
    """
    _refuse_known(ids, new_id)
    size = len(ids)
    both = ids.repeat(size, size, 1)
    both[range(size), :, range(size)] = new_id  # j
    both[:, range(size), range(size)] = new_id  # k
    changed = torch.stack([states(row[None])[0, at] for row in both.view(-1, size)])
    changed = changed.view(size, size, -1)
    before = states(ids[None])[0, at]  # (D,)
    alone = changed.diagonal().T  # (S, D): j and k are the same token
    more = changed - alone[:, None] - alone[None] + before
    more[range(size), range(size)] = 0
    return more.norm(dim=-1) / before.norm()


def movement_maps(
    maps: Mapping[str, Tensor], tokens: Sequence[str], title: str, alt: str
) -> Picture:
    """Draw tables (S, S) of `movement` or `beyond_sum`, a panel each; 0 is white."""
    columns, lines = min(2, len(maps)), -(-len(maps) // 2)
    with style():
        size = (5.6 * columns, 5.4 * lines)
        figure, panels = plt.subplots(lines, columns, figsize=size, squeeze=False)
        for axes in panels.flat[len(maps) :]:
            axes.set_axis_off()
        for axes, (name, table) in zip(panels.flat, maps.items(), strict=False):
            # what moved at all must be told from what did not: a tenth of blue for the least
            shown = torch.where(table > MOVED, 0.15 + 0.85 * table / table.max(), 0.0)
            heat_map(axes, shown, tokens)
            axes.set_title(name, fontsize=15)
            axes.set(xlabel="this word is changed", ylabel="does the state of this word move?")
        figure.suptitle(title, fontsize=19)
        return Picture(figure, alt)
