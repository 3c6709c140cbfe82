"""What the displays share: a figure without global state, colours, and small pictures tiled into one."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

SIGNED = "RdBu_r"  # red for, blue against, white for nothing
GREY = "gray"
INK = "#333333"
LAST_PLAIN = 0x052F  # the end of Cyrillic: what lies before, matplotlib's own font has
QUIET = "#9a9a9a"
LONGEST_NAME = 16  # letters of a class name that are drawn
BLOCKS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")  # told apart by colour-blind eyes


def new_figure(width: float, height: float) -> Any:
    """A matplotlib figure of its own: pyplot's list of open figures never sees it."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as error:
        raise ImportError("drawing needs matplotlib: pip install 'dcadl[plot]'") from error
    return Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1))


def axes_on(ax: Any, width: float, height: float) -> Any:
    """The axes given, or those of a new figure."""
    return new_figure(width, height).add_subplot() if ax is None else ax


def near_square(k: int) -> tuple[int, int]:
    """Rows and columns that hold k tiles, wider than high; without a ragged last row where that is near."""
    root = math.sqrt(k)
    whole = (c for c in range(math.ceil(root), math.floor(2.2 * root) + 1) if k % c == 0)
    columns = next(whole, math.ceil(root))
    return math.ceil(k / columns), columns


def mosaic(tiles: np.ndarray, gap: int = 1, columns: int | None = None) -> np.ndarray:
    """Tiles (k, h, w[, channels]) side by side in one array; gaps and unused places are NaN."""
    k, h, w, *channels = tiles.shape
    columns = near_square(k)[1] if columns is None else columns
    rows = math.ceil(k / columns)
    board = np.full((rows * (h + gap) - gap, columns * (w + gap) - gap, *channels), np.nan)
    for i, tile in enumerate(tiles):
        top, left = i // columns * (h + gap), i % columns * (w + gap)
        board[top : top + h, left : left + w] = tile
    return board


def largest(values: np.ndarray) -> float:
    """The largest size of an entry: a colour scale from minus it to plus it; 1 where all is zero."""
    return float(np.nanmax(np.abs(values), initial=0.0)) or 1.0


def show_signed(ax: Any, values: np.ndarray, top: float | None = None, **how: Any) -> Any:
    """A picture of signed values, white at zero, without axes."""
    top = largest(values) if top is None else top
    shown = ax.imshow(values, cmap=SIGNED, vmin=-top, vmax=top, interpolation="nearest", **how)
    bare(ax)
    return shown


FALLBACK_FONTS = (  # of letters that matplotlib's own font lacks; those that are installed are tried in turn
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Source Han Sans", "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei", "PingFang SC", "Hiragino Sans", "Microsoft YaHei", "SimHei", "Yu Gothic",
    "Malgun Gothic", "Arial Unicode MS", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari",
    "Noto Sans Thai", "Segoe UI", "Unifont", "FreeSans", "FreeSerif",
)  # fmt: skip


def with_fallback_fonts(figure: Any) -> Any:
    """The figure, its texts beyond Latin, Greek and Cyrillic in fonts that may have their letters."""
    from matplotlib.font_manager import fontManager
    from matplotlib.text import Text

    strange = [text for text in figure.findobj(Text) if any(ord(c) > LAST_PLAIN for c in text.get_text())]
    if strange:
        installed = {font.name for font in fontManager.ttflist}
        found = [name for name in FALLBACK_FONTS if name in installed]
        for text in strange:
            text.set_fontfamily(["DejaVu Sans", *found])
    return figure


@contextmanager
def missing_letters_named() -> Iterator[None]:
    """One warning in plain words, where matplotlib has one for each letter that no font has."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    missing: dict[str, None] = {}
    for one in caught:
        if found := re.match(r"Glyph (\d+) ", str(one.message)):
            missing[chr(int(found[1]))] = None
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    if missing:
        warnings.warn(
            f"no font here has the letters {''.join(missing)}, drawn as boxes: install one that has them, "
            "such as Noto Sans CJK",
            stacklevel=3,
        )


def bare(ax: Any) -> None:
    """No ticks and no frame: a picture, not a chart."""
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)


def tidy(ax: Any) -> None:
    """A chart with as little ink as it needs."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    ax.set_axisbelow(True)


def short_name(name: str) -> str:
    """A class name as a title or an axis has room for: beginning and end, for names that begin alike."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 7]}…{name[-6:]}"


def set_title(ax: Any, text: str) -> None:
    """Every title in one size and colour."""
    ax.set_title(text, fontsize=10, color=INK)
