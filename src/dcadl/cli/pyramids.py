"""`--features pyramid`: pictures in their own sizes become features, by a pyramid inside the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dcadl.cli.terminal import advising

if TYPE_CHECKING:
    from dcadl.cli.read import Labelled, Parts
    from dcadl.features import SpatialPyramid

# The method by four-fold cross-validation on 12 pictures of each class of Scene15: ridge on the whole pyramid
# had 64 %, LOO-ADL and DCADL on its principal components 58 and 57 %. Few words: seconds, not minutes.
WORDS, DESCRIPTORS = 256, 50_000
MAX_SIDE = 300
USUAL_METHOD = "patch-ridge"


class WithFeatures(NamedTuple):
    """The pyramid, learned from the training pictures, and all samples as its features."""

    pyramid: SpatialPyramid
    samples: Labelled

    def sentence(self) -> str:
        """What the features are."""
        return (
            f"a spatial pyramid of SIFT in {self.pyramid.n_words} words learned from the training pictures: "
            f"{self.pyramid.n_features_out_} values for each"
        )


def with_features(samples: Labelled, parts: Parts, seed: int) -> WithFeatures:
    """Learn a pyramid from the training pictures, without their labels, and make features of all."""
    from dcadl.data.errors import FewDescriptorsError
    from dcadl.features import SpatialPyramid

    pyramid = SpatialPyramid(
        n_words=WORDS, n_descriptors=DESCRIPTORS, max_side=MAX_SIDE, random_state=seed, progress=None
    )
    with advising({FewDescriptorsError: "Give more or larger pictures, or leave out --features."}):
        pyramid.fit(samples.X[parts.train])
    return WithFeatures(pyramid, samples._replace(X=pyramid.transform(samples.X)))


def check_words(features: str | None, size: Any, color: Any, preset: Any) -> None:
    """Refuse words that contradict `--features`."""
    if features is None:
        return
    if features != "pyramid":
        raise ValueError(f"--features must be pyramid; got {features!r}.")
    if size is not None or color is not None or preset is not None:
        raise ValueError(
            "--features pyramid takes pictures in grey and in their own sizes: leave out --size, --color, "
            "--grey and --preset."
        )
